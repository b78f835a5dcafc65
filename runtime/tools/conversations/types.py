"""Types of the parameters and results of the tools on conversations."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from runtime.threads.thread import ThreadKind
from runtime.tools.conversations.response_items import ITEM_ID, Item

LONGEST_CURSOR = 200

ConversationId = Annotated[str, Field(pattern=r"^[0-9A-Za-z-]{1,80}$", description="The conversation's id.")]
ItemId = Annotated[str, Field(pattern=ITEM_ID, description="The item's id, as the list of items has it.")]
After = Annotated[
    Annotated[str, Field(pattern=ITEM_ID)] | None,
    Field(
        description="The id of the last item of the page before; it need not exist any more.",
        examples=["msg_0195e7c05a3c7e108f003c1d2e4b5a60_4_0"],
    ),
]
Order = Annotated[Literal["asc", "desc"], Field(description="`asc`: oldest first; `desc`: newest first.")]
ItemLimit = Annotated[int, Field(ge=1, le=100, description="Maximum number of items; large ones may be fewer.")]
Limit = Annotated[int, Field(ge=1, le=200, description="Maximum number of conversations.")]
Cursor = Annotated[
    Annotated[str, Field(max_length=LONGEST_CURSOR)] | None,
    Field(description="The `next_cursor` of the page before."),
]
Title = Annotated[
    Annotated[str, Field(min_length=1, max_length=200)] | None,
    Field(description="What the conversation is about.", examples=["Holidays"]),
]
Force = Annotated[
    bool, Field(description="Delete it although the agent is at work in it, or messages wait: they are deleted too.")
]
OfKind = Annotated[ThreadKind | None, Field(description="Only conversations of this kind; the main ones are `main`.")]
OfSubject = Annotated[
    Annotated[str, Field(min_length=1, max_length=2000)] | None,
    Field(
        description="The subject of keyed threads, such as a customer's number; only its conversation with the agent "
        "is listed."
    ),
]


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True)


class Conversation(_Result):
    """A conversation of the user with an agent."""

    conversation_id: str
    agent: str
    kind: ThreadKind = Field(description="What the conversation belongs to; there is one `main` for each agent.")
    main: bool = Field(description="It is the main one of the agent, which has no end.")
    subject: str | None = Field(description="The subject of a `keyed` conversation.")
    title: str | None
    messages: int = Field(description="The number of its messages.")
    created_at: datetime
    updated_at: datetime = Field(description="The time of its newest message.")


class ConversationSummary(_Result):
    """A summary of the beginning of a conversation; each absorbs the one before it."""

    text: str
    messages: int = Field(description="The number of messages that it covers.")
    created_at: datetime


class ConversationWithSummaries(Conversation):
    """A conversation, and its summaries, the oldest first."""

    summaries: list[ConversationSummary]


class Conversations(_Result):
    """The conversations, the last used first."""

    conversations: list[Conversation]
    next_cursor: str | None


class ConversationItems(_Result):
    """A page of items, in the form of the Responses API."""

    object: Literal["list"] = "list"
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool


class DeletedConversation(_Result):
    """The conversation that was deleted."""

    conversation_id: str
    messages: int = Field(description="The number of messages that were deleted with it.")


class DeletedItems(_Result):
    """The items that were deleted. What a model said in one message is deleted together."""

    conversation_id: str
    deleted: list[str] = Field(description="Their ids.")
