"""`secret://generated/NAME`: made on first use and kept sealed in the database."""

from __future__ import annotations

import re
import secrets

from sqlalchemy import insert, select

from runtime.clock import milliseconds, uuid7
from runtime.database import schema
from runtime.secrets.backend import Backend, Context, Unresolved

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_OWNER = "owner"


async def find(name: str, context: Context) -> bytes | None:
    """The secret called `name`, or None when it was never made."""
    table = schema.secrets
    query = select(table.c.id, table.c.value).where(table.c.user_id == _OWNER, table.c.name == name)
    async with context.database.read() as connection:
        row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    return context.key.unseal(row.value, user_id=_OWNER, table="secrets", column="value", row=row.id)


async def read(path: str, context: Context) -> bytes:
    if not _NAME.match(path) or path in {".", ".."}:
        raise Unresolved(f"{path!r} is not a legal name for a generated secret")
    return await find(path, context) or await _make(path, context)


async def _make(name: str, context: Context) -> bytes:
    table = schema.secrets
    row = uuid7(context.clock)
    value = secrets.token_hex(32).encode()
    query = select(table.c.id, table.c.value).where(table.c.user_id == _OWNER, table.c.name == name)
    async with context.database.write() as connection:
        # Another process may have made it since `find` looked.
        found = (await connection.execute(query)).one_or_none()
        if found is not None:
            return context.key.unseal(found.value, user_id=_OWNER, table="secrets", column="value", row=found.id)
        sealed = context.key.seal(value, user_id=_OWNER, table="secrets", column="value", row=row)
        now = milliseconds(context.clock)
        await connection.execute(insert(table).values(id=row, user_id=_OWNER, name=name, value=sealed, created_at=now))
    return value


GENERATED = Backend(
    name="generated",
    title="Generated",
    doc="`secret://generated/NAME`: 32 random bytes in hexadecimal, made on first use and kept sealed in the "
    "database; `symbi secret show NAME` prints it.",
    read=read,
)
