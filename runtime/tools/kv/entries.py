"""The tools on the key-value store (the third design, feature 2)."""

from __future__ import annotations

from typing import Any, Final

from runtime.clock import utc
from runtime.errors import NotFound, UsageError
from runtime.tables.kv.entry import KvEntry, entry_name
from runtime.tables.kv.store import KvPage, KvStore
from runtime.tables.kv.writes import CallOrigin
from runtime.tools.context import Context
from runtime.tools.cursor import read_cursor, write_cursor
from runtime.tools.failure import wrong
from runtime.tools.kv.types import (
    AllTags,
    Cursor,
    DeletedFromKv,
    EntriesOfKv,
    EntryOfKv,
    ExpiresAt,
    ExportOfKv,
    IfVersion,
    Key,
    Limit,
    MostExported,
    OfSubject,
    OneKey,
    StoredInKv,
    Tags,
    Value,
)
from runtime.tools.memory.access import data_subject
from runtime.tools.memory.parameters import OwnSubject
from runtime.tools.time_input import read_moment
from runtime.tools.tool import LARGEST_VALUE, tool

PAGE_BYTES: Final = 1_000_000
"""Maximum bytes of the entries of an answer, unless a single one has more."""
EXPORT_BYTES: Final = 5_000_000
"""Maximum bytes of the entries of an export (the third design)."""


@tool(
    "write",
    largest=LARGEST_VALUE,
    destructive=True,
    keyed=True,
    example={"key": "settings/theme", "value": {"dark": True}, "tags": ["settings"], "expires_at": "30d"},
)
async def agent_memory_set(
    context: Context,
    key: Key,
    value: Value,
    tags: Tags = None,
    expires_at: ExpiresAt = None,
    if_version: IfVersion = None,
    subject: OwnSubject = None,
) -> StoredInKv:
    """Store a value under a key, in place of what is there.

    All agents of the user share the entries. `if_version` makes a change safe when others may change the entry too:
    get it, then set it with its version; at a conflict nothing changes, and the error says the newest version.
    """
    expires = None if expires_at is None else read_moment(expires_at, "expires_at", context.clock, ahead=True)
    until = None if expires is None else int(expires.timestamp() * 1000)
    done = await _store(context, subject).set(
        key, value, tags or (), expires_at=until, expected=if_version, origin=_origin(context)
    )
    return StoredInKv(
        key=done.name, tags=list(done.tags), version=done.version, expires_at=_time(until), bytes=done.bytes
    )


@tool("read", example={"tags": ["settings"], "limit": 20})
async def agent_memory_get(
    context: Context,
    key: OneKey = None,
    tags: AllTags = None,
    subject: OfSubject = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> EntriesOfKv:
    """Get the entry with a key, the entries with some tags, or all entries.

    An answer has at most 1 MB of entries; `next_cursor` leads to the others.
    """
    store = _store(context, subject)
    if key is None:
        page = await store.page(tags or (), after=_after(cursor), limit=limit, most_bytes=PAGE_BYTES)
        return EntriesOfKv(entries=_entries(page), next_cursor=_next(page))
    if tags or cursor is not None:
        raise wrong("key", "it chooses one entry; give no tags and no cursor with it")
    entry = await store.get(key)
    if entry is None:
        raise NotFound(f"there is no entry {entry_name(key)!r}", hint="without a key, all entries are listed")
    return EntriesOfKv(entries=[_entry(entry)], next_cursor=None)


@tool("write", destructive=True, idempotent=True, keyed=True, example={"key": "settings/theme"})
async def agent_memory_delete(
    context: Context, key: OneKey = None, tags: AllTags = None, subject: OfSubject = None
) -> DeletedFromKv:
    """Delete the entry with a key, or all entries that have all of some tags.

    Deleting what does not exist is no error; the answer says how many entries were deleted.
    """
    # The subject of an agent is no choice of its own.
    chosen = key is not None or tags or (subject is not None and context.acting is None)
    if not chosen or (key is not None and tags):
        raise UsageError("give either key or tags", hint="entries are never deleted without a choice")
    return DeletedFromKv(deleted=await _store(context, subject).delete(key, tags or (), origin=_origin(context)))


@tool("read", example={"limit": 1000})
async def agent_memory_kv_export(
    context: Context, subject: OfSubject = None, limit: MostExported = None, cursor: Cursor = None
) -> ExportOfKv:
    """Export all entries, at most 5 MB at once.

    `next_cursor` is null when nothing is left.
    """
    store = _store(context, subject)
    page = await store.page(after=_after(cursor), limit=limit, most_bytes=EXPORT_BYTES)
    return ExportOfKv(entries=_entries(page), next_cursor=_next(page), total=await store.count())


def _store(context: Context, subject: str | None) -> KvStore:
    assert context.storage is not None
    wanted = data_subject(context, subject)
    return KvStore(context.database, context.clock, context.storage, context.caller.user_id, wanted)


def _origin(context: Context) -> CallOrigin | None:
    acting = context.acting
    return None if acting is None else CallOrigin(acting.run_id, acting.attempt, acting.key)


def _after(cursor: str | None) -> str:
    return "" if cursor is None else str(read_cursor(cursor, str)[0])


def _next(page: KvPage) -> str | None:
    return None if page.after is None else write_cursor(page.after)


def _entries(page: KvPage) -> list[EntryOfKv]:
    return [_entry(each) for each in page.entries]


def _entry(entry: KvEntry) -> EntryOfKv:
    return EntryOfKv(
        key=entry.name,
        value=entry.value,
        tags=list(entry.tags),
        version=entry.version,
        subject=entry.subject,
        expires_at=_time(entry.expires_at),
        created_at=utc(entry.created_at / 1000),
        updated_at=utc(entry.updated_at / 1000),
    )


def _time(milliseconds: int | None) -> Any:
    return None if milliseconds is None else utc(milliseconds / 1000)
