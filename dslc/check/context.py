"""What the checks of one file share."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from lark import Token

from dslc.blocks import Block
from dslc.findings import Findings
from dslc.tree import BlockNode, Body, Entry, ListValue, Value
from dslc.vocabulary import Vocabulary


class Missing:
    """Stands for a value that was wrong and has been reported."""


MISSING = Missing()


@dataclass(frozen=True, slots=True)
class Use:
    """A block is named: `agent code-review-agent`."""

    kind: str
    name: str
    token: Token


@dataclass
class Given:
    """What a body gives: values of the settings that are right, and the entries of all, groups that repeat each.

    `good`: it is all right. `damaged`: part of it could not be read. `misspelt`: settings that were probably meant.
    """

    values: dict[str, object] = field(default_factory=dict)
    entries: dict[str, list[Entry]] = field(default_factory=dict)
    good: bool = True
    damaged: bool = False
    misspelt: set[str] = field(default_factory=set)

    def perhaps(self, name: str) -> bool:
        """Whether a setting is there, or may be: then nobody says that it is missing."""
        return name in self.entries or name in self.misspelt or self.damaged

    def entry(self, name: str) -> Entry | None:
        """The first entry of a setting."""
        return self.entries[name][0] if name in self.entries else None


@dataclass(frozen=True, slots=True)
class Checked:
    """One block after its own checks; places are relative to its piece. `model`: None when something is wrong."""

    kind: str
    name: str
    node: BlockNode
    given: Given
    model: Block | None


@dataclass
class Context:
    """The findings of one piece, what it names, and what may stand where.

    `damaged`: bodies of which something was lost, by the place of their brace. `mentions`, `nameless`: as in a
    `Reading`.
    """

    findings: Findings
    vocabulary: Vocabulary
    damaged: Collection[int] = frozenset()
    uses: list[Use] = field(default_factory=list)
    mentions: set[str] = field(default_factory=set)
    nameless: set[str] = field(default_factory=set)

    def mention(self, *nodes: Value | Body | None) -> None:
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


@dataclass(frozen=True)
class Head:
    """The head a body belongs to: where to report what it lacks, and what to call it."""

    place: BlockNode | Token
    name: str
