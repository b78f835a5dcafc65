"""The background task of the keys: it follows changes of other daemons, records and limits how often keys are used, and
seals again what is sealed with retired keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from runtime.clock import milliseconds
from runtime.daemon.program import last_program
from runtime.daemon.program.app import App
from runtime.database.keys.key import ROTATED_AT
from runtime.database.keys.ring import PROCESS, MasterKeyReplaced
from runtime.errors import SymbiontError
from runtime.memory.indexing.sealing import reseal_indexes

log = structlog.get_logger("symbiont.keys")

LOOK_SECONDS: Final = 1.0


class KeyUpkeep:
    """Keeps the keys of an open root. `fail` is called with the reason if the process must stop: another daemon rotated
    the master key, and this one cannot read the new one."""

    def __init__(self, app: App, fail: Callable[[str], None]) -> None:
        self._app = app
        self._fail = fail

    async def run(self) -> None:
        """Look every second, until cancelled."""
        problem = ""
        while True:
            try:
                await self.run_once()
                problem = ""
            except MasterKeyReplaced as error:
                self._fail(error.line())
            except SymbiontError as error:
                if error.line() != problem:
                    problem = error.line()
                    log.warning("keys_postponed", reason=problem)
            await self._app.state.clock.sleep(LOOK_SECONDS)

    async def follow_notification(self) -> None:
        """Load the keys at once after a notification; a failure is met again by `run`."""
        with suppress(SymbiontError):
            await self.follow()

    async def run_once(self) -> None:
        """Do what there is to do now. Raises `MasterKeyReplaced`, and other SymbiontErrors after which it is tried
        again."""
        app, keys = self._app, self._app.state.database.keys
        if app.state.database.kind == "postgresql":
            await self.follow()
        if keys.is_dirty:
            await asyncio.to_thread(keys.record_uses)
        worn = [key.holder for key in keys.current if key.uses >= ROTATED_AT]
        if worn:
            log.info("keys_rotated", users=len(worn), reason="used often")
            await asyncio.to_thread(keys.rotate, worn, milliseconds(app.state.clock))
        if any(key.holder == PROCESS for key in keys.retired):
            await asyncio.to_thread(last_program.reseal, app.state.root, keys)
        async with app.pinned() as generation:
            await reseal_indexes(keys, (memory.indexer for memory in generation.open_memories))
        if app.state.sql is not None:
            await app.state.sql.renew_keys()
        await app.state.resealing.run_if_due()

    async def follow(self) -> None:
        """Load the keys again if another daemon changed them."""
        try:
            await asyncio.to_thread(self._app.state.database.keys.refresh)
        except MasterKeyReplaced:
            await self._app.master_key.follow()
