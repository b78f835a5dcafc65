"""What the checks of one file share."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from lark import Token

from dslc.diagnostics.collector import DiagnosticCollector
from dslc.syntax.tree import BlockNode, Body, EntryNode, ListValue, ValueNode
from dslc.vocabulary import Vocabulary

if TYPE_CHECKING:
    from dslc.blocks.block import Block


class InvalidValue:
    """Stands for a value that was wrong and has been reported."""


INVALID = InvalidValue()
LOST_REFERENCE = "use of "
"""Before a kind in `nameless`: not a block's own name is missing, but one that a setting was to give."""


class Use(NamedTuple):
    """A block is named: `agent code-review-agent`."""

    kind: str
    name: str
    token: Token


class BodyValues:
    """What a body gives: values of the settings that are right, and the entries of all, groups that repeat each.

    `good`: it is all right. `damaged`: part of it could not be read. `misspelt`: settings that were probably meant.
    `unknown`: entries whose key is none that is known; each may be meant for one of those that could have been given.
    """

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self.entries: dict[str, list[EntryNode]] = {}
        self.good = True
        self.damaged = False
        self.unknown: list[EntryNode] = []
        self.misspelt: set[str] = set()

    def may_have(self, name: str) -> bool:
        """Whether a setting is there, or may be: then nobody says that it is missing."""
        return name in self.entries or name in self.misspelt or self.damaged

    def entry(self, name: str) -> EntryNode | None:
        """The first entry of a setting."""
        return self.entries[name][0] if name in self.entries else None


class Checked:
    """One block after its own checks; places are relative to its piece."""

    def __init__(self, kind: str, name: str, node: BlockNode, given: BodyValues) -> None:
        self.kind = kind
        self.name = name
        self.node = node
        self.given = given
        self.built: Built | None = None  # by `dslc.check.model`, when it is first asked for


class Built(NamedTuple):
    """A model, or what it refused: the message and its place. A check knows every bound of our models beforehand."""

    model: Block | None
    problems: tuple[tuple[str, EntryNode | BlockNode], ...] = ()


class CheckState:
    """The findings of one piece, what it names, and what may stand where.

    `damaged`: bodies of which something was lost, by the place of their brace. `mentions`, `nameless`: as in a
    `ParsedSection`.
    """

    def __init__(
        self, collector: DiagnosticCollector, vocabulary: Vocabulary, damaged: Collection[int] = frozenset()
    ) -> None:
        self.collector = collector
        self.vocabulary = vocabulary
        self.damaged = damaged
        self.uses: list[Use] = []
        self.mentions: set[str] = set()
        self.nameless: set[str] = set()

    @cached_property
    def scratch(self) -> CheckState:
        """Another of the same piece, for values that are read only to see whether they are right."""
        return CheckState(DiagnosticCollector(self.collector.text), self.vocabulary)

    def mention(self, *nodes: ValueNode | Body | None) -> None:
        """Note the words of what was not understood. Their depth is bounded by the parser."""
        for node in nodes:
            match node:
                case Token():
                    self.mentions.add(node.strip('"'))
                case ListValue():
                    self.mention(*node.items)
                case Body():
                    for entry in node.entries:
                        self.mention(entry.value, entry.body)
                case None:
                    pass


class CheckedHead(NamedTuple):
    """The head a body belongs to: where to report what it lacks, and what to call it."""

    place: BlockNode | Token
    name: str
