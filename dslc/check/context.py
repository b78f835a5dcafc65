"""What the checks of one file share."""

from __future__ import annotations

from dataclasses import dataclass, field

from lark import Token

from dslc.blocks import Block
from dslc.findings import Findings
from dslc.tree import BlockNode, Entry
from dslc.vocabulary import Vocabulary


class Missing:
    """Stands for a value that was wrong and has been reported."""


MISSING = Missing()


@dataclass(frozen=True)
class Use:
    """A block is named: `agent code-review-agent`."""

    kind: str
    name: str
    token: Token
    findings: Findings


@dataclass
class Given:
    """What a body gives: values of the settings that are right, and the entries of all, groups that repeat each."""

    values: dict[str, object] = field(default_factory=dict)
    entries: dict[str, list[Entry]] = field(default_factory=dict)
    good: bool = True

    def entry(self, name: str) -> Entry | None:
        """The first entry of a setting."""
        return self.entries[name][0] if name in self.entries else None


@dataclass(frozen=True)
class Checked:
    """One block after the checks of its own file. `model` is None when something in it is wrong."""

    kind: str
    name: str
    node: BlockNode
    given: Given
    findings: Findings
    model: Block | None


@dataclass
class Context:
    """The findings of one file, what it names, and what may stand where."""

    findings: Findings
    vocabulary: Vocabulary
    uses: list[Use] = field(default_factory=list)


@dataclass(frozen=True)
class Head:
    """The head a body belongs to: where to report what it lacks, and what to call it."""

    place: BlockNode | Token
    name: str
