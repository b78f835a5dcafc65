"""A turn waits at a limit or calls its model, and meanwhile users and databases change."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.proxy import proxied
from tests.runtime.daemon.running import Daemon, on_postgres, running, until, write_program
from tests.runtime.daemon.v1 import ask, make_token

pytestmark = LONG

PROGRAM = """\
memory notes {{ store collection embedding hashing }}
{model}
webhook github {{ path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" agent helper }}
agent helper {{
    memory notes
    model scripted
    block human {{ deliveries true }}
    context {{ reply_tokens 200 }}
    limits {{ {limits} }}
}}
"""
NOTE = {"label": "human", "content": "Likes tea."}
KEPT = "Likes tea. [from a delivery of github]"


class Interrupting:
    """A model that notes something, then says that it did. At its first reply `interrupt` is called."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt: Callable[[], None] | None = interrupt

    def __call__(self, body: Mapping[str, Any]) -> str:
        if self._interrupt is not None:
            self._interrupt()
            self._interrupt = None
        text = "\n".join(str(message["content"]) for message in body["messages"])
        return says("Noted.") if "<tool_output" in text else says(memory_append=NOTE)


def shown(daemon: Daemon, *arguments: str, **given: str) -> Any:
    done = daemon.symbi(*arguments, "--json", **given)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def limit(daemon: Daemon, **given: str) -> Mapping[str, Any]:
    """Return the limit of the agent, and what is used and reserved of it."""
    (found,) = shown(daemon, "agent", "usage", **given)["limits"]
    return dict(found)


def newest(daemon: Daemon, **given: str) -> Mapping[str, Any]:
    runs = until(lambda: shown(daemon, "agent", "runs", "--limit", "1", **given)["runs"], what="the first run")
    return dict(runs[0])


def tokens(run: Mapping[str, Any]) -> int:
    """Return the tokens that the calls of a run used."""
    return int(run["usage"]["tokens_in"] + run["usage"]["tokens_out"])


def test_what_waits_at_a_limit_is_deleted_with_its_user(tmp_path: Path) -> None:
    with ScriptedModel(says("Yes.")) as model:
        write_program(tmp_path, PROGRAM.format(model=model.block, limits="runs_per_hour 1 at_limit wait"))
        with running(tmp_path, "program") as daemon:
            assert daemon.symbi("user", "add", "ada").returncode == 0
            assert daemon.github(b'{"n":1}', "one").status == 202
            until(lambda: newest(daemon)["ended"] == "answered", what="the first run")
            token = make_token(daemon, "--user", "ada", "--scope", "write")
            sent = ask(daemon, token, "POST", "/v1/agents/helper/chat", {"input": "Hello", "wait": 0}).json()
            run = f"/v1/agent/chat/{sent['run']}"
            until(lambda: ask(daemon, token, "GET", run).json()["state"] == "budget_exceeded", what="the message waits")
            assert daemon.symbi("user", "remove", "ada", "--yes").returncode == 0
            daemon.load(PROGRAM.format(model=model.block, limits="runs_per_hour 100"))
            assert daemon.github(b'{"n":2}', "two").status == 202
            until(lambda: len(model.bodies) == 2 and newest(daemon)["ended"] == "answered", what="the next run")
            assert ask(daemon, token, "GET", run).status == 401
        with running(tmp_path, "program") as daemon:
            assert [run["agent"] for run in shown(daemon, "agent", "runs")["runs"]] == ["helper", "helper"]
    assert not any("Hello" in model.texts(number) for number in range(len(model.bodies)))


def test_a_locked_database_before_a_reservation_loses_and_reserves_nothing(tmp_path: Path) -> None:
    locked: list[sqlite3.Connection] = []

    def lock() -> None:
        other = sqlite3.connect(tmp_path / ".symbi/symbiont.db", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        locked.append(other)

    with ScriptedModel(Interrupting(lock)) as model:
        write_program(tmp_path, PROGRAM.format(model=model.block, limits="tokens_per_day 1000000"))
        with running(tmp_path, "program") as daemon:
            assert daemon.github(b'{"n":1}', "one").status == 202
            until(lambda: locked and daemon.readyz().status == 503, what="the locked database")
            with closing(locked[0]) as other:
                other.execute("ROLLBACK")
            until(lambda: newest(daemon)["ended"] == "answered", what="the end of the run")
            assert shown(daemon, "agent", "block", "show", "helper", "human")["value"] == KEPT
            until(lambda: limit(daemon)["reserved"] == 0, what="the end of all reservations")
            assert limit(daemon)["used"] == tokens(newest(daemon)) > 0
            assert newest(daemon)["usage"]["calls"] == len(model.bodies)


def test_a_database_that_is_away_before_a_reservation_loses_and_reserves_nothing(
    tmp_path: Path, postgres_url: str
) -> None:
    with proxied(postgres_url) as proxy:
        given = on_postgres(proxy.url)
        with ScriptedModel(Interrupting(proxy.cut)) as model:
            write_program(tmp_path, PROGRAM.format(model=model.block, limits="tokens_per_day 1000000"))
            with running(tmp_path, "program", wait=True, **given) as daemon:
                assert daemon.github(b'{"n":1}', "one").status == 202
                until(lambda: daemon.readyz().status == 503, what="the outage")
                proxy.reconnect()
                until(lambda: daemon.readyz().status == 200, what="the database")
                until(lambda: newest(daemon, **given)["ended"] == "answered", what="the end of the run")
                block = shown(daemon, "agent", "block", "show", "helper", "human", **given)
                assert block["value"] == KEPT
                until(lambda: limit(daemon, **given)["reserved"] == 0, what="the end of all reservations")
                assert limit(daemon, **given)["used"] == tokens(newest(daemon, **given)) > 0
                assert newest(daemon, **given)["usage"]["calls"] == len(model.bodies)
