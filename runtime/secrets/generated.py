"""`secret://generated/NAME`: generated on first use, stored sealed in the database, and rotated there."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, Select, select

from runtime.clock import milliseconds
from runtime.crypto import Unsealable
from runtime.database import bulk
from runtime.database.group_commit import Stage
from runtime.database.meta import advance, current
from runtime.database.schema import OWNER
from runtime.database.schema import secrets as table
from runtime.database.sealed import Seal
from runtime.secrets.backend import RotatedSecret, SecretBackend, SecretContext, Unresolved

PREFIX: Final = "secret://generated/"
VERSION: Final = "secrets_version"
"""The change counter of rotations, by which other daemons on the database detect one."""

_NAME = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9_.-]{1,64}\Z")
_FORGET_AFTER_MS: Final = 86_400_000


class Rotation(NamedTuple):
    """The result of a rotation. Times are Unix milliseconds."""

    until: int | None
    """End of the previous secret's validity; None: it ended at once."""
    ended: int | None
    """Planned end of an even older secret, which ended at once; None: there was none."""


async def find(name: str, context: SecretContext) -> bytes | None:
    """Return the secret `name`, or None if it does not exist. Raises `Unsealable`."""
    row = await _row(name, context)
    return None if row is None else _open(row, name, context)


async def read(path: str, context: SecretContext) -> bytes | RotatedSecret:
    if not _NAME.match(path):
        raise Unresolved(f"{path!r} is not a valid name of a generated secret")
    row = await _row(path, context)
    if row is None:
        return await _create(path, context)
    try:
        value = _open(row, path, context)
        if row.previous is None:
            return value
        now = milliseconds(context.clock)
        if row.previous_until <= now:
            # Not at once: a clock set forward by mistake must not delete a secret that is still valid.
            if row.previous_until + _FORGET_AFTER_MS <= now:
                await _forget(path, row.previous_until, context)
            return value
        previous = Seal(context.key, table.c.previous).open(row.previous, row=path, version=row.version)
    except Unsealable as error:
        raise Unresolved(str(error), hint=error.hint) from None
    return RotatedSecret(value, previous, row.previous_until / 1000)


async def rotate(name: str, context: SecretContext, overlap_ms: int) -> Rotation | None:
    """Generate a new value for `name`; the previous one stays valid for `overlap_ms` milliseconds, an older one ends.

    None if there is no such secret. The daemons have to resolve it again. Raises `Unsealable`.
    """
    now = milliseconds(context.clock)
    value, previous = Seal(context.key, table.c.value), Seal(context.key, table.c.previous)
    fresh = _new_value()

    def change(connection: Connection) -> Rotation | None:
        row = connection.execute(_query(name).with_for_update()).first()
        if row is None:
            return None
        until = now + overlap_ms if overlap_ms else None
        old, version = value.open(row.value, row=name, version=row.version), row.version + 1
        connection.execute(
            table.update()
            .where(table.c.user_id == OWNER, table.c.name == name)
            .values(
                value=value.close(fresh, row=name, version=version),
                previous=previous.close(old, row=name, version=version) if until else None,
                previous_until=until,
                version=version,
            )
        )
        advance(connection, VERSION)
        good = row.previous is not None and row.previous_until > now
        return Rotation(until, row.previous_until if good else None)

    return await context.database.transact(change)


async def _forget(name: str, until: int, context: SecretContext) -> None:
    """Delete the previous secret, unless there was another rotation since."""
    chosen = table.update().where(table.c.user_id == OWNER, table.c.name == name, table.c.previous_until == until)
    change = chosen.values(previous=None, previous_until=None)
    await context.database.transact(lambda connection: connection.execute(change).rowcount)


async def version(context: SecretContext) -> str | None:
    """Return a text that changes with every rotation; None before the first."""
    async with context.database.read() as connection:
        return await current(connection, VERSION)


def _new_value() -> bytes:
    return secrets.token_hex(32).encode()


async def _create(name: str, context: SecretContext) -> bytes:
    # A first start may generate thousands: concurrent ones are stored in one transaction.
    return await context.database.commits.store(_CREATION, (name, context))


def _store_all(connection: Connection, asked: Sequence[tuple[str, SecretContext]]) -> list[bytes]:
    """Generate and store missing secrets; another daemon on the same database may have stored some a moment ago."""
    names = sorted({(OWNER, name) for name, _ in asked})
    context = asked[0][1]
    now = milliseconds(context.clock)
    seal = Seal(context.key, table.c.value)
    rows = [(*key, seal.close(_new_value(), row=key[1], version=0), now) for key in names]
    bulk.insert(connection, table, ("user_id", "name", "value", "created_at"), rows, ignore=True)
    kept = bulk.find(connection, table, ("user_id", "name"), ("value", "version"), names)
    values = {name: seal.open(value, row=name, version=version) for _, name, value, version in kept}
    return [values[name] for name, _ in asked]


_CREATION = Stage(0, _store_all)


async def _row(name: str, context: SecretContext) -> Row[Any] | None:
    async with context.database.read() as connection:
        found: Row[Any] | None = (await connection.execute(_query(name))).first()
        return found


def _query(name: str) -> Select[Any]:
    wanted = select(table.c.value, table.c.previous, table.c.previous_until, table.c.version)
    return wanted.where(table.c.user_id == OWNER, table.c.name == name)


def _open(row: Row[Any], name: str, context: SecretContext) -> bytes:
    return Seal(context.key, table.c.value).open(row.value, row=name, version=row.version)


GENERATED = SecretBackend(
    name="generated",
    title="Generated",
    doc="`secret://generated/NAME`: 32 random bytes in hexadecimal, generated on first use and "
    "stored encrypted in the database; `symbi secret show NAME` prints it, `symbi webhook "
    "rotate` changes it.",
    read=read,
)
