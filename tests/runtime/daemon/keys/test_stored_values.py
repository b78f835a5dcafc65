"""What the product stores in each sealed column is sealed again under the name by which it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from runtime.clock import milliseconds
from runtime.database.connection import Database
from runtime.database.resealing import Resealing
from runtime.database.schema import metadata
from runtime.database.sealed import Sealed
from runtime.memory.collection.store import CollectionStore
from runtime.memory.core.block import BlockScope, DeclaredBlock, Origin
from runtime.memory.core.store import BlockStore
from runtime.secrets import generated, resolve
from runtime.secrets.backend import SecretContext
from runtime.tables.kv.store import KvStore
from runtime.tasks.feeds import TaskFeeds
from runtime.tasks.store import TaskStore
from runtime.tasks.task import Actor
from runtime.threads.agent_settings import AgentSettings
from runtime.threads.events.log import EventLog
from runtime.threads.events.run_event import RunEvent
from runtime.threads.inputs import Inputs
from runtime.threads.messages import Messages
from runtime.threads.run_log import RunLog
from runtime.threads.summaries import NewSummary, Summaries
from runtime.threads.thread import Threads
from runtime.tool_servers.logins import Logins
from runtime.webhooks.receiving.admission import Admission
from runtime.webhooks.routing.dynamic_webhooks import DynamicWebhooks
from tests.clocks import ManualClock
from tests.runtime.memory.texts import fact
from tests.runtime.tables.kv.stores import storage_of
from tests.runtime.threads.thread_runs import begin, said, texts
from tests.runtime.webhooks.candidates import candidate

NOT_STORED_HERE = {"approvals", "standing_approvals"}
"""Written for calls of runs alone; their rows have an id."""


class Product:
    """The parts of the product that seal something, and what they read back."""

    def __init__(self, database: Database, clock: ManualClock, folder: Path) -> None:
        self.database, self.clock = database, clock
        self.secrets = SecretContext({}, folder, database, database.keys, clock)
        self.threads, self.messages = Threads(database, clock), Messages(database, clock)
        self.summaries, self.settings = Summaries(database, clock), AgentSettings(database, clock)
        self.blocks, self.scope = BlockStore(database, clock), BlockScope("owner", "helper")
        self.webhooks, self.logins = DynamicWebhooks(database, clock), Logins(database, clock)
        self.items, self.events = CollectionStore("notes", database, clock), EventLog(database, clock)
        self.kv = KvStore(database, clock, storage_of(database, clock), "owner")
        self.feeds, self.tasks = TaskFeeds(database, clock), TaskStore(database, clock)
        self.thread, self.run, self.task = "", "", ""

    async def store(self) -> None:
        """Store something everywhere, and change it where it can be changed."""
        thread = await self.threads.conversation("owner", "helper", "the title")
        self.clock.advance(1)
        thread, self.thread = await self.threads.rename(thread, "another title"), thread.id
        self.run = await begin(self.database, thread.id)
        await self.messages.append(thread, [said("hello"), said("there")])
        given = {"first_position": 0, "last_position": 1, "message_count": 2, "tokens": 3, "embedding": bytes(16)}
        new = NewSummary(text="They spoke.", **given)  # type: ignore[arg-type]
        await self.summaries.append(thread, new)
        await Inputs(self.database, self.clock).send("owner", "helper", thread.id, "a message", {"write"})
        await RunLog(self.database, self.clock, self.run, 1).step("one", {"a": 1}, _act)
        for language in ("en", "de"):
            await self.settings.put("owner", "helper", {"language": language})
        await self.blocks.ensure(self.scope, [DeclaredBlock(label="human", value="Ada")])
        await self.blocks.write(self.scope, "human", "Ada likes tea", Origin("person"))
        await resolve("secret://generated/hook", self.secrets)
        await generated.rotate("hook", self.secrets, 3_600_000)
        webhook, _ = await self.webhooks.create("owner", "made", None, verified=True)
        await self.webhooks.rotate("owner", webhook.id, 3_600_000)
        await Admission(self.database, self.clock).admit(candidate("1"))
        await self.logins.put("linear", "https://linear.example", {"token": "t"})
        await self.feeds.open("owner")
        await self.feeds.rotate("owner")
        self.task = (await self.tasks.create("owner", Actor("user"), title="Call Ada")).id
        await self.tasks.update("owner", self.task, {"description": "about tea"}, Actor("user"))
        [item] = await self.items.append([fact("Ada likes tea")])
        await self.items.edit(item.memory_id, "Ada likes coffee", agent_id=item.agent_id)
        event = RunEvent(self.run, "agent.message", {"text": "said"})
        await self.database.transact(lambda connection: self.events.append(connection, event))
        for value in (1, 2):
            await self.kv.set("the name", value, ["the tag"])

    async def read(self) -> list[Any]:
        """Return what was stored."""
        thread = await self.threads.get(self.thread)
        summary = await self.summaries.latest(thread)
        assert summary is not None
        versions = await self.blocks.history(self.scope, "human")
        secret = await resolve("secret://generated/hook", self.secrets)
        previous = secret.previous
        assert previous is not None
        return [
            *(thread.title, texts(await self.messages.read(thread)), summary.text, summary.embedding),
            *((await self.settings.get("owner", "helper")).settings, [each.value for each in versions]),
            *((await self.blocks.read(self.scope, "human")).value, secret.reveal(), previous.reveal()),
            *(
                await self.logins.get("linear", "https://linear.example"),
                [item.text async for item in self.items.scan()],
            ),
            (await self.kv.get("the name"), await self.kv.page(["the tag"], most_bytes=1000)),
            (await self.feeds.open("owner")).token,
            (await self.tasks.get("owner", self.task), await self.tasks.history("owner", self.task)),
            [each.data for each in (await self.events.page("owner", 0)).events],
            await RunLog(self.database, self.clock, self.run, 2).step("one", {"a": 1}, _never),
        ]


async def _act() -> object:
    return {"done": True}


async def _never() -> object:
    raise AssertionError("it was done")


async def test_every_value_is_found_again_after_a_rotation(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    product = Product(database, clock, tmp_path)
    await product.store()
    tables = [table for table in metadata.sorted_tables if any(isinstance(each.type, Sealed) for each in table.c)]
    async with database.read() as connection:
        empty = {table.name for table in tables if not await connection.scalar(select(func.count()).select_from(table))}
    assert empty == NOT_STORED_HERE
    before = await product.read()
    clock.advance(1)
    database.keys.rotate(["owner"], milliseconds(clock))
    clock.advance(1)
    work = Resealing(database, clock)
    await work.run_if_due()
    assert work.state is not None
    assert (work.state.left, work.state.unreadable) == (0, 0)
    assert work.state.moved > len(tables)
    assert await product.read() == before
    await product.items.close()
