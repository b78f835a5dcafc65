"""The tools by which an agent edits its core memory (the fourth design, section 6.1)."""

from __future__ import annotations

from runtime.tools.agent.access import core_memory, edited
from runtime.tools.agent.types import AgentName, Content, EditedBlock, Label, Line, New, Old, Subject
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
    return edited(
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
    return edited(
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
    return edited(
        await memory.store.insert(memory.scope, label, content, line, memory.origin(context, label, "tool")), context
    )
