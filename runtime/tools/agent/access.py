"""The core memory that a call acts on, and where its changes come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from dslc.blocks.agent import Agent
from runtime.errors import Conflict, NotFound, UsageError
from runtime.memory.core.block import Block, BlockScope, ChangedBy, DeclaredBlock, Origin, may_change
from runtime.memory.core.changes import ChangedBlock, ReadOnlyBlock
from runtime.memory.core.store import BlockStore, named_block
from runtime.suggestions import unknown_name
from runtime.tools.agent.types import AgentBlock, BlockSummary, EditedBlock
from runtime.tools.context import Context
from runtime.tools.memory.access import asked_user

_NEARLY_FULL: Final = 0.8
"""Share of the room of a block from which an edit warns."""
_BEGINNING = 200
_NO_MODEL: Final = "none"
"""The row of a model that is none."""
_GIVE_ONE: Final = 'give it one, such as `model ollama { model "qwen3:4b" }` in its block; docs/models.md lists others'


def model_of(agent: Agent) -> str | None:
    """Return the name of an agent's model, a block or a row; None for a recorder."""
    return None if agent.model is None or agent.model.name == _NO_MODEL else agent.model.name


def main_agent(context: Context) -> Agent:
    """Return the agent that the program declares as the main one, else the only one with a model. Raises NotFound if
    there is none, Conflict if there are several."""
    agents = [agent for agent in context.program.agents.values() if model_of(agent) is not None]
    chosen = [agent for agent in agents if agent.main] or [agent for agent in agents if agent.enabled] or agents
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        raise NotFound("no agent has a model, so there is no main agent", hint=_GIVE_ONE)
    names = ", ".join(sorted(agent.name for agent in chosen))
    raise Conflict(
        f"{len(chosen)} agents have a model, and none is the main one: {names}",
        hint="name one of them, or add `main true` to one",
    )


def main_name(context: Context) -> str | None:
    """Return the name of the main agent; None if there is none, or if it is not known which of several it is."""
    try:
        return main_agent(context).name
    except (Conflict, NotFound):
        return None


def named_agent(context: Context, name: str | None) -> Agent:
    """Return the agent of this name, by default the main one; one that the program does not declare is a recorder.
    Raises NotFound with the nearest names, and what `main_agent` raises."""
    if name is None:
        return main_agent(context)
    if name not in context.agents and name not in context.program.agents:
        raise unknown_name("agent", name, context.agents, NotFound)
    return context.program.agents.get(name) or Agent(name=name)


def check_agent(context: Context, name: str | None) -> None:
    """Raise NotFound, with the nearest names, for the name of an agent that the program does not have. Call it if
    nothing is stored of the agent either: it may have been removed from the program."""
    if name is not None and name not in context.agents:
        raise unknown_name("agent", name, context.agents, NotFound)


def talking_agent(context: Context, name: str | None) -> Agent:
    """Return the agent of this name that answers messages, by default the main one. Raises NotFound with the nearest
    names, UsageError if it has no model or is disabled, and what `main_agent` raises."""
    agent = named_agent(context, name)
    if model_of(agent) is None:
        raise UsageError(f"the agent {agent.name} has no model: it only records deliveries", hint=_GIVE_ONE)
    if not agent.enabled:
        raise UsageError(f"the agent {agent.name} is disabled", hint="remove `enabled false` from its block")
    return agent


def absence(context: Context, name: str) -> str | None:
    """Return why no agent of this name with a model runs now, by the program; None if one does, or if only another
    daemon on the same database may have it."""
    if context.database.kind == "postgresql" and not context.agents:
        return None
    agent = context.program.agents.get(name)
    if agent is None:
        return f"the agent {name} is not in the program"
    if not agent.enabled:
        return f"the agent {name} is disabled"
    return f"the agent {name} has no model" if model_of(agent) is None else None


