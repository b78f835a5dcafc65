"""Templates over the parts of a request that a signature covers: `{timestamp}.{body}`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from dslc.blocks.values.invalid import Invalid

_PART = re.compile(r"\{([^{}]*)\}")


class Template(NamedTuple):
    """A parsed template. `parts`: the names of its parts, in order. `border`: the character that an id must not
    contain, "" for a template without an id."""

    parts: tuple[str, ...]
    border: str


def read_template(text: str, parts: Sequence[str]) -> Template:
    """Parse a template over `parts`. Raises Invalid if a filled template could be split in two ways.

    `{body}` is required, and each part may occur once. An attacker who has one signed text must not be able to split
    it into other parts. Only the id and the body vary in length: method and URL are fixed by the webhook, and all fresh
    timestamps have the same number of digits (ten, in seconds, until 2286). So without an id, the body is the text
    between a prefix and a suffix of known length. With an id, the template must have one character, the border,
    between the id and its neighbour on the side of the body, and an id that contains the border is refused. If the id
    is before the body, it ends at the first border of the text; if it is after the body, it begins after the last
    border. All other parts have a known length.
    """
    found = list(_PART.finditer(text))
    names = [match[1] for match in found]
    shown = ", ".join(f"{{{part}}}" for part in parts)
    for at, match in enumerate(found):
        if match[1] not in parts:
            raise Invalid(f"{match[0][:40]} is not allowed here", hint=f"allowed: {shown}", part=match.span())
        if match[1] in names[:at]:
            raise Invalid(f"{match[0]} is used more than once", hint="remove one", part=match.span())
    if "body" not in names:
        raise Invalid(
            "{body} is missing: a signature must cover the body",
            hint='such as "{body}"',
        )
    stray = re.search(r"[{}]", _PART.sub(lambda match: " " * len(match[0]), text))
    if stray:
        raise Invalid("unmatched brace", hint=f"allowed here: {shown}", part=stray.span())
    return Template(tuple(names), _border(text) if "id" in names else "")


def _border(text: str) -> str:
    start = text.index("{id}")
    end = start + len("{id}")
    before = start < text.index("{body}")
    border = text[end : end + 1] if before else text[start - 1 : start]
    if border in "{}":
        raise Invalid(
            f"{{id}} needs a separator {'after' if before else 'before'} it, or its extent is ambiguous",
            hint=f"such as `{'{id}.{body}' if before else '{body}.{id}'}`",
            part=(start, end),
        )
    return border
