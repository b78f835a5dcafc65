"""A copy of the keys as JSON. The keys in it are wrapped: it opens the data of all users together with the master key
that wrapped them, and nothing without it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import uuid4

from sqlalchemy import Connection, select

from runtime.crypto import KEY_ID_BYTES, MasterKey
from runtime.database.keys import tables
from runtime.database.keys.ring import INDEXES, KeyRing, KeyStore
from runtime.errors import UsageError

FORMAT: Final = 1
WRAPPED_BYTES: Final = 40


class ImportCounts(NamedTuple):
    """Numbers of keys that were added, that were there already, and that were left out."""

    added: int
    there: int
    left_out: int


def keys_json(ring: KeyRing) -> dict[str, Any]:
    """Return all keys, as JSON. Raises `Unavailable`."""
    stored = ring.store.transact(tables.load)
    names = (tables.ID, tables.MASTER, tables.MASTER_FROM)
    return {
        "symbiont_keys": FORMAT,
        **{name: stored.facts[name] for name in names if name in stored.facts},
        "keys": [_key_json(dict(zip(tables.KEY, row, strict=True))) for row in stored.keys],
        "removals": stored.removals,
    }


def read(text: bytes) -> Mapping[str, Any]:
    """Return the content of an export. Raises UsageError."""
    try:
        content = json.loads(text)
        if content["symbiont_keys"] != FORMAT:
            raise UsageError("this export was written by a newer program", hint="upgrade symbi")
        rows = [_row(each) for each in content["keys"]]
        given: dict[str, str] = {name: str(content[name]) for name in (tables.ID, tables.MASTER)}
        removals = {str(holder): kept_by for holder, kept_by in content["removals"].items()}
        facts = {tables.MASTER_FROM: str(content[tables.MASTER_FROM])} if tables.MASTER_FROM in content else {}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError("this file is not an export of keys", hint="`symbi key export FILE` writes one") from None
    return {**given, "facts": facts, "rows": rows, "removals": removals}


def restore(
    store: KeyStore, content: Mapping[str, Any], master: MasterKey, now: int, removed: Mapping[str, str | None]
) -> ImportCounts:
    """Add the keys of an export that are missing, but none that was forgotten with its user. `now`: Unix milliseconds.
    Raises UsageError if they are of another database or wrapped with another master key.

    `removed`: holders who are no users of the data, with whose key seals what is kept of them. None: nothing is, and
    their keys are left out, like those of holders whose removal the store or the export records.
    """
    if content[tables.MASTER] != master.key_id.hex():
        raise UsageError(
            f"the export is wrapped with master key {content[tables.MASTER]}, not with {master.key_id.hex()}",
            hint="the master key of that time belongs in master.key of the root, or where SYMBIONT_MASTER_KEY says",
        )
    for row in content["rows"]:
        master.unwrap(row[3], row[0], row[1])

    return store.transact(lambda connection: _restore(connection, store.label, content, now, removed))


def _restore(
    connection: Connection, label: str, content: Mapping[str, Any], now: int, removed: Mapping[str, str | None]
) -> ImportCounts:
    if not tables.exist(connection):
        tables.make(connection, content[tables.ID], content[tables.MASTER])
        for name, value in content["facts"].items():
            tables.set_fact(connection, name, value)
    for name, what in ((tables.ID, "is of another database"), (tables.MASTER, "is wrapped with another master key")):
        if tables.fact(connection, name) != content[name]:
            raise UsageError(f"the export {what} than the keys in {label}", hint="nothing was changed")
    tables.lock_master(connection)
    tables.set_fact(connection, tables.VERSION, uuid4().hex)
    known = {row.holder: row.successor for row in connection.execute(select(tables.removals))}
    # Who is only missing in this data is not recorded: another copy of it may have the user.
    kept = {holder: kept_by for holder, kept_by in removed.items() if kept_by is not None}
    for holder, kept_by in {**kept, **content["removals"]}.items():
        if holder not in known:
            connection.execute(tables.removals.insert().values(holder=holder, successor=kept_by, removed_at=now))
    gone = {**removed, **content["removals"], **known}
    rows = [row for row in content["rows"] if row[0] not in gone or gone[row[0]] is not None]
    stored = connection.execute(select(*tables.keys.c["holder", "key_id", "retired_at"])).all()
    there = {(row.holder, bytes(row.key_id)) for row in stored}
    current = {row.holder for row in stored if row.retired_at is None}
    left_out = len(content["rows"]) - len(rows)
    if left_out or INDEXES in current:
        # It would open copies of indexes with texts of removed users. Without it an index is built again.
        rows = [row for row in rows if row[0] != INDEXES or (row[0], row[1]) in there]
    missing = [row for row in rows if (row[0], row[1]) not in there]
    for row in missing:
        # A holder has one current key, and a removed one none; others open values.
        retired_at = (row[6] or now) if row[0] in current or row[0] in gone else row[6]
        connection.execute(tables.keys.insert().values(dict(zip(tables.KEY, (*row[:6], retired_at), strict=True))))
    return ImportCounts(len(missing), len(rows) - len(missing), left_out)


def _key_json(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "key_id": row["key_id"].hex(), "wrapped": base64.b64encode(row["wrapped"]).decode()}


def _row(given: Mapping[str, Any]) -> tuple[Any, ...]:
    key_id, wrapped = bytes.fromhex(given["key_id"]), base64.b64decode(given["wrapped"], validate=True)
    numbers = (given["generation"], given["seals"], given["created_at"], given["retired_at"])
    if len(key_id) != KEY_ID_BYTES or len(wrapped) != WRAPPED_BYTES:
        raise ValueError("not a key")
    if not isinstance(given["holder"], str) or not all(isinstance(each, int | None) for each in numbers):
        raise TypeError("not a key")
    generation, seals, created_at, retired_at = numbers
    return given["holder"], key_id, generation, wrapped, seals, created_at, retired_at
