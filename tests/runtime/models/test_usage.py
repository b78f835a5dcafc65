"""The row of each call, also while the database is away, and what a call costs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from sqlalchemy import select
from structlog.testing import capture_logs

from dslc.blocks.model import price_provider
from runtime.crypto import MasterKey
from runtime.database import outage
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import OWNER, usage, usage_totals
from runtime.models.budgets.ledger import LEDGER
from runtime.models.budgets.limits import Amount
from runtime.models.calls import usage as usage_module
from runtime.models.calls.call import BACKGROUND, Call, CallOwner
from runtime.models.calls.price import BlockPrice, PublishedPrice
from runtime.models.calls.usage import UsageLog
from runtime.models.request import Usage
from runtime.outbound.model_service import OPENAI
from tests.clocks import ManualClock, until

ADA = CallOwner("ada", "reviewer", "thread-1", "run-1")
BEGAN_AT = 1_771_065_000_000
USED = Usage(tokens_in=1000, tokens_out=100, cached=100)


def call(model: str = "m-1", owner: CallOwner = ADA) -> Call:
    return Call(owner, "chat", "quick", model, USED, 530_000, 1.25, "answered", BEGAN_AT, Amount(1100, 530_000))


async def stored(database: Database) -> list[Any]:
    async with database.read() as connection:
        return list((await connection.execute(select(usage).order_by(usage.c.id))).all())


async def settled(database: Database) -> None:
    """Wait until all writes so far are stored."""
    await until(lambda: database.commits._task is None)


# Rows.


async def test_each_call_is_a_row_of_its_owner(database: Database, clock: ManualClock) -> None:
    log = UsageLog(database, clock)
    log.add(call())
    log.add(call("nul\x00", BACKGROUND)._replace(purpose="embedding", usage=Usage(), cost=None, outcome="refused"))
    await settled(database)
    first, second = await stored(database)

    assert (first.user_id, first.agent, first.thread_id, first.run_id) == ADA
    assert (first.purpose, first.model, first.service_model, first.outcome) == ("chat", "quick", "m-1", "answered")
    assert (first.tokens_in, first.tokens_out, first.cached, first.cost) == (1000, 100, 100, 530_000)
    assert (first.duration, first.created_at) == (1250, BEGAN_AT)
    assert (second.user_id, second.agent, second.service_model) == (OWNER, None, "nul\ufffd")
    assert (second.tokens_in, second.cost, second.outcome) == (None, None, "refused")


async def test_calls_do_not_wait_for_their_rows(database: Database, clock: ManualClock) -> None:
    log = UsageLog(database, clock)
    for number in range(300):
        log.add(call(f"m-{number}"))
    assert database.commits.depth == 300
    await settled(database)

    assert [row.service_model for row in await stored(database)] == [f"m-{number}" for number in range(300)]


async def test_rows_wait_for_a_database_that_is_away(database: Database, clock: ManualClock) -> None:
    log = UsageLog(database, clock)
    database.outage.problem = Unavailable("away")
    for number in range(3):
        log.add(call(f"m-{number}"))
    database.outage.problem = None
    log.add(call("m-3"))
    await settled(database)

    assert [row.service_model for row in await stored(database)] == ["m-0", "m-1", "m-2", "m-3"]


async def test_a_row_whose_commit_was_stored_but_not_answered_is_there_once(
    database: Database, clock: ManualClock
) -> None:
    ended = UsageLog(database, clock)._ended_call(call())
    for again in (False, True, True):
        await database.commits.store(LEDGER, ended._replace(again=again))

    assert len(await stored(database)) == 1
    async with database.read() as connection:
        totals = (await connection.execute(select(usage_totals).order_by(usage_totals.c.user_id))).all()
    assert totals == [("", "reviewer", 20498, 1100, 530_000), ("ada", "", 20498, 1100, 530_000)]


async def test_rows_that_a_server_does_not_store_are_stored_when_it_does(
    postgres_url: str, master_key: MasterKey, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "PROBE_SECONDS", 0.01)
    name = urlsplit(postgres_url).path.removeprefix("/")
    admin = await asyncpg.connect(postgres_url)
    database = await Database.open(postgres_url, master_key)
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()"
    try:
        await admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        await admin.execute(others, name)
        log = UsageLog(database, clock)
        log.add(call("m-0"))
        await until(lambda: database.outage.problem is not None)
        log.add(call("m-1"))
        await admin.execute("SET default_transaction_read_only = off")
        await admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = off")
        await admin.execute(others, name)
        await until(lambda: database.outage.problem is None)
        log.add(call("m-2"))
        await settled(database)

        assert {row.service_model for row in await stored(database)} == {"m-0", "m-1", "m-2"}
    finally:
        await database.close()
        await admin.close()


async def test_too_many_rows_are_lost_and_that_is_logged_once(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_module, "MOST_KEPT", 5)
    log = UsageLog(database, clock)
    database.outage.problem = Unavailable("away")
    with capture_logs() as lines:
        for number in range(20):
            log.add(call(f"m-{number}"))
        database.outage.problem = None
        log.store_pending()
        await settled(database)
        await until(lambda: len(lines) == 2)

    assert [row.service_model for row in await stored(database)] == [f"m-{number}" for number in range(15, 20)]
    assert [line["event"] for line in lines] == ["usage_not_stored", "usage_rows_lost"]
    assert lines[1]["rows"] == 15


# Prices.


def test_the_price_of_the_block_wins() -> None:
    assert BlockPrice(0.4, 1.6).cost("m-1", USED) == 560_000
    assert BlockPrice(None, 1.6).cost("m-1", USED) == 160_000
    assert BlockPrice(0.4, 1.6).cost("m-1", Usage()) is None
    assert BlockPrice(0.0, 0.0).cost("m-1", USED) == 0


@pytest.mark.parametrize(
    ("row", "url", "model", "cost"),
    [
        ("openai", OPENAI, "gpt-4.1-mini", 530_000),
        ("openai", OPENAI, "text-embedding-3-small", 20_000),
        ("openai", OPENAI, "no-such-model", None),
        ("openai", "http://localhost:8080/v1", "gpt-4.1-mini", None),
        ("ollama", "http://localhost:11434", "llama3.1:8b", None),
        ("no-such-row", None, "gpt-4.1-mini", None),
    ],
)
def test_published_prices_are_used_where_service_and_model_are_known(
    row: str, url: str | None, model: str, cost: int | None
) -> None:
    used = Usage(tokens_in=1000) if "embedding" in model else USED
    assert PublishedPrice(row, url).cost(model, used) == cost


@pytest.mark.parametrize("row", ["anthropic", "google", "mistral", "bedrock", "groq", "cohere"])
def test_a_row_without_an_address_is_looked_up_by_its_name(row: str) -> None:
    from genai_prices.data_snapshot import find_provider_by_id, get_snapshot

    assert find_provider_by_id(get_snapshot().providers, price_provider(row)) is not None


def test_unknown_usage_has_no_cost() -> None:
    assert PublishedPrice("openai", OPENAI).cost("gpt-4.1-mini", Usage()) is None


def test_prices_are_loaded_late_and_without_a_connection() -> None:
    code = """
import sys
opened = []
sys.addaudithook(lambda event, _: opened.append(event) if event.startswith("socket.") else None)
from runtime.models.calls.price import PublishedPrice
from runtime.models.request import Usage
assert "genai_prices" not in sys.modules
assert PublishedPrice("openai", "https://api.openai.com/v1").cost("gpt-4.1-mini", Usage(tokens_in=1000))
assert "genai_prices" in sys.modules
print(opened)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
