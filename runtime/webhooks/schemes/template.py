"""What a signature covers, as a template: `{timestamp}.{body}`."""

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
    """The values a template is filled with; `timestamp` and `id` exactly as they were sent."""

    body: bytes
    timestamp: str = ""
    id: str = ""
    url: str = ""
    method: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """A template over `FIELDS`. Raises ValueError when made of something else, or of what could be cut into other parts
    with the same signature: see `dslc.blocks.template.read_template`, whose rule the check of a program goes by too.

    Timestamps that are written as text have one length before their fraction and end in their zone, so a border beside
    them can't be moved either.
    """

    text: str
    fields: tuple[str, ...] = field(init=False)
    _border: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        found = read_template(self.text, FIELDS)
        object.__setattr__(self, "fields", found.parts)
        object.__setattr__(self, "_border", found.border)

    def compile(self) -> Callable[[Signed], bytes]:
        """A function that fills the template. It raises `Refused` for an id that contains its border to the body."""
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
    """`text` as a %-format: no attribute access, nothing to call."""
    return _FIELD.sub(r"%(\1)s", text.replace("%", "%%"))
