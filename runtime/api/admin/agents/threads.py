"""Operations on threads: list, show, read and delete them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from runtime.api.admin.agents.lookup import agent_name, thread_of, user_of
from runtime.api.admin.parameters import flag, integer, optional_text, time_json
from runtime.api.admin.state import AdminContext
from runtime.suggestions import unknown_name
from runtime.threads.messages import Message
from runtime.threads.summaries import Summary
from runtime.threads.thread import KINDS, Thread, ThreadPosition, position_of
from runtime.tools.cursor import read_cursor, write_cursor

_LARGEST_POSITION = 2**31 - 1


async def list_threads(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return up to `limit` threads of the user, the last used first: of the agent `agent`, of one `kind`. `cursor`: of
    the answer before; null in the last one."""
    user_id, limit = await user_of(context, parameters), integer(parameters, "limit", 20, 1, 1000)
    name, kind = optional_text(parameters, "agent"), optional_text(parameters, "kind")
    cursor = optional_text(parameters, "cursor")
    if kind is not None and kind not in KINDS:
        raise unknown_name("kind of thread", kind, KINDS)
    kinds = [each for each in KINDS if kind in (None, each)]
    before = None if cursor is None else ThreadPosition(*read_cursor(cursor, int, str))  # type: ignore[arg-type]
    found = await context.services.threads.list(user_id, agent=name, kinds=kinds, before=before, limit=limit + 1)
    if not found and name is not None:
        agent_name(context, name)
    more = len(found) > limit
    return {
        "threads": [_thread(each) for each in found[:limit]],
        "cursor": write_cursor(*position_of(found[limit - 1])) if more else None,
    }


async def show(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the thread `thread` with its summaries, oldest first."""
    thread = await thread_of(context, parameters)
    return {**_thread(thread), "summaries": [_summary(each) for each in await context.services.summaries.chain(thread)]}


async def messages(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return up to `limit` messages of the thread `thread`, oldest first: those after the position `after`, else the
    newest ones, or those before the position `before`."""
    thread, limit = await thread_of(context, parameters), integer(parameters, "limit", 20, 1, 1000)
    after = integer(parameters, "after", -2, -2, _LARGEST_POSITION)
    before = integer(parameters, "before", _LARGEST_POSITION, 0, _LARGEST_POSITION)
    stored = context.services.messages
    if after >= -1:
        found = await stored.read(thread, after=after, before=before, limit=limit)
    else:
        found = await stored.newest(thread, before=before, limit=limit)
    return {"thread": thread.id, "messages": [_message(each) for each in found]}


async def delete(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Delete the thread `thread` with its messages and summaries. `force`: also while an agent is at work in it, or a
    message waits for it."""
    thread = await thread_of(context, parameters)
    await context.services.threads.delete(thread, force=flag(parameters, "force"))
    return {"thread": thread.id, "messages": thread.message_count}


def _thread(thread: Thread) -> dict[str, Any]:
    return {
        "thread": thread.id,
        "agent": thread.agent,
        "kind": thread.kind,
        "subject": thread.subject,
        "title": thread.title,
        "messages": thread.message_count,
        "created": time_json(thread.created_at),
        "updated": time_json(thread.updated_at),
    }


def _message(message: Message) -> dict[str, Any]:
    return {
        "position": message.position,
        "role": message.role,
        "kind": message.kind,
        "parts": msgspec.to_builtins(message.parts),
        "tokens": message.tokens,
        "run": message.run_id,
        "created": time_json(message.created_at),
    }


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        "first_position": summary.first_position,
        "last_position": summary.last_position,
        "messages": summary.message_count,
        "tokens": summary.tokens,
        "text": summary.text,
        "run": summary.run_id,
        "created": time_json(summary.created_at),
    }
