"""Generated secrets are rotated with an overlap, which ends by the clock."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import select, update

from runtime.clock import milliseconds
from runtime.crypto import SealedBytes
from runtime.database.connection import Database
from runtime.database.schema import secrets as table
from runtime.secrets import generated, resolve
from runtime.secrets.backend import SecretContext, Unresolved
from runtime.secrets.secret import Secret
from tests.clocks import START, ManualClock
from tests.databases import migrated

HOOK = "secret://generated/hook"
HOUR = 3_600_000


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """SQLite only: differences of PostgreSQL are tested in the layers below."""
    return f"sqlite:///{migrated(tmp_path / 'symbiont.db')}"


@pytest.fixture
def context(database: Database, clock: ManualClock, tmp_path: Path) -> SecretContext:
    return SecretContext({}, tmp_path, database, database.keys, clock)


async def hook(context: SecretContext) -> Secret:
    return await resolve(HOOK, context)


async def test_the_one_before_is_good_until_the_overlap_is_over(context: SecretContext, clock: ManualClock) -> None:
    old = await hook(context)
    done = await generated.rotate("hook", context, HOUR)
    assert done == (milliseconds(clock) + HOUR, None)
    new = await hook(context)
    assert new.reveal() != old.reveal()
    assert new.until is None
    assert new.previous is not None
    assert (new.previous.reveal(), new.previous.until) == (old.reveal(), START + 3600)
    assert new.previous.origin == "generated hook (the previous one, until 2026-02-14T11:30:00Z)"
    clock.advance(3599)
    assert (await hook(context)).previous is not None
    clock.advance(1)
    assert (await hook(context)).previous is None
    assert (await hook(context)).reveal() == new.reveal()


async def test_no_overlap_ends_the_one_before_at_once(context: SecretContext) -> None:
    await hook(context)
    assert await generated.rotate("hook", context, 0) == (None, None)
    assert (await hook(context)).previous is None


async def test_a_second_rotation_ends_the_one_from_before_the_first_and_says_so(
    context: SecretContext, clock: ManualClock
) -> None:
    values = [(await hook(context)).reveal()]
    first = await generated.rotate("hook", context, HOUR)
    assert first is not None
    values.append((await hook(context)).reveal())
    clock.advance(60)
    second = await generated.rotate("hook", context, HOUR)
    assert second == (milliseconds(clock) + HOUR, first.until)
    now = await hook(context)
    assert now.previous is not None
    assert now.previous.reveal() == values[1]
    assert now.reveal() not in values
    clock.advance(2 * 3600)
    third = await generated.rotate("hook", context, HOUR)
    assert third is not None
    assert third.ended is None


async def test_rotations_at_the_same_moment_each_count(context: SecretContext) -> None:
    await hook(context)
    before = await generated.version(context)
    done = await asyncio.gather(*(generated.rotate("hook", context, HOUR) for _ in range(5)))
    assert [each.ended is None for each in done if each] == [True, False, False, False, False]
    assert await generated.version(context) != before


async def test_what_was_never_made_is_not_rotated(context: SecretContext) -> None:
    assert await generated.rotate("hook", context, HOUR) is None
    assert await generated.version(context) is None


async def test_old_and_new_are_sealed_and_the_old_one_is_dropped_a_day_after_its_end(
    context: SecretContext, clock: ManualClock
) -> None:
    old = (await hook(context)).reveal()
    await generated.rotate("hook", context, HOUR)
    new = (await hook(context)).reveal()

    async def row() -> tuple[bytes, bytes | None, int | None]:
        async with context.database.read() as connection:
            found = (await connection.execute(select(table.c.value, table.c.previous, table.c.previous_until))).one()
        return bytes(found[0]), found[1] and bytes(found[1]), found[2]

    value, previous, until = await row()
    assert previous is not None
    assert old not in value + previous
    assert new not in value + previous
    clock.advance(3600)
    await hook(context)
    assert await row() == (value, previous, until)
    clock.step(-1)  # the clock was set back: the old secret is valid again
    assert (await hook(context)).previous is not None
    clock.advance(86_402)
    assert (await hook(context)).previous is None
    assert await row() == (value, None, None)


async def test_a_key_that_is_gone_makes_it_unresolved_and_breaks_nothing_else(context: SecretContext) -> None:
    await hook(context)
    async with context.database.write() as connection:
        value = (await connection.execute(select(table.c.value))).scalar_one()
        gone = SealedBytes(value[:1] + bytes(4) + value[5:])
        await connection.execute(update(table).values(value=gone))
    with pytest.raises(Unresolved, match="was sealed with key 00000000, which does not exist"):
        await hook(context)
