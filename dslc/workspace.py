"""Incremental compilation of a program: files are parsed and checked as they change, and only changed parts again."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

from dslc.check.declarations import Declaration, FileDeclarations, Location, Order
from dslc.check.references import References
from dslc.check.section import CheckedSection, check_section
from dslc.diagnostics.collector import relocate
from dslc.diagnostics.diagnostic import Diagnostic
from dslc.parse import File, parse
from dslc.source import Source
from dslc.vocabulary import Vocabulary

ALLOW_MARK = b"dslc:"  # part of each comment that suppresses a warning
_LARGE_SOURCE = 100_000  # bytes; from this size on, garbage collection would repeatedly traverse the new objects


class CheckedFile(NamedTuple):
    """A file after parsing, and the checks of its sections, one for each."""

    file: File
    order: Order
    sections: tuple[CheckedSection, ...]

    @property
    def own(self) -> list[Diagnostic]:
        """Diagnostics of the file that do not depend on other files."""
        name, pairs = self.file.source.name, zip(self.file.sections, self.sections, strict=True)
        inner = [relocate(found, name, section.offset) for section, checked in pairs for found in checked.diagnostics]
        return [*self.file.faults, *inner]


class Workspace:
    """The files of one program, by name. Of two equal declarations, the one in the earlier file is the first."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._files: dict[str, CheckedFile] = {}
        folder = str(vocabulary.kinds["memory"]["path"].default)
        self._references = References(folder, vocabulary.fileless, vocabulary.services)
        self._changed: set[str] = set()
        self._orders = count()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all files."""
        return tuple(self._files)

    def put(self, source: Source, path: tuple[str, ...] = ()) -> None:
        """Add a file, or replace the file with the same name.

        Files are ordered by when they were first added. If they are added in any order, pass `path`, its parts: then
        they are ordered by path.
        """
        with _without_gc(len(source.data)):
            old = self._files.get(source.name)
            known = _reusable(old) if old else {}
            file = parse(source, self.vocabulary, {text: section.parsed for text, section in known.items()})
            sections = tuple(
                known[section.text]
                if section.text in known and known[section.text].parsed is section.parsed
                else check_section(section.parsed, self.vocabulary)
                for section in file.sections
            )
            order = (0, path) if path else old.order if old else (next(self._orders), ())
            self._files[source.name] = CheckedFile(file, order, sections)
            declarations = FileDeclarations(source.name, order, file.complete)
            for section, checked in zip(file.sections, sections, strict=True):
                declarations.add(checked, section.offset)
            self._references.replace(source.name, declarations)
            self._changed.add(source.name)

    def drop(self, name: str) -> None:
        """Remove a file. Raises KeyError if it does not exist."""
        del self._files[name]
        self._references.replace(name, None)
        self._changed.add(name)

    def take_changed(self) -> set[str]:
        """Return the files, including removed ones, whose diagnostics may have changed since the last call."""
        changed, self._changed = self._changed | self._references.recheck(), set()
        return changed

    def diagnostics(self, name: str) -> list[Diagnostic]:
        """Diagnostics of a file in source order, without suppressed ones; empty for an unknown file."""
        self._changed |= self._references.recheck()
        checked = self._files.get(name)
        if checked is None:
            return []
        found = [*checked.own, *self._references.diagnostics(name)]
        if ALLOW_MARK in checked.file.source.data:
            from dslc.check.allow import apply_allow_comments

            found = apply_allow_comments(checked.file, found)
        return sorted(found, key=lambda diagnostic: (diagnostic.span.start, diagnostic.span.end, diagnostic.code))

    def file(self, name: str) -> File:
        """A parsed file. Raises KeyError."""
        return self._files[name].file

    def checked_file(self, name: str) -> CheckedFile:
        """A file with the checks of its sections. Raises KeyError."""
        return self._files[name]

    def declarations(self, kind: str, name: str) -> list[Declaration]:
        """The blocks with this kind and name, in program order."""
        return self._references.declarations(kind, name)

    def uses(self, kind: str, name: str) -> list[Location]:
        """Locations that refer to this block."""
        return self._references.uses(kind, name)

    def declared_names(self, kind: str) -> list[str]:
        """Names of all blocks of a kind."""
        return self._references.names(kind)


def _reusable(old: CheckedFile) -> Mapping[str, CheckedSection]:
    return {section.parsed.text: section for section in old.sections if section.parsed.reusable}


@contextmanager
def _without_gc(size: int) -> Iterator[None]:
    """Disable garbage collection while many objects are built, none of which is garbage."""
    was = gc.isenabled()
    if size < _LARGE_SOURCE or not was:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
