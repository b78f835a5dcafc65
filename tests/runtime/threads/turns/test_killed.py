"""Kill -9 at random moments: the turns of each thread still run one after the other, and none is forgotten."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import defaultdict
from pathlib import Path

from runtime.clock import SYSTEM
from runtime.database.connection import Database
from runtime.database.schema import thread_turns
from runtime.webhooks.receiving.admission import Admission
from tests.lanes import LONG, repeated
from tests.runtime.threads.turns.sending import open_thread, send, states
from tests.runtime.webhooks.candidates import candidate, rows

THREADS = "abcd"


@LONG
@repeated("rounds", 1, 60)
async def test_threads_keep_their_order_however_often_daemons_are_killed(
    database: Database, database_url: str, tmp_path: Path, rounds: int
) -> None:
    notes, chance = tmp_path / "notes", random.Random(5)
    expected = await fill(database, 12 * rounds)
    processes: list[asyncio.subprocess.Process] = []
    daemons = 2 if database.kind == "postgresql" else 1
    for _ in range(rounds):
        while len(processes) < daemons:
            processes.append(await worker(database_url, notes))
        before = size(notes)
        while size(notes) == before and all(each.returncode is None for each in processes):
            await asyncio.sleep(0.02)
        await asyncio.sleep(chance.uniform(0, 0.5))
        killed = processes.pop(0)
        if killed.returncode is None:
            killed.kill()
        await killed.wait()
    processes.append(await worker(database_url, notes))
    async with asyncio.timeout(600):
        assert [await each.wait() for each in processes] == [0] * len(processes)
    found = await states(database)
    assert set(found) == set(expected)
    assert set(found.values()) <= {"done", "dead"}
    assert await rows(database, thread_turns) == []
    check(notes, {turn for turn, state in found.items() if state == "dead"})


async def fill(database: Database, count: int) -> list[str]:
    """Return the ids of deliveries and messages, in several threads."""
    admission, made = Admission(database, SYSTEM), []
    for thread in THREADS:
        await open_thread(database, SYSTEM, thread)
    for number in range(count):
        thread = THREADS[number % len(THREADS)]
        if number % 3:
            made.append((await admission.admit(candidate(f"{thread}{number}"))).delivery_id)
        else:
            made += await send(database, SYSTEM, "hello", thread=thread)
    return made


def check(notes: Path, dead: set[str]) -> None:
    """Check that on each thread every turn ended, or died, before the next one began."""
    current: dict[str, str] = {}
    ended: dict[str, set[str]] = defaultdict(set)
    for line in notes.read_text().splitlines():
        event, thread, turn = line.split()
        before = current.get(thread)
        if event == "begin":
            assert before is None or before == turn or before in dead | ended[thread], (before, line)
            current[thread] = turn
        else:
            assert before == turn, line
            ended[thread].add(turn)


def size(notes: Path) -> int:
    return notes.stat().st_size if notes.exists() else 0


async def worker(url: str, notes: Path) -> asyncio.subprocess.Process:
    given = (sys.executable, "-m", "tests.runtime.threads.turns.thread_worker", url, str(notes))
    return await asyncio.create_subprocess_exec(*given, stdout=asyncio.subprocess.DEVNULL)
