"""Templates over the parts of a request that a signature covers: `{timestamp}.{body}`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from dslc.blocks.values.header import valid_header_name
from dslc.blocks.values.invalid import Invalid

_PART = re.compile(r"\{([^{}]*)\}")
# A path of names and indexes.
_PLAIN = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_-]*|\[[0-9]{1,4}\])+", re.ASCII)


class Template(NamedTuple):
    """A parsed template. `parts`: the names of its parts, in order. `borders`: by the name of each part of variable
    length, the character that it must not contain; "" if it ends the text."""

    parts: tuple[str, ...]
    borders: Mapping[str, str]


def read_template(text: str, parts: Sequence[str], borders: Mapping[str, str] = MappingProxyType({})) -> Template:
    """Parse a template over `parts`. Raises Invalid if a filled template could be split in two ways.

    `header:` among `parts` allows `{header:NAME}`, and `json:` allows `{json:$.a.b}`, a text or a whole number at this
    path in the body. `{body}` or a `{json:…}` is required, and each part may occur once. `borders`: characters that
    end a part of this sender without a separator.

    An attacker who has one signed text must not be able to split it into other parts. Only ids, headers, values of the
    body and the body itself vary in length: method and URL are fixed by the webhook, and all fresh timestamps have the
    same number of digits (ten, in seconds, until 2286). So without such parts, the body is the text between a prefix
    and a suffix of known length. Each of them must have one character, the border, between it and its neighbour on the
    side of the body, and a value that contains the border is refused. Before the body (or without it) a part ends at
    the first border after its beginning; after the body it begins after the last border before its end. All other
    parts have a known length.
    """
    found = list(_PART.finditer(text))
    names = [match[1] for match in found]
    shown = ", ".join(f"{{{part}{'…' if part.endswith(':') else ''}}}" for part in parts)
    for at, match in enumerate(found):
        if match[1] not in parts and not _valid(match[1], parts):
            raise Invalid(f"{match[0][:40]} is not allowed here", hint=f"allowed: {shown}", part=match.span())
        if match[1] in names[:at]:
            raise Invalid(f"{match[0]} is used more than once", hint="remove one", part=match.span())
    if "body" not in names and not any(name.startswith("json:") for name in names):
        raise Invalid("{body} is missing: a signature must cover the body", hint='such as "{body}"')
    stray = re.search(r"[{}]", _PART.sub(lambda match: " " * len(match[0]), text))
    if stray:
        raise Invalid("unmatched brace", hint=f"allowed here: {shown}", part=stray.span())
    variable = [match for match in found if match[1] == "id" or ":" in match[1]]
    return Template(tuple(names), {match[1]: borders.get(match[1]) or _border(text, match) for match in variable})


def _valid(name: str, parts: Sequence[str]) -> bool:
    """True for `header:NAME` and `json:PATH`, if they are among `parts`."""
    kind, colon, rest = name.partition(":")
    if kind + colon not in parts or not colon:
        return False
    if kind == "json":
        return _PLAIN.fullmatch(rest) is not None
    try:
        return bool(valid_header_name(rest))
    except Invalid:
        return False


def _border(text: str, part: re.Match[str]) -> str:
    start, end = part.span()
    before = "{body}" not in text or start < text.index("{body}")
    if before and end == len(text):
        return ""
    border = text[end : end + 1] if before else text[start - 1 : start]
    if border in "{}":
        raise Invalid(
            f"{part[0]} needs a separator {'after' if before else 'before'} it, or its extent is ambiguous",
            hint=f"such as `{f'{part[0]}.{{body}}' if before else f'{{body}}.{part[0]}'}`",
            part=(start, end),
        )
    return border
