"""Tasks of every process that owns a root: reload on changes, look at models, and check that the process still owns the
database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from runtime.daemon.program.app import App
from runtime.daemon.program.file_watch import changes
from runtime.database.errors import Unavailable

MODELS_SECONDS: Final = 30.0
"""Seconds between two looks at the models: a third of those for which one is remembered
(`runtime.models.reachability.KNOWN_SECONDS`)."""
_RELOAD_SECONDS: Final = 1.0
"""Maximum seconds after a reload until its models are looked at."""


async def reload_on_changes(app: App) -> None:
    """Reload after each change of the program's files, until cancelled."""

    def ignored() -> list[Path]:
        return [app.root.state, *app.generation.folders]

    async for _ in changes(app.paths, ignored):
        await app.reload()


async def look_at_models(app: App) -> None:
    """Look at the program's models every `MODELS_SECONDS` and after each reload, until cancelled: a probe of `/readyz`
    shows what was seen, and asks no model."""
    seen, again = 0, 0.0
    while True:
        if app.generation.number != seen or app.clock.monotonic() >= again:
            async with app.pinned() as generation:
                clients = [model.client for model in app.models if model.client is not None]
                await asyncio.gather(*(client.problems() for client in clients))
            seen, again = generation.number, app.clock.monotonic() + MODELS_SECONDS
        await app.clock.sleep(_RELOAD_SECONDS)


async def check_database(app: App, fail: Callable[[str], None]) -> None:
    """Call `fail` with the reason if the database was replaced, or taken over by another daemon. While PostgreSQL is
    unavailable no other daemon can take it."""
    if not app.database.intact():
        fail(f"the database {app.database.shown} was removed or replaced while it was in use")
    with suppress(Unavailable):
        if not await app.database.keep_claim():
            fail(f"another daemon took over the database {app.database.shown}")
