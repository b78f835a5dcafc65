"""Markdown: tables, code and the names of headings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

GENERATED = "<!-- Written by `dslc docs`. Change the models in dslc/blocks or the runtime's tables instead. -->"
"""The first line of every page, by which a page that is not written any more is known."""


def page(title: str, *parts: str) -> str:
    """A whole page; empty parts are left out."""
    return "\n\n".join([GENERATED, f"# {title}", *(part.strip("\n") for part in parts if part)]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar inside a cell is escaped, and a cell is one line."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """`text` as code in a line, whatever backticks it holds."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"


def program(text: str, *marks: str) -> str:
    """A program as a block of code; `marks` stand behind the language's name."""
    return f"```{' '.join(('symbiont', *marks))}\n{text.strip()}\n```"


def anchor(heading: str) -> str:
    """What a link calls a heading: lower case, blanks are hyphens, other signs go."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(markdown: str) -> list[str]:
    """The anchors of every heading of a page, in order; the second of one name has `-1` behind it."""
    outside = re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    found: dict[str, int] = {}
    names = []
    for heading in re.findall(r"^#+ (.*)$", outside, re.MULTILINE):
        name = anchor(heading)
        times = found[name] = found.get(name, -1) + 1
        names.append(f"{name}-{times}" if times else name)
    return names


def sentence(text: str) -> str:
    """The first sentence."""
    return re.split(r"(?<=\.)\s", text.strip(), maxsplit=1)[0]


def listing(names: Iterable[str], last: str = "or") -> str:
    """`a`, `b` or `c`."""
    *first, end = [code(name) for name in names]
    return f"{', '.join(first)} {last} {end}" if first else end
