"""Parses a source file: it is split into sections, and each section is parsed on its own, with error recovery if
needed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from lark import UnexpectedInput

from dslc.diagnostics.collector import DiagnosticCollector, Place, relocate
from dslc.diagnostics.diagnostic import CODES, Diagnostic
from dslc.diagnostics.invisible import clean_text, invisible_diagnostics
from dslc.source import LARGEST, Source
from dslc.syntax.lark_parser import parse as read
from dslc.syntax.lark_parser import tokens
from dslc.syntax.section import MAX_DEPTH, Fault, Section
from dslc.syntax.splitter import split
from dslc.syntax.tree import BlockNode, ForeignNode, Node
from dslc.vocabulary import Vocabulary

if TYPE_CHECKING:
    from dslc.recovery.state import RecoveryResult

MAX_ERRORS = 1000  # syntax errors after which the rest of a file is not read


class ParsedSection(NamedTuple):
    """Parse result of a section, independent of its place in a file: positions are relative to the section.

    `damaged`: positions of the braces of bodies that lost a part. `mentions`: words in unreadable text, which may
    declare or use names that are missing elsewhere. `nameless`: kinds of blocks whose name is missing or unreadable.
    `readable`: no syntax error. `reusable`: another section with the same text has the same result.
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
    """A parsed section and its position in a file. `start`: index into the text. `offset`: the same in bytes."""

    start: int
    offset: int
    parsed: ParsedSection

    @property
    def text(self) -> str:
        return self.parsed.text

    @property
    def blocks(self) -> tuple[Node, ...]:
        """The blocks, with positions relative to `start`."""
        return self.parsed.blocks


class File(NamedTuple):
    """A source after parsing; `sections` in order.

    `faults`: errors of the file as a whole. `complete`: the whole file was read, possibly with errors.
    """

    source: Source
    sections: tuple[PlacedSection, ...] = ()
    faults: tuple[Diagnostic, ...] = ()
    complete: bool = True

    @property
    def readable(self) -> bool:
        """True if the file has no syntax error, so that its blocks are all its declarations."""
        return not self.faults and self.complete and all(section.parsed.readable for section in self.sections)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Diagnostics of parsing, in source order."""
        name = self.source.name
        inner = (
            relocate(found, name, section.offset) for section in self.sections for found in section.parsed.diagnostics
        )
        return tuple(sorted((*self.faults, *inner), key=lambda found: found.span.start) if self.faults else inner)


def parse(source: Source, vocabulary: Vocabulary, known: Mapping[str, ParsedSection] = MappingProxyType({})) -> File:
    """Parse a source. The vocabulary supplies the block kinds, and the words for diagnostics.

    `known`: parsed sections by their text, to be reused.
    """
    wrong, text = faults(source), source.text or ""
    if wrong:
        return File(source, (), tuple(wrong), complete=False)
    sections, errors, complete = [], 0, True
    line, counted = 1, 0  # number of the line of the character `counted`
    clean, invisible = clean_text(text)
    for section in split(clean, vocabulary.kinds, vocabulary.services):
        if errors >= MAX_ERRORS or section.fault is Fault.UNREAD:
            complete = False
            break
        content = text[section.start : section.end]
        parsed = known.get(content) if section.fault is None else None
        if parsed is None:
            line, counted = line + clean.count("\n", counted, section.start), section.start
            parsed = _parse_section(content, section, clean, line, vocabulary)
        if section.foreign:  # any character is allowed in it
            invisible = tuple(place for place in invisible if not section.start <= place < section.end)
        errors += len(parsed.diagnostics)
        sections.append(PlacedSection(section.start, source.offset(section.start), parsed))
    return File(source, tuple(sections), tuple(invisible_diagnostics(source, invisible)), complete)


def _parse_section(content: str, section: Section, text: str, line: int, vocabulary: Vocabulary) -> ParsedSection:
    """Parse a section whose text is `content`. `text`: the whole text without invisible characters. `line`: number of
    the section's first line."""
    clean = text[section.start : section.end]
    if section.foreign and section.fault is None:
        return ParsedSection(content, (_foreign(content, section.head_end - section.start),))
    plain = None
    if section.fault is None and section.deepest <= MAX_DEPTH:
        with suppress(UnexpectedInput):
            plain = ParsedSection(content, read(clean))
    if plain is not None and not section.text_after_string and not _quotes_keys(plain):
        return plain
    collector = DiagnosticCollector(content)
    following = ""
    if section.fault is Fault.UNCLOSED and section.end < len(text):
        head = re.compile(r"\w[^\n{]*").match(text, section.end)
        following = head[0] if head else ""
    if section.foreign:
        node = _unclosed_foreign(clean, section, collector, line, following)
        return ParsedSection(content, (node,), tuple(collector.found), readable=False, reusable=False)
    from dslc.recovery import recover  # most texts need no recovery

    recovered = recover(collector, clean, vocabulary, line, following, section.fault is Fault.HEADLESS)
    if plain is not None and not any(found.code.startswith("S") for found in collector.found):
        # The syntax is valid; the checks examine its meaning.
        return plain
    # The hint of an S103 contains a line number of the file.
    reusable = section.fault is None and all(found.code != "S103" for found in collector.found)
    return _recovered_section(recovered, collector, reusable=reusable)


def _quotes_keys(section: ParsedSection) -> bool:
    """True if a key is in quotes, which only the keys of a map may be."""
    bodies = [block.body for block in section.blocks if isinstance(block, BlockNode)]
    for body in bodies:
        if any(entry.key.type == "STRING" for entry in body.entries):
            return True
        bodies += [entry.body for entry in body.entries if entry.body is not None]
    return False


def _recovered_section(recovered: RecoveryResult, collector: DiagnosticCollector, *, reusable: bool) -> ParsedSection:
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
    """Return the first error that makes the bytes unreadable as program text, or an empty list."""

    def fault(code: str, message: str, start: int, end: int, hint: str) -> list[Diagnostic]:
        return [Diagnostic(code, CODES[code][0], message, source.name, source.span(start, end), (), hint)]

    if len(source.data) > LARGEST:
        return fault(
            "S108", "the file is larger than 4 MiB", 0, 0, "split it into several files: all files form one program"
        )
    if source.undecodable is not None:
        hint = "save the file as UTF-8"
        return [Diagnostic("S108", CODES["S108"][0], "not UTF-8", source.name, source.undecodable, (), hint)]
    text = source.text or ""
    bare = re.search(r"\r(?!\n)", text)
    if bare is not None:
        return fault("S115", "carriage return without a line feed", *bare.span(), "lines end in LF or CRLF")
    nul = text.find("\0")
    return fault("S115", "invisible character U+0000 (NUL)", nul, nul + 1, "remove it") if nul >= 0 else []
