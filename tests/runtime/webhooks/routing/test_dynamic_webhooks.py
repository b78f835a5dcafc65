"""Webhooks created through the API: their owners, the lifetime of secrets, and how every daemon follows the table."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import select, update
from structlog.testing import capture_logs

from runtime.clock import milliseconds
from runtime.crypto import Unsealable
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import webhooks
from runtime.errors import Conflict, NotFound
from runtime.identity import users
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.routing.dynamic_routes import DynamicRoutes
from runtime.webhooks.routing.dynamic_webhooks import PER_USER, DynamicWebhooks, delete_all
from tests.clocks import ManualClock, until
from tests.conftest import KEY
from tests.databases import migrated
from tests.signatures import sign

BODY = b'{"a":1}'


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """SQLite only: differences of PostgreSQL are tested in the layers below."""
    return f"sqlite:///{migrated(tmp_path / 'symbiont.db')}"


class Table:
    """The table and the routes of one daemon."""

    def __init__(self, database: Database, clock: ManualClock) -> None:
        self.clock = clock
        self.changes = 0
        self.rows = DynamicWebhooks(database, clock)
        self.routes = DynamicRoutes(database, clock, self.rows, on_change=self._changed)

    def _changed(self) -> None:
        self.changes += 1

    async def make(self, user: str = "owner", *, verified: bool = True) -> tuple[str, str]:
        webhook, secret = await self.rows.create(user, "x", "reviewer", verified=verified)
        return webhook.id, secret or ""

    def accepts(self, webhook_id: str, secret: str) -> bool:
        """Return True if the webhook now accepts a request signed with `secret`."""
        route = self.routes.mounts[webhook_id].route
        assert route is not None
        now = self.clock.now()
        headers = sign("swarmlet", secret, BODY, now=now, delivery_id="1")
        try:
            route.verifier.check(WebhookRequest(Headers(headers), BODY), now)
        except RefusedRequest as refused:
            return refused.reason != "signature_mismatch"
        return True


@pytest.fixture
def table(database: Database, clock: ManualClock) -> Table:
    return Table(database, clock)


async def test_only_its_user_finds_changes_or_deletes_a_webhook(table: Table, database: Database) -> None:
    ada = await users.add(database, "ada", 0)
    webhook_id, _ = await table.make(ada)
    rows = table.rows
    assert await rows.get("owner", webhook_id) is None
    assert await rows.page("owner", 10) == []
    assert await rows.change("owner", webhook_id, is_active=False) is None
    assert await rows.rotate("owner", webhook_id, 0) is None
    assert await rows.delete("owner", webhook_id) is False
    mine = await rows.get(ada, webhook_id)
    assert mine is not None
    assert mine.is_active
    assert await rows.page(ada, 10) == [mine]
    assert await rows.delete(ada, webhook_id) is True


async def test_the_secret_before_is_good_for_the_overlap_and_not_a_moment_longer(
    table: Table, clock: ManualClock
) -> None:
    webhook_id, first = await table.make()
    rotated = await table.rows.rotate("owner", webhook_id, 60_000)
    assert rotated is not None
    second = rotated[1]
    await table.routes.refresh()
    assert table.accepts(webhook_id, first)
    assert table.accepts(webhook_id, second)
    clock.advance(59.9)
    assert table.accepts(webhook_id, first)
    clock.advance(0.1)
    # This needs no query of the table.
    assert not table.accepts(webhook_id, first)
    assert table.accepts(webhook_id, second)


async def test_a_second_rotation_ends_the_oldest_secret_at_once(table: Table) -> None:
    webhook_id, first = await table.make()
    secrets = [first]
    for _ in range(2):
        rotated = await table.rows.rotate("owner", webhook_id, 60_000)
        assert rotated is not None
        secrets.append(rotated[1])
    await table.routes.refresh()
    assert [table.accepts(webhook_id, secret) for secret in secrets] == [False, True, True]


async def test_no_overlap_ends_the_secret_at_once(table: Table) -> None:
    webhook_id, first = await table.make()
    rotated = await table.rows.rotate("owner", webhook_id, 0)
    assert rotated is not None
    assert rotated[0].previous_until is None
    await table.routes.refresh()
    assert not table.accepts(webhook_id, first)
    assert table.accepts(webhook_id, rotated[1])


async def test_a_webhook_without_a_secret_is_not_given_one(table: Table) -> None:
    webhook_id, secret = await table.make(verified=False)
    assert secret == ""
    with pytest.raises(Conflict, match="has no secret"):
        await table.rows.rotate("owner", webhook_id, 0)


async def test_a_webhook_that_is_switched_off_has_no_route(table: Table) -> None:
    webhook_id, secret = await table.make()
    for active in (False, True):
        await table.rows.change("owner", webhook_id, is_active=active)
        await table.routes.refresh()
        entry = table.routes.mounts[webhook_id]
        assert (entry.route is not None) is active
        assert (entry.problem is None) is active
    assert table.accepts(webhook_id, secret)


async def test_the_limits_of_the_design_are_on_the_route(table: Table, database: Database) -> None:
    ada = await users.add(database, "ada", 0)
    webhook_id, _ = await table.make(ada)
    await table.routes.refresh()
    route = table.routes.mounts[webhook_id].route
    assert route is not None
    assert (route.per_minute, route.user_per_minute, route.body_limit) == (60, 300, 262_144)
    assert (route.name, route.path, route.user_id) == (webhook_id, f"/webhooks/{webhook_id}", ada)
    assert route.verifier.tolerance == 300


async def test_changes_of_another_daemon_are_seen_within_a_second(postgres_url: str, clock: ManualClock) -> None:
    mine, theirs = [await Database.open(postgres_url, KEY) for _ in range(2)]
    table, other = Table(mine, clock), Table(theirs, clock)
    running = asyncio.create_task(other.routes.run())
    webhook_id, secret = await table.make()
    second_id, _ = await table.make()
    await until(lambda: clock.sleepers == 1)
    clock.advance(1)
    await until(lambda: len(other.routes.mounts) == 2)
    assert other.accepts(webhook_id, secret)
    # One is deleted and one created: the number is the same.
    await table.rows.delete("owner", second_id)
    third_id, _ = await table.make()
    await until(lambda: clock.sleepers == 1)
    clock.advance(1)
    await until(lambda: set(other.routes.mounts) == {webhook_id, third_id})
    running.cancel()
    await mine.close()
    await theirs.close()


async def test_a_look_without_a_change_changes_nothing(table: Table) -> None:
    webhook_id, _ = await table.make()
    await table.routes.refresh()
    entry, changes = table.routes.mounts[webhook_id], table.changes
    for _ in range(3):
        await table.routes.refresh()
    assert table.changes == changes
    # An unchanged webhook keeps its route when another one is added.
    await table.make()
    await table.routes.refresh()
    assert table.routes.mounts[webhook_id] is entry


async def test_a_change_in_the_same_millisecond_and_with_a_clock_set_back_counts(
    table: Table, clock: ManualClock
) -> None:
    webhook_id, first = await table.make()
    await table.routes.refresh()
    for step in (0, -3600):
        clock.step(step)
        rotated = await table.rows.rotate("owner", webhook_id, 0)
        assert rotated is not None
        await table.routes.refresh()
        assert table.accepts(webhook_id, rotated[1])
        assert not table.accepts(webhook_id, first)
        first = rotated[1]


async def test_a_secret_that_does_not_open_unmounts_that_webhook_alone(table: Table, database: Database) -> None:
    broken, _ = await table.make()
    fine, secret = await table.make()
    moved = table.rows._secret.close(b"another", row=fine, version=1)  # sealed for another row
    async with database.write() as connection:
        await connection.execute(update(webhooks).where(webhooks.c.id == broken).values(secret=moved))
    with capture_logs() as logged:
        await table.routes.refresh()
    assert table.routes.mounts[broken].route is None
    assert "changed or moved" in str(table.routes.mounts[broken].problem)
    assert [line["webhook"] for line in logged] == [broken]
    assert table.accepts(fine, secret)


async def test_a_database_that_is_away_leaves_the_routes_and_is_told_once(
    table: Table, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook_id, secret = await table.make()
    await table.routes.refresh()

    def away() -> None:
        raise Unavailable("it does not answer")

    monkeypatch.setattr(database, "read", away)
    with capture_logs() as logged:
        for _ in range(3):
            await table.routes.look()
    assert len(logged) == 1
    assert table.accepts(webhook_id, secret)


async def test_those_that_take_unverified_requests_are_warned_about_at_every_start(
    table: Table, database: Database, clock: ManualClock
) -> None:
    await table.make()
    insecure, _ = await table.make(verified=False)
    for _ in range(2):
        with capture_logs() as logged:
            started = Table(database, clock)
            await started.routes.refresh()
            await started.routes.refresh()
        warned = [line for line in logged if line["event"] == "webhook_unverified"]
        assert [line["webhook"] for line in warned] == [insecure]


async def test_only_sealed_data_say_that_a_webhook_accepts_what_nobody_signed(table: Table, database: Database) -> None:
    webhook_id, _ = await table.make()
    insecure, _ = await table.make(verified=False)
    await table.routes.refresh()
    taken_off = update(webhooks).where(webhooks.c.id == webhook_id).values(secret=None, previous_secret=None)
    await database.transact(lambda connection: connection.execute(taken_off))
    started = Table(database, table.clock)
    await started.routes.refresh()
    entry = started.routes.mounts[webhook_id]
    assert entry.route is None
    assert "its secret is missing" in str(entry.problem)
    route = started.routes.mounts[insecure].route
    assert route is not None
    assert not route.verified
    told = {each.id: each.verified for each in await started.rows.page(None, 10)}
    assert told == {webhook_id: True, insecure: False}
    with pytest.raises(Unsealable, match="missing"):
        await started.rows.rotate("owner", webhook_id, 0)
    # Neither does the marker of another webhook open it.
    marks = select(webhooks.c.secret).where(webhooks.c.id == insecure).scalar_subquery()
    moved = update(webhooks).where(webhooks.c.id == webhook_id).values(secret=marks)
    await database.transact(lambda connection: connection.execute(moved))
    again = Table(database, table.clock)
    await again.routes.refresh()
    assert again.routes.mounts[webhook_id].route is None


async def test_a_user_who_goes_takes_its_webhooks_along(table: Table, database: Database, clock: ManualClock) -> None:
    ada = await users.add(database, "ada", milliseconds(clock))
    await table.make(ada)
    mine, _ = await table.make()
    await table.routes.refresh()
    assert await database.transact(lambda connection: users.remove(connection, ada)) == 0
    assert await database.transact(lambda connection: delete_all(connection, ada)) == 1
    await table.routes.refresh()
    assert set(table.routes.mounts) == {mine}
    with pytest.raises(NotFound, match="no such user"):
        await table.make(ada)


async def test_those_who_make_webhooks_at_the_same_moment_keep_to_the_limit(table: Table, database: Database) -> None:
    def fill(count: int) -> Sequence[dict[str, object]]:
        common = {"user_id": "owner", "title": "x", "agent": "a", "is_active": True, "created_at": 0, "updated_at": 0}
        return [{**common, "id": f"{number:036d}"} for number in range(count)]

    async with database.write() as connection:
        await connection.execute(webhooks.insert(), fill(PER_USER - 3))
    made = await asyncio.gather(*(table.make() for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(each, Conflict) for each in made) == 5


async def test_secrets_are_long_random_and_all_different(table: Table) -> None:
    secrets = {(await table.make())[1] for _ in range(20)}
    assert len(secrets) == 20
    assert all(secret.startswith("whsec_") and len(secret) == 49 for secret in secrets)
