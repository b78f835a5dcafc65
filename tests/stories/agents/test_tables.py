"""An agent that keeps expenses in SQL tables, over kill -9 of the daemon: a statement that may have changed something
happens at most once, and one that only reads is run again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from runtime.agents.loop.call import UNKNOWN
from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import Daemon, running, until, write_program

pytestmark = LONG

PROGRAM = """\
memory notes {{ path "notes" embedding hashing }}
{model}
agent helper {{ memory notes model scripted tools [agent_memory_sql agent_memory_schema] }}
"""
SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500000)"
"""Takes longer than it takes to kill the daemon, and less than a statement may take."""


def sql(query: str, *params: object) -> str:
    return says(agent_memory_sql={"query": query, "params": list(params)})


def calls(root: Path) -> list[tuple[str]]:
    """Return the state of each tool call, in order."""
    with closing(sqlite3.connect(root / ".symbi/symbiont.db", timeout=60)) as database:
        return database.execute("SELECT state FROM steps WHERE kind = 'tool' ORDER BY started_at, position").fetchall()


def rows(daemon: Daemon, query: str) -> list[Mapping[str, Any]]:
    done = daemon.symbi("table", "sql", query, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["rows"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("slow", "status"),
    [
        (f"INSERT INTO expenses {SLOW} SELECT 'total', max(i) FROM n", "unknown"),
        (f"{SLOW} SELECT max(i) AS amount FROM n", "ok"),
    ],
    ids=["change", "read"],
)
def test_a_statement_that_the_daemon_was_killed_in(tmp_path: Path, slow: str, status: str) -> None:
    replies = (
        sql("CREATE TABLE expenses (shop TEXT, amount INTEGER)"),
        sql("INSERT INTO expenses VALUES (?, ?)", "bakery", 5),
        sql(slow),
        sql("SELECT count(*) AS n FROM expenses WHERE shop = ?", "bakery"),
        says("Done."),
    )
    with ScriptedModel(*replies) as model, ThreadPoolExecutor(1) as pool:
        write_program(tmp_path, PROGRAM.format(model=model.block))
        with running(tmp_path, "program") as daemon:
            question = pool.submit(daemon.symbi, "chat", "-m", "Keep my expenses.", "--json")
            until(lambda: len(calls(tmp_path)) == 3, what="the slow statement", pause=0)
            daemon.kill()
            assert calls(tmp_path)[2] == ("intended",)
        with running(tmp_path, "program") as daemon:
            done = question.result(120)
            kept = rows(daemon, "SELECT shop, amount FROM expenses ORDER BY amount")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        outputs = [(each["status"], each["output"]) for each in answer["tool_calls"]]
    assert (answer["ended"], answer["messages"]) == ("answered", ["Done."])
    assert [each for each, _ in outputs] == ["ok", "ok", status, "ok"]
    if status == "unknown":
        assert outputs[2][1] == UNKNOWN
    else:
        assert json.loads(outputs[2][1])["rows"] == [{"amount": 1_500_000}]
    assert json.loads(outputs[3][1])["rows"] == [{"n": 1}]
    # The worker ended with the daemon: what it had not committed is not there.
    assert kept == [{"shop": "bakery", "amount": 5}]


def test_two_users_of_one_agent_have_tables_of_the_same_name(tmp_path: Path) -> None:
    def reply(body: Mapping[str, Any]) -> str:
        text = "\n".join(str(message["content"]) for message in body["messages"])
        number = 7 if "I am Ada" in text else 8
        steps = (sql("CREATE TABLE notes (n INTEGER)"), sql("INSERT INTO notes VALUES (?)", number))
        outputs = text.count("<tool_output")
        return (*steps, sql("SELECT n FROM notes"), says("Done."))[outputs]

    with ScriptedModel(reply) as model:
        write_program(tmp_path, PROGRAM.format(model=model.block))
        with running(tmp_path, "program") as daemon:
            for user, message in (("ada", "I am Ada."), ("bob", "I am Bob.")):
                assert daemon.symbi("user", "add", user).returncode == 0
                done = daemon.symbi("chat", "-m", message, "--json", "--user", user)
                assert done.returncode == 0, done.stderr
                last = json.loads(done.stdout)["tool_calls"][-1]["output"]
                assert json.loads(last)["rows"] == [{"n": 7 if user == "ada" else 8}]
            assert daemon.symbi("user", "remove", "ada", "--yes").returncode == 0
            left = daemon.symbi("table", "sql", "SELECT n FROM notes", "--user", "bob", "--json")
            assert json.loads(left.stdout)["rows"] == [{"n": 8}]
            assert daemon.symbi("table", "sql", "SELECT n FROM notes", "--user", "ada").returncode == 2
