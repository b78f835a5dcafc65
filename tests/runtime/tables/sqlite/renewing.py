"""`python -m tests.runtime.tables.sqlite.renewing FOLDER`: rotates the owner's key again and again, and gives the file
of their tables new keys, to be killed. It writes a line after each time."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.runtime.tables.sqlite.opened import opened


async def main(folder: Path) -> None:
    async with opened(folder) as sql:
        for number in range(1, 10_000):
            await asyncio.to_thread(sql.database.keys.rotate, ["owner"], number)
            await sql.tables.renew_keys()
            print(number, flush=True)  # noqa: T201 - for the test that started this


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
