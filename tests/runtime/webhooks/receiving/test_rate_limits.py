"""No sixty seconds have more than the quota, and a sender that waits as long as the answer says is accepted."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine

from runtime.database import schema
from runtime.webhooks.deliveries.delivery import Quota
from runtime.webhooks.receiving.rate_limits import Limit, Rates, Window, fields
from tests.clocks import START

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
            rates = Rates.locked(connection, [KEY], now)
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
    assert fields(quotas, 12) == (
        b"Retry-After: 12\r\n"
        b'RateLimit-Policy: "webhook";q=60;w=60, "user";q=300;w=60\r\n'
        b'RateLimit: "webhook";r=0;t=12, "user";r=7;t=3\r\n'
    )
    assert b"Retry-After" not in fields(quotas)
    assert fields(()) == b""
