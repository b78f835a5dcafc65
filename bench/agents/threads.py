"""`python -m bench.agents.threads [--json] [--threads N] [--messages N] [--postgresql]`: recall over very many threads.

A database gets N threads of deliveries with two messages each, by SQL, and another one a tenth of them. The index knows
every part of them, as after earlier looks, and has the entries of those that change. Then, in a new process for each:
the database and the index are opened, all parts are compared once, again without a change, after a message in one
thread, after the deletion of one, and a search by words is answered after a message. The medians of a few rounds are
compared: what follows a change must not depend on the number of threads. *Memory* is the largest of that process.

A long thread of N messages is indexed without vectors. Then, in a new process, the time from the opening to the answer
to the first search by words, and the memory.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import Connection, text

from bench.harness.postgresql import named, postgresql
from bench.harness.report import Ratio, command_line, ratio_table, show
from bench.search import Texts
from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.clock import SYSTEM, utc, uuid7
from runtime.crypto import MasterKey
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import messages, threads
from runtime.database.sealed import Seal
from runtime.memory.indexing.index_file import open_indexer
from runtime.memory.open_memory import OpenMemory
from runtime.memory.recall.store import RecallStore
from runtime.search.index.index import AppendedEntries
from runtime.search.question import Question
from runtime.threads import content
from runtime.threads.content import TextPart
from runtime.threads.messages import Messages, NewMessage
from runtime.threads.thread import TOGETHER, Threads
from runtime.threads.thread_write import MESSAGE_COLUMNS, MessageRow

THREADS: Final = 100_000
MESSAGES: Final = 100_000
ROUNDS: Final = 5
AGENT: Final = "helper"
LOOKS: Final = (
    "open",
    "first look, all parts",
    "look without a change",
    "look after a message",
    "look after the deletion of a thread",
    "search by words after a message",
)
SINCE_CHANGE: Final = LOOKS[2:]
MEMORY: Final = "memory, MB"
FIRST: Final = "start and first search by words, ms"
_SHORT: Final = 2
_AT_ONCE: Final = 2_000
_TEXTS: Final = 1_000
_KEY: Final = MasterKey(b"b" * 32)
_THREAD: Final = ("id", "user_id", "agent", "kind", "part", "length", "created_at", "updated_at")
_MESSAGE: Final = ("thread_id", "user_id", *MESSAGE_COLUMNS)


class Result(NamedTuple):
    """Milliseconds and megabytes by row, for many threads, for a tenth, and for the first search of a long one."""

    threads: int
    many: dict[str, float]
    tenth: dict[str, float]
    messages: int
    first_search: dict[str, float]
    ratios: list[Ratio]


async def measure(
    number: int = THREADS, said: int = MESSAGES, rounds: int = ROUNDS, server: str | None = None
) -> Result:
    """Measure everything. `server`: the URL of a PostgreSQL server to use instead of SQLite."""
    tenth = await _measured(number // 10, rounds, server)
    many = await _measured(number, rounds, server)
    first = await _first_search(said)
    compared = f"{number:,} threads / {number // 10:,}"
    ratios = [Ratio(f"{row}: {compared}", many[row] / tenth[row], "about 1") for row in SINCE_CHANGE]
    return Result(number, many, tenth, said, first, ratios)


async def _measured(number: int, rounds: int, server: str | None) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="symbiont-bench-") as folder:
        root = Path(folder)
        url = str(root / "symbiont.db") if server is None else await _made(server, f"threads_{number}")
        database = await Database.open(url, _KEY)
        await _fill(database, number, rounds, root / "index")
        await database.close()
        return await _in_a_process(_look, url, root / "index", number, rounds)


async def _made(server: str, name: str) -> str:
    """Make a database on a server; return its URL."""
    import asyncpg

    connection = await asyncpg.connect(server)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return named(server, name)


async def _fill(database: Database, number: int, rounds: int, index: Path) -> None:
    seal = Seal(database.keys, messages.c.content)
    words = Texts()
    bodies = [content.encode((TextPart(words.text(5, 20)),)) for _ in range(_TEXTS)]

    def some(connection: Connection, first: int, end: int) -> None:
        made, said = list[tuple[object, ...]](), list[tuple[object, ...]]()
        for at in range(first, end):
            made.append((_id(at), "owner", AGENT, "delivery", at // TOGETHER, _SHORT, at, at))
            for position in range(_SHORT):
                message_id = uuid7(SYSTEM)
                sealed = seal.close(bodies[(at + position) % _TEXTS], row=message_id, user_id="owner")
                row = MessageRow(message_id, "user", "message", 1, None, sealed, position, None, at)
                said.append((_id(at), "owner", *row))
        bulk.insert(connection, threads, _THREAD, made)
        bulk.insert(connection, messages, _MESSAGE, said)

    for first in range(0, number, _AT_ONCE):
        end = min(first + _AT_ONCE, number)
        await database.transact(lambda connection, first=first, end=end: some(connection, first, end))  # type: ignore[misc]
    await database.transact(lambda connection: connection.execute(text("ANALYZE")))
    changing = {f"{AGENT}/{at // TOGETHER}" for at in _changing(number, rounds)}
    async with _opened(database, index) as memory:
        known = [
            AppendedEntries(part.name, part.agent_id, None, part.revision, ())
            for part in await memory.store.parts()
            if part.name not in changing
        ]
        for begin in range(0, len(known), _AT_ONCE):
            await memory.indexer.index.append(known[begin : begin + _AT_ONCE])
        await memory.sync()


def _id(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012}"


def _changing(number: int, rounds: int) -> list[int]:
    """Return the threads that change, distributed over all."""
    return [number * each // (3 * rounds) for each in range(3 * rounds)]


@asynccontextmanager
async def _opened(database: Database, index: Path) -> AsyncIterator[OpenMemory]:
    store = RecallStore(database)
    indexer = await open_indexer(store, None, index, SYSTEM, database=database)
    memory = OpenMemory(Memory(name="recall", store=Variant(name="recall")), indexer, None, folder=None)
    await memory.activate()
    try:
        yield memory
    finally:
        await memory.close()


async def _in_a_process(work: Callable[..., Awaitable[dict[str, float]]], *given: object) -> dict[str, float]:
    """Return what `work` measures in a new process, with the largest memory of it."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return await asyncio.get_running_loop().run_in_executor(pool, _run, work, given)


