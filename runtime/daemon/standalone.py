"""A root opened without listeners by a process that is not a daemon: its memories, their upkeep, and the admin socket,
through which other commands use the root as they would use a daemon."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog
from aiohttp import web

from runtime.daemon.listeners.operators import admin
from runtime.daemon.listeners.sockets import AdminSocket
from runtime.daemon.process import log_setup as logs
from runtime.daemon.process.root import Root, has_program, own
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.process.supervisor import Supervisor
from runtime.daemon.program.app import App, refuse_another_database
from runtime.daemon.program.key_upkeep import KeyUpkeep
from runtime.daemon.program.upkeep import check_database, compact_on_schedule, reload_on_changes
from runtime.daemon.program.user_removal import Removal
from runtime.daemon.tasks import supervisor
from runtime.secrets import BACKENDS

log = structlog.get_logger("symbiont.daemon")

DRAIN_SECONDS: Final = 2
"""Seconds for which the end waits for requests of other processes."""
GUARD_SECONDS: Final = 1

OnEnd = Callable[[], None]


@asynccontextmanager
async def keep(root: Root, paths: Sequence[Path], *, command: str, on_failure: OnEnd) -> AsyncIterator[App]:
    """Own `root` while inside, with the programs under `paths`, otherwise its last program, otherwise none.

    `command`: name of the owner for other processes. `on_failure` is called when the root must be released. Raises
    RootInUse at once if another process owns it, and SymbiontError.
    """
    settings = ProcessSettings.read({})
    least = settings.log_level if "log_level" in settings.model_fields_set else "warning"
    logs.configure(settings.log_format, least)
    refuse_another_database(root, settings)
    with own(root, seconds=0):
        async with App.open(root, settings) as app:
            tasks = supervisor(app.state.switches)
            app.state.database.on_fatal = lambda error: tasks.fail(str(error))
            app.daemon.on_fatal = tasks.fail
            await _load(app, paths)
            try:
                async with _serve_commands(app, command) as commands:
                    await _attend(app, tasks)
                    tasks.start("admin socket", commands.keep())
                    tasks.start("end", _wait_for_end(tasks, on_failure))
                    yield app
            finally:
                await tasks.cancel()


async def _load(app: App, paths: Sequence[Path]) -> None:
    if paths:
        (await app.load(paths)).must_be_right()
    elif has_program(app.state.root):
        await app.load_last_program()
    else:
        await app.load_nothing()
    app.remember_program()


@asynccontextmanager
async def _serve_commands(app: App, command: str) -> AsyncIterator[AdminSocket]:
    """Serve other commands on the admin socket while inside, and record its address in the root."""
    runner = web.AppRunner(
        admin(app, lambda: False), access_log=None, shutdown_timeout=DRAIN_SECONDS, auto_decompress=False
    )
    async with AdminSocket(app.state.root, runner, os.environ) as commands:
        await commands.open({"command": command})
        yield commands


async def _attend(app: App, tasks: Supervisor) -> None:
    """Start the background tasks of a daemon for memories and secrets."""
    await app.start_background(partial(_start_task, tasks))
    tasks.start("compaction", compact_on_schedule(app))
    tasks.start("removed users", Removal(app).run())
    tasks.start("keys", KeyUpkeep(app, tasks.fail).run())
    tasks.start("guard", _guard(app, tasks))
    if app.paths:
        tasks.start("watch", reload_on_changes(app))
    for name, backend in BACKENDS.items():
        if backend.keep is not None:
            tasks.start(f"secrets of {name}", backend.keep(app.state.secrets))


def _start_task(tasks: Supervisor, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """Start a task; None for the connection to an MCP server, whose tools only the runs of a daemon call."""
    if name.startswith("mcp server "):
        work.close()
        return None
    return tasks.start(name, work)


async def _wait_for_end(tasks: Supervisor, on_failure: OnEnd) -> None:
    await tasks.wait()
    on_failure()


async def _guard(app: App, tasks: Supervisor) -> None:
    """Fail when another process takes over the database."""
    while True:
        await asyncio.sleep(GUARD_SECONDS)
        await check_database(app, tasks.fail)
