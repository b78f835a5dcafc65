"""Shared by the tests of records."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from runtime.memory.item import Item, Provenance
from runtime.memory.records.files.record import read_name
from runtime.memory.records.store import RecordsStore
from runtime.memory.store_types import Scan
from tests.clocks import ManualClock
from tests.runtime.memory.texts import fact


def record_files(folder: Path) -> list[Path]:
    """Return the records in an agent's folder, in the order of their names."""
    return sorted(file for file in folder.iterdir() if read_name(file.name) is not None)


def only_record(folder: Path) -> dict[str, Any]:
    """Return the fields of the only record."""
    (file,) = record_files(folder)
    return read_json(file)


def read_json(file: Path) -> dict[str, Any]:
    found = json.loads(file.read_bytes())
    assert isinstance(found, dict)
    return found


def last_write(folder: Path) -> dict[str, Any]:
    """Return the last write in `STATE.json`."""
    found = read_json(folder / "STATE.json")["last_session"]["memory_write"]
    assert isinstance(found, dict)
    return found


def events(folder: Path) -> list[str]:
    """Return the kinds of evidence, sorted."""
    return sorted(file.name.split("_", 3)[3].removesuffix(".json") for file in (folder / "evidence").glob("*.json"))


def notes(folder: Path) -> list[Path]:
    """Return the queue of records to send."""
    return sorted((folder / "outbox").glob("*.json")) if (folder / "outbox").is_dir() else []


async def everything(store: RecordsStore, wanted: Scan | None = None) -> list[Item]:
    return [one async for one in store.scan(wanted)]


def tree(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return every file and folder below, with everything that a write would change."""
    found = {}
    for file in sorted(root.rglob("*")):
        status = os.lstat(file)
        found[str(file)] = (status.st_ino, status.st_mtime_ns, file.read_bytes() if file.is_file() else b"")
    return found


def of_session(text: str, session: str, **fields: object) -> Item:
    """Return a fact of a session."""
    return fact(text, provenance=Provenance(session_id=session), **fields)


async def reopened(store: RecordsStore) -> RecordsStore:
    """Open the same folder as another process does."""
    other = RecordsStore(store.root, ManualClock())
    await other.recover()
    return other
