"""An answer that a row prescribes."""

from __future__ import annotations

from typing import Final, NamedTuple


class Answer(NamedTuple):
    """What is answered: `body` as it is sent. `fields`: names and values of more headers, which hold no line ends."""

    status: int = 200
    content_type: str = "text/plain; charset=utf-8"
    body: bytes = b""
    fields: tuple[tuple[str, str], ...] = ()


OK: Final = Answer()
"""For senders that take nothing but 200 for success, and have no use for a delivery's id."""
