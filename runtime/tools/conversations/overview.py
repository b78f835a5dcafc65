"""The tools by which persons list, begin and delete the conversations of agents (the fourth design, section 7.1)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from runtime.errors import NotFound
from runtime.suggestions import unknown_name
from runtime.threads.summaries import Summaries
from runtime.threads.thread import KINDS, MAIN, Thread, ThreadKind, ThreadPosition, Threads, not_found, position_of
from runtime.tools.agent.access import main_agent
from runtime.tools.agent.types import AgentOrMain, User
from runtime.tools.context import Context
from runtime.tools.conversations.response_items import ITEM_ID, Item
from runtime.tools.cursor import read_cursor, write_cursor
from runtime.tools.memory.access import asked_user
from runtime.tools.memory.parameters import AnyAgent
from runtime.tools.result import Result, UnixTime
from runtime.tools.tool import tool

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


class Conversation(Result):
    """A conversation of the user with an agent."""

    conversation_id: str
    agent: str
    kind: ThreadKind = Field(description="What the conversation belongs to; there is one `main` for each agent.")
    main: bool = Field(description="It is the main one of the agent, which has no end.")
    subject: str | None = Field(description="The subject of a `keyed` conversation.")
    title: str | None
    messages: int = Field(description="The number of its messages.")
    created_at: UnixTime
    updated_at: UnixTime = Field(description="The time of its newest message.")


class ConversationSummary(Result):
    """A summary of the beginning of a conversation; each absorbs the one before it."""

    text: str
    messages: int = Field(description="The number of messages that it covers.")
    created_at: UnixTime


class ConversationWithSummaries(Conversation):
    """A conversation, and its summaries, the oldest first."""

    summaries: list[ConversationSummary]


class Conversations(Result):
    """The conversations, the last used first."""

    conversations: list[Conversation]
    next_cursor: str | None


class ConversationItems(Result):
    """A page of items, in the form of the Responses API."""

    object: Literal["list"] = "list"
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool


class DeletedConversation(Result):
    """The conversation that was deleted."""

    conversation_id: str
    messages: int = Field(description="The number of messages that were deleted with it.")


class DeletedItems(Result):
    """The items that were deleted. What a model said in one message is deleted together."""

    conversation_id: str
    deleted: list[str] = Field(description="Their ids.")


async def own_thread(context: Context, thread_id: str, agent: str | None, user: str | None) -> Thread:
    """Return a thread of the user, by default the caller, with the agent, by default any. Raises NotFound, also for a
    thread of another user or agent, and Forbidden for another user."""
    user_id, threads = await _user_id(context, user), threads_of(context)
    try:
        thread = await threads.get(thread_id, user_id=user_id)
    except NotFound:
        raise not_found(thread_id, await threads.nearest(thread_id, user_id)) from None
    if agent is not None and thread.agent != agent:
        raise not_found(thread_id)
    return thread


def threads_of(context: Context) -> Threads:
    """Return the threads; a deletion is passed on."""
    threads = Threads(context.database, context.clock)
    threads.on_change = context.on_thread_change
    return threads


async def _user_id(context: Context, user: str | None) -> str:
    return await asked_user(context, user) or context.caller.user_id


@tool("read", group="agents", example={"agent": "assistant", "limit": 20})
async def agent_conversation_list(
    context: Context,
    agent: AnyAgent = None,
    subject: OfSubject = None,
    kind: OfKind = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    user: User = None,
) -> Conversations:
    """List the conversations with agents, also the main ones, the last used first."""
    user_id, threads = await _user_id(context, user), threads_of(context)
    if subject is not None:
        named = main_agent(context).name if agent is None else agent
        thread = await threads.find(user_id, named, subject)
        return Conversations(conversations=[] if thread is None else [_conversation(thread)], next_cursor=None)
    before = None
    if cursor is not None:
        before = ThreadPosition(*read_cursor(cursor, int, str, longest=LONGEST_CURSOR))  # type: ignore[arg-type]
    kinds = KINDS if kind is None else (kind,)
    page = await threads.list(user_id, agent=agent, kinds=kinds, before=before, limit=limit + 1)
    if not page and agent is not None and agent not in context.agents:
        # The program need not have the agent of a conversation any more.
        raise unknown_name("agent", agent, context.agents, NotFound)
    return Conversations(
        conversations=[_conversation(each) for each in page[:limit]],
        next_cursor=write_cursor(*position_of(page[limit - 1])) if len(page) > limit else None,
    )


@tool("read", example={"agent": "assistant", "conversation_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"})
async def agent_conversation_show(
    context: Context, conversation_id: ConversationId, agent: AnyAgent = None, user: User = None
) -> ConversationWithSummaries:
    """Show a conversation with its summaries, without its messages."""
    thread = await own_thread(context, conversation_id, agent, user)
    found = await Summaries(context.database, context.clock).chain(thread)
    summaries = [ConversationSummary.of(each, messages=each.message_count) for each in found]
    return ConversationWithSummaries(**dict(_conversation(thread)), summaries=summaries)


@tool("write", stores=True, example={"agent": "assistant", "title": "Holidays"})
async def agent_conversation_create(
    context: Context, title: Title = None, agent: AgentOrMain = None, user: User = None
) -> Conversation:
    """Begin a conversation with an agent, beside the main one."""
    name = main_agent(context).name if agent is None else agent
    if name not in context.agents:
        raise unknown_name("agent", name, context.agents, NotFound)
    return _conversation(await threads_of(context).conversation(await _user_id(context, user), name, title))


@tool(
    "write", destructive=True, example={"agent": "assistant", "conversation_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"}
)
async def agent_conversation_delete(
    context: Context,
    conversation_id: ConversationId,
    force: Force = False,
    agent: AnyAgent = None,
    user: User = None,
) -> DeletedConversation:
    """Delete a conversation with its messages and summaries.

    Blocks and archival memory stay. After the main conversation was deleted, the next message begins a new one.
    """
    thread = await own_thread(context, conversation_id, agent, user)
    await threads_of(context).delete(thread, force=force)
    return DeletedConversation(conversation_id=thread.id, messages=thread.message_count)


def _conversation(thread: Thread) -> Conversation:
    return Conversation.of(thread, conversation_id=thread.id, main=thread.kind == MAIN, messages=thread.message_count)
