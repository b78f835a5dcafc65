"""The tools by which persons list, begin and delete the conversations of an agent (the fourth design, section 7.1)."""

from __future__ import annotations

from typing import NamedTuple

from runtime.clock import utc
from runtime.errors import NotFound
from runtime.suggestions import unknown_name
from runtime.threads.thread import KINDS, MAIN, Thread, ThreadPosition, Threads, position_of
from runtime.tools.agent.access import main_agent
from runtime.tools.agent.types import AgentOrMain, User
from runtime.tools.context import Context
from runtime.tools.conversations.types import (
    LONGEST_CURSOR,
    Conversation,
    ConversationId,
    Conversations,
    Cursor,
    DeletedConversation,
    Force,
    Limit,
    OfSubject,
    Title,
)
from runtime.tools.cursor import read_cursor, write_cursor
from runtime.tools.memory.access import asked_user


class OwnThreads(NamedTuple):
    """The threads of one user with one agent."""

    threads: Threads
    user_id: str
    agent: str

    async def find(self, subject: str | None) -> Thread | None:
        """Return the main one, or the one of a subject; None if there is none."""
        return await self.threads.find(self.user_id, self.agent, subject)

    async def get(self, thread_id: str) -> Thread:
        """Return one of them. Raises NotFound, also for a thread of another user or agent."""
        absent = NotFound(f"there is no conversation {thread_id}", hint="agent_conversation_list lists them")
        try:
            thread = await self.threads.get(thread_id, user_id=self.user_id)
        except NotFound:
            raise absent from None
        if thread.agent != self.agent:
            raise absent
        return thread


async def own_threads(context: Context, agent: str | None, user: str | None) -> OwnThreads:
    """Return the threads of an agent, by default the main one, and of a user, by default the caller. The program need
    not have the agent any more. Raises NotFound with the nearest names, what `main_agent` raises, and Forbidden for
    another user."""
    user_id = await asked_user(context, user) or context.caller.user_id
    threads = Threads(context.database, context.clock)
    threads.on_change = context.on_thread_change
    name = main_agent(context).name if agent is None else agent
    if name not in context.agents and not await threads.list(user_id, agent=name, limit=1):
        raise unknown_name("agent", name, context.agents, NotFound)
    return OwnThreads(threads, user_id, name)


async def agent_conversation_list(
    context: Context,
    agent: AgentOrMain = None,
    subject: OfSubject = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    user: User = None,
) -> Conversations:
    """List the conversations with an agent, the main one included."""
    own = await own_threads(context, agent, user)
    if subject is not None:
        found = await own.find(subject)
        return Conversations(conversations=[_conversation(found)] if found else [], next_cursor=None)
    before = None
    if cursor is not None:
        before = ThreadPosition(*read_cursor(cursor, int, str, longest=LONGEST_CURSOR))  # type: ignore[arg-type]
    page = await own.threads.list(own.user_id, agent=own.agent, kinds=KINDS, before=before, limit=limit + 1)
    more = len(page) > limit
    return Conversations(
        conversations=[_conversation(each) for each in page[:limit]],
        next_cursor=write_cursor(*position_of(page[limit - 1])) if more else None,
    )


async def agent_conversation_show(
    context: Context, conversation_id: ConversationId, agent: AgentOrMain = None, user: User = None
) -> Conversation:
    """Show a conversation with an agent, without its messages."""
    own = await own_threads(context, agent, user)
    return _conversation(await own.get(conversation_id))


async def agent_conversation_create(
    context: Context, title: Title = None, agent: AgentOrMain = None, user: User = None
) -> Conversation:
    """Begin a conversation with an agent, beside the main one."""
    own = await own_threads(context, agent, user)
    return _conversation(await own.threads.conversation(own.user_id, own.agent, title))


async def agent_conversation_delete(
    context: Context,
    conversation_id: ConversationId,
    force: Force = False,
    agent: AgentOrMain = None,
    user: User = None,
) -> DeletedConversation:
    """Delete a conversation with its messages and summaries.

    Blocks and archival memory stay. After the main conversation was deleted, the next message begins a new one.
    """
    own = await own_threads(context, agent, user)
    thread = await own.get(conversation_id)
    await own.threads.delete(thread, force=force)
    return DeletedConversation(conversation_id=thread.id, messages=thread.message_count)


def _conversation(thread: Thread) -> Conversation:
    return Conversation(
        conversation_id=thread.id,
        agent=thread.agent,
        kind=thread.kind,
        main=thread.kind == MAIN,
        subject=thread.subject,
        title=thread.title,
        messages=thread.message_count,
        created_at=utc(thread.created_at / 1000),
        updated_at=utc(thread.updated_at / 1000),
    )
