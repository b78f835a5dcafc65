"""An app that serves `/v1`: a real database with users, tokens, webhooks and their routes, without a daemon."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from dslc.blocks.agent import Agent
from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.diagnostics.diagnostic import is_error
from dslc.program import Program
from dslc.source import Source
from runtime.agents.attempt import declared_blocks
from runtime.agents.prompt_context import build_prompt
from runtime.agents.services import AgentServices
from runtime.api.rest.authentication import Authenticator
from runtime.api.rest.handler import ApiRequest, ApiResponse, RestHandler
from runtime.api.rest.problem import Problem
from runtime.clock import Clock, milliseconds
from runtime.database.connection import Database
from runtime.errors import NotFound
from runtime.identity import users
from runtime.identity.caller import Caller, Scope
from runtime.identity.tokens import Tokens
from runtime.identity.user_settings import UserSettingsStore
from runtime.memory.indexing.progress import Progress
from runtime.memory.memories import Memories
from runtime.memory.open_memory import OpenMemory
from runtime.switches import ALL_ON
from runtime.tables.quota import TIERS
from runtime.tables.sql_database import SqlDatabase
from runtime.tables.sqlite.database import SqliteTables
from runtime.tables.storage import UserStorage
from runtime.tasks.store import TaskStore
from runtime.tools.context import Context, no_progress
from runtime.tools.daemon_hooks import DaemonHooks
from runtime.tools.user_limits import UserLimits
from runtime.webhooks.audit.audit import Audit
from runtime.webhooks.routing.dynamic_routes import DynamicRoutes
from runtime.webhooks.routing.dynamic_webhooks import DynamicWebhooks
from tests.runtime.memory.opened import open_memory

NOTES = Memory(name="notes", path="notes", embedding=Variant(name="hashing"))
"""An embedding with meaningless vectors that needs no model."""
COLLECTION = Memory(
    name="collection", store=Variant(name="collection"), embedding=Variant(name="hashing", options={"dimension": 64})
)
"""The built-in collection."""


class App:
    """The parts that `/v1` needs."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database, self.clock = database, clock
        self.daemon = DaemonHooks(
            Audit(database, clock),
            "https://hooks.example.com",
            on_queued=lambda: self.queued.append(None),
            cancel_run=_no_run,
            # No agent runs here, so no call waits for one.
            is_stopping=lambda: True,
        )
        self.tokens = Tokens(database, clock)
        self.dynamic_webhooks = DynamicWebhooks(database, clock)
        self.dynamic_routes = DynamicRoutes(database, clock, self.dynamic_webhooks)
        self.program = Program()
        self.declared: tuple[str, ...] = ("reviewer", "planner")
        self.queued: list[None] = []
        """An element for each time that something was queued."""
        self.memories = memories_of({})
        self.storage = UserStorage(database, clock, UserSettingsStore(database, clock), TIERS, "free")
        self.sql: SqlDatabase | None = None
        self.switches = ALL_ON
        self.tasks = TaskStore(database, clock)
        self.task_search: OpenMemory | None = None
        self.rest = RestHandler(self.open_context, Authenticator(self.tokens, clock))

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the program's agents, and of those that webhooks name."""
        return (*self.declared, *self.program.agents)

    def context(self, caller: Caller, progress: Progress = no_progress) -> Context:
        """Return a context like the daemon's."""
        return Context(
            caller=caller,
            clock=self.clock,
            database=self.database,
            agents=self.agents,
            memories=self.memories,
            webhooks=self.dynamic_webhooks,
            routes=self.dynamic_routes,
            daemon=self.daemon,
            progress=progress,
            switches=self.switches,
            tasks=self.tasks,
            task_search=self.task_search,
            declared_blocks=lambda agent: declared_blocks(self.program.agents.get(agent) or Agent(name=agent)),
            program=self.program,
            limits=UserLimits(storage=self.storage),
            sql=self.sql,
            build_prompt=partial(build_prompt, AgentServices(self.database, self.clock)),
        )

    @asynccontextmanager
    async def open_context(self, caller: Caller, progress: Progress) -> AsyncIterator[Context]:
        yield self.context(caller, progress)

    @asynccontextmanager
    async def remembering(self, root: Path, *blocks: Memory) -> AsyncIterator[App]:
        """Yield an app with these memories open, or with one called `notes`, in files below `root`."""
        async with AsyncExitStack() as stack:

            async def opened(block: Memory) -> OpenMemory:
                memory = await open_memory(
                    block, root, index_folder=root / "index", clock=self.clock, database=self.database
                )
                stack.push_async_callback(memory.close)
                return memory

            found = {block.name: await opened(block) for block in blocks or (NOTES,)}
            before, tables = (self.memories, self.sql), SqliteTables(self.database, root, self.storage)
            stack.push_async_callback(tables.close)
            self.memories, self.sql = memories_of({**before[0], **found}, lambda: opened(COLLECTION)), tables
            yield self
            self.memories, self.sql = before

    async def user(self, name: str) -> str:
        """Return the id of the user `name`, who is added if missing."""
        known = {each: user_id for user_id, each in (await users.names(self.database)).items()}
        return known.get(name) or await users.add(self.database, name, milliseconds(self.clock))

    async def token(self, user: str = "owner", *scopes: Scope) -> str:
        """Return a token of `user`, who is added if missing."""
        made = await self.tokens.create(await self.user(user), label="test", scopes=scopes or ("write",))
        assert made is not None
        return made.token

    async def ask(
        self,
        token: str | None,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: str = "",
        raw: bytes | None = None,
        content_type: str | None = "application/json",
        source: str = "192.0.2.1",
        authorization: list[str] | None = None,
    ) -> ApiResponse:
        """Return the response of `/v1`."""
        sent = raw if raw is not None else b"" if body is None else json.dumps(body).encode()

        async def read(largest: int) -> bytes:
            if len(sent) > largest:
                raise Problem("too_large", f"the body has more than {largest:,} bytes")
            return sent

        given = authorization if authorization is not None else [] if token is None else [f"Bearer {token}"]
        return await self.rest.answer(ApiRequest(method, path, query, given, content_type, None, source, read))

    async def webhook(self, token: str, title: str = "Nightly build", **body: Any) -> dict[str, Any]:
        """Return the response that describes a new webhook."""
        reply = await self.ask(token, "POST", "/v1/webhooks", {"title": title, "agent": "reviewer", **body})
        assert reply.status == 201, reply
        made: dict[str, Any] = told(reply)
        return made


async def _no_run(run_id: str, _user_id: str) -> str:
    raise NotFound(f"there is no run {run_id}")


async def _none() -> OpenMemory:
    raise AssertionError("no memories are open")


def memories_of(
    opened: Mapping[str, OpenMemory], open_collection: Callable[[], Awaitable[OpenMemory]] = _none
) -> Memories:
    """Yield these memories, with `notes` for every agent."""
    return Memories(Program(), opened, fallback="notes", open_collection=open_collection, lock=asyncio.Lock())


def program_of(text: str) -> Program:
    """Return the program of a source without errors."""
    compiled = analyse([Source("program.symbiont", text)], Catalog.installed())
    assert not any(is_error(each) for each in compiled.diagnostics), compiled.diagnostics
    return compiled.program


def told(reply: ApiResponse) -> Any:
    """Return the JSON in `reply`."""
    return json.loads(reply.body)
