"""Tasks of every process that owns a root: reload on changes, look at models, and check that the process still owns the
database."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import invalidate_caches
from pathlib import Path
from typing import Final

import structlog

from runtime.api.admin.readiness import red_checks
from runtime.daemon.process.root import COMPACTED_FILE
from runtime.daemon.program.app import App
from runtime.daemon.program.file_watch import changes
from runtime.database.errors import Unavailable
from runtime.memory.compaction_schedule import Compactor

log = structlog.get_logger("symbiont.daemon")

MODELS_SECONDS: Final = 30.0
"""Seconds between two looks at the models: a third of those for which one is remembered
(`runtime.models.reachability.KNOWN_SECONDS`)."""
_RELOAD_SECONDS: Final = 1.0
"""Maximum seconds after a reload until its models are looked at."""


async def reload_on_changes(app: App) -> None:
    """Reload after each change of the program's files, until cancelled."""

    def ignored() -> list[Path]:
        return [app.state.root.state, *app.generation.folders]

    async for _ in changes(app.paths, ignored):
        await app.reload()


async def compact_on_schedule(app: App) -> None:
    """Compact memories by their retention, until cancelled; the root keeps when each was compacted last."""
    root = app.state.root
    await Compactor(
        app.pinned_memories,
        app.state.clock,
        read=partial(root.read, COMPACTED_FILE),
        write=partial(root.write, COMPACTED_FILE),
    ).run()


async def look_at_models(app: App) -> None:
    """Look at the program's models every `MODELS_SECONDS` and after each reload, until cancelled: a probe of `/readyz`
    shows what was seen, and asks no model."""
    seen, again = 0, 0.0
    while True:
        if app.generation.number != seen or app.state.clock.monotonic() >= again:
            async with app.pinned() as generation:
                clients = [model.client for model in app.models if model.client is not None]
                await asyncio.gather(*(client.problems() for client in clients))
            seen, again = generation.number, app.state.clock.monotonic() + MODELS_SECONDS
        await app.state.clock.sleep(_RELOAD_SECONDS)


async def look_at_state(app: App) -> None:
    """Look at the root, the memories and the contexts of agents every `MODELS_SECONDS`, after each reload and when the
    file of the keys is removed, until cancelled; log what becomes RED. A probe of `/readyz` shows what was seen."""
    seen: tuple[int, bool] | None = None
    again = 0.0
    while True:
        now = (app.generation.number, app.state.database.keys.store.intact())
        if now != seen or app.state.clock.monotonic() >= again:
            async with app.pinned():
                # During an outage of the database only `storage` is shown.
                with suppress(Unavailable):
                    before, app.red_checks = app.red_checks, await red_checks(app.admin_context())
                    for check in set(app.red_checks).difference(before):
                        log.error("not_ready", check=check.check, reason=check.text)
            seen, again = now, app.state.clock.monotonic() + MODELS_SECONDS
        with suppress(OSError):
            app.record_folders()
        await app.state.clock.sleep(_RELOAD_SECONDS)


async def reload_on_installs(app: App) -> None:
    """Reload after packages were installed while something of the program cannot be opened, which may need them, until
    cancelled."""
    loaded = seen = _packages()
    while True:
        await app.state.clock.sleep(_RELOAD_SECONDS)
        before, seen = seen, await asyncio.to_thread(_packages)
        # An installation that is still going on changes the folders again.
        if seen == before != loaded:
            loaded = seen
            if app.generation.warnings:
                invalidate_caches()
                await app.reload(force=True)


def _packages() -> list[int]:
    """Return the times at which the folders that modules are imported from were changed, in nanoseconds."""
    found = []
    for folder in sys.path:
        with suppress(OSError):
            found.append(os.stat(folder).st_mtime_ns)  # noqa: PTH116 - "" is no path
    return found


async def check_database(app: App, fail: Callable[[str], None]) -> None:
    """Call `fail` with the reason if the database was replaced, or taken over by another daemon. While PostgreSQL is
    unavailable no other daemon can take it."""
    if not app.state.database.intact():
        fail(f"the database {app.state.database.label} was removed or replaced while it was in use")
    with suppress(Unavailable):
        if not await app.state.database.keep_claim():
            fail(f"another daemon took over the database {app.state.database.label}")
