"""Pages of the diagnostic codes: meaning, reason, a wrong and a right example. The texts are in `pages/`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from dslc.diagnostics.diagnostic import CODES, Severity

_PAGES = Path(__file__).parent / "pages"
_SHAPE = re.compile(
    r"# (?P<code>[A-Z]\d{3}): (?P<title>[^\n]+)\n\n"
    r"(?P<what>.+?)\n\n"
    r"## Why\n\n(?P<why>.+?)\n\n"
    r"## Wrong\n\n```symbiont\n(?P<wrong>.+?)```\n\n"
    r"## Right\n\n```symbiont\n(?P<right>.+?)```\n",
    re.DOTALL,
)


@dataclass(frozen=True)
class Page:
    """Page of a code. `what` and `why` are paragraphs of plain text; the examples are whole programs."""

    code: str
    severity: Severity
    title: str
    what: str
    why: str
    wrong: str
    right: str


def page(code: str) -> Page:
    """Return the page of a code of `CODES`. Raises KeyError for any other."""
    severity, title = CODES[code]
    match = _SHAPE.fullmatch((_PAGES / f"{code}.md").read_text(encoding="utf-8"))
    assert match is not None, f"the page about {code} has another shape"
    parts = match.groupdict()
    assert (parts["code"], parts["title"]) == (code, title), f"the page about {code} has another title"
    paragraphs = {name: re.sub(r"(?<!\n)\n(?!\n)", " ", parts[name]) for name in ("what", "why")}
    return Page(code, severity, title, **paragraphs, wrong=parts["wrong"], right=parts["right"])
