"""Tasks of every process that owns a root: reload on changes, and check that the process still owns the database."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from runtime.daemon.program.app import App
from runtime.daemon.program.file_watch import changes
from runtime.database.errors import Unavailable


async def reload_on_changes(app: App) -> None:
    """Reload after each change of the program's files, until cancelled."""

    def ignored() -> list[Path]:
        return [app.root.state, *app.generation.folders]

    async for _ in changes(app.paths, ignored):
        await app.reload()


async def check_database(app: App, fail: Callable[[str], None]) -> None:
    """Call `fail` with the reason if the database was replaced, or taken over by another daemon. While PostgreSQL is
    unavailable no other daemon can take it."""
    if not app.database.intact():
        fail(f"the database {app.database.shown} was removed or replaced while it was in use")
    with suppress(Unavailable):
        if not await app.database.keep_claim():
            fail(f"another daemon took over the database {app.database.shown}")
