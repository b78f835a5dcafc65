"""The tools by which an agent edits its core memory (the fourth design, section 6.1), and persons read and edit it."""

from __future__ import annotations

from runtime.memory.core.block import BlockVersion
from runtime.tools.agent.access import agent_block, core_memory, edit_result, summary_of
from runtime.tools.agent.types import (
    AgentBlock,
    AgentBlocks,
    AgentName,
    AgentOrMain,
    BlockChangeEntry,
    BlockHistory,
    Content,
    EditedBlock,
    Expected,
    Label,
    Line,
    New,
    Number,
    Old,
    Subject,
    User,
    Value,
    Versions,
)
from runtime.tools.context import Context
from runtime.tools.tool import LARGEST_ITEMS, tool


@tool(
    "write",
    stores=True,
    largest=LARGEST_ITEMS,
    keyed=True,
    example={"agent": "assistant", "label": "human", "old": "Lives in Lyon.", "new": "Lives in Oslo."},
)
async def memory_replace(
    context: Context, agent: AgentName, label: Label, old: Old, new: New, subject: Subject = None
) -> EditedBlock:
    """Replace text in a block of core memory.

    The text must be in the block exactly once; otherwise the error says in which lines it is, or which line is similar.
    Earlier versions are kept, and a person can restore them.
    """
    memory = await core_memory(context, agent, subject)
    await memory.ensure()
    return edit_result(
        await memory.store.replace(memory.scope, label, old, new, memory.origin(context, label, "tool")), context
    )


@tool(
    "write",
    stores=True,
    largest=LARGEST_ITEMS,
    keyed=True,
    example={"agent": "assistant", "label": "human", "content": "Prefers short answers."},
)
async def memory_append(
    context: Context, agent: AgentName, label: Label, content: Content, subject: Subject = None
) -> EditedBlock:
    """Add lines at the end of a block of core memory.

    Core memory is always in the context and has limited space: use it for what matters in every conversation.
    """
    memory = await core_memory(context, agent, subject)
    await memory.ensure()
    return edit_result(
        await memory.store.append(memory.scope, label, content, memory.origin(context, label, "tool")), context
    )


@tool(
    "write",
    stores=True,
    largest=LARGEST_ITEMS,
    keyed=True,
    example={"agent": "assistant", "label": "human", "content": "Name: Ada", "line": 1},
)
async def memory_insert(
    context: Context, agent: AgentName, label: Label, content: Content, line: Line = -1, subject: Subject = None
) -> EditedBlock:
    """Insert lines into a block of core memory."""
    memory = await core_memory(context, agent, subject)
    await memory.ensure()
    return edit_result(
        await memory.store.insert(memory.scope, label, content, line, memory.origin(context, label, "tool")), context
    )


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
    return agent_block(await memory.read(label))


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
    return edit_result(await memory.store.write(memory.scope, label, value, origin, version=version), context)


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
    return edit_result(
        await memory.store.restore(memory.scope, label, version, memory.origin(context, label, "person")), context
    )


def _entry(version: BlockVersion, *, used: bool) -> BlockChangeEntry:
    return BlockChangeEntry.of(version, created_at=version.created_at if used else None)
