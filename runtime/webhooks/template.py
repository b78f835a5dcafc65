"""What a signature covers, as a template: `{timestamp}.{body}`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.webhooks.refusal import Refused

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
    """A template over `FIELDS`. Raises ValueError when made of something else.

    `{body}` stands exactly once. `{id}` is followed by a separator or nothing, and an id that contains this separator
    is refused when the template is filled: else the border between id and what follows could be moved without
    changing the signed bytes. Timestamps are digits, so a border beside them can't be moved within any tolerance; those
    written as text have one length before their fraction and end in their zone, so it can't be moved either. URL and
    method are the webhook's own.
    """

    text: str
    fields: tuple[str, ...] = field(init=False)
    _separator: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        found = tuple(_FIELD.findall(self.text))
        for name in found:
            if name not in FIELDS:
                raise ValueError(f"no such field {{{name}}}; there are {', '.join(f'{{{each}}}' for each in FIELDS)}")
            if found.count(name) > 1:
                raise ValueError(f"{{{name}}} stands more than once")
        if "body" not in found:
            raise ValueError("{body} is missing: a signature that does not cover the body proves nothing about it")
        if re.search(r"[{}]", _FIELD.sub("", self.text)):
            raise ValueError("a brace without its partner")
        rest = self.text.partition("{id}")[2]
        if rest.startswith("{"):
            raise ValueError("{id} needs a separator behind it, such as {id}.{body}")
        object.__setattr__(self, "fields", found)
        object.__setattr__(self, "_separator", rest[:1])

    def compile(self) -> Callable[[Signed], bytes]:
        """A function that fills the template. It raises `Refused` when an id contains the separator behind it."""
        if self.text == "{body}":
            return lambda signed: signed.body
        before, _, after = self.text.partition("{body}")
        before, after, separator = _percent(before), _percent(after), self._separator

        def fill(signed: Signed) -> bytes:
            if separator and separator in signed.id:
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
