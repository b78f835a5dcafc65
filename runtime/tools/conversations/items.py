"""The tools by which persons read and delete the items of a conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from runtime.errors import NotFound
from runtime.threads.messages import Messages
from runtime.threads.thread import Thread
from runtime.tools.agent.types import User
from runtime.tools.context import Context
from runtime.tools.conversations.overview import (
    After,
    ConversationId,
    ConversationItems,
    DeletedItems,
    ItemId,
    ItemLimit,
    Order,
    own_thread,
)
from runtime.tools.conversations.response_items import Item, ItemPlace, items_of, place_of
from runtime.tools.memory.parameters import AnyAgent
from runtime.tools.tool import tool

LARGEST_PAGE: Final = 4 * 1024 * 1024
"""Characters of messages after which a page ends."""
_TOGETHER: Final = 8
"""Messages that are read together. One may have a million characters."""


@tool(
    "read",
    group="agents",
    example={
        "agent": "assistant",
        "conversation_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60",
        "limit": 20,
    },
)
async def agent_conversation_items(
    context: Context,
    conversation_id: ConversationId,
    limit: ItemLimit = 20,
    order: Order = "desc",
    after: After = None,
    agent: AnyAgent = None,
    user: User = None,
) -> ConversationItems:
    """List the items of a conversation, in the form of the Responses API.

    What was summarized is among them. A page ends early after 4 MiB of text.
    """
    thread = await own_thread(context, conversation_id, agent, user)
    place = None if after is None else _place(thread, after)
    found: list[Item] = []
    size, more = 0, False
    messages = Messages(context.database, context.clock)
    async for item, length in _items(messages, thread, place, ascending=order == "asc"):
        if len(found) == limit or (found and size + length > LARGEST_PAGE):
            more = True
            break
        found.append(item)
        size += length
    return ConversationItems(
        data=found,
        first_id=found[0].id if found else None,
        last_id=found[-1].id if found else None,
        has_more=more,
    )


@tool(
    "write",
    destructive=True,
    example={
        "agent": "assistant",
        "conversation_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60",
        "item_id": "msg_0195e7c05a3c7e108f003c1d2e4b5a60_4_0",
    },
)
async def agent_conversation_item_delete(
    context: Context,
    conversation_id: ConversationId,
    item_id: ItemId,
    agent: AnyAgent = None,
    user: User = None,
) -> DeletedItems:
    """Delete one item of a conversation, with what was stored in the same message.

    A summary that covers it is not changed.
    """
    thread = await own_thread(context, conversation_id, agent, user)
    messages = Messages(context.database, context.clock)
    messages.on_change = context.on_thread_change
    position = _place(thread, item_id).position
    ids = [
        item.id
        for message in await messages.read(thread, after=position - 1, before=position + 1)
        for item in items_of(message)
    ]
    if item_id not in ids:
        raise _no_item(item_id)
    await messages.delete(thread, position)
    return DeletedItems(conversation_id=thread.id, deleted=ids)


def _place(thread: Thread, item_id: str) -> ItemPlace:
    """Return the place of an item in the thread. Raises NotFound if it is one of another thread."""
    place = place_of(item_id)
    if place.thread_id != thread.id:
        raise _no_item(item_id)
    return place


def _no_item(item_id: str) -> NotFound:
    return NotFound(f"the conversation has no item {item_id}", hint="agent_conversation_items lists them")


async def _items(
    messages: Messages, thread: Thread, after: ItemPlace | None, *, ascending: bool
) -> AsyncIterator[tuple[Item, int]]:
    """Yield the items after a place, oldest or newest first, each with the characters of its text, about."""
    # Its message may have more items.
    edge = None if after is None else after.position + (-1 if ascending else 1)
    while True:
        if ascending:
            page = await messages.read(thread, after=-1 if edge is None else edge, limit=_TOGETHER)
        else:
            page = (await messages.newest(thread, before=edge, limit=_TOGETHER))[::-1]
        for message in page:
            items = list(items_of(message))
            for item in items if ascending else reversed(items):
                place = place_of(item.id)
                if after is None or (place > after if ascending else place < after):
                    yield item, len(message.text) // len(items)
        if len(page) < _TOGETHER:
            return
        edge = page[-1].position
