"""A response that a provider's row prescribes."""

from __future__ import annotations

from typing import Final, NamedTuple


class StaticAnswer(NamedTuple):
    """The response: `body` as it is sent. `fields`: names and values of more headers, without line ends."""

    status: int = 200
    content_type: str = "text/plain; charset=utf-8"
    body: bytes = b""
    fields: tuple[tuple[str, str], ...] = ()


OK: Final = StaticAnswer()
"""For senders that accept only 200 as success, and do not use a delivery's id."""
