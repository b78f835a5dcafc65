"""Creates a database for a root that lost its own, as only a person may decide that."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from runtime.daemon.process.master_rotation import open_database
from runtime.daemon.process.root import PROGRAM_FILE, Root, own
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program.app import refuse_another_database


class CreatedDatabase(NamedTuple):
    """The database of a root, by its name in messages. `is_new`: it had no data before."""

    database: str
    is_new: bool


def create_database(root: Root) -> CreatedDatabase:
    """Create the database of `root`, or make the one that is there its own. Raises UsageError, also if a process uses
    the root."""
    settings = ProcessSettings.read({})
    refuse_another_database(root, settings)
    with own(root, seconds=0):
        return asyncio.run(_create(root, settings))


async def _create(root: Root, settings: ProcessSettings) -> CreatedDatabase:
    database = await open_database(root, settings, replaces=True)
    try:
        record = {**root.read(PROGRAM_FILE), "database": database.label, "database_id": database.id}
        root.write(PROGRAM_FILE, record)
        return CreatedDatabase(database.label, database.is_new)
    finally:
        await database.close()
