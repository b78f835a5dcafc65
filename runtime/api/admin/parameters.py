"""Types of parameters that several operations have, and how they answer rows and times."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from runtime.clock import Clock, rfc3339
from runtime.tools.time_input import read_moment

LARGEST_DELIVERY: Final = 64 * 1024 * 1024
"""Maximum bytes of the parameters of an operation that takes a delivery in base64."""


def _decode_base64(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else value
    except (binascii.Error, ValueError):
        raise ValueError("it is not base64") from None


Text = Annotated[str, Field(min_length=1)]
Body = Annotated[bytes, BeforeValidator(_decode_base64)]
"""Bytes, in base64."""
When = Annotated[
    Annotated[str, Field(min_length=1)] | None,
    Field(description="A time (RFC 3339), a date, or a duration before now such as `2h`."),
]
OptionalAgent = Annotated[Text | None, Field(description="The agent; the default is the main agent.")]


def moment(text: str | None, name: str, clock: Clock) -> int | None:
    """Return a time in Unix milliseconds, see `read_moment`; None for None. Raises UsageError."""
    return None if text is None else round(read_moment(text, name, clock).timestamp() * 1000)


def attributes(source: object, *names: str) -> dict[str, Any]:
    """Return attributes of `source` by their names."""
    return {name: getattr(source, name) for name in names}


def time_json(milliseconds: int | None) -> str | None:
    """Return a Unix time in RFC 3339; None for None."""
    return None if milliseconds is None else rfc3339(milliseconds / 1000)
