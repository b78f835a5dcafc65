"""The contract of switches: what each of them stops, for every background task, route and tool."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from runtime.api.rest.authentication import Authenticator
from runtime.api.rest.endpoints import ENDPOINTS, Endpoint
from runtime.api.rest.handler import RestHandler
from runtime.api.rest.problem import CONTENT_TYPE
from runtime.daemon.listeners.sockets import bind
from runtime.daemon.process.root import make, own
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.process.supervisor import Supervisor
from runtime.daemon.process.systemd import Notifier
from runtime.daemon.program.app import App as OpenRoot
from runtime.daemon.server import Daemon
from runtime.daemon.tasks import TASKS, row_of
from runtime.database.connection import Database
from runtime.identity.caller import Caller
from runtime.mcp.backend import BackendFailure
from runtime.mcp.local_backend import LocalBackend
from runtime.switches import SWITCHES, Switches
from runtime.tool_servers.approvals import Approval
from runtime.tools import TOOLS
from runtime.tools.tool import Tool
from tests.cases import each_case
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.api.app import App, told
from tests.runtime.daemon.running import write_program

AGENTS: Final = {"agents"}
STOPPED: Final[dict[str, set[str]]] = {
    "admin socket": set(),
    "audit": set(),
    "compaction": set(),
    "dispatcher": AGENTS,
    "dynamic webhooks": set(),
    "edits in notes": set(),
    "embedding of notes": set(),
    "embedding of what is to be done": set(),
    "embedding of what was said": {"agents", "agent_embedding"},
    "events of other daemons": AGENTS,
    "expired entries": set(),
    "guard": set(),
    "index of notes": set(),
    "index of what is to be done": set(),
    "index of what was said": AGENTS,
    "installed packages": set(),
    "keys": set(),
    "mcp server silent": {"agents", "agent_tools"},
    "models": AGENTS,
    "notifications": set(),
    "readiness": set(),
    "removed users": set(),
    "retention": set(),
    "secrets of vault": set(),
    "sizes of texts": set(),
    "tokens": set(),
    "watch": set(),
    "watchdog": set(),
}
"""Every task that runs without an event in a daemon with one memory and one MCP server, and the switches of which each
stops it. A new one fails the tests below until it is here."""
PARTS: Final = {"database transaction", "dispatcher clock", "embedding"}
"""Tasks that a task of the table, or a request, waits for."""
WITHOUT_SWITCH: Final = tuple(
    f"runtime.tools.{name}." for name in ("collection", "kv", "maintenance", "memory", "tables", "tasks", "webhooks")
)
"""Packages of the tools that do not belong to agents."""
OF_AGENTS: Final = ("/v1/agent", "/v1/approvals", "/v1/usage")
OFF: Final = [pytest.param(name, id=name) for name in SWITCHES]
PROGRAM: Final = """
model away { service openai { url "http://127.0.0.1:9/v1" model "m" } }
memory notes { path "notes" embedding hashing }
agent reviewer { memory notes model away tools ["silent.*"] }
mcp silent { command ["cat"] }
"""


@pytest.mark.filterwarnings("ignore:Bare functions are deprecated:DeprecationWarning")
@pytest.mark.parametrize("off", [None, *OFF])
async def test_a_switch_stops_its_background_tasks_and_no_other(
    tmp_path: Path, off: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path, PROGRAM)
    settings = ProcessSettings.read({} if off is None else {off: "off"})
    started, there = set[str](), set[str]()
    start = Supervisor.start

    def noted(tasks: Supervisor, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        task = start(tasks, name, work)
        started.update(() if task is None else (name,))
        return task

    monkeypatch.setattr(Supervisor, "start", noted)
    with ExitStack() as stack:
        root = make(tmp_path, {}, tmp_path)
        stack.enter_context(own(root))
        public, private = (stack.enter_context(bind("", "127.0.0.1:0")) for _ in range(2))
        async with OpenRoot.open(root, settings) as app:
            await app.start([tmp_path / "program"])
            app.state.servers.approvals.store("silent", Approval(app.generation.servers["silent"].facts, (), 0))
            await app.follow_approvals()
            daemon = Daemon(app, Notifier({}))

            def announced(_app: OpenRoot, _known: object) -> None:
                there.update(task.get_name() for task in asyncio.all_tasks())
                daemon._tasks.stop()

            assert await daemon.run(public, private, announced)
    assert started == {name for name, by in STOPPED.items() if off not in by}
    # Nothing else is started in the background by a name of its own.
    assert {name for name in there - started if not name.startswith("Task-")} <= PARTS


def test_every_background_task_says_what_stops_it() -> None:
    assert {name: set(row_of(name).stopped_by) for name in STOPPED} == STOPPED
    assert {name for name, row in TASKS.items() if row.make is not None} <= set(STOPPED)


@each_case("tool", TOOLS.values())
def test_a_tool_of_agents_is_stopped_with_them(tool: Tool) -> None:
    of_agents = not tool.function.__module__.startswith(WITHOUT_SWITCH)
    assert tool.stopped_by == ("agents" if of_agents else None)


@each_case("row", ENDPOINTS)
def test_a_route_of_agents_is_stopped_with_them(row: Endpoint) -> None:
    assert row.stopped_by == ("agents" if row.path.startswith(OF_AGENTS) else row.tool.stopped_by)


SHARED = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    folder = tmp_path_factory.mktemp("app")
    database = await Database.open(with_keys(folder / "symbiont.db", KEY), KEY)
    async with App(database, ManualClock()).remembering(folder) as app:
        yield app
    await database.close()


async def kind_of(app: App, row: Endpoint, token: str, switches: Switches) -> str | None:
    """Return the kind of problem with which a route answers; None for another answer."""
    app.rest = RestHandler(app.open_context, Authenticator(app.tokens, app.clock), switches)
    names = {name: str((row.tool.example or {}).get(name, "x")) for name in row.in_path}
    reply = await app.ask(token, row.method, row.path.format_map(names), dict(row.example) if row.body else None)
    document = told(reply) if reply.body and reply.content_type == CONTENT_TYPE else {}
    return str(document["type"]).rpartition(":")[2] if document else None


@SHARED
@each_case("row", {(row.stopped_by, row.method): row for row in ENDPOINTS}.values())
async def test_a_switch_stops_its_routes_and_no_other(row: Endpoint, app: App) -> None:
    token = await app.token("ada", "admin")
    for off in SWITCHES:
        kind = await kind_of(app, row, token, Switches(frozenset({off})))
        assert (kind == "switched_off") == (row.stopped_by == off), (off, kind)


@SHARED
@each_case("tool", {(tool.stopped_by, tool.scope): tool for tool in TOOLS.values()}.values())
async def test_a_switch_stops_its_tools_over_mcp_and_no_other(tool: Tool, app: App) -> None:
    backend = LocalBackend(app.open_context, Caller(await app.user("ada"), frozenset({"read", "write", "admin"})))
    for off in SWITCHES:
        app.switches, failed = Switches(frozenset({off})), ""
        try:
            await backend.call(tool.name, tool.example or {}, None)
        except BackendFailure as failure:
            failed = failure.line()
        assert ("switched off" in failed) == (tool.stopped_by == off), (off, failed)


@SHARED
async def test_the_refusal_names_the_setting_to_every_caller(app: App) -> None:
    row = next(row for row in ENDPOINTS if row.stopped_by == "agents" and row.tool.scope == "read")
    app.rest = RestHandler(app.open_context, Authenticator(app.tokens, app.clock), Switches(frozenset({"agents"})))
    reply = await app.ask(await app.token("ada", "read"), row.method, row.path, dict(row.example))
    assert reply.status == 503
    assert "SYMBIONT_AGENTS" in told(reply)["detail"]
    assert "Retry-After" not in dict(reply.headers)


def test_every_switch_stands_on_the_page_with_what_it_stops() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(SYMBIONT_AGENT\w*)` \| ([^`|]*) \| (.*) \|$", page, re.MULTILINE)
    assert rows == [(switch.setting, switch.stops, switch.waits) for switch in SWITCHES.values()]


def test_every_switch_is_a_setting_of_the_process() -> None:
    for name, switch in SWITCHES.items():
        assert ProcessSettings.model_fields[name].default == "on"
        assert switch.setting == f"SYMBIONT_{name.upper()}"
        assert not ProcessSettings.read({name: "off"}).switches.on(name)
    assert ProcessSettings.read({}).switches == Switches()
