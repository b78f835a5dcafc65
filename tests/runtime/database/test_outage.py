"""An outage begins with a failed probe and ends with the first that succeeds."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import asyncpg
import pytest
from sqlalchemy import insert

from runtime.crypto import MasterKey
from runtime.database import outage
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.outage import Outage
from runtime.database.schema import meta
from tests.clocks import until


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "PROBE_SECONDS", 0.01)


async def test_an_outage_ends_although_a_probe_met_something_that_nobody_foresaw() -> None:
    met: Iterator[Exception | None] = iter((Unavailable("away"), RuntimeError("unforeseen"), None))

    async def probe() -> None:
        if (error := next(met)) is not None:
            raise error

    told: list[str | None] = []
    found = Outage(probe)
    found.on_change = told.append
    found.suspect()
    await until(lambda: told == ["away", None])
    assert found.problem is None


async def test_a_server_that_only_reads_is_away_until_it_writes_again(postgres_url: str, master_key: MasterKey) -> None:
    """Behave for a while like a replica that replaces its primary."""
    name = urlsplit(postgres_url).path.removeprefix("/")
    admin = await asyncpg.connect(postgres_url)

    async def only_reads(state: str) -> None:
        await admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {state}")
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()",
            name,
        )

    database = await Database.open(postgres_url, master_key)
    try:
        await only_reads("on")
        row = insert(meta).values(name="n", value="v")

        async def is_stored() -> bool:
            try:
                await database.transact(lambda connection: connection.execute(row))
            except Unavailable:
                return False
            return True

        assert not await is_stored()
        await until(lambda: "read-only" in str(database.outage.problem))
        await only_reads("off")
        await until(lambda: database.outage.problem is None)
        assert await is_stored()
    finally:
        await database.close()
        await admin.close()