class CoreMemory(NamedTuple):
    """Core memory for one call: `declared` are the blocks of the program. `known`: the program has the agent."""

    store: BlockStore
    scope: BlockScope
    declared: Sequence[DeclaredBlock]
    known: bool

    async def ensure(self) -> None:
        """Create the blocks of a first use. Raises NotFound."""
        if self.known:
            await self.store.ensure(self.scope, self.declared)

    async def blocks(self) -> list[Block]:
        """Return the blocks, those of a first use included, without creating them."""
        found = await self.store.blocks(self.scope, self.declared)
        return found if self.known else [each for each in found if each.id]

    def origin(self, context: Context, label: str, otherwise: ChangedBy) -> Origin:
        """Return the origin of a call's change of a block: the acting agent's run, or `otherwise` without an agent.
        Raises ReadOnlyBlock if the run may not change it because a delivery woke it."""
        acting = context.acting
        if acting is None:
            return Origin(otherwise)
        if acting.webhook is not None and not may_change(self.scope, label, self.declared):
            raise ReadOnlyBlock(
                f"a run that a delivery woke cannot change the block {label}",
                hint="store it elsewhere, such as with archival_insert",
            )
        return Origin("agent", acting.run_id, acting.attempt, acting.key, acting.webhook)

    async def read(self, label: str) -> Block:
        """Return one of `blocks`. Raises NotFound with the nearest labels."""
        return named_block(await self.blocks(), label)


async def core_memory(context: Context, agent: str | None, subject: str | None, user: str | None = None) -> CoreMemory:
    """Return the core memory of an agent, by default the main one, and a user, by default the caller; if an agent acts,
    its own, whatever the parameters are. Raises NotFound with the nearest names for an agent that neither the program
    nor a block has; Forbidden for another user; what `main_agent` raises."""
    acting = context.acting
    if acting is not None:
        agent, subject, user = acting.agent, acting.subject, None
    if agent is None:
        agent = main_agent(context).name
    user_id = await asked_user(context, user) or context.caller.user_id
    store, scope = BlockStore(context.database, context.clock), BlockScope(user_id, agent, subject)
    known = acting is not None or agent in context.agents
    if not known and not await store.has_agent(user_id, agent):
        raise unknown_name("agent", agent, context.agents, NotFound)
    return CoreMemory(store, scope, context.declared_blocks(agent), known)


def edit_result(done: ChangedBlock, context: Context) -> EditedBlock:
    """Return the result of a change. Its notes warn when the block has little room left, in itself or in the context of
    the agent that changes it."""
    block = done.block
    notes = ["secrets in the text were replaced by [REDACTED]"] if done.redacted else []
    rooms = {} if context.acting is None else context.acting.block_rooms
    room = min(rooms.get(block.label, block.char_limit), block.char_limit)
    if len(block.value) > room:
        notes.append(f"your context has room for {room:,} of its {len(block.value):,} characters: shorten the block")
    elif len(block.value) > _NEARLY_FULL * room:
        notes.append(f"{len(block.value):,} of the {room:,} characters that have room are used: shorten the block soon")
    return EditedBlock.of(block, changed=done.changed, characters=len(block.value), notes=notes)


def summary_of(block: Block) -> BlockSummary:
    """Return a block without its text."""
    return BlockSummary.of(block, **_summary(block))


def agent_block(block: Block) -> AgentBlock:
    """Return a block with its text."""
    return AgentBlock.of(block, **_summary(block))


def _summary(block: Block) -> dict[str, Any]:
    """Return the fields of a summary that a block has under no name or another one."""
    return {
        "beginning": beginning(block.value),
        "characters": len(block.value),
        "updated_at": block.updated_at if block.id else None,
    }


def beginning(text: str) -> str:
    """Return the beginning of a text in one line."""
    line = " ".join(text[: 2 * _BEGINNING].split())
    return line if len(line) <= _BEGINNING else f"{line[:_BEGINNING]}…"
