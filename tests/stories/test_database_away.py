"""A database that hangs, is locked or is full: senders and monitoring see it within seconds."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.lanes import LONG
from tests.runtime.daemon.running import Answer, Daemon, on_postgres, running, until, write_program
from tests.runtime.search.index.postgres.postgres_server import OwnServer

KEEPS = """\
webhook "github-events" {
    path     "/hooks/github"
    provider github
    secret   "secret://env/GITHUB_SECRET"
}
"""


@pytest.fixture
def server() -> Iterator[OwnServer]:
    """A PostgreSQL server that this test may freeze."""
    pytest.importorskip("pgserver")
    folder = Path(tempfile.mkdtemp(prefix="symbiont-away-"))
    started = OwnServer(folder)
    started.start()
    yield started
    started.stop("immediate")
    shutil.rmtree(folder)


def all_at_once(daemon: Daemon, count: int, prefix: str) -> list[Answer]:
    """Send `count` deliveries at the same time."""
    answers: list[Answer] = []

    def send(number: int) -> None:
        answers.append(daemon.github(b"{}", f"{prefix}-{number}"))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@LONG
def test_a_frozen_server_is_told_to_senders_and_watchers_and_keeps_no_daemon_from_stopping(
    tmp_path: Path, server: OwnServer
) -> None:
    write_program(tmp_path, KEEPS)
    with running(tmp_path, "program", wait=True, **on_postgres(server.url, SYMBIONT_DRAIN_TIMEOUT="20s")) as daemon:
        accepted = daemon.github(b"{}", "before").json()["delivery_id"]
        with server.frozen():
            assert {answer.status for answer in all_at_once(daemon, 5, "frozen")} == {503}
            state = daemon.readyz()
            assert (state.status, state.json()["ready"]) == (503, False)
            assert "storage" in state.json()
            assert state.json()["storage"] != "ok"
            metrics = daemon.request("GET", "/metrics", to="admin").body
            assert b"symbiont_storage_up 0.0" in metrics
            # From now on no sender waits for a deadline: many more are refused in the time that one wait would take.
            assert {answer.status for answer in all_at_once(daemon, 50, "known")} == {503}
            assert daemon.request("GET", "/healthz").status == 200
        until(lambda: daemon.readyz().status == 200)
        assert daemon.github(b"{}", "after").status == 202
        assert daemon.github(b"{}", "before").json()["delivery_id"] == accepted
        with server.frozen():
            assert daemon.stop() == 0
        assert "Traceback" not in daemon.log.read_text()


@LONG
def test_a_frozen_server_is_noticed_when_nothing_is_delivered(tmp_path: Path, server: OwnServer) -> None:
    write_program(tmp_path, KEEPS)
    with running(tmp_path, "program", wait=True, **on_postgres(server.url)) as daemon:
        with server.frozen():
            until(lambda: daemon.readyz().status == 503)
        until(lambda: daemon.readyz().status == 200)


@LONG
def test_a_database_that_another_program_locks_is_told_and_nobody_waits_twice(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        assert daemon.github(b"{}", "before").status == 202
        until(lambda: daemon.attempts()[0]["run_state"] == "done")
        with closing(sqlite3.connect(tmp_path / ".symbi/symbiont.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert daemon.github(b"{}", "locked").status == 503
            # Not by the general deadline for responses, which is longer than senders such as Slack wait.
            assert "database is locked" in daemon.readyz().json()["storage"]
            assert daemon.readyz().status == 503
            assert {answer.status for answer in all_at_once(daemon, 50, "known")} == {503}
            other.execute("ROLLBACK")
        until(lambda: daemon.readyz().status == 200)
        answer = daemon.github(b"{}", "locked")
        assert answer.status == 202
        daemon.until_logged("storage_recovered")
        log = daemon.log.read_text()
        assert log.count("storage_unavailable") == 1
        assert log.count("storage_recovered") == 1
