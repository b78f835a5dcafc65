"""State shared by the checks of one section."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from lark import Token

from dslc.diagnostics.collector import DiagnosticCollector, HasPosition
from dslc.diagnostics.diagnostic import Label
from dslc.syntax.tree import BlockNode, Body, EntryNode, ListValue, ValueNode
from dslc.vocabulary import Vocabulary

if TYPE_CHECKING:
    from dslc.blocks.block import Block


class InvalidValue:
    """Placeholder for an invalid value, which has been reported."""


INVALID = InvalidValue()
LOST_REFERENCE = "use of "
"""Prefix of a kind in `nameless`: a reference to a block of this kind is missing, not the name of a block."""


class Use(NamedTuple):
    """A reference to a block: `agent code-review-agent`. `place`: the name, which may be a part of a string. `rows`:
    rows that may be named there instead."""

    kind: str
    name: str
    place: HasPosition
    rows: Collection[str] = ()


class ModelReply(NamedTuple):
    """The `reply_tokens` of an agent that names a model block. `place`: where they are given."""

    model: str
    tokens: int
    place: ValueNode


class CostLimit(NamedTuple):
    """The `cost_per_day` of an agent that names a model block. `place`: where it is given."""

    model: str
    place: ValueNode


class BodyValues:
    """Result of reading a body: values of the valid settings, and the entries of all settings.

    `good`: everything is valid. `damaged`: a part could not be read. `misspelt`: settings that unknown keys probably
    mean. `unknown`: entries with unknown keys; each may be meant for a setting that is not given.
    """

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self.entries: dict[str, list[EntryNode]] = {}
        self.good = True
        self.damaged = False
        self.unknown: list[EntryNode] = []
        self.misspelt: set[str] = set()

    def may_have(self, name: str) -> bool:
        """True if the setting is present or possibly present (misspelt, unreadable); then it is not reported as
        missing."""
        return name in self.entries or name in self.misspelt or self.damaged

    def entry(self, name: str) -> EntryNode | None:
        """The first entry of a setting."""
        return self.entries[name][0] if name in self.entries else None


class CheckedBlock:
    """One block after its own checks; positions are relative to its section."""

    def __init__(self, kind: str, name: str, node: BlockNode, given: BodyValues) -> None:
        self.kind = kind
        self.name = name
        self.node = node
        self.given = given
        self.model_result: ModelResult | None = None  # set by `dslc.check.model` on first use


class ModelResult(NamedTuple):
    """A model, or the errors of its validators with their positions. The checks cover all bounds of the fields
    beforehand."""

    model: Block | None
    problems: tuple[tuple[str, EntryNode | BlockNode], ...] = ()


class CheckState:
    """Diagnostics and references of one section, and the vocabulary.

    `damaged`: bodies that lost a part, by the position of their brace. `mentions`, `nameless`: as in a `ParsedSection`.
    """

    def __init__(
        self, collector: DiagnosticCollector, vocabulary: Vocabulary, damaged: Collection[int] = frozenset()
    ) -> None:
        self.collector = collector
        self.vocabulary = vocabulary
        self.damaged = damaged
        self.uses: list[Use] = []
        self.replies: list[ModelReply] = []
        self.cost_limits: list[CostLimit] = []
        self.mentions: set[str] = set()
        self.nameless: set[str] = set()

    @cached_property
    def scratch(self) -> CheckState:
        """A second state for the same section, for values that are read only to see if they are valid."""
        return CheckState(DiagnosticCollector(self.collector.text), self.vocabulary)

    def reject(
        self,
        given: BodyValues,
        code: str,
        message: str,
        place: HasPosition,
        *,
        hint: str | None,
        beside: EntryNode | None = None,
        labels: Iterable[Label] = (),
    ) -> None:
        """Report an error of a body, whose block has no model then. `beside`: the other setting that it is about."""
        if beside is not None:
            labels = [self.collector.label(f"`{beside.key}` is given here", beside.key)]
        self.collector.add(code, message, place, hint=hint, labels=labels)
        given.good = False

    def mention(self, *nodes: ValueNode | Body | None) -> None:
        """Add the words of nodes that were not understood. Recursion is safe: the parser bounds their depth."""
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
    """Head of a body. `place`: where missing settings are reported. `name`: as shown in messages."""

    place: BlockNode | Token
    name: str
