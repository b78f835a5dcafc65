"""An answer that a row prescribes."""

from __future__ import annotations

from typing import Final, NamedTuple


class Answer(NamedTuple):
    """What is answered: `body` as it is sent."""

    status: int = 200
    content_type: str = "text/plain; charset=utf-8"
    body: bytes = b""


OK: Final = Answer()
"""For senders that take nothing but 200 for success, and have no use for a delivery's id."""
