"""The tables of keys, and the statements on them. On SQLite they are a file of their own, on PostgreSQL a schema of
their own, so that a copy of the data can leave them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
    delete,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.schema import CreateSchema

from runtime.errors import UsageError

SCHEMA: Final = "symbiont_keys"
"""The schema on PostgreSQL, and the channel on which changes of it are notified."""
FORMAT: Final = "1"

metadata = MetaData(schema=SCHEMA)

keys = Table(
    "keys",
    metadata,
    Column("holder", Text, primary_key=True),
    Column("key_id", LargeBinary, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("seals", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("retired_at", BigInteger),  # NULL: the holder's current key
)
"""Keys, each wrapped by the master key. The holder is the id of a user, or one of the names in `ring`."""
_CURRENT: Final = text("retired_at IS NULL")
Index("uq_keys_current", keys.c.holder, unique=True, sqlite_where=_CURRENT, postgresql_where=_CURRENT)

removals = Table(
    "removals",
    metadata,
    Column("holder", Text, primary_key=True),
    Column("successor", Text),
    Column("removed_at", BigInteger, nullable=False),
)
"""Holders that never get a key again, also from an export. `successor`: whose key seals what is kept of them; NULL:
nothing is. The rows stay: copies of the data, and exports, may still name the holder."""

facts = Table("facts", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))
"""Facts about the keys by the names below."""

ID: Final = "id"
"""Random; the data that the keys open names it."""
VERSION: Final = "version"
"""Changes whenever a key was rotated, forgotten or wrapped anew."""
MASTER: Final = "master_key_id"
MASTER_FROM: Final = "master_key_from"
"""The reference of the master key after a rotation; empty: the file of the root."""
PASSED: Final = "passed_at"
"""Start of the last complete pass over all sealed values (Unix milliseconds)."""
EXPORTED: Final = "exported"
"""JSON: when keys were last exported, and to which file."""

KEY: Final = tuple(column.name for column in keys.c)


class KeyRows(NamedTuple):
    """All rows: facts by name, keys as in KEY, successors by removed holder."""

    facts: dict[str, str]
    keys: Sequence[tuple[Any, ...]]
    removals: dict[str, str | None]


def exist(connection: Connection) -> bool:
    """True if the tables exist and are not empty."""
    schema = SCHEMA if connection.dialect.name == "postgresql" else None
    return inspect(connection).has_table("facts", schema=schema) and fact(connection, ID) is not None


def make(connection: Connection, keys_id: str, master_key_id: str) -> None:
    """Create the tables, with their facts."""
    if connection.dialect.name == "postgresql" and SCHEMA not in inspect(connection).get_schema_names():
        connection.execute(CreateSchema(SCHEMA))
    metadata.create_all(connection)
    for name, value in ((ID, keys_id), (MASTER, master_key_id), ("format", FORMAT), (VERSION, uuid4().hex)):
        set_fact(connection, name, value)


def load(connection: Connection) -> KeyRows:
    """Return all rows. Raises UsageError for tables of a newer program."""
    known = {row.name: row.value for row in connection.execute(select(facts))}
    if known.get("format") != FORMAT:
        raise UsageError("the keys of users are stored by a newer program", hint="upgrade symbi")
    gone = {row.holder: row.successor for row in connection.execute(select(removals))}
    return KeyRows(known, [tuple(row) for row in connection.execute(select(keys))], gone)


def fact(connection: Connection, name: str) -> str | None:
    """Return a fact, or None."""
    found: str | None = connection.execute(select(facts.c.value).where(facts.c.name == name)).scalar()
    return found


def set_fact(connection: Connection, name: str, value: str) -> None:
    """Replace a fact."""
    if not connection.execute(update(facts).where(facts.c.name == name).values(value=value)).rowcount:
        connection.execute(facts.insert().values(name=name, value=value))


def note_change(connection: Connection) -> None:
    """Note that keys were rotated, forgotten or wrapped anew. Called first: it also makes changes take turns."""
    set_fact(connection, VERSION, uuid4().hex)
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_notify('{SCHEMA}', '')"))


def lock_master(connection: Connection) -> str | None:
    """Return the id of the master key. Until the end of the transaction, other daemons neither add nor wrap keys."""
    query = select(facts.c.value).where(facts.c.name == MASTER)
    found: str | None = connection.execute(query.with_for_update()).scalar()
    return found


def of_holder(connection: Connection, holder: str) -> list[tuple[Any, ...]]:
    """Return the rows of a holder's keys."""
    return [tuple(row) for row in connection.execute(select(keys).where(keys.c.holder == holder))]


def successor(connection: Connection, holder: str) -> tuple[bool, str | None]:
    """Return True if the holder was removed, and whose key seals what is kept of it."""
    row = connection.execute(select(removals.c.successor).where(removals.c.holder == holder)).first()
    return row is not None, None if row is None else row.successor


def insert(connection: Connection, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert keys, values in the order of KEY, except where the holder has a current one. Call `lock_master` first."""
    for row in rows:
        values = dict(zip(KEY, row, strict=True))
        if connection.execute(select(keys.c.key_id).where(_current(values["holder"]))).first() is None:
            connection.execute(keys.insert().values(values))


def retire(connection: Connection, holder: str, at: int) -> None:
    """Retire a holder's current key: it opens values, and seals no more."""
    connection.execute(update(keys).where(_current(holder)).values(retired_at=at))


def delete_keys(connection: Connection, chosen: Sequence[tuple[str, bytes]]) -> None:
    """Delete these keys, by holder and id, that are retired."""
    for holder, key_id in chosen:
        this = keys.c.holder == holder, keys.c.key_id == key_id, keys.c.retired_at.is_not(None)
        connection.execute(delete(keys).where(*this))


def remove(connection: Connection, holder: str, kept_by: str | None, at: int) -> None:
    """Record that a holder gets no key any more, and delete its keys; if its values are kept, retire them."""
    connection.execute(delete(removals).where(removals.c.holder == holder))
    connection.execute(removals.insert().values(holder=holder, successor=kept_by, removed_at=at))
    if kept_by is None:
        connection.execute(delete(keys).where(keys.c.holder == holder))
    else:
        retire(connection, holder, at)


def add_seals(connection: Connection, amounts: Sequence[tuple[str, bytes, int]]) -> list[int | None]:
    """Add to the numbers of seals, by holder and id; return the sums, None for a key that does not exist."""
    chosen = keys.c.holder == bindparam("of"), keys.c.key_id == bindparam("id")
    more = update(keys).where(*chosen).values(seals=keys.c.seals + bindparam("more"))
    connection.execute(more, [{"of": holder, "id": key_id, "more": amount} for holder, key_id, amount in amounts])
    query = select(keys.c.seals).where(*chosen)
    return [connection.execute(query, {"of": holder, "id": key_id}).scalar() for holder, key_id, _ in amounts]


def set_wrapped(connection: Connection, wrapped: Sequence[tuple[str, bytes, bytes]]) -> None:
    """Replace wrapped keys, by holder and id."""
    if wrapped:
        chosen = keys.c.holder == bindparam("of"), keys.c.key_id == bindparam("id")
        connection.execute(
            update(keys).where(*chosen).values(wrapped=bindparam("now")),
            [{"of": holder, "id": key_id, "now": value} for holder, key_id, value in wrapped],
        )


def _current(holder: str) -> Any:
    return (keys.c.holder == holder) & keys.c.retired_at.is_(None)
