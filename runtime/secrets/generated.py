"""`secret://generated/NAME`: made on first use and kept sealed in the database."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

from sqlalchemy import Connection, Select, select

from runtime.clock import milliseconds
from runtime.database import bulk
from runtime.database.group_commit import Stage
from runtime.database.schema import OWNER
from runtime.database.schema import secrets as table
from runtime.database.sealed import Seal
from runtime.secrets.backend import Backend, Context, Unresolved

_NAME = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9_.-]{1,64}\Z")


async def find(name: str, context: Context) -> bytes | None:
    """The secret called `name`, or None when it was never made."""
    async with context.database.read() as connection:
        value = await connection.scalar(_query(name))
    return None if value is None else _unseal(value, name, context)


async def read(path: str, context: Context) -> bytes:
    if not _NAME.match(path):
        raise Unresolved(f"{path!r} is not a legal name for a generated secret")
    return await find(path, context) or await _make(path, context)


async def _make(name: str, context: Context) -> bytes:
    # A first start may make thousands: those that are asked for together are stored together.
    return await context.database.commits.store(_MAKING, (name, context))


def _store_all(connection: Connection, asked: Sequence[tuple[str, Context]]) -> list[bytes]:
    """Make and store what is not there yet: another daemon on the same database may have made it a moment ago."""
    names = sorted({(OWNER, name) for name, _ in asked})
    context = asked[0][1]
    now = milliseconds(context.clock)
    seal = Seal(context.key, table.c.value)
    rows = [(*key, seal.close(secrets.token_hex(32).encode(), row=key[1]), now) for key in names]
    bulk.insert(connection, table, ("user_id", "name", "value", "created_at"), rows, ignore=True)
    kept = bulk.find(connection, table, ("user_id", "name"), ("value",), names)
    values = {name: _unseal(value, name, context) for _, name, value in kept}
    return [values[name] for name, _ in asked]


_MAKING = Stage(0, _store_all)


def _query(name: str) -> Select[bytes]:
    return select(table.c.value).where(table.c.user_id == OWNER, table.c.name == name)


def _unseal(value: bytes, name: str, context: Context) -> bytes:
    return Seal(context.key, table.c.value).open(value, row=name)


GENERATED = Backend(
    name="generated",
    title="Generated",
    doc="`secret://generated/NAME`: 32 random bytes in hexadecimal, made on first use and kept sealed in the "
    "database; `symbi secret show NAME` prints it.",
    read=read,
)
