"""`index.json`: records by tag, type and session (second design, "Memory index").

It is derived from the records and can always be rebuilt. `names` identifies them: the sum of their names. `checksum`
covers the rest, as in a record. While both are valid, a search by tag or type reads only the listed records. The file
is written as a whole, so in a large folder not with every record: see `RecordWriter`.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runtime.memory.errors import StoreError
from runtime.memory.files.folder import Folder
from runtime.memory.item import Item, rfc3339
from runtime.memory.records.files.name_index import RecordNameIndex, digest_of
from runtime.memory.records.files.record import MEMORY_TYPES, DamagedRecord, decode, type_of
from runtime.memory.store_types import Scan

NAME = "index.json"
TABLES = ("by_tag", "by_type", "by_session")

_RecordKeys = Mapping[str, tuple[str, ...]]
"""The keys of one record in each table of an index."""


class FolderIndex:
    """One folder's index, in memory during writes. Requires the folder's lock."""

    def __init__(self, agent_id: str) -> None:
        self._agent_id = agent_id
        self._added: dict[str, _RecordKeys] = {}
        self._forget()

    def _forget(self) -> None:
        self._names: set[str] = set()
        self._damaged: set[str] = set()
        self._tables: dict[str, dict[str, dict[str, None]]] = {name: defaultdict(dict) for name in TABLES}
        self._loaded = False

    @property
    def behind(self) -> int:
        """Return the number of added records that are not in the file yet."""
        return len(self._added)

    def add(self, name: str, item: Item) -> None:
        """Add a written record."""
        self._added[name] = _keys_of(item)

    def write(self, folder: Folder, name_index: RecordNameIndex, now: datetime) -> None:
        """Write the file for the current records. Those known neither from the file nor by `add` are read."""
        names = set(name_index.sizes)
        if not self._loaded or self._names - names:
            self._load(folder, name_index)
        for name in sorted(names - self._names | self._damaged & names):
            known = self._added.get(name) or self._read_keys(folder, name_index, name)
            if known is not None:
                self._add_keys(name, known)
        self._names = names
        data = json.dumps(self._json(name_index, now), indent=1, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        folder.write(NAME, data)
        self._loaded, self._added = True, {}
        name_index.indexed = name_index.digest

    def _load(self, folder: Folder, name_index: RecordNameIndex) -> None:
        """Load the file if it was built from the existing records without the new ones."""
        self._forget()
        found = read_index(folder)
        old = name_index.sizes.keys() - self._added.keys()
        if found is None or found.get("names") != f"{digest_of(old):032x}":
            return
        self._names, self._damaged = old, set(found.get("damaged", ()))
        for name, table in self._tables.items():
            table.update({key: dict.fromkeys(ids) for key, ids in found[name].items()})

    def _read_keys(self, folder: Folder, name_index: RecordNameIndex, name: str) -> _RecordKeys | None:
        try:
            item = decode(name, self._agent_id, folder.read(name)).item
        except (DamagedRecord, StoreError) as error:
            name_index.report(folder, name, error.line() if isinstance(error, StoreError) else str(error))
            self._damaged.add(name)
            return None
        return _keys_of(item)

    def _add_keys(self, name: str, known: _RecordKeys) -> None:
        self._damaged.discard(name)
        memory_id = name[16:-5]
        for table, keys in known.items():
            for key in keys:
                self._tables[table][key][memory_id] = None

    def _json(self, name_index: RecordNameIndex, now: datetime) -> dict[str, Any]:
        damaged = sorted(self._damaged & self._names)
        found: dict[str, Any] = {
            "last_updated": rfc3339(now.replace(microsecond=0)),
            "memory_count": len(self._names) - len(damaged),
            **{name: {key: list(table[key]) for key in sorted(table)} for name, table in self._tables.items()},
            "names": f"{name_index.digest:032x}",
        }
        found |= {"damaged": damaged} if damaged else {}
        return found | {"checksum": _checksum(found)}


def read_index(folder: Folder) -> dict[str, Any] | None:
    """Read the file; None if it is absent, invalid, or was changed."""
    try:
        found = json.loads(folder.read(NAME) or b"null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("memory_count"), int):
        return None
    for key in TABLES:
        table = found.get(key)
        if not isinstance(table, dict) or not all(isinstance(ids, list) for ids in table.values()):
            return None
    said = found.pop("checksum", None)
    return found if said == _checksum(found) else None


def is_current(folder: Folder, name_index: RecordNameIndex) -> bool:
    """True if the file was built from exactly the existing records; an absent file counts as built from none."""
    found = read_index(folder)
    if found is None:
        return not name_index.sizes and folder.status(NAME) is None
    current = found.get("names") == f"{name_index.digest:032x}"
    if current:
        name_index.indexed = name_index.digest
    return current


def wanted_ids(index: Mapping[str, Any], wanted: Scan) -> set[str] | None:
    """Return the ids of the wanted records according to a current index, and of those that it could not read; None if
    the index cannot answer."""
    sets: list[set[str]] = [set(index["by_tag"].get(tag, ())) for tag in wanted.tags]
    if wanted.tags_any:
        sets.append({known for tag in wanted.tags_any for known in index["by_tag"].get(tag, ())})
    if wanted.memory_type is not None:
        types = [name for name, kind in MEMORY_TYPES.items() if kind == wanted.memory_type]
        sets.append({known for name in types for known in index["by_type"].get(name, ())})
    if not sets:
        return None
    return set.intersection(*sets) | {name[16:-5] for name in index.get("damaged", ())}


def _keys_of(item: Item) -> _RecordKeys:
    session = item.provenance.session_id
    return {"by_tag": item.tags, "by_type": (type_of(item),), "by_session": () if session is None else (session,)}


def _checksum(index: Mapping[str, Any]) -> str:
    text = json.dumps(index, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
