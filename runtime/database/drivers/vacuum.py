"""Giving room back to the file system: what SQLite's file has grown to in a bad week is not its size for ever."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

PAGES = 256
"""Pages (1 MiB) that one transaction gives back; those at the end of the file are moved to where there is room."""

SPARE = 4096
"""Free pages (16 MiB) that stay, or a quarter of the file where that is more: what is taken again soon is not given
back and asked for anew."""


def vacuum(connection: Connection) -> bool:
    """Give some of the free pages of a SQLite file back, in the writer's transaction; whether there are more to give.

    PostgreSQL's own vacuum sees to its files. A file that was made without `auto_vacuum` keeps what it has
    (https://sqlite.org/pragma.html#pragma_auto_vacuum). The file is shorter after the next checkpoint.
    """
    if connection.dialect.name != "sqlite":
        return False
    driver: Any = connection.connection.driver_connection
    free, total = _number(driver, "freelist_count"), _number(driver, "page_count")
    surplus = free - max(SPARE, total // 4)
    if surplus <= 0 or _number(driver, "auto_vacuum") == 0:
        return False
    for _ in range(min(surplus, PAGES)):
        # One at a time: for each page there is a row without columns, and the driver takes the first for the last.
        driver.execute("PRAGMA incremental_vacuum(1)")
    return surplus > PAGES


def _number(driver: Any, pragma: str) -> int:
    return int(driver.execute(f"PRAGMA {pragma}").fetchone()[0])
