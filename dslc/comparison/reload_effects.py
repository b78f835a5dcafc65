"""Effects of a reload that follow from the two programs alone.

The daemon builds routes, memories and secrets of the new program while the old one runs, then replaces them in one step
(`Generation` in the daemon): a webhook is mounted on its exact path unless a secret cannot be resolved, a secret
that resolved before keeps its last value, stored files are not moved, and a delivery keeps the agent with which it was
accepted.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import timedelta
from functools import cached_property
from types import MappingProxyType

from dslc.blocks.mcp import McpServer
from dslc.blocks.memory import Memory
from dslc.blocks.values.quantity import write_duration
from dslc.blocks.values.secret import is_reference
from dslc.blocks.webhook import Webhook
from dslc.program import Program

_DEFAULT_MEMORY = "default"
_MOST_NAMES = 5


class Reload:
    """A reload of the program `old` with the program `new`."""

    def __init__(self, old: Program, new: Program, fileless: Collection[str] = ()) -> None:
        """`fileless`: kinds of stores whose memories are database rows under the memory's name, not files."""
        self._old = _Side(old, fileless)
        self._new = _Side(new, fileless)

    def effects_of_block(self, kind: str, name: str) -> Iterator[str]:
        """Effects on the block `name`, which differs between the programs."""
        return _OF_KIND[kind](self, name)

    def effects_of_program(self) -> Iterator[str]:
        """Effects that do not belong to one block: on implied memories and removed agents."""
        yield from self._implied_memory()
        for name in sorted(self._old.agents - self._new.agents):
            yield f"waiting deliveries for the agent `{name}` are stored as agent_gone and can be redelivered"

    def _webhook(self, name: str) -> Iterator[str]:
        before, after = self._old.program.webhooks.get(name), self._new.program.webhooks.get(name)
        if before is not None and (after is None or after.path != before.path):
            heir = self._new.webhooks_by_path.get(before.path)
            yield f"`{before.path}` is answered by the webhook `{heir}`" if heir else f"`{before.path}` answers 404"
        if after is None:
            return
        if before is not None and after.path != before.path:
            yield f"`{after.path}` is mounted"
        for text in _resolved_secrets(after):
            if is_reference(text) and text not in self._old.secrets:
                yield f"mounted only if `{text}` resolves"
        if after.insecure_allow_unverified and not (before and before.insecure_allow_unverified):
            yield "unsigned requests are accepted"
        if before is not None and before.wakes != after.wakes:
            there = f"go to `{after.wakes}`" if after.wakes else "are only stored"
            here = f"; waiting deliveries stay with `{before.wakes}`" if before.wakes else ""
            yield f"new deliveries {there}{here}"

    def _memory(self, name: str) -> Iterator[str]:
        before, after = self._old.program.memories.get(name), self._new.program.memories.get(name)
        if before is None:
            return
        place = self._old.place(before)
        if after is not None and place == self._new.place(after):
            if _index(before) != _index(after):
                yield "the index is rebuilt from the store in the background"
            if _model(before) != _model(after):
                yield "all items are embedded again in the background; until then they are found only by keyword"
            kept, keeps = self._old.retention(before), self._new.retention(after)
            if keeps is not None and (kept is None or keeps < kept):
                what = self._new.expiring_data(after)
                yield f"{what} older than {write_duration(keeps)} are deleted within a day"
            return
        if after is not None:
            yield f"opens the {self._new.description(after)}"
        heir = self._new.memories_by_place.get(place)
        stays = f"is now used by the memory `{heir}`" if heir else "stays there"
        yield f"the data of the {self._old.description(before, kind=before.store.name)} {stays}"

    def _agent(self, name: str) -> Iterator[str]:
        before, after = self._old.program.agents.get(name), self._new.program.agents.get(name)
        if after is None and name in self._new.agents:
            yield "a webhook still names it: it records with the default settings"
        if after is not None and not after.enabled and (before is None or before.enabled):
            yield "deliveries for it are stored as agent_gone and can be redelivered"

    def _model(self, name: str) -> Iterator[str]:
        before, after = self._old.program.models.get(name), self._new.program.models.get(name)
        memories = self._new.summarized_by(name)
        if after is not None and memories and (before is None or before.service != after.service):
            yield f"the next summaries of {', '.join(f'`{memory}`' for memory in memories)} use this service"

    def _mcp(self, name: str) -> Iterator[str]:
        before, after = self._old.program.mcp_servers.get(name), self._new.program.mcp_servers.get(name)
        if after is None:
            yield f"agents have none of its tools any more (`{name}.*`)"
        elif before is None or _approved_parts(before) != _approved_parts(after):
            done = "starts it" if after.command else "connects to it"
            again = "" if before is None else " again"
            yield f"nothing {done} until `symbi mcp-server approve {name}` approves it{again}"

    def _implied_memory(self) -> Iterator[str]:
        """Report agents without a memory setting for which another memory becomes the only or default one."""
        before, after = self._old.implied_memory, self._new.implied_memory
        relying = sorted(self._old.relying_agents & self._new.relying_agents) if before != after else []
        if relying:
            more = " and others" if len(relying) > _MOST_NAMES else ""
            names = ", ".join(f"`{name}`" for name in relying[:_MOST_NAMES]) + more
            verb = "names" if len(relying) == 1 else "name"
            yield f"{names} {verb} no memory: `{after}` is used instead of `{before}`"


