"""Types of the parameters and results of the tools on what an agent knows."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from runtime.tools.archival.types import ArchivalHit, Query
from runtime.tools.core_memory.recall import ConversationHit
from runtime.tools.patterns import EXAMPLE_ID, UUID
from runtime.tools.result import Result

WhatFor = Annotated[
    Query | None,
    Field(
        description="What memory is searched for, as text; without it, memory is not searched.",
        examples=["where does Ada live"],
    ),
]
ThreadId = Annotated[
    Annotated[str, Field(pattern=UUID)] | None,
    Field(
        description="The conversation, by its id; the default is the main one, or that of the subject.",
        examples=[EXAMPLE_ID],
    ),
]
Tokens = Annotated[int, Field(ge=256, le=1_000_000, description="Maximum tokens of the context, estimated.")]
Subject = Annotated[
    Annotated[str, Field(min_length=1, max_length=2000)] | None,
    Field(
        description="The subject of keyed threads with a memory of their own, such as a customer's number; without it, "
        "what belongs to no subject."
    ),
]


class KnownHits(Result):
    """Memories and messages of an agent, each list best first."""

    archival: list[ArchivalHit] = Field(description="Items of its archival memory.")
    conversations: list[ConversationHit] = Field(description="Parts of messages and of summaries.")
    notes: list[str] = Field(description="Notes about the search.")


class PromptMessage(Result):
    """A message of a context."""

    role: str = Field(description="`system`, `user` or `assistant`.")
    content: str


class PromptPartCost(Result):
    """A part of a context."""

    name: str
    tokens: int
    note: str = Field(description="Why it is missing or shorter; empty if it is whole.")


class AgentPrompt(Result):
    """A context for a prompt."""

    agent: str
    conversation_id: str | None = Field(description="The conversation whose messages it has; null: there is none.")
    subject: str | None
    messages: list[PromptMessage] = Field(description="The context as messages.")
    text: str = Field(description="The same as one text.")
    tokens: int = Field(description="The tokens of the messages, estimated.")
    parts: list[PromptPartCost] = Field(description="What it is made of.")
    notes: list[str] = Field(description="What gave way to the budget, and notes about the search.")
