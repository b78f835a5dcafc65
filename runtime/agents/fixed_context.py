"""The parts of a context that are known before a turn, and whether they fit into the window of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

from dslc.blocks.agent import Agent
from runtime.agents.context.build import BuiltContext, NoRoom, build, build_measured
from runtime.agents.context.fields import Block, Budget, Fields, Metadata
from runtime.agents.reply.instructions import reply_instructions
from runtime.agents.reply.reply_schema import reply_schema, short_reply_schema
from runtime.database.connection import Database
from runtime.identity.user_settings import UserSettings, read_settings
from runtime.memory.core.block import HUMAN, PERSONA
from runtime.memory.core.block import Block as StoredBlock
from runtime.models.client import ModelClient
from runtime.models.request import ToolSchema
from runtime.token_counter import TokenCounter
from runtime.tools.model.agent_toolset import FIND_TOOL

LARGEST_REPLY: Final = 4096
"""Default maximum of the tokens reserved for a reply."""

_TIME_ZONE: Final = "timezone"
"""The preference that is a time zone, by its name in the IANA database."""

PREFERENCES: Final = "preferences"
"""The setting of an agent that has a user's preferences by their names, such as `language`."""

DEFAULT_INSTRUCTION: Final = (
    "You are an agent with a memory. Change your blocks as you learn about the user and yourself. Store what you may "
    "need later in archival memory, and search it and earlier conversations before you say that you do not know."
)


def calls_natively(agent: Agent, client: ModelClient) -> bool:
    """Return True if the agent's tools are offered by the model's own interface."""
    return agent.tool_calling == "native" and client.native_calls


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
        schema=None if native else short_reply_schema if client.schema_in_prompt else reply_schema,
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
        persona=_block_with_label(blocks, PERSONA),
        blocks=tuple(_context_block(each) for each in blocks if each.label not in (PERSONA, HUMAN)),
        human=_block_with_label(blocks, HUMAN),
        metadata=fields.metadata._replace(blocks=len(blocks)),
    )


def preferences_text(settings: Mapping[str, Any]) -> str:
    """Return the preferences among a user's settings of an agent, one a line; empty without any."""
    preferences = settings.get(PREFERENCES)
    if not isinstance(preferences, Mapping):
        return ""
    return "\n".join(f"{name}: {_value(value)}" for name, value in preferences.items())


async def zone_of(database: Database, user_id: str, settings: Mapping[str, Any]) -> ZoneInfo | None:
    """Return the time zone of a user: that of the user's settings, by which tasks are due, else the preference
    `timezone`; None for that of the machine. Raises `Unavailable`."""
    zone = (await read_settings(database, user_id)).zone
    preferences = settings.get(PREFERENCES)
    preferred = preferences.get(_TIME_ZONE) if isinstance(preferences, Mapping) else None
    return zone or UserSettings(time_zone=preferred if isinstance(preferred, str) else None).zone


def time_text(now: datetime, zone: ZoneInfo | None) -> str:
    """Return a time as a context shows it: with its weekday, the offset and the name of the zone, by default that of
    the machine."""
    here = now.replace(microsecond=0).astimezone(zone)
    return f"{here:%A} {here.isoformat()} ({zone or here.tzname()})"


async def budget_of(agent: Agent, client: ModelClient) -> Budget:
    """Return the tokens of a context: the window of the model, not above that of the agent, and those of the reply."""
    of_model, most = await client.window(), agent.context.max_tokens
    window = min(of_model.tokens, most)
    reply = agent.context.reply_tokens or client.block.reply_tokens or min(LARGEST_REPLY, window // 4)
    return Budget(window, min(reply, window // 2), "max_tokens" if most < of_model.tokens else of_model.source)


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


def _block_with_label(blocks: Sequence[StoredBlock], label: str) -> Block | None:
    return next((_context_block(each) for each in blocks if each.label == label), None)


def _context_block(block: StoredBlock) -> Block:
    return Block(block.label, block.description, block.value, block.char_limit, block.read_only)


def _value(value: object) -> str:
    """Return a preference in one line."""
    return " ".join(value.split()) if isinstance(value, str) else msgspec.json.encode(value).decode()
