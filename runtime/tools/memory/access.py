"""Access to memories: those of an agent, and the caller's rights.

With the scope `admin` everything is visible; other callers read and write their own items, and those of others do
not exist for them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import PurePath

from runtime.errors import NotFound, UsageError
from runtime.identity import users
from runtime.identity.caller import Forbidden
from runtime.memory.item import Item, Provenance, SaidBy, from_delivery
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store import redacted_subject
from runtime.memory.store_types import ItemLocation, Scan
from runtime.search.entry import ALL_SUBJECTS, WantedSubject
from runtime.suggestions import unknown_name
from runtime.tools.context import Context
from runtime.tools.memory.results import KeptItem
from runtime.tools.time_input import read_moment


def sees_all(context: Context) -> bool:
    """True if the caller sees the items of all users."""
    return context.caller.may("admin")


def user_filter(context: Context, asked: str | None) -> str | None:
    """Return the id of the user whose items are visible; None for all users. Raises Forbidden for another user's."""
    if sees_all(context):
        return asked
    if asked not in {None, context.caller.user_id}:
        raise Forbidden("admin")
    return context.caller.user_id


async def asked_user(context: Context, name: str | None) -> str | None:
    """Return the id of the user called `name`, or that `id:ID` names; None for None. Raises Forbidden for another
    user than the caller, existing or not; UsageError with the nearest names."""
    if name is None:
        return None
    if sees_all(context):
        user_id = await users.find(context.database, name)
        await context.database.learn_keys(user_id)
        return user_id
    own = context.caller.user_id
    if name not in {f"{users.ID}{own}", (await users.names(context.database)).get(own)}:
        raise Forbidden("admin")
    return own


def subject_filter(context: Context, asked: str | None = None) -> WantedSubject:
    """Return the subject whose items are visible: that of the acting agent, whatever was asked for; without an agent
    the asked one, or all."""
    if context.acting is None and asked is None:
        return ALL_SUBJECTS
    return own_subject(context, asked)


def data_subject(context: Context, asked: str | None = None) -> WantedSubject:
    """Return the subject whose tasks and entries of the key-value store exist for the caller: as `subject_filter`
    returns it, but all for an agent whose subjects have no memories of their own: it acts for the user."""
    acting = context.acting
    if acting is not None and acting.subject is None and not acting.hides_subjects:
        return ALL_SUBJECTS
    return subject_filter(context, asked)


def own_subject(context: Context, asked: str | None) -> str | None:
    """Return the subject to which a new item belongs: that of the acting agent, whatever was asked for; without an
    agent the asked one. Raises RefusedItem if it cannot be redacted."""
    subject = asked if context.acting is None else context.acting.subject
    return None if subject is None else redacted_subject(subject)


def need_all_subjects(context: Context) -> None:
    """Raise UsageError if the acting agent is bound to one subject, for tools on the items of all."""
    if context.acting is not None and context.acting.subject is not None:
        raise UsageError(
            "this tool is not limited to one subject, and the calling agent is",
            hint="use archival_search or memory_list",
        )


def with_origin(context: Context, provenance: Provenance, otherwise: SaidBy) -> Provenance:
    """Return the provenance with where a call's item comes from: the acting agent's run, or `otherwise` without an
    agent. What a run wrote that a delivery woke has the webhook as author, whatever the agent says."""
    if context.acting is None:
        return provenance.model_copy(update={"said_by": otherwise})
    known = {"said_by": "agent", "run_id": context.acting.run_id}
    if context.acting.webhook is not None:
        known["author"] = from_delivery(context.acting.webhook)
    return provenance.model_copy(update=known)


def named_memories(context: Context, memory: str | None) -> list[OpenMemory]:
    """Return the memory of this name, or all. Raises NotFound with the nearest names."""
    memories = context.memories
    if memory is None:
        return list(memories.values())
    if memory not in memories:
        raise unknown_name("memory", memory, memories, NotFound)
    return [memories[memory]]


async def memories_of(context: Context, agent: str, memory: str | None = None) -> list[OpenMemory]:
    """Return the memories in which `agent` has items, its own first; only its own if it has none.

    Raises NotFound with the nearest names for an agent that neither the program nor a memory knows.
    """
    own = context.memories.name_of(agent) if context.memories else None
    asked = sorted(named_memories(context, memory), key=lambda each: each.name != own)
    remembers = {each.name: set(await each.store.agents()) for each in asked}
    found = [each for each in asked if agent in remembers[each.name]]
    if agent in context.agents and asked:
        return found or [asked[0]]
    if not sees_all(context):
        found = [each for each in found if await _has_items(each, agent, context.caller.user_id)]
    if not found:
        known = set(context.agents)
        if sees_all(context):
            known = known.union(*remembers.values())
        raise unknown_name("agent", agent, known, NotFound)
    return found


async def home_memory(context: Context, agent: str, memory: str | None = None) -> OpenMemory:
    """Return the memory that `agent` writes to, or the named one. Raises NotFound."""
    found = await memories_of(context, agent, memory)
    if memory is None and agent in context.agents:
        return named_memories(context, context.memories.name_of(agent))[0]
    return found[0]


async def memory_agents(context: Context, agent: str | None, memory: str | None = None) -> list[tuple[OpenMemory, str]]:
    """Return every memory and agent with items in it: of one agent, or of all."""
    if agent is not None:
        return [(each, agent) for each in await memories_of(context, agent, memory)]
    return [(each, name) for each in named_memories(context, memory) for name in sorted(await each.store.agents())]


def kept_item(item: Item, memory: OpenMemory) -> KeptItem:
    """Return the item with the memory's name."""
    return KeptItem.model_construct(**dict(item), memory=memory.name)


def visible_location(context: Context, agent: str, place: ItemLocation | None) -> tuple[str | None, int | None]:
    """Return file and line as the caller may see them: folders above an agent's are for administrators only."""
    if place is None:
        return None, None
    if sees_all(context):
        return place.file, place.line
    parts = PurePath(place.file).parts
    begin = len(parts) - 1 - parts[::-1].index(agent) if agent in parts else -1
    return str(PurePath(*parts[begin:])), place.line


def moment(context: Context, text: str | None, name: str) -> datetime | None:
    """Return the time in the parameter `name`. Raises UsageError."""
    return None if text is None else read_moment(text, name, context.clock)


def items_of(memory: OpenMemory, agent: str, user: str | None) -> AsyncIterator[Item]:
    """Yield an agent's items that belong to the user, or to any user."""
    return memory.store.scan(Scan(agent_id=agent, user_id=user))


async def _has_items(memory: OpenMemory, agent: str, user: str) -> bool:
    async for _ in items_of(memory, agent, user):
        return True
    return False
