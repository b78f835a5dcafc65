"""`index.json`: which records have a tag or belong to a session (second design, "Memory index").

It is made of the records and can always be made again. `names` says of which: the sum of their names. It is written
whole, so not with every record of a large folder: see `Cabinet`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from typing import Any

from runtime.memory.folder import Folder
from runtime.memory.item import Item, rfc3339
from runtime.memory.records.record import Damaged, decode
from runtime.memory.records.shelf import Shelf, digest_of
from runtime.memory.records.staging import flush, publish, stage

NAME = "index.json"


class FolderIndex:
    """One folder's index, in memory while it is written to. Whoever uses it holds the folder's lock."""

    def __init__(self, agent_id: str) -> None:
        self._agent_id = agent_id
        self._new: dict[str, tuple[tuple[str, ...], str | None]] = {}
        self._forget()

    def _forget(self) -> None:
        self._names: set[str] = set()
        self._damaged: set[str] = set()
        self._by_tag: dict[str, dict[str, None]] = defaultdict(dict)
        self._by_session: dict[str, dict[str, None]] = defaultdict(dict)
        self._loaded = False

    @property
    def behind(self) -> int:
        """How many records were added that the file does not know yet."""
        return len(self._new)

    def add(self, name: str, item: Item) -> None:
        """A record was written."""
        self._new[name] = item.tags, item.provenance.session_id

    def write(self, folder: Folder, shelf: Shelf, now: datetime) -> None:
        """Write the file as the shelf is. Records that neither it nor `add` knows are read."""
        names = set(shelf.sizes)
        if not self._loaded or self._names - names:
            self._load(folder, shelf)
        for name in sorted(names - self._names | self._damaged & names):
            known = self._new.get(name) or self._read(folder, shelf, name)
            if known is not None:
                self._enter(name, *known)
        self._names = names
        data = json.dumps(self._json(shelf, now), indent=1, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        publish(folder, stage(folder, NAME, data), NAME)
        flush(folder)
        self._loaded, self._new = True, {}

    def _load(self, folder: Folder, shelf: Shelf) -> None:
        """Take what the file says, if it was made of the records that are there without the new ones."""
        self._forget()
        found = read_index(folder)
        old = shelf.sizes.keys() - self._new.keys()
        if found is None or found.get("names") != f"{digest_of(old):032x}":
            return
        self._names, self._damaged = old, set(found.get("damaged", ()))
        for own, given in ((self._by_tag, found["by_tag"]), (self._by_session, found["by_session"])):
            own.update({key: dict.fromkeys(ids) for key, ids in given.items()})

    def _read(self, folder: Folder, shelf: Shelf, name: str) -> tuple[tuple[str, ...], str | None] | None:
        try:
            item = decode(name, self._agent_id, folder.read(name)).item
        except Damaged as error:
            shelf.report(folder, name, str(error))
            self._damaged.add(name)
            return None
        return item.tags, item.provenance.session_id

    def _enter(self, name: str, tags: tuple[str, ...], session_id: str | None) -> None:
        self._damaged.discard(name)
        memory_id = name[16:-5]
        for tag in tags:
            self._by_tag[tag][memory_id] = None
        if session_id is not None:
            self._by_session[session_id][memory_id] = None

    def _json(self, shelf: Shelf, now: datetime) -> dict[str, Any]:
        damaged = sorted(self._damaged & self._names)
        found: dict[str, Any] = {
            "last_updated": rfc3339(now.replace(microsecond=0)),
            "memory_count": len(self._names) - len(damaged),
            "by_tag": {tag: list(self._by_tag[tag]) for tag in sorted(self._by_tag)},
            "by_session": {session: list(self._by_session[session]) for session in sorted(self._by_session)},
            "names": f"{shelf.digest:032x}",
        }
        return found | ({"damaged": damaged} if damaged else {})


def read_index(folder: Folder) -> dict[str, Any] | None:
    """What the file says; None when it is absent or no such index."""
    try:
        found = json.loads(folder.read(NAME) or b"null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("memory_count"), int):
        return None
    for key in ("by_tag", "by_session"):
        table = found.get(key)
        if not isinstance(table, dict) or not all(isinstance(ids, list) for ids in table.values()):
            return None
    return found


def is_current(folder: Folder, shelf: Shelf) -> bool:
    """Whether the file was made of just the records that are there."""
    found = read_index(folder)
    return found is not None and found.get("names") == f"{shelf.digest:032x}"
