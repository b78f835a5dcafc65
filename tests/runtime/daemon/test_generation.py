"""A generation is built beside the running one, and keeps nobody waiting."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from dslc import Catalog, Source
from dslc.compiler import analyse
from runtime.clock import SYSTEM
from runtime.crypto import MasterKey
from runtime.daemon.generation import AT_A_TIME, build
from runtime.daemon.memories import Opening, Pools
from runtime.database import Database
from runtime.secrets import Context

MANY = 10 * AT_A_TIME


async def test_requests_have_their_turn_while_thousands_of_webhooks_are_mounted(tmp_path: Path) -> None:
    text = "".join(f'webhook w{n} {{ path "/hooks/{n}" secret "a secret" }}\n' for n in range(MANY))
    program = analyse([Source("many.symbiont", text.encode())], Catalog.installed()).program
    assert program is not None
    database = await Database.open(tmp_path / "symbiont.db", MasterKey(bytes(32)))
    turns = 0

    async def requests() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(requests())
    context = Context(os.environ, tmp_path, database, database.master_key, SYSTEM)
    opening = Opening(tmp_path, None, context, Pools())
    generation = await build(1, program, None, opening=opening)
    assert len(generation.table) == MANY
    await generation.retire()
    before = turns
    generation = await build(2, program, generation, opening=opening, again=lambda _: False)
    assert turns - before >= MANY // AT_A_TIME
    others.cancel()
    await generation.retire()
    await database.close()