def _run(work: Callable[..., Awaitable[dict[str, float]]], given: tuple[object, ...]) -> dict[str, float]:
    async def running() -> dict[str, float]:
        return await work(*given)

    found = asyncio.run(running())
    return found | {MEMORY: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000}


async def _look(url: str, index: Path, number: int, rounds: int) -> dict[str, float]:
    took: dict[str, list[float]] = {row: [] for row in LOOKS}
    begun = time.perf_counter()
    database = await Database.open(url, _KEY)
    async with _opened(database, index) as memory:
        took[LOOKS[0]].append(_milliseconds(begun))
        of_threads, said = Threads(database, SYSTEM), Messages(database, SYSTEM)

        async def look() -> object:
            report = await memory.sync()
            assert not report.problems, report.problems
            return report

        async def search() -> object:
            return (await memory.search(Question(text="quetzalcoatl", now=utc(SYSTEM.now())))).hits

        async def timed(row: str, work: Callable[[], Awaitable[object]]) -> object:
            begun = time.perf_counter()
            answer = await work()
            took[row].append(_milliseconds(begun))
            return answer

        async def append(at: int, words: str) -> None:
            thread = await of_threads.get(_id(at))
            await said.append(thread, [NewMessage(role="user", parts=(TextPart(words),), tokens=1)])

        report = await timed(LOOKS[1], look)
        assert getattr(report, "read", 0) == 0
        changing = iter(_changing(number, rounds))
        for _ in range(rounds):
            await timed(LOOKS[2], look)
            await append(next(changing), "another message")
            await timed(LOOKS[3], look)
            await of_threads.delete(await of_threads.get(_id(next(changing))))
            await timed(LOOKS[4], look)
            await append(next(changing), "quetzalcoatl")
            assert await timed(LOOKS[5], search)
    await database.close()
    return {row: statistics.median(times) for row, times in took.items()}


async def _first_search(number: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="symbiont-bench-") as folder:
        root = Path(folder)
        database = await Database.open(root / "symbiont.db", _KEY)
        thread, words = await Threads(database, SYSTEM).main("owner", AGENT), Texts()
        said = Messages(database, SYSTEM)
        for begin in range(0, number, _AT_ONCE):
            texts = [words.text() for _ in range(min(_AT_ONCE, number - begin))]
            await said.append(thread, [NewMessage(role="user", parts=(TextPart(each),), tokens=1) for each in texts])
        async with _opened(database, root / "index") as memory:
            await memory.sync()
        await database.close()
        return await _in_a_process(_searched, root, words.text(5, 12))


async def _searched(root: Path, words: str) -> dict[str, float]:
    begun = time.perf_counter()
    database = await Database.open(root / "symbiont.db", _KEY)
    async with _opened(database, root / "index") as memory:
        found = await memory.search(Question(text=words, now=utc(SYSTEM.now())))
        took = _milliseconds(begun)
        assert found.hits
    await database.close()
    return {FIRST: took}


def _milliseconds(begun: float) -> float:
    return (time.perf_counter() - begun) * 1_000


def table(result: Result) -> str:
    """Return the measurement as Markdown tables."""
    lines = [f"| milliseconds | {result.threads:,} threads | {result.threads // 10:,} |", "|---|---:|---:|"]
    lines += [f"| {row} | {result.many[row]:.1f} | {result.tenth[row]:.1f} |" for row in (*LOOKS, MEMORY)]
    lines += ["", f"| | {result.messages:,} messages |", "|---|---:|"]
    lines += [f"| {row} | {value:.0f} |" for row, value in result.first_search.items()]
    return "\n".join([*lines, *ratio_table(result.ratios)])


def main() -> None:
    parser = command_line(
        "agents.threads", __doc__, threads=(THREADS, "threads"), messages=(MESSAGES, "messages of a long thread")
    )
    parser.add_argument("--postgresql", action="store_true", help="threads in PostgreSQL instead of SQLite")
    options = parser.parse_args()
    if not options.postgresql:
        result = asyncio.run(measure(options.threads, options.messages))
    else:
        with postgresql() as server:
            if server is None:
                parser.error("there is no PostgreSQL server: install pgserver, or set SYMBIONT_TEST_POSTGRES")
            result = asyncio.run(measure(options.threads, options.messages, server=server))
    show(result, table, as_json=options.json)


if __name__ == "__main__":
    main()
