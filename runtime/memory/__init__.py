"""The memories of agents: the table of stores, and how a store is opened.

To add a store: one file with a `Store`, its options model and an opening function, and one row in `STORES`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dslc.blocks.memory import Memory
from runtime.clock import SYSTEM, Clock
from runtime.errors import UsageError
from runtime.extension_table import LazyRow, table_of
from runtime.memory.collection.options import STORE
from runtime.memory.store_types import StorePlace, check_options

if TYPE_CHECKING:
    from runtime.database.connection import Database
    from runtime.memory.store import Store

Open = Callable[[StorePlace], Awaitable["Store"]]


@dataclass(frozen=True)
class StoreRow(LazyRow):
    """A kind of store; `opener_path` names an `Open`.

    `files`: its items are files under the memory's path, so that a single daemon must own them; otherwise they are rows
    of the database. `expires`: items older than `retention` are deleted.
    """

    files: bool = True
    expires: bool = True


STORES = table_of(
    "store",
    [
        StoreRow(
            name="markdown",
            title="Markdown files",
            doc="One folder per agent, with `memory.md` for long-term knowledge and one log per day, for "
            "people to read and edit.",
            options_path="runtime.memory.markdown.store:MarkdownOptions",
            opener_path="runtime.memory.markdown.store:open_markdown",
        ),
        StoreRow(
            name="records",
            title="Records",
            doc="One folder per agent, with one JSON file and checksum per item: written once, never edited "
            "or deleted. Optionally with gates for writes, and a remote that gets a copy.",
            options_path="runtime.memory.records.options:RecordsOptions",
            opener_path="runtime.memory.records.store:open_records",
            expires=False,
        ),
        StoreRow(
            name=STORE,
            title="Collection",
            doc="Items as rows of the database, with encrypted texts. Each text is stored once for its user "
            "and project, until it is deleted or, for an episodic item, older than the `retention` of "
            "the block. `path` is not allowed.",
            options_path="runtime.memory.collection.options:CollectionOptions",
            opener_path="runtime.memory.collection.store:open_collection",
            files=False,
        ),
    ],
)
"""Every kind of store, by its name in a program."""


def path_of(memory: Memory, root: Path) -> Path:
    """Return the resolved path of a memory, under the root unless it is absolute."""
    return (root / memory.path).resolve()


def folder_of(memory: Memory, root: Path) -> Path | None:
    """Return the folder of the memory's files, or None if its store has none. Raises UsageError."""
    return path_of(memory, root) if _row(memory).files else None


def identity_of(memory: Memory, root: Path, database: Database | None = None) -> str:
    """Return the physical identity of the memory's store: a pool opens one store for each identity. Raises UsageError,
    also if the items are rows and there is no `database`."""
    row = _row(memory)
    where = path_of(memory, root) if row.files else f"{_required_database(database, memory).id}/{memory.name}"
    return f"{row.name}:{where}"


async def open_store(
    memory: Memory,
    root: Path,
    *,
    clock: Clock = SYSTEM,
    options: Mapping[str, object] | None = None,
    database: Database | None = None,
) -> Store:
    """Open the store that a memory declares; relative paths are under `root`. The caller closes it.

    `options`: the store's options with secrets resolved (`secret_options.with_secrets`); None: as written in the
    program. `database`: required for a store of rows; it outlives the store. Raises UsageError for an unknown store,
    for settings and options that it does not take, or for a missing database.
    """
    row = _row(memory)
    for setting, has_it in (("path", row.files), ("retention", row.expires)):
        if setting in memory.model_fields_set and not has_it:
            message = f"the memory {memory.name} has a `{setting}`, which the store {row.name} does not use"
            raise UsageError(message, hint="remove it")
    check_options(row.options, memory.store.options, f"the memory {memory.name} gives the store {row.name}")
    path = path_of(memory, root)
    # The compiler knows neither the root nor the targets of symbolic links.
    if row.files and path.is_relative_to((root / ".symbi").resolve()):
        raise UsageError(
            f"the path of the memory {memory.name} is inside the root's own state folder, {path}",
            hint="name a folder outside `.symbi`",
        )
    database = database if row.files else _required_database(database, memory)
    given = memory.store.options if options is None else options
    return await cast("Open", row.opener)(StorePlace(memory, path, database, clock, given))


def _required_database(database: Database | None, memory: Memory) -> Database:
    if database is None:
        raise UsageError(
            f"the memory {memory.name} consists of rows of a database, and no database is open", hint="start the daemon"
        )
    return database


def _row(memory: Memory) -> StoreRow:
    row = STORES.get(memory.store.name)
    if row is None:
        raise UsageError(f"there is no store {memory.store.name}", hint=f"there are {', '.join(sorted(STORES))}")
    return row
