"""Opens the SQL tables of users, in the way that belongs to the kind of the main database."""

from __future__ import annotations

from pathlib import Path

from runtime.database.connection import Database
from runtime.tables.postgres.database import PostgresTables
from runtime.tables.sql_database import SqlDatabase
from runtime.tables.sqlite.database import SqliteTables
from runtime.tables.storage import UserStorage


async def open_sql_database(database: Database, state: Path, storage: UserStorage) -> SqlDatabase:
    """Return the SQL tables of the users of `database`; its `problem` says why there are none. What it needs is opened
    when it is first used. `state`: the state folder of the root."""
    match database.kind:
        case "sqlite":
            return SqliteTables(database, state, storage)
        case "postgresql":
            tables = PostgresTables(database, storage)
            await tables.look()
            return tables
