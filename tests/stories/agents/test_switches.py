"""Switches and settings of one daemon when another one is on the same PostgreSQL: who takes what, and what waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.agents.test_switches import REASON, checks, states, vectors
from tests.runtime.daemon import sharing
from tests.runtime.daemon.running import Daemon, on_postgres, running, until, write_program
from tests.runtime.daemon.v1 import ask, make_token
from tests.stories.agents.test_postgres import Held

pytestmark = LONG

CONFIG = "/v1/agents/helper/config"
LEASED = f"{sharing.__name__}:{sharing.leased.__name__}"
NOTE = {"label": "human", "content": "Likes tea."}
KEPT = "Likes tea. [from a delivery of github]"
PROGRAM = """\
memory notes {{ store collection embedding hashing }}
{model}
webhook github {{ path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" agent helper }}
webhook kept {{ path "/hooks/second" provider github secret "secret://env/GITHUB_SECRET" agent recorder }}
agent helper {{ memory notes model scripted thread delivery block human {{ deliveries true }} {more} }}
agent recorder {{ memory notes }}
"""


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(says("Hello.")) as started:
        yield started


class World:
    """Daemons on one database, each with its own root and switches."""

    def __init__(self, folder: Path, url: str, model: ScriptedModel, more: str = "") -> None:
        self.folder, self.given = folder, on_postgres(url)
        self._program = PROGRAM.format(model=model.block, more=more)

    @contextmanager
    def daemon(self, name: str, **switches: str) -> Iterator[Daemon]:
        root = self.folder / name
        root.mkdir(exist_ok=True)
        write_program(root, self._program)
        with running(root, "program", wait=True, command=LEASED, **self.given, **switches) as daemon:
            yield daemon

    def shown(self, daemon: Daemon, *arguments: str) -> Any:
        done = daemon.symbi(*arguments, "--json", **self.given)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def runs(self, daemon: Daemon) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = self.shown(daemon, "agent", "runs", "--limit", "100")["runs"]
        return found


@pytest.fixture
def world(tmp_path: Path, postgres_url: str, model: ScriptedModel) -> World:
    return World(tmp_path, postgres_url, model)


def test_a_daemon_without_agents_takes_no_run_and_another_one_runs_all(world: World, model: ScriptedModel) -> None:
    with world.daemon("off", SYMBIONT_AGENTS="off") as off:
        for number in range(3):
            assert off.github(b'{"n":%d}' % number, f"a-{number}").status == 202
            assert off.github(b'{"n":%d}' % number, f"b-{number}", path="/hooks/second").status == 202
        assert states(off) == {("switched_off", "switched_off")}
        assert checks(off)["deliveries"] == ("YELLOW", f"6 deliveries waiting: {REASON}")
        with world.daemon("on") as on:
            until(lambda: states(on) == {("done", "done")}, what="the runs")
            # Also what arrives at the daemon without agents from now on, and the other one is told at once.
            assert off.github(b'{"n":9}', "late").status == 202
            until(lambda: len(model.bodies) == 4, what="the run of what arrived at the other daemon")
            until(lambda: states(on) == {("done", "done")}, what="its end")
            assert states(off) == {("done", "done")}
            assert checks(off)["switch agents"][0] == "YELLOW"
            assert "switch agents" not in checks(on)
            assert checks(on)["deliveries"][0] == "GREEN"
            token = make_token(on, "--scope", "write", **world.given)
            refused = ask(off, token, "POST", "/v1/agents/helper/chat", {"input": "Hello"})
            assert (refused.status, refused.json()["type"]) == (503, "urn:symbiont:problem:switched_off")
            assert ask(on, token, "POST", "/v1/agents/helper/chat", {"input": "Hello"}).json()["ended"] == "answered"
            on.until_logged("run_ended")
        assert "run_ended" not in off.log.read_text()


async def leased(world: World) -> int:
    """Return how many deliveries a daemon owns, by the clock of the database."""
    now = "extract(epoch FROM clock_timestamp()) * 1000"
    connection = await asyncpg.connect(world.given["SYMBIONT_DATABASE"])
    try:
        return int(await connection.fetchval(f"SELECT count(*) FROM deliveries WHERE lease_until > {now}"))
    finally:
        await connection.close()


def test_a_run_of_a_killed_daemon_waits_for_one_with_agents(world: World, model: ScriptedModel) -> None:
    held = Held(says("Too late."))
    model.replies = [says(memory_append=NOTE), held, says("Noted.")]
    with ExitStack() as stack:
        off = stack.enter_context(world.daemon("off", SYMBIONT_AGENTS="off"))
        with world.daemon("on") as on:
            assert off.github(b'{"n":1}', "one").status == 202
            assert held.asked.wait(60)
            on.kill()
        held.going_on.set()
        until(lambda: asyncio.run(leased(world)) == 0, what="the end of the lease")
        assert checks(off)["deliveries"] == ("YELLOW", f"1 delivery waiting: {REASON}")
        assert len(model.bodies) == 2
        other = stack.enter_context(world.daemon("other"))
        until(lambda: states(other) == {("done", "done")}, what="the end of the run")
        block = world.shown(other, "agent", "block", "show", "helper", "human")
    assert (block["value"], len(model.bodies)) == (KEPT, 3)


def test_a_call_is_approved_on_a_daemon_without_agents_and_runs_on_another(
    tmp_path: Path, postgres_url: str, model: ScriptedModel
) -> None:
    model.replies = [says(memory_append=NOTE), says("Noted.")]
    world = World(tmp_path, postgres_url, model, "confirm [memory_append]")
    with world.daemon("off", SYMBIONT_AGENTS="off") as off, world.daemon("on") as on:
        assert off.github(b'{"n":1}', "one").status == 202
        [waits] = until(lambda: world.shown(off, "agent", "pending")["approvals"], what="the question")
        token = make_token(off, "--scope", "write", **world.given)
        assert ask(off, token, "POST", f"/v1/approvals/{waits['id']}/approve").status == 503
        assert off.symbi("agent", "approve", waits["id"], **world.given).returncode == 0
        until(lambda: world.runs(on)[0]["ended"] == "answered", what="the end of the run")
        assert world.shown(on, "agent", "block", "show", "helper", "human")["value"] == KEPT


def test_a_call_that_was_approved_does_not_run_on_a_daemon_without_tools(
    tmp_path: Path, postgres_url: str, model: ScriptedModel
) -> None:
    model.replies = [says(memory_append=NOTE), says("Well.")]
    world = World(tmp_path, postgres_url, model, "confirm [memory_append]")
    with world.daemon("with") as one:
        assert one.github(b'{"n":1}', "one").status == 202
        [waits] = until(lambda: world.shown(one, "agent", "pending")["approvals"], what="the question")
    with world.daemon("without", SYMBIONT_AGENT_TOOLS="off") as other:
        assert other.symbi("agent", "approve", waits["id"], **world.given).returncode == 0
        [run] = until(lambda: [run for run in world.runs(other) if run["ended"]], what="the end of the run")
        items = world.shown(other, "thread", "show", run["thread"])["items"]
        assert world.shown(other, "agent", "block", "show", "helper", "human")["value"] == ""
    assert run["ended"] == "answered"
    [output] = [item for item in items if item["type"] == "function_call_output"]
    assert output["outcome"] == "error"
    assert "tools of agents are switched off by SYMBIONT_AGENT_TOOLS" in output["output"]


def test_an_agent_that_its_user_switches_off_on_one_daemon_waits_on_all_until_it_is_on(
    world: World, model: ScriptedModel
) -> None:
    with world.daemon("one") as one, world.daemon("other") as other:
        token = make_token(one, "--scope", "write", **world.given)
        assert ask(one, token, "PUT", CONFIG, {"enabled": False, "version": 0}).status == 200
        for daemon, name in ((one, "one"), (other, "other")):
            assert daemon.github(b'{"n":1}', name).status == 202
        waiting = {("switched_off", "switched_off")}
        until(lambda: states(other) == waiting, what="the waiting deliveries")
        for daemon in (one, other):
            assert checks(daemon)["switched off"][0] == "YELLOW"
        assert model.bodies == []
        version = ask(other, token, "GET", CONFIG).json()["version"]
        assert ask(other, token, "PUT", CONFIG, {"enabled": True, "version": version}).status == 200
        until(lambda: states(one) == {("done", "done")}, what="the runs")
    assert len(model.bodies) == 2


def test_each_daemon_embeds_what_agents_remember_if_its_own_switch_is_on(world: World) -> None:
    with world.daemon("one", SYMBIONT_AGENT_EMBEDDING="off") as one, world.daemon("other") as other:
        token = make_token(one, "--scope", "write", **world.given)
        given = {"agent": "helper", "content": "Ada likes tea."}
        assert ask(one, token, "POST", "/v1/tools/archival_insert", given).status == 200
        query = {"agent": "helper", "query": "tea"}
        for daemon in (one, other):
            # A search brings the index up to date.
            assert "tea" in ask(daemon, token, "POST", "/v1/tools/archival_search", query).body.decode()
            until(lambda: "1 entry" in checks(daemon)["index of notes"][1], what="the entry")  # noqa: B023 - awaited
        until(lambda: vectors(other, "notes")[1] == 0, what="the vectors")
        assert vectors(one, "notes") == ("YELLOW", 1)
