"""Text to tree. A file is cut into pieces, and each is parsed by itself; one that cannot be parsed is mended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from lark import UnexpectedInput

from dslc.diagnostics.collector import DiagnosticCollector, Place, relocated
from dslc.diagnostics.diagnostic import CODES, Diagnostic
from dslc.diagnostics.invisible import cleaned, invisible_diagnostics
from dslc.source import LARGEST, Source
from dslc.syntax.lark_parser import parse as read
from dslc.syntax.lark_parser import tokens
from dslc.syntax.section import MAX_DEPTH, Fault, Section
from dslc.syntax.splitter import split
from dslc.syntax.tree import ForeignNode, Node
from dslc.vocabulary import Vocabulary

if TYPE_CHECKING:
    from dslc.recovery.state import Recovered

MAX_ERRORS = 1000  # syntax errors after which the rest of a file is not read


class ParsedSection(NamedTuple):
    """What a piece of text says, wherever it stands: places are relative to its beginning.

    `damaged`: the braces (by their place) of bodies of which something was lost. `mentions`: words that stand where
    nobody understood them: one may declare or use what is missed elsewhere. `nameless`: kinds of blocks of which a
    name is missing or cannot be read. `reusable`: another piece of the same text reads the same.
    """

    text: str
    blocks: tuple[Node, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    damaged: frozenset[int] = frozenset()
    mentions: frozenset[str] = frozenset()
    nameless: frozenset[str] = frozenset()
    readable: bool = True
    reusable: bool = True


class PlacedSection(NamedTuple):
    """A reading at its place: `start` is an index into the text of the file, `offset` the same in bytes."""

    start: int
    offset: int
    parsed: ParsedSection

    @property
    def text(self) -> str:
        return self.parsed.text

    @property
    def blocks(self) -> tuple[Node, ...]:
        """The blocks, their places relative to `start`."""
        return self.parsed.blocks


class File(NamedTuple):
    """A source as it was read; `sections` in order.

    `faults`: what is wrong with the file as a whole. `complete`: all of it was read, be it with errors.
    """

    source: Source
    sections: tuple[PlacedSection, ...] = ()
    faults: tuple[Diagnostic, ...] = ()
    complete: bool = True

    @property
    def readable(self) -> bool:
        """Whether it has no syntax error, so that its blocks are all it declares."""
        return not self.faults and self.complete and all(section.parsed.readable for section in self.sections)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What was found while reading, in source order."""
        name = self.source.name
        inner = (
            relocated(found, name, section.offset) for section in self.sections for found in section.parsed.diagnostics
        )
        return tuple(sorted((*self.faults, *inner), key=lambda found: found.span.start) if self.faults else inner)


def parse(source: Source, vocabulary: Vocabulary, known: Mapping[str, ParsedSection] = MappingProxyType({})) -> File:
    """The pieces of a source. The vocabulary knows which words open a block, and words the diagnostics.

    `known`: readings by their text, to be used again.
    """
    wrong, text = faults(source), source.text or ""
    if wrong:
        return File(source, (), tuple(wrong), complete=False)
    sections, errors, complete = [], 0, True
    clean, invisible = cleaned(text)
    for section in split(clean, vocabulary.kinds):
        if errors >= MAX_ERRORS or section.fault is Fault.UNREAD:
            complete = False
            break
        content = text[section.start : section.end]
        parsed = known.get(content) if section.fault is None else None
        if parsed is None:
            parsed = _read(content, section, clean, vocabulary)
        if section.foreign:  # it may hold what it likes
            invisible = tuple(place for place in invisible if not section.start <= place < section.end)
        errors += len(parsed.diagnostics)
        sections.append(PlacedSection(section.start, source.offset(section.start), parsed))
    return File(source, tuple(sections), tuple(invisible_diagnostics(source, invisible)), complete)


def _read(content: str, section: Section, text: str, vocabulary: Vocabulary) -> ParsedSection:
    """The reading of a piece whose text is `content`; `text`: the whole text, without invisible characters."""
    clean = text[section.start : section.end]
    if section.foreign and section.fault is None:
        return ParsedSection(content, (_foreign(content, section.head_end - section.start),))
    plain = None
    if section.fault is None and section.deepest <= MAX_DEPTH:
        with suppress(UnexpectedInput):
            plain = ParsedSection(content, read(clean))
    if plain is not None and not section.text_after_string:
        return plain
    collector = DiagnosticCollector(content)
    line = text.count("\n", 0, section.start) + 1 if section.fault else 1
    following = ""
    if section.fault is Fault.UNCLOSED and section.end < len(text):
        head = re.compile(r"\w[^\n{]*").match(text, section.end)
        following = head[0] if head else ""
    if section.foreign:
        node = _unclosed_foreign(clean, section, collector, line, following)
        return ParsedSection(content, (node,), tuple(collector.found), readable=False, reusable=False)
    from dslc.recovery import recover  # most texts have nothing to mend

    recovered = recover(collector, clean, vocabulary, line, following, section.fault is Fault.HEADLESS)
    if plain is not None and not any(found.code.startswith("S") for found in collector.found):
        # Nothing is wrong with its syntax; the check judges what its words mean.
        return plain
    return _recovered_section(recovered, collector, reusable=section.fault is None)


def _recovered_section(recovered: Recovered, collector: DiagnosticCollector, *, reusable: bool) -> ParsedSection:
    return ParsedSection(
        collector.text,
        tuple(recovered.blocks),
        tuple(collector.found),
        frozenset(recovered.damaged),
        frozenset(recovered.mentions),
        frozenset(recovered.nameless),
        readable=False,
        reusable=reusable,
    )


def _foreign(content: str, head_end: int) -> ForeignNode:
    head = tokens(content[:head_end])
    kind, name = next(head), next(head, None)
    if name is not None and name.type not in {"WORD", "STRING"}:
        name = None
    return ForeignNode(kind, name, 0, head_end, len(content))


def _unclosed_foreign(
    content: str, section: Section, collector: DiagnosticCollector, line: int, following: str
) -> ForeignNode:
    node = _foreign(content, section.head_end - section.start)
    brace = content.index("{", node.end_pos)
    where = f"before line {line + content.count(chr(10))}" if content.endswith("\n") else "at the end of the file"
    place, message = Place(brace, brace + 1), f"`{node.kind}` is not closed"
    collector.add(
        "S103",
        message,
        place,
        hint=f"add `}}` {where}",
        labels=collector.label_after("the next block begins here", following),
    )
    return node


def faults(source: Source) -> list[Diagnostic]:
    """The first thing that keeps the bytes from being text of the language's kind."""

    def fault(code: str, message: str, start: int, end: int, hint: str) -> list[Diagnostic]:
        return [Diagnostic(code, CODES[code][0], message, source.name, source.span(start, end), (), hint)]

    if len(source.data) > LARGEST:
        return fault("S108", "the file is larger than 4 MiB", 0, 0, "split it: all files form one program")
    if source.undecodable is not None:
        hint = "save the file as UTF-8"
        return [Diagnostic("S108", CODES["S108"][0], "not UTF-8", source.name, source.undecodable, (), hint)]
    text = source.text or ""
    bare = re.search(r"\r(?!\n)", text)
    if bare is not None:
        return fault("S115", "carriage return without a line feed", *bare.span(), "lines end in LF or CRLF")
    nul = text.find("\0")
    return fault("S115", "invisible character U+0000 (NUL)", nul, nul + 1, "remove it") if nul >= 0 else []
