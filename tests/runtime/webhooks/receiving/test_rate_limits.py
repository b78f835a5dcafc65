"""Limits of deliveries: no sixty seconds have more than the quota, for all daemons together, and only what is accepted
counts."""

from __future__ import annotations

import asyncio
from collections import Counter
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, update

from runtime.crypto import MasterKey
from runtime.database import schema
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import deliveries, rates, replay_keys
from runtime.webhooks.deliveries.delivery import Candidate, Decision, Quota
from runtime.webhooks.receiving.admission import Admission
from runtime.webhooks.receiving.rate_limits import Limit, Rates, Window, header_lines
from tests.clocks import START, ManualClock
from tests.runtime.webhooks.candidates import candidate, rows, verdicts

KEY = ("owner", "webhook", "github")
MINUTE_MS = 60_000
NOW = int(START * 1000)


def fresh() -> Rates:
    return Rates({KEY: Window(NOW // 1000, [0])})


@given(st.integers(1, 20), st.lists(st.integers(0, 9_000), max_size=120))
def test_no_sixty_seconds_hold_more_than_the_quota(quota: int, pauses: list[int]) -> None:
    rates, now, accepted = fresh(), NOW, list[int]()
    for pause in pauses:
        now += pause
        wait, _ = rates.take([Limit(KEY, quota)], now)
        if not wait:
            accepted.append(now)
        within = [at for at in accepted if at > now - MINUTE_MS]
        assert len(within) <= quota
        # A sender below the quota in a whole minute and the current second is not refused.
        assert not wait or len([at for at in accepted if at > now - MINUTE_MS - 1000]) >= quota


@given(st.integers(1, 20), st.lists(st.tuples(st.integers(0, 70_000), st.integers(1, 25)), max_size=12))
def test_the_quota_is_accepted_at_once_and_no_more_within_sixty_seconds_over_restarts(
    quota: int, bursts: list[tuple[int, int]]
) -> None:
    """Each transaction reads only the rows, as after a restart or in another daemon."""
    engine, limit, now, accepted = create_engine("sqlite://"), Limit(KEY, quota), NOW, list[int]()
    schema.rates.create(engine)
    for pause, size in bursts:
        now += pause
        with engine.begin() as connection:
            rates = Rates.lock(connection, [KEY], now)
            taken = [not rates.take([limit], now)[0] for _ in range(size)]
            rates.write(connection)
        recent = [at for at in accepted if at > now - MINUTE_MS - 1000]
        assert sum(taken) <= quota - len([at for at in recent if at > now - MINUTE_MS])
        assert recent or sum(taken) == min(size, quota)
        accepted += [now] * sum(taken)
    engine.dispose()


@given(st.integers(1, 20), st.lists(st.integers(0, 9_000), min_size=1, max_size=60))
def test_after_the_time_that_was_said_one_is_accepted_and_no_sooner(quota: int, pauses: list[int]) -> None:
    rates, now, limit = fresh(), NOW, [Limit(KEY, quota)]
    for pause in pauses:
        now += pause
        wait, [stands] = rates.take(limit, now)
        assert stands.remaining >= 0
        if wait:
            assert 1 <= wait <= 61
            assert stands == Quota("webhook", quota, 0, wait)
            early, _ = deepcopy(rates).take(limit, now + (wait - 1) * 1000)
            assert early
            late, _ = deepcopy(rates).take(limit, now + wait * 1000)
            assert not late
        else:
            # No more than the remaining count is accepted within the stated time.
            trial = deepcopy(rates)
            again = [trial.take(limit, now + (stands.seconds - 1) * 1000)[0] for _ in range(stands.remaining + 1)]
            assert not any(again[:-1])
            assert again[-1]


@given(st.integers(1, 9), st.lists(st.integers(-200_000, 200_000), max_size=40))
def test_a_clock_that_is_set_back_neither_opens_the_limit_nor_closes_it_for_long(quota: int, steps: list[int]) -> None:
    rates, now = fresh(), NOW
    for step in steps:
        before = now
        now += step
        used = sum(rates._windows[KEY].counts)
        wait, [stands] = rates.take([Limit(KEY, quota)], now)
        assert wait <= 2 * 61
        if now <= before:
            assert stands.quota - stands.remaining >= used
    wait, _ = rates.take([Limit(KEY, quota)], now + 2 * 61_000)
    assert not wait


def test_a_delivery_counts_under_all_of_its_limits_or_under_none() -> None:
    user = ("owner", "user", "")
    rates = Rates({KEY: Window(NOW // 1000, [0]), user: Window(NOW // 1000, [2])})
    limits = [Limit(KEY, 5), Limit(user, 3)]
    assert rates.take(limits, NOW) == (0, (Quota("webhook", 5, 4, 61), Quota("user", 3, 0, 61)))
    assert rates.take(limits, NOW) == (61, (Quota("webhook", 5, 4, 61), Quota("user", 3, 0, 61)))


def test_a_limit_that_was_lowered_holds_at_once() -> None:
    rates = Rates({KEY: Window(NOW // 1000, [30, 1])})
    assert rates.take([Limit(KEY, 2)], NOW) == (60, (Quota("webhook", 2, 0, 60),))


def test_header_fields_say_how_limits_stand() -> None:
    quotas = (Quota("webhook", 60, 0, 12), Quota("user", 300, 7, 3))
    assert header_lines(quotas, 12) == (
        b"Retry-After: 12\r\n"
        b'RateLimit-Policy: "webhook";q=60;w=60, "user";q=300;w=60\r\n'
        b'RateLimit: "webhook";r=0;t=12, "user";r=7;t=3\r\n'
    )
    assert b"Retry-After" not in header_lines(quotas)
    assert header_lines(()) == b""


@pytest.fixture
def admission(database: Database, clock: ManualClock) -> Admission:
    return Admission(database, clock)


def limited(name: str | None = None, per_minute: int | None = 3, **more: Any) -> Candidate:
    return candidate(name, per_minute=per_minute, **more)


async def one_by_one(admission: Admission, *candidates: Candidate) -> list[Decision]:
    return [await admission.admit(each) for each in candidates]


@pytest.mark.parametrize("at_once", [True, False])
async def test_the_quota_is_accepted_and_not_one_more(
    admission: Admission, database: Database, clock: ManualClock, at_once: bool
) -> None:
    many = [limited(str(number)) for number in range(5)]
    if at_once:
        decisions: list[Decision] = list(await asyncio.gather(*map(admission.admit, many)))
    else:
        decisions = await one_by_one(admission, *many)
    assert verdicts(decisions) == [*["accepted"] * 3, *["limited"] * 2]
    assert [decision.quotas[0].remaining for decision in decisions] == [2, 1, 0, 0, 0]
    assert {decision.retry_after for decision in decisions[3:]} == {61}
    assert len(await rows(database, deliveries)) == 3
    clock.advance(60.9)
    assert verdicts(await one_by_one(admission, limited())) == ["limited"]
    clock.advance(0.1)
    assert verdicts(await one_by_one(admission, *[limited()] * 4)) == [*["accepted"] * 3, "limited"]


async def test_what_is_limited_leaves_nothing_and_may_come_again(
    admission: Admission, database: Database, clock: ManualClock
) -> None:
    first = limited("1", 1, replay_key=b"first", replay_until=2e9)
    other = limited("2", 1, replay_key=b"other", replay_until=2e9)
    assert verdicts(await one_by_one(admission, first, other, other)) == ["accepted", "limited", "limited"]
    assert [bytes(row.mac) for row in await rows(database, replay_keys)] == [b"first"]
    clock.advance(61)
    assert verdicts(await one_by_one(admission, other)) == ["accepted"]


async def test_repeats_and_replays_do_not_count(admission: Admission, database: Database) -> None:
    first = limited("1", 2)
    replayed = limited(None, 2, replay_key=b"mac", replay_until=2e9)
    decisions = await one_by_one(admission, first, first, first, replayed, replayed, first, limited("2", 2))
    assert verdicts(decisions) == [*("accepted", "repeated", "repeated", "accepted", "replayed", "repeated", "limited")]


async def test_a_repeat_of_a_dead_letter_is_queued_again_beyond_the_limit(
    admission: Admission, database: Database
) -> None:
    await admission.admit(limited("1", 1))
    async with database.write() as connection:
        await connection.execute(update(deliveries).values(state="dead"))
    again = await admission.admit(limited("1", 1))
    assert (again.verdict, again.queued_again) == ("repeated", True)


async def test_each_webhook_has_its_own_quota_and_a_user_one_for_all(admission: Admission) -> None:
    def made(webhook: str, user: str = "ada") -> Candidate:
        return candidate(webhook=webhook, user_id=user, per_minute=2, user_per_minute=3)

    decisions = await one_by_one(admission, made("a"), made("a"), made("a"), made("b"), made("c"), made("a", "bob"))
    assert verdicts(decisions) == ["accepted", "accepted", "limited", "accepted", "limited", "accepted"]
    assert [(quota.name, quota.quota, quota.remaining) for quota in decisions[4].quotas] == [
        ("webhook", 2, 2),
        ("user", 3, 0),
    ]


async def test_a_webhook_without_limit_leaves_no_counter(admission: Admission, database: Database) -> None:
    decisions = await one_by_one(admission, *[candidate()] * 5)
    assert {decision.quotas for decision in decisions} == {()}
    assert await rows(database, rates) == []


async def test_limited_and_unlimited_deliveries_are_stored_together(admission: Admission) -> None:
    many = [limited(webhook=f"w{n % 3}", per_minute=4) if n % 2 else candidate() for n in range(60)]
    decisions = await asyncio.gather(*map(admission.admit, many))
    counted = Counter((each.webhook, d.verdict) for each, d in zip(many, decisions, strict=True))
    assert counted == {
        ("github-events", "accepted"): 30,
        **{(f"w{n}", verdict): count for n in range(3) for verdict, count in (("accepted", 4), ("limited", 6))},
    }


async def test_counters_outlive_the_daemon(database: Database, clock: ManualClock) -> None:
    await one_by_one(Admission(database, clock), limited(), limited())
    assert verdicts(await one_by_one(Admission(database, clock), limited(), limited())) == ["accepted", "limited"]


async def test_counters_that_another_process_changed_are_read_again(admission: Admission, database: Database) -> None:
    await one_by_one(admission, limited(), limited())
    async with database.write() as connection:
        await connection.execute(rates.delete())
    assert verdicts(await one_by_one(admission, *[limited()] * 4)) == [*["accepted"] * 3, "limited"]


async def test_a_failed_commit_counts_nothing(
    admission: Admission, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await admission.admit(limited())
    real = admission._insert_bodies

    def fails(*given: Any) -> None:
        real(*given)
        raise Unavailable("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(admission, "_insert_bodies", fails)
        patched.setattr(admission, "_bodies", lambda of: 1 / 0)
        with pytest.raises((Unavailable, ZeroDivisionError)):
            await admission.admit(limited())
    assert verdicts(await one_by_one(admission, *[limited()] * 3)) == ["accepted", "accepted", "limited"]


async def test_a_clock_that_is_set_loses_nothing_and_opens_nothing(admission: Admission, clock: ManualClock) -> None:
    await one_by_one(admission, *[limited()] * 3)
    clock.step(-3600)
    assert verdicts(await one_by_one(admission, limited())) == ["limited"]
    clock.advance(61)
    assert verdicts(await one_by_one(admission, *[limited()] * 4)) == [*["accepted"] * 3, "limited"]


async def test_daemons_on_one_database_share_the_limits(postgres_url: str, master_key: MasterKey) -> None:
    databases = [await Database.open(postgres_url, master_key) for _ in range(2)]
    clocks = [ManualClock(), ManualClock()]
    clocks[1].step(1.5)
    admissions = [Admission(database, clock) for database, clock in zip(databases, clocks, strict=True)]
    both = await asyncio.gather(
        *(
            admissions[number % 2].admit(
                candidate(str(number), webhook=f"w{number % 7}", user_id="ada", per_minute=30, user_per_minute=50)
            )
            for number in range(200)
        )
    )
    assert Counter(verdicts(both)) == {"accepted": 50, "limited": 150}
    assert len(await rows(databases[0], deliveries)) == 50
    for database in databases:
        await database.close()
