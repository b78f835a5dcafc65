"""Settings: flags, then variables, then defaults; an error names a setting as it was given."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runtime.daemon.process.settings import ProcessSettings, parse_address
from runtime.errors import UsageError
from runtime.tables.quota import TIERS, Quota
from tests.cases import each_case


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::1]:8080", ("::1", 8080)),
        (":9000", ("0.0.0.0", 9000)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_an_address_is_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["8080", "127.0.0.1", "::1:8080", "host:99999", "host:-1", "host:٣", ""])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--listen: write HOST:PORT"):
        ProcessSettings.read({"listen": text})


def test_a_flag_wins_over_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMBIONT_LISTEN", "127.0.0.1:1")
    assert ProcessSettings.read({"listen": None}).listen == "127.0.0.1:1"
    assert ProcessSettings.read({"listen": "127.0.0.1:2"}).listen == "127.0.0.1:2"


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMBIONT_WORKERS", "many")
    with pytest.raises(UsageError, match="SYMBIONT_WORKERS: input should be a valid integer"):
        ProcessSettings.read({})


@pytest.mark.parametrize("text", ["-1", "1.5", "many", "", "9" * 20])
def test_a_wrong_limit_of_tasks_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SYMBIONT_TASKS_PER_HOUR", text)
    with pytest.raises(UsageError, match="SYMBIONT_TASKS_PER_HOUR: input should be"):
        ProcessSettings.read({})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("connections", "9" * 20),
        ("inbox_capacity", "9" * 20),
        ("keep_time", "9999999d"),
        ("keep_size", "9PiB"),
        ("drain_timeout", "2d"),
        ("run_timeout", "31d"),
    ],
)
def test_a_number_that_nothing_can_be_counted_up_to_is_refused(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')}: input should be less than or equal to"):
        ProcessSettings.read({name: value})


def test_times_and_sizes_are_written_as_in_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMBIONT_RUN_TIMEOUT", "1h30min")
    settings = ProcessSettings.read({"keep_size": "1.5GB"})
    assert (settings.run_timeout, settings.keep_size) == (timedelta(minutes=90), 1_500_000_000)
    monkeypatch.setenv("SYMBIONT_RUN_TIMEOUT", "90")
    with pytest.raises(UsageError, match="SYMBIONT_RUN_TIMEOUT: a duration needs a unit"):
        ProcessSettings.read({})


def test_a_password_in_the_database_url_is_not_in_the_repr() -> None:
    assert "hunter2" not in repr(ProcessSettings.read({"database": "postgresql://me:hunter2@db/x"}))


@pytest.mark.parametrize("url", ["https://hooks.example.com", "https://example.com/in", "http://10.0.0.1:8080/"])
def test_what_senders_see_is_a_url(url: str) -> None:
    assert ProcessSettings.read({"public_url": url}).public_url == url


@pytest.mark.parametrize(
    "url", ["", "hooks.example.com", "ftp://example.com", "https://me:pw@example.com", "https://a/?b", "https://ü.de"]
)
def test_anything_else_is_no_url_that_senders_see(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("SYMBIONT_PUBLIC_URL", url)
    with pytest.raises(UsageError, match="SYMBIONT_PUBLIC_URL: "):
        ProcessSettings.read({})


def test_a_tier_keeps_the_limits_that_are_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ProcessSettings.read({}).tiers == TIERS
    monkeypatch.setenv("SYMBIONT_TIER", "pro")
    monkeypatch.setenv("SYMBIONT_TIER_FREE", "storage=100MB texts=5MB")
    monkeypatch.setenv("SYMBIONT_TIER_PRO", " rows=unlimited  tables=1_000 storage=2GiB")
    settings = ProcessSettings.read({})
    assert settings.tier == "pro"
    assert settings.tiers == {
        "free": Quota(5, 10_000, 100_000_000, 5_000_000),
        "pro": Quota(1000, None, 2 * 1024**3, TIERS["pro"].texts),
        "enterprise": TIERS["enterprise"],
    }


@each_case(
    ("text", "reason"),
    [
        *((text, "a word is no limit") for text in ("25MB", "tables=", "tables = 5", "size=1MB")),
        *(
            (text, "tables: not a limit")
            for text in ("tables=0", "tables=5,rows=3", "tables=٣", "tables=1.5", "tables=²")
        ),
        ("rows=1000000000001", "rows: not a limit"),
        ("rows=" + "9" * 5000, "rows: not a limit"),
        ("storage=unlimited", "storage: not a size"),
        ("storage=25mb", "storage: unknown unit of size `mb`"),
        *((text, "storage: out of bounds") for text in ("storage=999KB", "storage=2PB")),
        ("rows=1 rows=1", "rows is given twice"),
        (" ", "no limit is named"),
    ],
)
def test_a_tier_that_cannot_be_read_is_one_line(monkeypatch: pytest.MonkeyPatch, text: str, reason: str) -> None:
    monkeypatch.setenv("SYMBIONT_TIER_ENTERPRISE", text)
    with pytest.raises(UsageError) as caught:
        ProcessSettings.read({})
    assert caught.value.line().startswith(f"SYMBIONT_TIER_ENTERPRISE: {reason}")
    assert "\n" not in caught.value.line()
    assert len(caught.value.line()) < 200


def test_a_tier_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMBIONT_TIER", "gold")
    with pytest.raises(UsageError, match="SYMBIONT_TIER: input should be 'free', 'pro' or 'enterprise'"):
        ProcessSettings.read({})
