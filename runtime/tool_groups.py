"""Groups of tools, by which a client chooses the tools that it is shown, and a token is limited to some."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self, get_args

from runtime.suggestions import unknown_name

if TYPE_CHECKING:
    from dslc.program import Program

Group = Literal[
    "collections",
    "memory",
    "maintenance",
    "agents",
    "agent-memory",
    "webhooks",
    "tasks",
    "tables",
    "kv",
    "approvals",
]

GROUPS: Final[tuple[Group, ...]] = get_args(Group)
OF_AGENTS: Final = frozenset({"agents", "agent-memory", "approvals"})
"""The groups whose tools the switch `agents` stops."""
USUAL: Final = frozenset(GROUPS) - {"approvals"}
"""The groups of `all`. With the tools of the others a client lifts the limits of agents, so they have to be named:
the model behind a client may have been talked into it by what it reads."""
ALL: Final = "all"
READ_ONLY: Final = "read-only"
WORDS: Final = (*GROUPS, ALL, READ_ONLY)
"""Words of which a choice consists."""


class ToolFolder(NamedTuple):
    """Properties of the tools in a folder of `runtime/tools`, unless their rows say otherwise: see `ToolProperties`."""

    group: Group | None = None
    indexes: bool = False
    people: bool = False


_FOLDERS: Final = {
    "agent": ToolFolder("agents", people=True),
    "approvals": ToolFolder("approvals", people=True),
    "archival": ToolFolder("agent-memory", indexes=True),
    "collection": ToolFolder("collections", indexes=True),
    "conversations": ToolFolder("agent-memory", people=True),
    "core_memory": ToolFolder("agent-memory"),
    "knowledge": ToolFolder("agent-memory", indexes=True, people=True),
    "kv": ToolFolder("kv"),
    "maintenance": ToolFolder("maintenance", indexes=True),
    "memory": ToolFolder("memory", indexes=True),
    "tables": ToolFolder("tables"),
    "tasks": ToolFolder("tasks"),
    "webhooks": ToolFolder("webhooks"),
}


def folder_of(module: str) -> ToolFolder:
    """Return the common properties of the tools of a module of `runtime/tools`; none for other modules."""
    return _FOLDERS.get(module.removeprefix("runtime.tools.").partition(".")[0], ToolFolder())


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
        return cls(groups | USUAL if everything else groups, READ_ONLY in given)

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the choice, as short as possible."""
        if self.groups == USUAL:
            return (READ_ONLY,) if self.read_only else (ALL,)
        named: list[str] = [each for each in GROUPS if each in self.groups]
        if self.groups > USUAL:
            named = [ALL, *(each for each in named if each not in USUAL)]
        return (*named, *((READ_ONLY,) if self.read_only else ()))

    def has(self, group: str | None, *, read_only: bool) -> bool:
        """True if a tool of `group` is in the choice; `read_only`: it changes nothing."""
        return group in self.groups and (read_only or not self.read_only)

    def without(self, group: Group) -> ToolChoice:
        """Return the choice without the tools of this group."""
        return ToolChoice(self.groups - {group}, self.read_only)

    def within(self, limit: ToolChoice | None) -> ToolChoice:
        """Return the part of the choice that `limit` allows; None: everything."""
        if limit is None:
            return self
        return ToolChoice(self.groups & limit.groups, self.read_only or limit.read_only)

    def __str__(self) -> str:
        return ",".join(self.words)


EVERYTHING: Final = ToolChoice(USUAL)
COLLECTIONS: Final = ToolChoice(frozenset({"collections"}))


def groups_of(program: Program) -> ToolChoice:
    """Return the choice of a client that made none: collections, and what this program has, in at most 25 tools."""
    groups: set[Group] = {"collections"}
    if program.agents or program.webhooks:
        groups.add("memory")
    # An agent without a model only records: there is nobody to talk to.
    if any(agent.model is not None for agent in program.agents.values()):
        groups.add("agents")
    elif program.webhooks:
        groups.add("webhooks")
    return ToolChoice(frozenset(groups))
