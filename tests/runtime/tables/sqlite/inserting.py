"""`python -m tests.runtime.tables.sqlite.inserting FOLDER`: inserts rows and writes the number of each that was
acknowledged, to be killed. The first line has its workers, and the template of these."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.runtime.tables.sqlite.opened import opened, templates


async def main(folder: Path) -> None:
    async with opened(folder) as sql:
        await sql.run("CREATE TABLE IF NOT EXISTS numbers (n INTEGER)")
        print(*sql.workers(), *templates(), flush=True)  # noqa: T201 - for the test
        first = await sql.value("SELECT coalesce(max(n), 0) AS n FROM numbers")
        for number in range(first + 1, first + 10_000):
            await sql.run("INSERT INTO numbers VALUES (?)", [number])
            print(number, flush=True)  # noqa: T201 - for the test


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
