"""Markdown: tables, code and anchors of headings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

GENERATED = "<!-- Written by `dslc docs`. Change the models in dslc/blocks or the runtime's tables instead. -->"
"""First line of every page; identifies generated pages, so that obsolete ones can be deleted."""


def page(title: str, *parts: str) -> str:
    """Return a whole page; empty parts are omitted."""
    return "\n\n".join([GENERATED, f"# {title}", *(part.strip("\n") for part in parts if part)]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. Bars inside a cell are escaped, line ends become spaces."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """Return `text` as inline code; it may contain backticks."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"


def program(text: str, *marks: str) -> str:
    """Return a program as a code block; `marks` are added after the language's name."""
    return f"```{' '.join(('symbiont', *marks))}\n{text.strip()}\n```"


def anchor(heading: str) -> str:
    """Return the anchor of a heading: lower case, blanks as hyphens, without other punctuation."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(markdown: str) -> list[str]:
    """Return the anchors of all headings of a page, in order; a repeated heading gets the suffix `-1`."""
    outside = re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    found: dict[str, int] = {}
    names = []
    for heading in re.findall(r"^#+ (.*)$", outside, re.MULTILINE):
        name = anchor(heading)
        times = found[name] = found.get(name, -1) + 1
        names.append(f"{name}-{times}" if times else name)
    return names


def sentence(text: str) -> str:
    """Return the first sentence."""
    return re.split(r"(?<=\.)\s", text.strip(), maxsplit=1)[0]


def listing(names: Iterable[str], last: str = "or") -> str:
    """Return a list in words: `a`, `b` or `c`."""
    *first, end = [code(name) for name in names]
    return f"{', '.join(first)} {last} {end}" if first else end
