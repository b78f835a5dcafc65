"""Templates over the parts of a request that a signature covers: `{timestamp}.{body}`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from dslc.blocks.values.invalid import Invalid

_PART = re.compile(r"\{([^{}]*)\}")


class Template(NamedTuple):
    """A template that was read. `parts`: their names, in order. `border`: the character that no id may hold, "" for a
    template without an id."""

    parts: tuple[str, ...]
    border: str


def read_template(text: str, parts: Sequence[str]) -> Template:
    """What a template over `parts` says. Raises Invalid for one whose filled text could be read in two ways.

    `{body}` must be there, and nothing twice. Whoever holds one signed text must not be able to cut it into other
    parts. Only id and body are of any length: method and URL are the webhook's own, and a timestamp that is fresh has
    as many digits as that of any other fresh one (ten, in seconds, until 2286). So without an id the body is what lies
    between two stretches of known length. With an id, one character of the template must stand next to it on the side
    of the body, the border, and an id that holds it is refused: in front of the body the first border of the text ends
    the id, behind the body the last border begins it, and all else has a known length.
    """
    found = list(_PART.finditer(text))
    names = [match[1] for match in found]
    shown = ", ".join(f"{{{part}}}" for part in parts)
    for at, match in enumerate(found):
        if match[1] not in parts:
            raise Invalid(f"{match[0][:40]} cannot stand here", hint=f"what can is {shown}", part=match.span())
        if match[1] in names[:at]:
            raise Invalid(f"{match[0]} stands more than once", hint="remove one", part=match.span())
    if "body" not in names:
        raise Invalid(
            "{body} is missing: a signature that does not cover the body proves nothing about it",
            hint='such as "{body}"',
        )
    stray = re.search(r"[{}]", _PART.sub(lambda match: " " * len(match[0]), text))
    if stray:
        raise Invalid("a brace without its partner", hint=f"what can stand here is {shown}", part=stray.span())
    return Template(tuple(names), _border(text) if "id" in names else "")


def _border(text: str) -> str:
    start = text.index("{id}")
    end = start + len("{id}")
    before = start < text.index("{body}")
    border = text[end : end + 1] if before else text[start - 1 : start]
    if border in "{}":
        raise Invalid(
            f"{{id}} needs a separator {'behind' if before else 'before'} it, or it could be cut elsewhere",
            hint=f"such as `{'{id}.{body}' if before else '{body}.{id}'}`",
            part=(start, end),
        )
    return border
