"""Chooses the file of the index over a store, and opens the index."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from dslc.blocks.variant import Variant
from runtime.clock import Clock
from runtime.database.connection import Database
from runtime.errors import UsageError
from runtime.memory.errors import StoreError
from runtime.memory.indexing.indexer import Indexer
from runtime.memory.store import Store
from runtime.search.errors import IndexFailed
from runtime.search.index import DEFAULT, open_index

log = structlog.get_logger("symbiont.memory")
index_log = structlog.get_logger("symbiont.index")

LONGEST_SLUG: Final = 40
"""Characters of a store's name in the name of its index: with the hash and a server's additions it stays well within
the 63 bytes of a PostgreSQL name."""


async def open_indexer(
    store: Store,
    choice: Variant | None,
    folder: Path | None,
    clock: Clock,
    options: Mapping[str, object] | None = None,
    *,
    database: Database | None = None,
    problem: str | None = None,
) -> Indexer:
    """Open the index over a store, with its file in `folder`. None: nothing is searched, so an empty index in memory is
    enough. `database`: the root's, which distinguishes stores of the same path on a server. `problem`: why
    this is not the declared index.

    The file is sealed if the store is. If the file cannot be created, the index is kept in memory; if the declared
    index lacks its packages or key, the default one is used. Both are reported as a problem.
    """
    if folder is None:
        return Indexer(store, await open_index(None, None, {}), clock)
    given = options if options is not None else {} if choice is None else choice.options
    name, keys = index_name(store, database), store.index_keys
    key = keys[0] if keys else None
    try:
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        file = index_file(store, folder, choice)
        if len(keys) > 1:
            await asyncio.to_thread(_reseal, file, keys)
        is_new = not file.exists()
        index = await open_index(choice, file, given, name=name, key=key)
        await _report(store, file, is_new=is_new)
        return Indexer(store, index, clock, problem=problem)
    except IndexFailed as error:
        reason = error.line()
    except OSError as error:
        reason = f"{folder}: {(error.strerror or str(error)).lower()}"
    except UsageError as error:
        if choice is None or choice.name == DEFAULT:
            raise
        log.error("index_replaced_by_default", reason=error.line())
        problem = f"the index is the default one: {error.line()}"
        return await open_indexer(store, None, folder, clock, database=database, problem=problem)
    log.error("index_kept_in_memory", reason=reason)
    problem = f"the index is only in memory until the next start: {reason}"
    return Indexer(store, await open_index(choice, None, given, name=name), clock, problem=problem)


async def _report(store: Store, file: Path, *, is_new: bool) -> None:
    """Log that a new index is filled, if the store has items."""
    with suppress(StoreError):
        if is_new and await asyncio.to_thread(file.exists) and await store.agents():
            index_log.warning("index_built", file=file.name, reason="there was none; it is filled from the store")


def index_file(store: Store, folder: Path, choice: Variant | None = None) -> Path:
    """Return the file of a store's index, named for the store's identity and the kind of index unless that is the
    default one. So an index of another kind is built beside the one in use."""
    kind = "" if choice is None or choice.name == DEFAULT else f".{choice.name}"
    return folder / f"{_row(store)}-{_hash(store)[:16]}{kind}.db"


def _reseal(file: Path, keys: Sequence[bytes]) -> None:
    """Seal a file with the current key that is still sealed with an earlier one."""
    from runtime.search.index.embedded.index_file import reseal

    if reseal(file, keys):
        log.info("index_sealed_again", file=str(file))


def _row(store: Store) -> str:
    return store.identity.partition(":")[0]


def index_name(store: Store, database: Database | None = None) -> str:
    """Return the name of this store's index on a server: the last part of the store's identity, readable for people,
    and a hash of the identity with the id of the root's `database`, as two machines may have the same paths."""
    last = re.split(r"[/\\:]", store.identity.rstrip("/"))[-1]
    slug = re.sub(r"[^a-z0-9]+", "_", last.lower()).strip("_")[:LONGEST_SLUG].strip("_")
    return f"{slug or 'memory'}_{_hash(store, '' if database is None else database.id)[:8]}"


def _hash(store: Store, database: str = "") -> str:
    return hashlib.sha256(os.fsencode(f"{database}{store.identity}")).hexdigest()  # it may have a path