_OF_KIND: Mapping[str, Callable[[Reload, str], Iterator[str]]] = MappingProxyType(
    {
        "memory": Reload._memory,
        "webhook": Reload._webhook,
        "agent": Reload._agent,
        "model": Reload._model,
        "mcp": Reload._mcp,
    }
)
"""Method that finds the effects on each kind of block."""


class _Side:
    """One of the two programs, with the daemon's defaults."""

    def __init__(self, program: Program, fileless: Collection[str]) -> None:
        self.program = program
        self._fileless = fileless

    def place(self, memory: Memory) -> tuple[str, str]:
        """Identity of the store, as far as the program defines it: its kind, and its path or name."""
        where = memory.name if memory.store.name in self._fileless else posixpath.normpath(memory.path)
        return memory.store.name, where

    def retention(self, memory: Memory) -> timedelta | None:
        """Retention of logs; None if they never expire, as in a collection whose block does not set `retention`."""
        declared = "retention" in memory.model_fields_set
        return memory.retention if declared or memory.store.name not in self._fileless else None

    def expiring_data(self, memory: Memory) -> str:
        """Name of the data that a store deletes after the retention time."""
        return "episodic items" if memory.store.name in self._fileless else "logs of days"

    def description(self, memory: Memory, kind: str = "") -> str:
        """Description of the store for people."""
        if memory.store.name in self._fileless:
            return f"{memory.store.name} `{memory.name}` in the database"
        return f"{kind} store at `{memory.path}`".lstrip()

    def summarized_by(self, model: str) -> list[str]:
        """Memories whose summaries the block `model` writes, sorted; at most `_MOST_NAMES`."""
        choices = {name: memory.summarize.model for name, memory in self.program.memories.items()}
        named = (name for name, choice in choices.items() if choice is not None and choice.name == model)
        return sorted(named)[:_MOST_NAMES]

    @cached_property
    def webhooks_by_path(self) -> Mapping[str, str]:
        return {webhook.path: name for name, webhook in self.program.webhooks.items()}

    @cached_property
    def memories_by_place(self) -> Mapping[tuple[str, str], str]:
        return {self.place(memory): name for name, memory in self.program.memories.items()}

    @cached_property
    def secrets(self) -> frozenset[str]:
        return frozenset(text for webhook in self.program.webhooks.values() for text in _resolved_secrets(webhook))

    @cached_property
    def agents(self) -> frozenset[str]:
        """Agents that can run: declared ones, and those that webhooks name."""
        woken = (webhook.wakes for webhook in self.program.webhooks.values())
        return frozenset((*self.program.agents, *filter(None, woken)))

    @cached_property
    def implied_memory(self) -> str:
        """Name of the memory that is used if none is named."""
        memories = self.program.memories
        if len(memories) == 1:
            return next(iter(memories))
        default = Memory(name=_DEFAULT_MEMORY)
        there = self.memories_by_place.get(self.place(default), _DEFAULT_MEMORY)
        return _DEFAULT_MEMORY if _DEFAULT_MEMORY in memories else there

    @cached_property
    def relying_agents(self) -> frozenset[str]:
        """Agents that use the implied memory for some delivery."""
        named = {name for name, agent in self.program.agents.items() if agent.memory is not None}
        woken = (webhook.wakes for webhook in self.program.webhooks.values() if webhook.memory is None)
        return frozenset(filter(None, woken)) - named


def _resolved_secrets(webhook: Webhook) -> tuple[str, ...]:
    """Secrets that are resolved for the webhook: its own, and those that its provider's options refer to."""
    options = (text for text in webhook.provider.options.values() if isinstance(text, str) and is_reference(text))
    return (*(() if webhook.insecure_allow_unverified else webhook.secret), *options)


def _approved_parts(server: McpServer) -> tuple[object, ...]:
    """Settings of a server that a person approves before they are used."""
    return server.command, dict(server.env), server.url, server.token, dict(server.headers)


_ELSEWHERE = ("url", "collection", "schema")
"""Options of an index that define its location."""
_DEFAULT = "embedded"
"""Index of a memory that names none."""


def _index(memory: Memory) -> tuple[object, ...]:
    """Kind and location of a memory's index, as far as the program defines it; () for the default index, which has no
    options."""
    choice = memory.index
    return () if choice is None or choice.name == _DEFAULT else (choice.name, *map(choice.options.get, _ELSEWHERE))


def _model(memory: Memory) -> tuple[object, ...]:
    """Settings that determine a memory's vectors, as far as the program defines them."""
    choice = memory.embedding
    return () if choice is None else (choice.name, choice.options.get("model"), choice.options.get("dimension"))
