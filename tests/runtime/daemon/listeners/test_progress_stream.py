"""Long requests: progress is reported, and a client waits as long as the daemon works on its request."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from click.testing import CliRunner

from runtime.api.admin.operations import AdminCall
from runtime.api.admin.protocol import ROOT_HEADER
from runtime.cli import client, symbi
from runtime.daemon import standalone
from runtime.daemon.listeners import progress_stream
from runtime.daemon.listeners.progress_stream import Operation
from runtime.daemon.process.root import make, own
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program.app import App
from runtime.errors import SymbiontError, UsageError
from runtime.mcp import admin_link
from runtime.memory.indexing.progress import Progress
from runtime.tools import TOOLS
from tests.clocks import until
from tests.lanes import LONG, first_of

Told = list[tuple[str, int, int]]


@asynccontextmanager
async def served(folder: Path, work: Operation) -> AsyncIterator[str]:
    """Yield the path of a socket that answers every request with `work`."""
    application = web.Application()

    async def handle(request: web.Request) -> web.StreamResponse:
        return await progress_stream.stream_answer(request, work, TOOLS["memory_reindex"])

    async def name_root(_request: web.Request, response: web.StreamResponse) -> None:
        response.headers[ROOT_HEADER] = ""

    application.on_response_prepare.append(name_root)
    application.router.add_post("/v1/{operation}", handle)
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    path = str(folder / "s")
    await web.UnixSite(runner, path).start()
    try:
        yield path
    finally:
        await runner.cleanup()


async def ask(path: str, told: Told) -> Any:
    """Send a request as a command does."""
    return await asyncio.to_thread(client._ask, path, "", "memory_reindex", {}, lambda *said: told.append(said))


async def test_the_newest_progress_is_told_and_then_the_result(tmp_path: Path) -> None:
    told: Told = []

    async def work(progress: Progress) -> dict[str, Any]:
        progress("reading", 1, 3)
        progress("reading", 2, 3)
        await until(lambda: bool(told))
        return {"done": True, "error": "is a field like any other"}

    async with served(tmp_path, work) as path:
        assert await ask(path, told) == {"done": True, "error": "is a field like any other"}
    assert told[0] == ("reading", 2, 3)


@LONG
async def test_a_work_longer_than_the_clients_patience_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "TIMEOUT_SECONDS", 4)
    monkeypatch.setattr(progress_stream, "BEAT_SECONDS", 0.1)

    async def work(_: Progress) -> dict[str, Any]:
        await asyncio.sleep(5)
        return {"done": True}

    async with served(tmp_path, work) as path:
        assert await ask(path, []) == {"done": True}


REMOVED: dict[str, Any] = {
    "user": "ada",
    "id": "1",
    "tokens": 0,
    "webhooks": 0,
    "kept": False,
    "items": {},
    "rows": {},
    "problems": [],
}
READY: dict[str, Any] = {"status": "GREEN", "ready": True, "checks": []}


@first_of(
    "command, operation, answer",
    [
        (("user", "remove", "ada", "--yes"), "user_remove", REMOVED),
        (("readiness",), "readiness", READY),
    ],
)
async def test_commands_wait_for_an_operation_that_is_not_a_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], operation: str, answer: dict[str, Any]
) -> None:
    monkeypatch.setattr(client, "TIMEOUT_SECONDS", 4)
    monkeypatch.setattr(progress_stream, "BEAT_SECONDS", 0.1)

    async def slow(*_: object) -> dict[str, Any]:
        await asyncio.sleep(5)
        return answer

    monkeypatch.setattr(AdminCall, "answer", slow)
    root = make(tmp_path, os.environ, tmp_path)
    with own(root):
        async with App.open(root, ProcessSettings.read({})) as app, standalone._serve_commands(app, "a test"):
            asked = (*command, "--json", "--root", str(tmp_path))
            done = await asyncio.to_thread(CliRunner().invoke, symbi, asked)
    assert (done.exit_code, done.exception) == (0, None), done.output
    assert json.loads(done.output) == answer


async def test_what_goes_wrong_is_raised_as_it_was(tmp_path: Path) -> None:
    async def wrong(_: Progress) -> dict[str, Any]:
        raise UsageError("no agent is called 'x'", hint="did you mean y?")

    async def broken(_: Progress) -> dict[str, Any]:
        raise ZeroDivisionError

    async with served(tmp_path, wrong) as path:
        with pytest.raises(UsageError, match="no agent is called 'x'") as raised:
            await ask(path, [])
        assert raised.value.hint == "did you mean y?"
    async with served(tmp_path, broken) as path:
        with pytest.raises(SymbiontError, match="memory_reindex failed; see the daemon's log"):
            await ask(path, [])


async def test_a_daemon_that_ends_in_the_middle_is_told(tmp_path: Path) -> None:
    begun = asyncio.Event()
    ended: list[bool] = []

    async def work(progress: Progress) -> dict[str, Any]:
        progress("reading", 0, 1)
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append(True)
            raise
        return {}

    told: Told = []
    async with served(tmp_path, work) as path:
        asked = asyncio.create_task(ask(path, told))
        await begun.wait()
        await until(lambda: bool(told))
    with pytest.raises(client._ConnectionLost):
        await asked
    assert ended == [True]


async def test_the_work_goes_on_when_nobody_listens_any_more() -> None:
    finished = asyncio.Event()

    async def work(progress: Progress) -> dict[str, Any]:
        for number in range(3):
            progress("reading", number, 3)
            await asyncio.sleep(0.15)
        finished.set()
        return {}

    request = make_mocked_request("POST", "/v1/memory_reindex", match_info={"operation": "memory_reindex"})
    request.transport.is_closing.return_value = True  # type: ignore[union-attr]
    written: list[bytes] = []

    async def refuse(_self: web.StreamResponse, data: bytes) -> None:
        written.append(data)
        raise ConnectionResetError("Cannot write to closing transport")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(web.StreamResponse, "write", refuse)
        await progress_stream.stream_answer(request, work, TOOLS["memory_reindex"])
    assert finished.is_set()
    assert "result" in json.loads(written[-1])


async def test_the_work_is_cancelled_when_who_asked_it_leaves_and_said_that_it_is_for_nobody_else(
    tmp_path: Path,
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work(_: Progress) -> dict[str, Any]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return {}

    async with served(tmp_path, work) as path:
        asked = asyncio.create_task(admin_link.ask(path, "", "memory_reindex", {}))
        await begun.wait()
        asked.cancel()
        async with asyncio.timeout(30):
            await ended.wait()


async def test_work_that_is_cancelled_ends_as_it_has_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_stream, "LOOK_SECONDS", 0.01)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work(_: Progress) -> dict[str, Any]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)
            ended.set()
        return {}

    async with served(tmp_path, work) as path:
        asked = asyncio.create_task(admin_link.ask(path, "", "memory_reindex", {}))
        await begun.wait()
        asked.cancel()
        async with asyncio.timeout(60):
            await ended.wait()


async def test_a_stop_waits_for_the_end_of_the_work() -> None:
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: unhandled.append(about))
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work(_: Progress) -> dict[str, Any]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)
            ended.set()
            raise UsageError("the rollback failed")

    request = make_mocked_request("POST", "/v1/memory_reindex", match_info={"operation": "memory_reindex"})
    answering = asyncio.create_task(progress_stream.stream_answer(request, work, TOOLS["memory_reindex"]))
    await begun.wait()
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering
    assert ended.is_set()
    del answering
    await asyncio.sleep(0)
    gc.collect()
    assert unhandled == []


async def test_the_last_of_the_progress_is_told_also_of_what_is_done_at_once(tmp_path: Path) -> None:
    told: Told = []

    async def work(progress: Progress) -> dict[str, Any]:
        progress("reading", 3, 3)
        return {}

    async with served(tmp_path, work) as path:
        await ask(path, told)
    assert told == [("reading", 3, 3)]
