"""The tools by which persons read and edit the core memory of agents."""

from __future__ import annotations

from runtime.clock import utc
from runtime.memory.core.block import BlockVersion
from runtime.tools.agent.access import core_memory, edited, summary_of, whole
from runtime.tools.agent.types import (
    AgentBlock,
    AgentBlocks,
    AgentOrMain,
    BlockChangeEntry,
    BlockHistory,
    EditedBlock,
    Expected,
    Label,
    Number,
    Subject,
    User,
    Value,
    Versions,
)
from runtime.tools.context import Context
from runtime.tools.tool import LARGEST_ITEMS, tool


@tool("read", example={"agent": "assistant"})
async def agent_block_list(
    context: Context, agent: AgentOrMain = None, subject: Subject = None, user: User = None
) -> AgentBlocks:
    """List the blocks of an agent's core memory."""
    memory = await core_memory(context, agent, subject, user)
    found = await memory.blocks()
    return AgentBlocks(agent=memory.scope.agent, blocks=[summary_of(each) for each in found])


@tool("read", example={"agent": "assistant", "label": "human"})
async def agent_block_show(
    context: Context, label: Label, agent: AgentOrMain = None, subject: Subject = None, user: User = None
) -> AgentBlock:
    """Show a block of an agent's core memory."""
    memory = await core_memory(context, agent, subject, user)
    return whole(await memory.read(label))


@tool(
    "write",
    stores=True,
    largest=LARGEST_ITEMS,
    idempotent=True,
    keyed=True,
    example={"agent": "assistant", "label": "human", "value": "Name: Ada\nLives in Oslo.", "version": 3},
)
async def agent_block_edit(
    context: Context,
    label: Label,
    value: Value,
    version: Expected = None,
    agent: AgentOrMain = None,
    subject: Subject = None,
    user: User = None,
) -> EditedBlock:
    """Replace the whole text of a block; secrets in it are redacted.

    A person can change a read-only block too. With `version`, the call is refused if the block was changed since that
    version. Earlier versions are kept.
    """
    memory = await core_memory(context, agent, subject, user)
    await memory.ensure()
    origin = memory.origin(context, label, "person")
    return edited(await memory.store.write(memory.scope, label, value, origin, version=version), context)


@tool("read", example={"agent": "assistant", "label": "human", "limit": 10})
async def agent_block_history(
    context: Context,
    label: Label,
    limit: Versions = 10,
    agent: AgentOrMain = None,
    subject: Subject = None,
    user: User = None,
) -> BlockHistory:
    """Show the newest versions of a block, and who made them.

    The newest 50 are kept.
    """
    memory = await core_memory(context, agent, subject, user)
    block = await memory.read(label)
    found = await memory.store.history(memory.scope, label, limit, memory.declared)
    return BlockHistory(label=block.label, versions=[_entry(each, used=bool(block.id)) for each in found])


@tool("write", stores=True, idempotent=True, keyed=True, example={"agent": "assistant", "label": "human", "version": 1})
async def agent_block_restore(
    context: Context,
    label: Label,
    version: Number,
    agent: AgentOrMain = None,
    subject: Subject = None,
    user: User = None,
) -> EditedBlock:
    """Give a block the text of an earlier version again, as a new version."""
    memory = await core_memory(context, agent, subject, user)
    await memory.ensure()
    return edited(
        await memory.store.restore(memory.scope, label, version, memory.origin(context, label, "person")), context
    )


def _entry(version: BlockVersion, *, used: bool) -> BlockChangeEntry:
    return BlockChangeEntry(
        version=version.version,
        value=version.value,
        changed_by=version.changed_by,
        run_id=version.run_id,
        created_at=utc(version.created_at / 1000) if used else None,
    )
