"""Kill -9 in the middle of runs with tools: no message is lost or there twice, and no tool runs twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPException
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import func, select

from runtime.daemon.process.root import Root
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program.app import App
from runtime.database.connection import Database
from runtime.database.schema import OWNER, deliveries, steps
from runtime.memory.core.block import BlockScope
from runtime.threads.content import ToolOutputPart
from runtime.threads.messages import Message
from runtime.threads.turns.backoff import TRIES
from tests.lanes import LONG, repeated
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon import sharing
from tests.runtime.daemon.running import Daemon, on_postgres, running, until, write_program

PROGRAM = """\
memory notes {{ path "notes" embedding hashing }}
{model}
webhook pushes {{ path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" agent helper }}
agent helper {{
    memory notes
    model scripted
    tools ["memory_append" "webhook_create" "task_create"]
    thread delivery
    block seen {{ char_limit 1000000 }}
}}
"""


def answer(body: Mapping[str, Any]) -> str:
    """Note a delivery, create a webhook and a task for it; say so when all have an output."""
    time.sleep(random.uniform(0, 0.1))
    text = "\n".join(str(message["content"]) for message in body["messages"])
    number = re.findall(r'"number": ?"(\S+?)"', text)[-1]
    if text.count("<tool_output") < 3:
        append = {"label": "seen", "content": f"seen {number};"}
        return says(
            memory_append=append,
            task_create={"title": f"task {number};"},
            webhook_create={"title": f"hook {number};", "agent": None},
        )
    return says(f"Noted {number}.")


@repeated("rounds", 2, 200)
def test_no_message_is_lost_and_no_tool_runs_twice(tmp_path: Path, rounds: int) -> None:
    killed(tmp_path, rounds, {})


@LONG
@repeated("rounds", 4, 30)
def test_no_message_is_lost_and_no_tool_runs_twice_on_postgresql(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    given = on_postgres(postgres_url, SHARING_LEASE="1")
    for name, value in given.items():
        # Of the app that checks the end.
        monkeypatch.setenv(name, value)
    killed(tmp_path, rounds, given)


def killed(tmp_path: Path, rounds: int, given: dict[str, str]) -> None:
    """Kill a daemon again and again while deliveries arrive, then check what it did. `given`: its variables."""
    command = f"{sharing.__name__}:{sharing.leased_without_limit.__name__}"
    variables = {**given, "SYMBIONT_TASKS_PER_HOUR": "0"}
    chance = random.Random(11)
    acknowledged: list[str] = []
    with ScriptedModel(answer) as model:
        write_program(tmp_path, PROGRAM.format(model=model.block))
        for turn in range(rounds):
            with running(
                tmp_path, "program", wait=True, command=command, admin_host="127.0.0.1", **variables
            ) as daemon:
                before = len(model.bodies)
                sender = threading.Thread(target=_send, args=(daemon, str(turn), acknowledged))
                sender.start()
                # So that each daemon gets into the middle of runs, also on a busy machine.
                until(lambda: len(model.bodies) > before + 2, what="calls of the model")  # noqa: B023
                time.sleep(chance.uniform(0, 0.3))
                daemon.kill()
                sender.join()
        with running(tmp_path, "program", wait=True, command=command, admin_host="127.0.0.1", **variables) as daemon:
            until(lambda: not asyncio.run(_left(tmp_path, given)), 300, "every run's end")
    asyncio.run(_check(tmp_path, acknowledged))


def _send(daemon: Daemon, turn: str, acknowledged: list[str]) -> None:
    for number in range(6):
        name = f"{turn}-{number}"
        body = json.dumps({"number": name}).encode()
        with contextlib.suppress(OSError, HTTPException):
            if daemon.github(body, name).status == 202:
                acknowledged.append(name)


async def _left(root: Path, given: dict[str, str]) -> int:
    """Return the number of deliveries that have not ended."""
    query = "SELECT count(*) FROM deliveries WHERE state NOT IN ('done', 'dead')"
    if not given:
        with closing(sqlite3.connect(root / ".symbi/symbiont.db", timeout=60)) as database:
            return int(database.execute(query).fetchone()[0])
    connection = await asyncpg.connect(given["SYMBIONT_DATABASE"])
    try:
        return int(await connection.fetchval(query))
    finally:
        await connection.close()


async def _check(root: Path, acknowledged: list[str]) -> None:
    async with App.open(Root(root), ProcessSettings.read({})) as app:
        threads = await app.state.services.threads.list(OWNER, agent="helper", limit=100_000)
        conversations = [await app.state.services.messages.read(thread, limit=1000) for thread in threads]
        blocks = await app.state.services.blocks.ensure(BlockScope(OWNER, "helper"), ())
        webhooks = await app.state.dynamic_webhooks.page(OWNER, 100_000)
        todo = (await app.state.tasks.page(OWNER, limit=100_000)).tasks
        made = Counter(re.findall(r"hook (\S+?);", " ".join(each.title for each in webhooks)))
        noted = Counter(re.findall(r"seen (\S+?);", next(each.value for each in blocks if each.label == "seen")))
        await _check_given_up(app.state.database)
    created = Counter(task.title for task in todo)
    for counted in (noted, made, created):
        assert set(counted.values()) <= {1}
    assert {(task.source, task.created_by_agent, task.version) for task in todo} == {("agent", "helper", 1)}
    assert len({task.origin_run_id for task in todo}) == len(todo)
    answered: set[str] = set()
    for found in conversations:
        [number] = set(re.findall(r'"number": ?"(\S+?)"', found[0].text))
        assert [message.position for message in found] == list(range(len(found)))
        if found[-1].text != f"Noted {number}.":
            # Given up, see `_check_given_up`.
            assert "recorded nothing new" in found[-1].text
            continue
        answered.add(number)
        kinds = [message.kind for message in found]
        assert kinds == ["message", "tool_call", *["tool_output"] * 3, "message"]
        statuses = _statuses(found)
        assert statuses["memory_append"] == "ok"
        assert noted[number] == 1
        assert (statuses["task_create"], created[f"task {number};"]) == ("ok", 1)
        assert statuses["webhook_create"] in ("ok", "unknown")
        if statuses["webhook_create"] == "ok":
            assert made[number] == 1
    assert len(set(acknowledged) - answered) <= len(acknowledged) // 10


async def _check_given_up(database: Database) -> None:
    """Check that only runs were given up that were killed five times without having recorded another result."""
    async with database.read() as connection:
        dead = select(deliveries.c.run_id, deliveries.c.attempt).where(deliveries.c.state == "dead")
        for run_id, attempt in (await connection.execute(dead)).all():
            of_run = steps.c.run_id == run_id, steps.c.state == "done"
            last = await connection.scalar(select(func.max(steps.c.attempt)).where(*of_run))
            assert attempt - (last or 0) >= TRIES


def _statuses(found: list[Message]) -> dict[str, str]:
    parts = [part for message in found for part in message.parts]
    return {part.name: part.status for part in parts if isinstance(part, ToolOutputPart)}
