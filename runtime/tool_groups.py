"""Groups of tools, by which a client chooses the tools that it is shown, and a token is limited to some."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Self, get_args

from runtime.suggestions import unknown_name

if TYPE_CHECKING:
    from dslc.program import Program

Group = Literal["collections", "memory", "agents", "webhooks", "tasks", "tables", "kv"]

GROUPS: Final[tuple[Group, ...]] = get_args(Group)
ALL: Final = "all"
READ_ONLY: Final = "read-only"
WORDS: Final = (*GROUPS, ALL, READ_ONLY)
"""What a choice consists of."""


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Groups of tools. `read_only`: only the tools of these groups that change nothing."""

    groups: frozenset[Group]
    read_only: bool = False

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the choice of words that are separated by commas. Raises UsageError with the nearest words."""
        words = [word.strip() for word in text.split(",")]
        for word in words:
            if word not in WORDS:
                raise unknown_name("group of tools", word[:80], WORDS)
        return cls.of(words)

    @classmethod
    def of(cls, words: Iterable[str]) -> Self:
        """Return the choice of these words; others, which a newer program may have written, are ignored."""
        given = set(words)
        groups = frozenset(each for each in GROUPS if each in given)
        everything = ALL in given or given == {READ_ONLY}
        return cls(frozenset(GROUPS) if everything else groups, READ_ONLY in given)

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the choice, as short as possible."""
        if self.groups == set(GROUPS):
            return (READ_ONLY,) if self.read_only else (ALL,)
        return (*(each for each in GROUPS if each in self.groups), *((READ_ONLY,) if self.read_only else ()))

    def has(self, group: str | None, *, read_only: bool) -> bool:
        """True if a tool of `group` is in the choice; `read_only`: it changes nothing."""
        return group in self.groups and (read_only or not self.read_only)

    def without(self, group: Group) -> ToolChoice:
        """Return the choice without the tools of this group."""
        return ToolChoice(self.groups - {group}, self.read_only)

    def within(self, limit: ToolChoice | None) -> ToolChoice:
        """Return what of the choice `limit` allows; None: everything."""
        if limit is None:
            return self
        return ToolChoice(self.groups & limit.groups, self.read_only or limit.read_only)

    def __str__(self) -> str:
        return ",".join(self.words)


EVERYTHING: Final = ToolChoice(frozenset(GROUPS))
COLLECTIONS: Final = ToolChoice(frozenset({"collections"}))


def groups_of(program: Program) -> ToolChoice:
    """Return the choice of a client that made none: collections, and what this program has."""
    groups: set[Group] = {"collections"}
    if program.agents or program.webhooks:
        groups.add("memory")
    if program.webhooks:
        groups.add("webhooks")
    # An agent without a model only records: there is nobody to talk to.
    if any(agent.model is not None for agent in program.agents.values()):
        groups.add("agents")
    return ToolChoice(frozenset(groups))
