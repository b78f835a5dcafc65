"""Returns free space of a SQLite file to the file system."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

PAGES = 256
"""Maximum pages (1 MiB) that one transaction returns; pages at the end of the file are moved into free ones."""

SPARE = 4096
"""Free pages (16 MiB) that are kept, or a quarter of the file if that is more, for the next writes."""


def vacuum(connection: Connection) -> bool:
    """Return some free pages of a SQLite file, in the writer's transaction. True if there are more.

    PostgreSQL vacuums by itself. A file created without `auto_vacuum` does not shrink
    (https://sqlite.org/pragma.html#pragma_auto_vacuum). The file becomes shorter at the next checkpoint.
    """
    if connection.dialect.name != "sqlite":
        return False
    driver: Any = connection.connection.driver_connection
    free, total = _number(driver, "freelist_count"), _number(driver, "page_count")
    surplus = free - max(SPARE, total // 4)
    if surplus <= 0 or _number(driver, "auto_vacuum") == 0:
        return False
    for _ in range(min(surplus, PAGES)):
        # One page at a time: each page is a row without columns, and the driver stops after the first.
        driver.execute("PRAGMA incremental_vacuum(1)")
    return surplus > PAGES


def _number(driver: Any, pragma: str) -> int:
    return int(driver.execute(f"PRAGMA {pragma}").fetchone()[0])
