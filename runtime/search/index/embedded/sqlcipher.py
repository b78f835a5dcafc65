"""SQLite with every page of the file, the log and free pages sealed: SQLCipher, AES-256 with an HMAC for each page.

Python's own `sqlite3` cannot do that. SQLCipher's module has the same interface, but errors of its own. An index sealed
by pages opens as fast as an unsealed one; sealed by rows, its words would have to be counted again at every start.
"""

from __future__ import annotations

import sqlite3
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from runtime.search.errors import IndexFailed

try:
    sqlcipher: Any = import_module("sqlcipher3.dbapi2")
except ImportError:  # this machine has no wheel, and the package was not built
    sqlcipher = None

PAGE_BYTES: Final = 8192
"""A page has room for five vectors of 384 numbers; SQLite's default of 4 KiB for two."""
ERRORS: Final[tuple[type[Exception], ...]] = (sqlite3.Error,) if sqlcipher is None else (sqlite3.Error, sqlcipher.Error)
"""The errors of both modules; `sqlite_errorcode` has the code."""


def connect(path: Path | None, key: bytes | None, timeout: float) -> sqlite3.Connection:
    """Return a connection to this file, sealed with `key` (32 bytes; None: not sealed), or to a database in memory.

    Nothing is read yet, so a wrong key shows at the first statement (SQLITE_NOTADB). Raises IndexFailed if SQLCipher is
    missing.
    """
    options: dict[str, Any] = {"timeout": timeout, "isolation_level": None, "check_same_thread": False}
    if path is None or key is None:
        connection: sqlite3.Connection = sqlite3.connect(":memory:" if path is None else path, **options)
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        return connection
    if sqlcipher is None:
        raise IndexFailed(
            f"the index {path} cannot be sealed: the package sqlcipher3 cannot be loaded",
            hint="pip install sqlcipher3",
        )
    connection = sqlcipher.connect(str(path), **options)
    for pragma in (
        "cipher_log_level = NONE",  # by default it writes to stderr
        f"key = \"x'{key.hex()}'\"",
        "cipher_compatibility = 4",
        f"cipher_page_size = {PAGE_BYTES}",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def change_key(connection: sqlite3.Connection, key: bytes) -> None:
    """Seal the file of this connection with another key, in one transaction: every page is written again. The log,
    whose pages are sealed with the key before, is emptied first and afterwards."""
    for pragma in ("wal_checkpoint(TRUNCATE)", f"rekey = \"x'{key.hex()}'\"", "wal_checkpoint(TRUNCATE)"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
