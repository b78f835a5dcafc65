"""Symbols (blocks, groups and settings) and folding ranges of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dslc.language_server.outline import outline
from dslc.parse import PlacedSection
from dslc.report.mask import masked
from dslc.syntax.reader import Entry, EntryTree
from dslc.syntax.tokens import COMMENT
from dslc.syntax.tree import ForeignNode

_LONGEST = 80  # characters shown of a value
_MOST_WITH_SETTINGS = 1000  # sections; an editor requests all symbols after every edit
_COMMENT_LINES = re.compile(rf"(?:^[ \t]*{COMMENT}(?:\n|\Z))+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A block, a group (an entry with a body) or a setting. `name_start` and `name_end`: range to select."""

    name: str
    detail: str
    sort: Literal["block", "group", "setting"]
    start: int
    end: int
    name_start: int
    name_end: int
    inner: tuple[Symbol, ...] = ()


@dataclass(frozen=True, slots=True)
class Fold:
    """Range `text[start:end]` that may be folded; the closing bracket of a body or list remains visible."""

    start: int
    end: int
    sort: Literal["region", "comment"]


def symbols(sections: Sequence[PlacedSection]) -> Iterator[Symbol]:
    """Symbols of a file's sections; only the blocks if there are very many sections. Secrets in details are masked."""
    many = len(sections) > _MOST_WITH_SETTINGS
    for section in sections:
        hidden = masked(section.text)
        for entry in outline(section.text).root.entries:
            if entry.key.text and (entry.body is not None or entry.value is not None):
                foreign = any(isinstance(block, ForeignNode) for block in section.blocks)
                yield _block(entry, hidden, section.start, whole=not (foreign or many))
                if foreign:
                    break


def _block(entry: Entry, hidden: str, base: int, *, whole: bool) -> Symbol:
    name = entry.value or entry.key
    shown = _short_text(hidden, name.start, name.end).strip('"') or entry.key.text
    return Symbol(
        shown,
        entry.key.text if entry.value else "",
        "block",
        entry.start + base,
        entry.end + base,
        name.start + base,
        name.end + base,
        tuple(_inner(entry, hidden, base)) if whole else (),
    )


def _inner(block: Entry, hidden: str, base: int) -> list[Symbol]:
    """Symbols in a block's body, built from the innermost outwards to avoid recursion."""
    order = [block]
    for entry in order:
        order += entry.body.entries if entry.body else ()
    made: dict[int, Symbol] = {}
    for entry in reversed(order[1:]):
        if entry.key.content.strip():
            made[id(entry)] = _entry(entry, _children(entry, made), hidden, base)
    return _children(block, made)


def _children(entry: Entry, made: dict[int, Symbol]) -> list[Symbol]:
    return [made[id(inner)] for inner in (entry.body.entries if entry.body else ()) if id(inner) in made]


def _entry(entry: Entry, inner: list[Symbol], hidden: str, base: int) -> Symbol:
    detail = _short_text(hidden, entry.value.start, entry.value.end) if entry.value else ""
    key = entry.key
    return Symbol(
        _short_text(hidden, *key.inner),
        detail,
        "group" if entry.body else "setting",
        entry.start + base,
        entry.end + base,
        key.start + base,
        key.end + base,
        tuple(inner),
    )


def _short_text(hidden: str, start: int, end: int) -> str:
    """Value on one line, truncated to `_LONGEST` characters."""
    text = " ".join(hidden[start : min(end, start + 2 * _LONGEST)].split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def folds(sections: Sequence[PlacedSection], text: str) -> Iterator[Fold]:
    """Folding ranges of bodies, lists, long strings and runs of comment lines. The caller omits those on one line."""
    strings = []
    for section in sections:
        found = outline(section.text)
        for start, end in _stretches(found):
            yield Fold(start + section.start, end + section.start, "region")
        for token in found.long:
            strings.append((token.start + section.start, token.end + section.start))
            yield Fold(*strings[-1], "region")
    inside = iter([*strings, (len(text) + 1, len(text) + 1)])
    string = next(inside)
    for match in _COMMENT_LINES.finditer(text):
        while string[1] <= match.start():
            string = next(inside)
        if match.end() <= string[0]:
            yield Fold(match.start(), match.start() + len(match[0].rstrip()), "comment")


def _stretches(found: EntryTree) -> Iterator[tuple[int, int]]:
    for entry, body in found.bodies():
        yield entry.start, body.end
    for opened in found.lists:
        yield opened.start, opened.end
