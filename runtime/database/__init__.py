"""The database: one schema, one writer, sealed content; SQLite by default, PostgreSQL by URL."""

from runtime.database.connection import Database
from runtime.database.failure import Unavailable

__all__ = ["Database", "Unavailable"]
