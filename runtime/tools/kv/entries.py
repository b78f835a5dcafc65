"""The tools on the key-value store (the third design, feature 2)."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from dslc.blocks.values.quantity import format_size
from runtime.errors import NotFound, UsageError
from runtime.tables.kv.entry import DEEPEST, LARGEST_VALUE, LONGEST_NAME, LONGEST_TAG, MOST_TAGS, entry_name
from runtime.tables.kv.store import KvPage, KvStore
from runtime.tables.kv.writes import CallOrigin
from runtime.tools.context import Context
from runtime.tools.cursor import read_cursor, write_cursor
from runtime.tools.failure import wrong
from runtime.tools.memory.access import data_subject
from runtime.tools.memory.parameters import OwnSubject
from runtime.tools.patterns import ONE_OR_MORE
from runtime.tools.result import Result, UnixTime
from runtime.tools.time_input import read_moment
from runtime.tools.tool import LARGEST_ENTRY, tool

LONGEST_TIME: Final = 40
LONGEST_CURSOR: Final = 200
NEWEST_VERSION: Final = 2**53
"""The largest number that every JSON parser reads exactly."""

_Key = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
_Tags = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=LONGEST_TAG)]], Field(max_length=MOST_TAGS), ONE_OR_MORE
]

Key = Annotated[
    _Key, Field(description=f"The name of the entry: any text of 1 to {LONGEST_NAME} characters.", examples=["theme"])
]
OneKey = Annotated[_Key | None, Field(description="The name of the entry.", examples=["theme"])]
Value = Annotated[
    Any,
    Field(
        description=f"Any JSON value: at most {format_size(LARGEST_VALUE)} as compact JSON, {DEEPEST} levels deep.",
        examples=[{"dark": True}],
    ),
]
Tags = Annotated[_Tags | None, Field(description="Its tags, instead of those that it has.", examples=[["settings"]])]
AllTags = Annotated[_Tags | None, Field(description="Only entries with all of these tags.", examples=[["settings"]])]
OfSubject = Annotated[
    Annotated[str, Field(min_length=1, max_length=2000)] | None,
    Field(
        description="Only what belongs to this subject of keyed threads, such as a customer's number; without it, a "
        "key names the entry that belongs to none, and tags choose among all entries."
    ),
]
ExpiresAt = Annotated[
    Annotated[str, Field(max_length=LONGEST_TIME)] | None,
    Field(
        description="When it ceases to exist: a date or time (ISO 8601, UTC unless it has an offset), or a duration "
        "from now, such as `7d`. Without it, never.",
        examples=["7d"],
    ),
]
IfVersion = Annotated[
    Annotated[int, Field(ge=0, le=NEWEST_VERSION)] | None,
    Field(description="Only if the entry has this version; 0: only if it does not exist.", examples=[0]),
]
Limit = Annotated[int, Field(ge=1, le=100, description="Maximum number of entries.")]
MostExported = Annotated[
    Annotated[int, Field(ge=1, le=10_000)] | None,
    Field(description="Maximum number of entries; without it, as many as fit in 5 MB."),
]
Cursor = Annotated[
    Annotated[str, Field(max_length=LONGEST_CURSOR)] | None,
    Field(description="The `next_cursor` of the previous answer; without it, from the first entry."),
]


class EntryOfKv(Result):
    """An entry of the key-value store."""

    key: str
    value: Any = Field(description="A JSON value.")
    tags: list[str]
    subject: str | None = Field(description="The subject of keyed threads to which it belongs; null: none.")
    version: int = Field(description="Grows with every change, and is never used again, for `if_version`.")
    expires_at: UnixTime | None = Field(description="When it ceases to exist; null: never.")
    created_at: UnixTime
    updated_at: UnixTime


class EntriesOfKv(Result):
    """Entries in the order in which they were created."""

    entries: list[EntryOfKv]
    next_cursor: str | None = Field(description="For the next page; null: these were the last.")


class ExportOfKv(EntriesOfKv):
    """Entries, at most 5 MB of them at once."""

    total: int = Field(description="The number of all entries.")


class StoredInKv(Result):
    """The stored entry."""

    key: str
    tags: list[str]
    version: int
    expires_at: UnixTime | None = Field(description="When it ceases to exist; null: never.")
    bytes: int = Field(description="What it counts towards the storage of the user.")


class DeletedFromKv(Result):
    """The number of deleted entries."""

    deleted: int


PAGE_BYTES: Final = 1_000_000
"""Maximum bytes of the entries of an answer, unless a single one has more."""
EXPORT_BYTES: Final = 5_000_000
"""Maximum bytes of the entries of an export (the third design)."""


@tool(
    "write",
    largest=LARGEST_ENTRY,
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
    return StoredInKv.of(done, key=done.name, expires_at=until)


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
    return EntriesOfKv(entries=[EntryOfKv.of(entry, key=entry.name)], next_cursor=None)


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
    assert context.limits.storage is not None
    wanted = data_subject(context, subject)
    return KvStore(context.database, context.clock, context.limits.storage, context.caller.user_id, wanted)


def _origin(context: Context) -> CallOrigin | None:
    acting = context.acting
    return None if acting is None else CallOrigin(acting.run_id, acting.attempt, acting.key)


def _after(cursor: str | None) -> str:
    return "" if cursor is None else str(read_cursor(cursor, str)[0])


def _next(page: KvPage) -> str | None:
    return None if page.after is None else write_cursor(page.after)


def _entries(page: KvPage) -> list[EntryOfKv]:
    return [EntryOfKv.of(each, key=each.name) for each in page.entries]
