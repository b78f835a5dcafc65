"""Several daemons on one PostgreSQL: a daemon that is killed, stopped or cut off loses and doubles no delivery."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import LONG
from tests.runtime.daemon import sharing
from tests.runtime.daemon.proxy import proxied
from tests.runtime.daemon.running import Answer, Daemon, on_postgres, running, until, write_program

LEASE = 2
COUNT = 60


@contextmanager
def sharing_daemon(root: Path, url: str, **extra: str) -> Iterator[Daemon]:
    root.mkdir(exist_ok=True)
    write_program(root)
    command = f"{sharing.__name__}:{sharing.shared.__name__}"
    environ = on_postgres(url, **{"SHARING_LEASE": str(LEASE), **extra})
    with running(root, "program", wait=True, command=command, **environ) as daemon:
        yield daemon


def remembered(*daemons: Daemon) -> str:
    """Return what all their agents have written."""
    return "".join(
        file.read_text() for each in daemons for file in (each.root / "data/agents/reviewer/logs").glob("*.md")
    )


async def _rows(url: str) -> list[Any]:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        return list(await connection.fetch("SELECT id, provider_delivery_id, state FROM deliveries"))
    finally:
        await connection.close()


def rows(url: str) -> list[Any]:
    return asyncio.run(_rows(url))


class Sender:
    """A careful sender: what was not answered 2xx is sent again, to either daemon, as through a load balancer."""

    def __init__(self, *daemons: Daemon) -> None:
        self.daemons = list(daemons)
        self.acknowledged: dict[str, set[str]] = {}
        self.unlike: list[int] = []
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(120)
        assert not self._thread.is_alive()

    def _send(self) -> None:
        chance = random.Random(7)
        for number in range(COUNT):
            name = f"n{number:03}"
            # Half of them twice, as after a lost response.
            for _ in range(1 + number % 2):
                self._until_taken(name, chance)
            time.sleep(0.02)

    def _until_taken(self, name: str, chance: random.Random) -> None:
        for _ in range(600):
            answer = self._try(chance.choice(self.daemons), name)
            if answer is not None and answer.status == 202:
                self.acknowledged.setdefault(name, set()).add(answer.json()["delivery_id"])
                return
            if answer is not None and answer.status != 503:
                self.unlike.append(answer.status)
            time.sleep(0.05)

    def _try(self, daemon: Daemon, name: str) -> Answer | None:
        try:
            return daemon.github(json.dumps({"number": name}).encode(), name)
        except (OSError, HTTPException):
            return None


def all_is_well(url: str, sender: Sender, *daemons: Daemon) -> None:
    """Assert that every acknowledged delivery is stored once, was run, and is remembered."""
    assert sender.unlike == []
    assert len(sender.acknowledged) == COUNT
    until(lambda: all(row["state"] == "done" for row in rows(url)), 60, "the end of all runs")
    found = {row["provider_delivery_id"]: {row["id"]} for row in rows(url)}
    assert len(rows(url)) == COUNT
    assert found == sender.acknowledged
    text = remembered(*daemons)
    for name in found:
        assert f"- number: {name}\n" in text


@LONG
@pytest.mark.parametrize("seconds", [1.0, 0.3])
def test_one_that_is_killed_loses_nothing_and_doubles_nothing(
    tmp_path: Path, postgres_url: str, seconds: float
) -> None:
    with (
        sharing_daemon(tmp_path / "one", postgres_url) as one,
        sharing_daemon(tmp_path / "other", postgres_url) as other,
    ):
        with Sender(one, other) as sender:
            time.sleep(seconds)
            one.kill()
        all_is_well(postgres_url, sender, one, other)


@LONG
def test_one_that_stood_still_past_its_leases_goes_on_and_writes_nothing_late(
    tmp_path: Path, postgres_url: str
) -> None:
    with (
        sharing_daemon(tmp_path / "one", postgres_url, SHARING_RUN="0.5") as one,
        sharing_daemon(tmp_path / "other", postgres_url) as other,
    ):
        sender = Sender(one, other)
        with sender:
            time.sleep(0.8)
            one.process.send_signal(signal.SIGSTOP)
            # Requests to it wait as long as it is stopped.
            time.sleep(LEASE + 1.5)
            one.process.send_signal(signal.SIGCONT)
        all_is_well(postgres_url, sender, one, other)
        assert one.readyz().status == 200
        assert other.readyz().status == 200


@LONG
@pytest.mark.parametrize("seconds", [1.0, 0.2])
def test_one_that_is_cut_off_from_the_database_loses_nothing_and_doubles_nothing(
    tmp_path: Path, postgres_url: str, seconds: float
) -> None:
    with (
        proxied(postgres_url) as proxy,
        sharing_daemon(tmp_path / "one", proxy.url) as one,
        sharing_daemon(tmp_path / "other", postgres_url) as other,
    ):
        sender = Sender(one, other)
        with sender:
            time.sleep(seconds)
            proxy.cut()
            time.sleep(LEASE + 1)
            proxy.reconnect()
        all_is_well(postgres_url, sender, one, other)
        until(lambda: one.readyz().status == 200, what="the daemon's recovery")
        assert one.github(b'{"number":"again"}', "again").status == 202


def test_what_a_busy_daemon_takes_a_free_one_runs_at_once(tmp_path: Path, postgres_url: str) -> None:
    # No daemon polls the inbox: only a notification can bring a delivery to the other daemon.
    given = {"SHARING_POLL": "3600", "SHARING_LEASE": "3600", "SYMBIONT_WORKERS": "1"}
    stuck = {"SHARING_RUN": "3600", "SYMBIONT_DRAIN_TIMEOUT": "0s", **given}
    with sharing_daemon(tmp_path / "busy", postgres_url, **stuck) as busy:
        assert busy.github(b'{"number":"stuck"}', "stuck").status == 202
        until(lambda: [row["state"] for row in rows(postgres_url)] == ["running"], what="the first run")
        # Not before, or this daemon might claim it: then neither would be busy with a run that never ends.
        with sharing_daemon(tmp_path / "free", postgres_url, SHARING_RUN="0", **given) as free:
            for number in range(3):
                assert busy.github(b'{"number":"n%d"}' % number, f"n{number}").status == 202
                line = f"- number: n{number}\n"
                until(partial(_remembers, free, line), what="the other's run")
        assert remembered(busy) == ""


def _remembers(daemon: Daemon, line: str) -> bool:
    return line in remembered(daemon)


def test_a_webhook_made_on_one_daemon_answers_on_the_other(tmp_path: Path, postgres_url: str) -> None:
    with (
        sharing_daemon(tmp_path / "one", postgres_url) as one,
        sharing_daemon(tmp_path / "other", postgres_url) as other,
    ):
        create = ("webhook", "create", "Nightly build", "--agent", "reviewer", "--json")
        made = one.symbi(*create, **on_postgres(postgres_url))
        assert made.returncode == 0, made.stderr
        path = f"/webhooks/{json.loads(made.stdout)['webhook_id']}"
        until(lambda: other.request("POST", path, b"{}").status == 401, what="the route on the other daemon")
