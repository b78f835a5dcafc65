"""Types of the parameters and results of the tools on core memory, from which their schemas are built."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from runtime.memory.core.block import ChangedBy
from runtime.tools.patterns import AGENT
from runtime.tools.result import Result, UnixTime

AgentName = Annotated[
    str,
    Field(
        pattern=AGENT, description="The agent's name: 1 to 64 letters, digits, `_`, `-` or `.`.", examples=["assistant"]
    ),
]
AgentOrMain = Annotated[
    Annotated[str, Field(pattern=AGENT)] | None,
    Field(
        description="The agent's name: 1 to 64 letters, digits, `_`, `-` or `.`; the default is the main agent.",
        examples=["assistant"],
    ),
]
Subject = Annotated[
    Annotated[str, Field(min_length=1, max_length=2000)] | None,
    Field(
        description="The subject of keyed threads with a memory of their own, such as a customer's number; without "
        "it, the blocks of the agent itself."
    ),
]
User = Annotated[
    Annotated[str, Field(min_length=1, max_length=200)] | None,
    Field(
        description="The user, by name or by `id:` and the id; the default is the caller. Other users require the "
        "scope `admin`."
    ),
]
Label = Annotated[
    str,
    Field(pattern=AGENT, description="Its label, such as `human`.", examples=["human"]),
]
_TEXT = 1_000_000
Value = Annotated[str, Field(max_length=_TEXT, description="The new text, which replaces the whole text.")]
Old = Annotated[
    str,
    Field(
        max_length=_TEXT,
        description="Exactly as it is in the block, where it occurs once.",
        examples=["Lives in Lyon."],
    ),
]
New = Annotated[
    str,
    Field(
        max_length=_TEXT,
        description="What takes its place; empty: nothing.",
        examples=["Lives in Oslo."],
    ),
]
Content = Annotated[str, Field(max_length=_TEXT, description="The text to add.", examples=["Prefers short answers."])]
Line = Annotated[
    int,
    Field(
        ge=-1,
        description="The line that they become, from 1; -1: the last.",
        examples=[1],
    ),
]
Expected = Annotated[
    Annotated[int, Field(ge=1)] | None,
    Field(description="The version that is changed; the call is refused if it is not the newest. Default: any."),
]
Number = Annotated[int, Field(ge=1, description="The version to restore.", examples=[1])]
Versions = Annotated[int, Field(ge=1, le=50, description="Maximum number of versions.")]


class EditedBlock(Result):
    """The block after the edit."""

    label: str
    version: int
    changed: bool = Field(description="False if the text is the same as before; there is no new version then.")
    characters: int = Field(description="The length of its text.")
    char_limit: int = Field(description="The maximum length of its text.")
    notes: list[str] = Field(description="Notes about the edit.")


class BlockSummary(Result):
    """A block without its text."""

    label: str
    description: str = Field(description="What it is for.")
    agent: str | None = Field(description="The agent that it belongs to; null: all agents of the user.")
    subject: str | None = Field(description="The subject that it belongs to; null: none.")
    beginning: str = Field(description="The beginning of its text, in one line.")
    characters: int = Field(description="The length of its text.")
    char_limit: int = Field(description="The maximum length of its text.")
    read_only: bool = Field(description="Only a person can change it.")
    version: int
    updated_at: UnixTime | None = Field(description="The time of the last change; null if it was never used.")


class AgentBlocks(Result):
    """The blocks of an agent, in the order in which they are in its context."""

    agent: str
    blocks: list[BlockSummary]


class AgentBlock(BlockSummary):
    """A block."""

    value: str = Field(description="Its text.")


class BlockChangeEntry(Result):
    """A version of a block."""

    version: int
    value: str = Field(description="Its text.")
    changed_by: ChangedBy = Field(
        description="Who made it: a `person`, the `agent`, a client's `tool`, a `payload`, or the `program` at first."
    )
    run_id: str | None = Field(description="The run that made it; null: none.")
    created_at: UnixTime | None = Field(description="The time of the change; null if the block was never used.")


class BlockHistory(Result):
    """The newest versions of a block, newest first."""

    label: str
    versions: list[BlockChangeEntry]
