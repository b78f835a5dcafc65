"""The parts of a context that are known before a turn, and whether they fit into the window of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dslc.blocks.agent import Agent
from runtime.agents.context.build import BuiltContext, NoRoom, build, build_measured
from runtime.agents.context.fields import Block, Budget, Fields, Metadata
from runtime.agents.loop.summarizer import WINDOW
from runtime.agents.reply.instructions import reply_instructions
from runtime.agents.reply.reply_schema import reply_schema
from runtime.memory.core.block import HUMAN, PERSONA
from runtime.memory.core.block import Block as StoredBlock
from runtime.models.client import ModelClient
from runtime.models.request import ToolSchema
from runtime.tokens import TokenCounter
from runtime.tools.model.agent_toolset import DONE, FIND_TOOL, AgentToolset

LARGEST_REPLY: Final = 4096
"""Default maximum of the tokens reserved for a reply."""

PREFERENCES: Final = "preferences"
"""The setting of an agent that has a user's preferences by their names, such as `language`."""

DEFAULT_INSTRUCTION: Final = (
    "You are an agent with a memory of your own. What you know about the user and yourself is in your blocks: change "
    "them with your memory tools as you learn. Store what you may need later in archival memory, and search it and "
    "your earlier conversations before you say that you do not know."
)


def calls_natively(agent: Agent, client: ModelClient) -> bool:
    """Return True if the agent's tools are offered by the model's own interface."""
    return agent.tool_calling == "native" and client.native_calls


def ordered_tools(tools: AgentToolset) -> tuple[ToolSchema, ...]:
    """Return the tools in the order in which a context takes them: the call that ends a turn is never left out."""
    return (DONE, *(each for each in tools.schemas if each is not DONE))


def fixed_fields(
    agent: Agent,
    client: ModelClient,
    tools: tuple[ToolSchema, ...],
    blocks: Sequence[StoredBlock],
    settings: Mapping[str, Any],
    *,
    time: str,
) -> Fields:
    """Return the fields of an agent's context without a thread. `tools`: in the order in which a context takes them.
    `settings`: those that the user gives the agent. `time`: as shown."""
    native = calls_natively(agent, client)
    return memory_fields(blocks, settings)._replace(
        instruction=agent.instruction.strip() or DEFAULT_INSTRUCTION,
        reply_format="" if native else reply_instructions(tools),
        tools=tools,
        find_tool=FIND_TOOL,
        time=time,
        first_time=True,
        native=native,
        schema=None if native else reply_schema,
        schema_in_prompt=client.schema_in_prompt,
    )


def memory_fields(blocks: Sequence[StoredBlock], settings: Mapping[str, Any]) -> Fields:
    """Return the fields of a context that has what an agent remembers, without an instruction and without tools."""
    fields = Fields(
        instruction="",
        reply_format="",
        tools=(),
        find_tool=None,
        persona=None,
        blocks=(),
        human=None,
        preferences=preferences_text(settings),
        summary="",
        entries=(),
        metadata=Metadata(0, 0, 0, 0),
        tasks="",
        time="",
        first_time=False,
    )
    return with_blocks(fields, blocks)


def with_blocks(fields: Fields, blocks: Sequence[StoredBlock]) -> Fields:
    """Return the fields with these blocks of core memory."""
    return fields._replace(
        persona=_labelled(blocks, PERSONA),
        blocks=tuple(_shown(each) for each in blocks if each.label not in (PERSONA, HUMAN)),
        human=_labelled(blocks, HUMAN),
        metadata=fields.metadata._replace(blocks=len(blocks)),
    )


def preferences_text(settings: Mapping[str, Any]) -> str:
    """Return the preferences among a user's settings of an agent, one a line; empty without any."""
    preferences = settings.get(PREFERENCES)
    if not isinstance(preferences, Mapping):
        return ""
    return "\n".join(f"{name}: {_value(value)}" for name, value in preferences.items())


async def budget_of(agent: Agent, client: ModelClient) -> Budget:
    """Return the tokens of a context: the window of the model, not above that of the agent, and those of the reply."""
    window = min(await client.window() or WINDOW, agent.context.max_tokens)
    reply = agent.context.reply_tokens or client.block.reply_tokens or min(LARGEST_REPLY, window // 4)
    return Budget(window, min(reply, window // 2))


async def fit(fields: Fields, budget: Budget, counter: TokenCounter, client: ModelClient) -> BuiltContext:
    """Return the context of these fields. Raises NoRoom.

    The model's own tokenizer, for which a local model is loaded, is asked only if the estimate does not fit: it is
    rather too high.
    """
    try:
        built = build(fields, budget, counter.count)
    except NoRoom:
        if not counter.has_tokenizer:
            raise
    else:
        if not built.notes or not counter.has_tokenizer:
            return built
    return await build_measured(fields, budget, counter, client)


def _labelled(blocks: Sequence[StoredBlock], label: str) -> Block | None:
    return next((_shown(each) for each in blocks if each.label == label), None)


def _shown(block: StoredBlock) -> Block:
    return Block(block.label, block.description, block.value, block.char_limit, block.read_only)


def _value(value: object) -> str:
    """Return a preference in one line."""
    return " ".join(value.split()) if isinstance(value, str) else msgspec.json.encode(value).decode()
