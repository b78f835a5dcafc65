"""Removed users: completes the deletion of their data, also after a kill, and of data that arrived during it; and the
removal of users whose keys were forgotten."""

from __future__ import annotations

from functools import partial
from typing import Final

import structlog

from runtime.api.admin.user_removal import erase, remove_rows
from runtime.clock import milliseconds
from runtime.daemon.program.app import App
from runtime.errors import SymbiontError
from runtime.identity import users
from runtime.identity.caller import OWNER_CALLER

log = structlog.get_logger("symbiont.users")

LOOK_SECONDS: Final = 60.0
SETTLED_MS: Final = 600_000
"""Milliseconds after a removal during which a running request or agent may still write data of the user."""


class Removal:
    """Completes removals begun by `users.remove`. `run` is a background task of the process that owns the root."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._tried: set[str] = set()

    async def run(self) -> None:
        """Look for removed users now and every minute, until cancelled."""
        while True:
            try:
                await self.finish()
            except SymbiontError as error:
                log.warning("user_deletion_postponed", reason=error.line())
            await self._app.state.clock.sleep(LOOK_SECONDS)

    async def finish(self) -> None:
        """Delete the data of removed users at once, and again when no more data can arrive; then delete the record of
        the removal."""
        app = self._app
        await self._remove_again()
        for user_id, removed_at in (await users.unfinished_removals(app.state.database)).items():
            settled = milliseconds(app.state.clock) - removed_at >= SETTLED_MS
            if user_id in self._tried and not settled:
                continue
            async with app.open_context(OWNER_CALLER) as context:
                done = await erase(context, user_id)
            for problem in done.problems:
                log.warning("user_deletion_incomplete", user_id=user_id, reason=problem)
            self._tried.add(user_id)
            if settled and not done.problems and not done.running:
                await users.finish_removal(app.state.database, user_id)

    async def _remove_again(self) -> None:
        """Remove users whose keys were forgotten: a kill interrupted the removal, or a copy of the data from before
        was put back."""
        app, forgotten = self._app, self._app.state.database.keys.removals
        for user_id in forgotten.keys() & (await users.names(app.state.database)).keys():
            now = None if forgotten[user_id] is not None else milliseconds(app.state.clock)
            await app.state.database.transact(partial(remove_rows, user_id=user_id, now=now))
            await app.state.dynamic_routes.look()
            log.warning("user_removed_again", user_id=user_id, kept=now is None)
