"""Syntactic context of a position: its role, and the token, entry and bodies there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dslc.language_server.outline import outline
from dslc.parse import PlacedSection
from dslc.setting import Setting
from dslc.syntax.reader import Atom, Entry, EntryTree, Group
from dslc.syntax.tree import ForeignNode
from dslc.vocabulary import Settings, Vocabulary

Role = Literal["kind", "name", "key", "value", "comment", "nothing"]
Path = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class CursorContext:
    """Context of a position: its role, the token that touches it, its entry, and the bodies that contain it.

    `base`: offset of the section; positions in `token`, `entry` and `body` are relative to it. `path`: heads of the
    bodies that contain the position, for `Vocabulary.at`. `items`: values of the list that contains the position.
    `inside`: the position is between the quotes of `token`.
    """

    role: Role
    base: int = 0
    path: Path = ()
    body: Group | None = None
    entry: Entry | None = None
    token: Atom | None = None
    items: tuple[Atom, ...] | None = None
    inside: bool = False

    def tidy(self) -> CursorContext:
        """Return the same context, but without `entry` for a new key or kind, which has no entry yet."""
        return self if self.role in {"name", "value"} else replace(self, entry=None)

    def settings(self, vocabulary: Vocabulary) -> Settings:
        """Settings of the body that contains the position."""
        return vocabulary.at(self.path) or {}

    def setting(self, vocabulary: Vocabulary) -> Setting | None:
        """Setting of the entry; None if there is none."""
        return self.settings(vocabulary).get(self.entry.key.content) if self.entry else None


def cursor_context(sections: Sequence[PlacedSection], text: str, index: int) -> CursorContext:
    """Return the context of `index` in a text with these sections. A section that ends at `index` counts."""
    at = bisect_right(sections, index, key=lambda section: section.start) - 1
    if at >= 0 and index <= sections[at].start + len(sections[at].text):
        section = sections[at]
        found = _inside(outline(section.text), section.text, index - section.start, section.start)
        if any(isinstance(block, ForeignNode) for block in section.blocks) and found.role != "name":
            found = CursorContext("nothing")
        if found.role != "kind" or found.token is not None or index < section.start + len(section.text):
            return found
    gap = text[max(text.rfind("\n", 0, index) + 1, _end(sections, at)) : index]
    return CursorContext("comment" if "#" in gap or "//" in gap else "kind")


def _end(sections: Sequence[PlacedSection], at: int) -> int:
    return sections[at].start + len(sections[at].text) if at >= 0 else 0


def _inside(found: EntryTree, text: str, index: int, base: int) -> CursorContext:
    comment = bisect_right(found.comments, index - 1, key=lambda comment: comment[0]) - 1
    if comment >= 0 and found.comments[comment][0] < index <= found.comments[comment][1]:
        return CursorContext("comment", base)
    path, body = _descend(found, index)
    key: Role = "kind" if body is found.root else "key"
    value: Role = "name" if body is found.root else "value"
    entry = _entry_at(body, index)
    if entry is None:
        return CursorContext(key, base, path, body)
    if _touches(entry.key, index) and entry.key.text:
        return CursorContext(key, base, path, body, entry, entry.key)
    for token, items in _values(entry):
        if _touches(token, index):
            inside = bool(token.quotes) and token.start < index
            return CursorContext(value, base, path, body, entry, token, items, inside)
    if isinstance(entry.value, Group) and entry.value.start < index < entry.value.end:
        return CursorContext(value, base, path, body, entry, None, tuple(entry.value.items))
    return CursorContext(_role_after(entry, text, index, key, value), base, path, body, entry).tidy()


def _role_after(entry: Entry, text: str, index: int, key: Role, value: Role) -> Role:
    """Role of a position after the tokens of an entry."""
    between = text[entry.end : index] if index >= entry.end else text[entry.key.end : index]
    if "\n" in between or "," in between:
        return key
    if index < entry.end or (entry.value is None and entry.body is None):
        return value
    return "nothing" if key == "kind" and entry.body is None else key


def _descend(found: EntryTree, index: int) -> tuple[Path, Group]:
    path: list[tuple[str, str | None]] = []
    body = found.root
    while True:
        entry = _entry_at(body, index)
        inner = entry.body if entry else None
        if entry is None or inner is None or index <= inner.start or (inner.closed and index >= inner.end):
            return tuple(path), body
        path.append((entry.key.content, entry.word))
        body = inner


def _entry_at(body: Group, index: int) -> Entry | None:
    """Last entry that begins at or before `index`."""
    entries = body.entries
    at = bisect_right(entries, index, key=lambda entry: entry.start) - 1
    return entries[at] if at >= 0 else None


def _touches(token: Atom, index: int) -> bool:
    if token.quotes:  # before the first and after the last quote is outside
        return token.start < index < token.end or (not token.closed and index == token.end)
    return token.start <= index <= token.end


def _values(entry: Entry) -> list[tuple[Atom, tuple[Atom, ...] | None]]:
    if isinstance(entry.value, Atom):
        return [(entry.value, None)]
    if isinstance(entry.value, Group):
        items = tuple(entry.value.items)
        return [(item, items) for item in items]
    return []
