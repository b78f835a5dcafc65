"""`secret://generated/NAME`: made on first use and kept sealed in the database."""

from __future__ import annotations

import re
import secrets

from sqlalchemy import Select, insert, select

from runtime.clock import milliseconds
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
    value = secrets.token_hex(32).encode()
    sealed = Seal(context.key, table.c.value).close(value, row=name)
    async with context.database.write() as connection:
        # Another daemon on the same database may have made it since `find` looked.
        found = await connection.scalar(_query(name).with_for_update())
        if found is not None:
            return _unseal(found, name, context)
        row = {"user_id": OWNER, "name": name, "value": sealed, "created_at": milliseconds(context.clock)}
        await connection.execute(insert(table).values(row))
    return value


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
