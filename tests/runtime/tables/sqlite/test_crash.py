"""What was acknowledged is there after a kill of a worker or of the daemon, and what was not has left nothing."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.errors import SymbiontError
from tests.clocks import until
from tests.lanes import LONG, repeated
from tests.runtime.tables.sqlite.opened import OpenTables, opened

pytestmark = LONG

HERE = Path(__file__).parents[4]


class Load:
    """Rows that are inserted all the time: which were acknowledged, and which may be there."""

    def __init__(self, sql: OpenTables) -> None:
        self._sql = sql
        self.acknowledged: set[int] = set()
        self.perhaps: set[int] = set()
        self.next = 0
        self.stopped = False

    async def run(self) -> None:
        while not self.stopped:
            number = self.next = self.next + 1
            try:
                await self._sql.run("INSERT INTO numbers VALUES (?), (?)", [number, number])
                self.acknowledged.add(number)
            except SymbiontError as error:
                if error.maybe_done:
                    self.perhaps.add(number)


@repeated("rounds", 2, 50)
async def test_a_worker_that_is_killed_under_load_loses_nothing_acknowledged(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(rounds)
    async with opened(tmp_path) as sql:
        await sql.run("CREATE TABLE numbers (n INTEGER)")
        load = Load(sql)
        tasks = [asyncio.create_task(load.run()) for _ in range(4)]
        for _ in range(rounds):
            before = len(load.acknowledged)
            await until(lambda before=before: len(load.acknowledged) > before + 5)  # type: ignore[misc]  # of this round
            await asyncio.sleep(chance.random() * 0.01)
            for worker in sql.workers():
                os.kill(worker, signal.SIGKILL)
        load.stopped = True
        await asyncio.gather(*tasks)
        result = await sql.run(
            "SELECT min(c) AS least, max(c) AS most FROM (SELECT count(*) AS c FROM numbers GROUP BY n)"
        )
        assert result.rows == [[2, 2]]
        there = set()
        after = None
        while True:
            page = await sql.tables.page("owner", "numbers", after=after)
            there |= {row[0] for row in page.rows}
            after = page.after
            if after is None:
                break
        assert load.acknowledged <= there <= load.acknowledged | load.perhaps


@repeated("rounds", 1, 10)
async def test_a_daemon_that_is_killed_takes_its_workers_along_and_loses_nothing(tmp_path: Path, rounds: int) -> None:
    for number in range(rounds):
        daemon = subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.tables.sqlite.inserting", str(tmp_path)],
            cwd=HERE,
            stdout=subprocess.PIPE,
        )
        assert daemon.stdout is not None
        processes = [int(each) for each in daemon.stdout.readline().split()]
        assert len(processes) == 2
        for _ in range(5 + 7 * number % 31):
            assert daemon.stdout.readline()
        daemon.kill()
        rest, _ = daemon.communicate()
        acknowledged = int(rest.split()[-1]) if rest.split() else 0
        await until(lambda: not any(Path(f"/proc/{each}").exists() for each in processes))  # noqa: B023 - of this round
        async with opened(tmp_path) as sql:
            count = await sql.value("SELECT count(*) AS n FROM numbers")
            assert count == await sql.value("SELECT max(n) AS most FROM numbers") >= acknowledged


async def test_a_worker_in_the_middle_of_a_statement_ends_with_the_daemon(tmp_path: Path) -> None:
    code = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from tests.runtime.tables.sqlite.opened import opened, templates\n"
        "async def main():\n"
        "    async with opened(Path(sys.argv[1])) as sql:\n"
        "        await sql.run('CREATE TABLE t (a)')\n"
        "        print(*sql.workers(), *templates(), flush=True)\n"
        "        await sql.run('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) '\n"
        "                      'SELECT max(i) AS m FROM n')\n"
        "asyncio.run(main())\n"
    )
    daemon = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=HERE, stdout=subprocess.PIPE)
    assert daemon.stdout is not None
    processes = [int(each) for each in daemon.stdout.readline().split()]
    daemon.kill()
    daemon.communicate()
    await until(lambda: not any(Path(f"/proc/{each}").exists() for each in processes), patience=4)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to mount a small disk")
async def test_a_full_disk_is_one_clear_error_and_nothing_is_kept(tmp_path: Path) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", tmp_path], check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        async with opened(tmp_path) as sql:
            await sql.run("CREATE TABLE notes (text)")
            await sql.run("INSERT INTO notes VALUES ('kept')")
            with pytest.raises(SymbiontError, match="the disk is full; nothing was changed"):
                await sql.run(
                    "INSERT INTO notes WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 200) "
                    "SELECT zeroblob(30000) FROM n"
                )
            assert await sql.value("SELECT group_concat(text) AS t FROM notes") == "kept"
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=False)
