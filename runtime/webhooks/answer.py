"""An answer that a row prescribes."""

from __future__ import annotations

from typing import NamedTuple


class Answer(NamedTuple):
    """What is answered: `body` as it is sent."""

    status: int = 200
    content_type: str = "text/plain; charset=utf-8"
    body: bytes = b""
