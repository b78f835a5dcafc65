"""The text that a signature covers, as a template: `{timestamp}.{body}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from dslc.blocks.template import read_template
from runtime.webhooks.request.refusal import RefusedRequest

FIELDS = ("timestamp", "id", "url", "method", "header:", "json:", "body")

_FIELD = re.compile(r"\{([^{}]*)\}")
_NOTHING: Mapping[str, str] = MappingProxyType({})


class TemplateValues(NamedTuple):
    """The values that fill a template; `timestamp` and `id` exactly as they were sent. `others`: the values of
    `{header:…}` and `{json:…}`, by the names of their parts."""

    body: bytes
    timestamp: str = ""
    id: str = ""
    url: str = ""
    method: str = ""
    others: Mapping[str, str] = _NOTHING


@dataclass(frozen=True, slots=True)
class Template:
    """A template over `FIELDS`. Raises ValueError for other fields, or if the signed text could be split into other
    values with the same signature: see `dslc.blocks.template.read_template`, which the check of a program also uses.

    Timestamps written as text have a fixed length before their fraction and end with their zone, so a border beside
    them cannot be moved either. `id_border`: the character that an id must not contain, for a sender that writes no
    separator after it.
    """

    text: str
    id_border: str = ""
    fields: tuple[str, ...] = field(init=False)
    _borders: Mapping[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        found = read_template(self.text, FIELDS, {"id": self.id_border})
        object.__setattr__(self, "fields", found.parts)
        object.__setattr__(self, "_borders", {name: border for name, border in found.borders.items() if border})

    def compile(self) -> Callable[[TemplateValues], bytes]:
        """Return a function that fills the template. It raises `RefusedRequest` for a part that contains its border to
        the body."""
        if self.text == "{body}":
            return lambda signed: signed.body
        before, body, after = self.text.partition("{body}")
        before, after, borders = _percent(before), _percent(after), self._borders

        def fill(signed: TemplateValues) -> bytes:
            values = {
                "timestamp": signed.timestamp,
                "id": signed.id,
                "url": signed.url,
                "method": signed.method,
                **signed.others,
            }
            if any([border in values[name] for name, border in borders.items()]):  # noqa: C419 - a list is quicker
                raise RefusedRequest("malformed_id")
            head, tail = before % values, after % values
            try:
                return b"".join((head.encode(), signed.body if body else b"", tail.encode()))
            except UnicodeEncodeError:
                raise RefusedRequest("malformed_id") from None

        return fill


def _percent(text: str) -> str:
    """Convert `text` to a %-format: no attribute access, no calls."""
    return _FIELD.sub(r"%(\1)s", text.replace("%", "%%"))
