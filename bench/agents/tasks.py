"""`python -m bench.agents.tasks [--json] [--tasks N] [--rounds N] [--postgresql]`: lists and searches of many tasks.

One user has N tasks. A third of them is done, half have the tag `home`, a third `work`, one in a thousand `rare`. Each
query is asked as the tools ask it: the total is counted, and a search first looks for changes, of which there are none
but where *after a change* says so: there the index follows in the background, as in a daemon. Their vectors are those
of the hashing embedding, with as many dimensions as those of the local one; what that takes for a question is a row of
its own.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from sqlalchemy import Connection, text

from bench.harness.postgresql import postgresql
from bench.harness.report import command_line, show
from bench.search import Texts
from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.clock import SYSTEM
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.identity.caller import OWNER_CALLER
from runtime.memory.indexing.index_file import open_indexer
from runtime.memory.open_memory import OpenMemory
from runtime.search.embedding import default_embedding, open_embedding
from runtime.search.embedding.hashing import HashingEmbedder
from runtime.tasks.index import TaskItems
from runtime.tasks.rows import TaskRows
from runtime.tasks.store import TaskStore
from runtime.tasks.task import Actor, Status
from runtime.tasks.writing import TaskTransaction
from runtime.tools import TOOLS
from runtime.tools.context import Context

TASKS: Final = 100_000
ROUNDS: Final = 100
_AT_ONCE: Final = 200
_DIMENSION: Final = 384
_STATUSES: Final[tuple[Status, ...]] = ("pending", "pending", "pending", "in_progress", "completed", "completed")

FILTERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "": {},
    " pending": {"status": "pending"},
    " home": {"tags": ["home"]},
    " pending, home": {"status": "pending", "tags": ["home"]},
    " home and work": {"tags": ["home", "work"]},
    " completed, home and work": {"status": "completed", "tags": ["home", "work"]},
    " home and rare": {"tags": ["home", "rare"]},
}
"""The filters of lists and of searches."""

Result = dict[str, dict[str, float]]
"""Milliseconds at p50 and p95, by query."""


async def measure(tasks: int, rounds: int, url: str | None) -> Result:
    """Fill a database, then ask."""
    with tempfile.TemporaryDirectory() as name:
        folder, key = Path(name), MasterKey(b"k" * 32)
        database = await Database.open(url or folder / "symbiont.db", key)
        items = TaskItems(database)
        indexer = await open_indexer(items, None, folder / "index", SYSTEM, database=database)
        block = Memory(name="tasks", store=Variant(name="tasks"))
        memory = OpenMemory(block, indexer, HashingEmbedder(_DIMENSION), folder=None)
        try:
            await memory.activate()
            texts = Texts()
            await _fill(database, tasks, texts)
            begun = time.perf_counter()
            await memory.sync()
            await memory.embed()
            result = {"index all": {"p50": 1000 * (time.perf_counter() - begun)}}
            await memory.activate(lambda name, work: asyncio.create_task(work, name=name))
            return result | await _asked(_context(database, memory, items), texts, tasks, rounds)
        finally:
            await memory.close()
            await database.close()


async def _fill(database: Database, tasks: int, texts: Texts) -> None:
    chance, rows = random.Random(1), TaskRows(database.keys)

    def some(connection: Connection) -> None:
        transaction = TaskTransaction(connection, rows, "owner", Actor("user"), SYSTEM)
        for _ in range(_AT_ONCE):
            odds = {"home": 1 / 2, "work": 1 / 3, "rare": 1 / 1000}
            tags = tuple(tag for tag, odd in odds.items() if chance.random() < odd)
            fields = {"title": texts.text(3, 10), "description": texts.text(), "priority": "normal", "due": None}
            task = transaction.create(0, {**fields, "tags": tags})
            if (status := chance.choice(_STATUSES)) != "pending":
                transaction.change(task, {"status": status})
        transaction.finish()

    for _ in range(0, tasks, _AT_ONCE):
        await database.transact(some)
    if database.kind == "postgresql":
        # As the server does by itself within a minute: without figures of these rows it plans joins badly.
        await database.transact(lambda connection: connection.execute(text("ANALYZE")))


def _context(database: Database, memory: OpenMemory, items: TaskItems) -> Context:
    store = TaskStore(database, SYSTEM, per_hour=0)
    store.on_change = items.note_change
    needed: dict[str, Any] = dict.fromkeys(("agents", "memories", "webhooks", "routes"))
    given: dict[str, Any] = {"caller": OWNER_CALLER, "clock": SYSTEM, "database": database}
    return Context(**needed, **given, tasks=store, task_search=memory)


async def _asked(context: Context, texts: Texts, tasks: int, rounds: int) -> Result:
    chance = random.Random(2)

    async def call(tool: str, **given: Any) -> Any:
        return await TOOLS[tool].call(context, given)

    async def search(**given: Any) -> None:
        await call("task_search", query=texts.text(2, 5), **given)

    newest = cast("Any", await call("task_list", limit=100)).tasks

    async def change() -> None:
        await call("task_update", task_id=chance.choice(newest).task_id, title=texts.text(3, 10))

    async def after_a_change(given: Mapping[str, Any]) -> float:
        await change()
        return await _milliseconds(lambda: search(**given))

    queries: dict[str, Callable[[], Awaitable[Any]]] = {
        "list from the middle": lambda: call("task_list", offset=tasks // 2),
        "create": lambda: call("task_create", title=texts.text(3, 10), tags=["home"]),
        "update": change,
    }
    for name, given in FILTERS.items():
        queries[f"list{name}"] = partial(call, "task_list", **given)
        queries[f"search{name}"] = partial(search, **given)
    await search()
    result = {name: _row([await _milliseconds(ask) for _ in range(rounds)]) for name, ask in sorted(queries.items())}
    for name, given in FILTERS.items():
        result[f"search{name} after a change"] = _row([await after_a_change(given) for _ in range(rounds)])
    if default_embedding() is not None:
        embedder = await open_embedding(None, {})
        assert embedder is not None
        await embedder.embed_question("load the model")
        took = [await _milliseconds(lambda: embedder.embed_question(texts.text(2, 5))) for _ in range(rounds)]
        result["a question's vector"] = _row(took)
        await embedder.close()
    return result


async def _milliseconds(ask: Callable[[], Awaitable[Any]]) -> float:
    begun = time.perf_counter()
    await ask()
    return (time.perf_counter() - begun) * 1000


def _row(times: list[float]) -> dict[str, float]:
    return {"p50": round(statistics.median(times), 2), "p95": round(statistics.quantiles(times, n=20)[-1], 2)}


def table(result: Result) -> str:
    """Return the measurement as text."""
    lines = [f"{'':<44}{'p50':>12}{'p95':>12}"]
    for name, times in result.items():
        lines.append(f"{name:<44}" + "".join(f"{value:>9,.1f} ms" for value in times.values()))
    return "\n".join(lines)


def main() -> None:
    parser = command_line(
        "agents.tasks", __doc__, tasks=(TASKS, "tasks"), rounds=(ROUNDS, "times that each query is asked")
    )
    parser.add_argument("--postgresql", action="store_true", help="on PostgreSQL, by default on SQLite")
    options = parser.parse_args()
    with ExitStack() as stack:
        url = stack.enter_context(postgresql()) if options.postgresql else None
        result = asyncio.run(measure(options.tasks, options.rounds, url))
    show(result, table, as_json=options.json)


if __name__ == "__main__":
    main()
