"""An agent acts for the user of its turn, and its tools know which agent, run and thread call them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from runtime.agents.turn import AgentContext
from runtime.daemon import server
from runtime.daemon.process.root import Root
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.process.systemd import Notifier
from runtime.daemon.program.app import App
from runtime.daemon.server import Daemon
from runtime.database.schema import threads
from runtime.errors import GiveUp
from runtime.threads.inputs import Inputs
from runtime.threads.run_log import RunLog
from runtime.threads.turns.turn import AgentGone
from runtime.webhooks.deliveries.delivery import ClaimedDelivery
from tests.runtime.daemon.running import write_program

PROGRAM = """
memory notes { path "data/notes" }
memory other { path "data/other" }
agent reviewer { memory notes }
agent sleeper { enabled false memory notes }
webhook w { path "/w" insecure_allow_unverified true agent reviewer memory other }
"""


def delivery(agent: str) -> ClaimedDelivery:
    return ClaimedDelivery(
        id="d1",
        run_id="r1",
        attempt=1,
        tries=1,
        agent=agent,
        user_id="ada",
        thread_id="t1",
        webhook="w",
        provider="custom",
        event=None,
        provider_delivery_id=None,
        body=b"{}",
        content_type=None,
        headers=(),
        source=None,
        received_at=0,
        verified=True,
    )


async def test_an_agent_acts_for_the_user_of_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[AgentContext] = []

    async def act(turn: Any, log: RunLog, context: AgentContext) -> None:
        given.append(context)

    monkeypatch.setattr(server, "act", act)
    file = write_program(tmp_path, PROGRAM)
    (tmp_path / ".symbi").mkdir(0o700)
    async with App.open(Root(tmp_path), ProcessSettings.read({})) as app:
        await app.load([file])
        daemon = Daemon(app, Notifier({}))
        log = RunLog(app.state.database, app.state.clock, "r1", 1)
        await daemon._run_agent(delivery("reviewer"), log)
        for agent in ("sleeper", "nobody"):
            with pytest.raises(AgentGone):
                await daemon._run_agent(delivery(agent), log)
        [context] = given
        assert (context.agent.name, context.memory.store) == ("reviewer", app.generation.memories["other"].store)
        acting = context.tool_context.acting
        assert acting is not None
        assert (acting.agent, acting.run_id, acting.thread_id) == ("reviewer", "r1", "t1")
        caller = context.tool_context.caller
        assert (caller.user_id, caller.may("write"), caller.may("admin")) == ("ada", True, False)


async def test_an_agent_may_do_no_more_than_the_person_who_asks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[AgentContext] = []

    async def act(turn: Any, log: RunLog, context: AgentContext) -> str:
        given.append(context)
        return "answered"

    monkeypatch.setattr(server, "act", act)
    file = write_program(tmp_path, PROGRAM)
    (tmp_path / ".symbi").mkdir(0o700)
    async with App.open(Root(tmp_path), ProcessSettings.read({})) as app:
        await app.load([file])
        daemon = Daemon(app, Notifier({}))
        now = {"created_at": 0, "updated_at": 0}
        thread = insert(threads).values(id="t1", user_id="ada", agent="reviewer", **now)
        await app.state.database.transact(lambda connection: connection.execute(thread))
        queue = Inputs(app.state.database, app.state.clock)
        await queue.send("ada", "reviewer", "t1", "hello", {"read"})
        await queue.send("ada", "reviewer", "t1", "and?", {"read"})
        [turn] = await queue.claim(2)
        log = RunLog(app.state.database, app.state.clock, turn.run_id, turn.attempt)
        assert await daemon._run_agent(turn, log) == "answered"
        [context] = given
        assert (context.agent.name, context.memory.store) == ("reviewer", app.generation.memories["notes"].store)
        caller = context.tool_context.caller
        assert (caller.user_id, caller.may("read"), caller.may("write")) == ("ada", True, False)
        acting = context.tool_context.acting
        assert acting is not None
        assert (acting.run_id, acting.thread_id) == (turn.id, "t1")
        monkeypatch.undo()
        # Without a model it answers nothing, and says so.
        with pytest.raises(GiveUp, match="reviewer has no model"):
            await daemon._run_agent(turn, log)
