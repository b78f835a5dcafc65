"""Types of the parameters and results of the tools on the key-value store, from which their schemas are built."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field

from dslc.blocks.values.quantity import format_size
from runtime.tables.kv.entry import DEEPEST, LARGEST_VALUE, LONGEST_NAME, LONGEST_TAG, MOST_TAGS
from runtime.tools.patterns import ONE_OR_MORE
from runtime.tools.result import Result

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
    expires_at: datetime | None = Field(description="When it ceases to exist; null: never.")
    created_at: datetime
    updated_at: datetime


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
    expires_at: datetime | None = Field(description="When it ceases to exist; null: never.")
    bytes: int = Field(description="What it counts towards the storage of the user.")


class DeletedFromKv(Result):
    """The number of deleted entries."""

    deleted: int
