"""Kill -9 under load: every 202 is in the inbox, and each of those deliveries is remembered at least once. A delivery
that is interrupted five times becomes a dead letter, which is redelivered."""

from __future__ import annotations

import contextlib
import random
import re
import sqlite3
import threading
import time
from contextlib import closing
from http.client import HTTPException
from pathlib import Path

from runtime.agents.dispatcher import FIRST_WORKERS
from tests.lanes import repeated
from tests.runtime.daemon.running import Daemon, running, until, write_program


@repeated("rounds", 2, 24)
def test_nothing_that_was_acknowledged_is_lost(tmp_path: Path, rounds: int) -> None:
    write_program(tmp_path)
    acknowledged: dict[str, str] = {}
    chance = random.Random(7)
    for turn in range(rounds):
        with running(tmp_path, "program") as daemon:
            before = _done(tmp_path)
            workers = [threading.Thread(target=_send, args=(daemon, f"{turn}-{n}", acknowledged)) for n in range(4)]
            for worker in workers:
                worker.start()
            time.sleep(chance.uniform(0.05, 0.4))
            # So that each daemon makes progress, also on a busy machine.
            until(lambda: _done(tmp_path) >= before + FIRST_WORKERS)  # noqa: B023
            daemon.kill()
            for worker in workers:
                worker.join()
    assert len(acknowledged) > rounds
    with running(tmp_path, "program") as daemon:
        if "dead" in until(lambda: _ended(daemon), 120, "every run's end"):
            assert daemon.symbi("webhook", "redeliver", "--since", "1h", "--yes").returncode == 0
        accepted = until(lambda: _all_done(daemon), 120, "every delivery's being remembered")
        assert acknowledged.items() <= accepted.items()
        text = "".join(file.read_text() for file in (tmp_path / "data/agents/reviewer/logs").glob("*.md"))
        remembered = set(re.findall(r"- number: (\S+)", text))
        assert set(acknowledged) <= remembered


def _send(daemon: Daemon, worker: str, acknowledged: dict[str, str]) -> None:
    number = 0
    while daemon.process.poll() is None:
        number += 1
        name = f"{worker}-{number}"
        body = b'{"action":"opened","number":"%s"}' % name.encode()
        with contextlib.suppress(OSError, HTTPException):
            answer = daemon.github(body, name)
            if answer.status == 202:
                acknowledged[name] = answer.json()["delivery_id"]


def _done(root: Path) -> int:
    with closing(sqlite3.connect(root / ".symbi/symbiont.db", timeout=60)) as database:
        return int(database.execute("SELECT count(*) FROM deliveries WHERE state = 'done'").fetchone()[0])


def _ended(daemon: Daemon) -> set[str]:
    """Return the states of all accepted deliveries, once none waits or runs any more."""
    states = {row["run_state"] for row in daemon.attempts("--limit", "10000") if row["verdict"] == "accepted"}
    return states if states <= {"done", "dead"} else set()


def _all_done(daemon: Daemon) -> dict[str, str]:
    rows = [row for row in daemon.attempts("--limit", "10000") if row["verdict"] == "accepted"]
    if any(row["run_state"] != "done" for row in rows):
        return {}
    return {row["provider_delivery_id"]: row["delivery_id"] for row in rows}
