"""The text that a signature covers, as a template: `{timestamp}.{body}`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from dslc.blocks.template import read_template
from runtime.webhooks.request.refusal import Refused

FIELDS = ("timestamp", "id", "url", "method", "body")

_FIELD = re.compile(r"\{([^{}]*)\}")


class Signed(NamedTuple):
    """The values that fill a template; `timestamp` and `id` exactly as they were sent."""

    body: bytes
    timestamp: str = ""
    id: str = ""
    url: str = ""
    method: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """A template over `FIELDS`. Raises ValueError for other fields, or if the signed text could be split into other
    values with the same signature: see `dslc.blocks.template.read_template`, which the check of a program also uses.

    Timestamps written as text have a fixed length before their fraction and end with their zone, so a border beside
    them cannot be moved either.
    """

    text: str
    fields: tuple[str, ...] = field(init=False)
    _border: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        found = read_template(self.text, FIELDS)
        object.__setattr__(self, "fields", found.parts)
        object.__setattr__(self, "_border", found.border)

    def compile(self) -> Callable[[Signed], bytes]:
        """Return a function that fills the template. It raises `Refused` for an id that contains its border to the
        body."""
        if self.text == "{body}":
            return lambda signed: signed.body
        before, _, after = self.text.partition("{body}")
        before, after, border = _percent(before), _percent(after), self._border

        def fill(signed: Signed) -> bytes:
            if border and border in signed.id:
                raise Refused("malformed_id")
            values = {"timestamp": signed.timestamp, "id": signed.id, "url": signed.url, "method": signed.method}
            head, tail = before % values, after % values
            try:
                return b"".join((head.encode(), signed.body, tail.encode()))
            except UnicodeEncodeError:
                raise Refused("malformed_id") from None

        return fill


def _percent(text: str) -> str:
    """Convert `text` to a %-format: no attribute access, no calls."""
    return _FIELD.sub(r"%(\1)s", text.replace("%", "%%"))
