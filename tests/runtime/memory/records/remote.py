"""A remote with scripted responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from aiohttp import web

from dslc.blocks.variant import Variant
from runtime.clock import SYSTEM, Clock
from runtime.memory.records.store import RecordsStore
from runtime.secrets.secret import Secret

KEY = "the-key-of-contextstream"


class Call(NamedTuple):
    """One received call."""

    headers: dict[str, str]
    body: dict[str, Any]


Answer: TypeAlias = int | float | tuple[int, str] | asyncio.Event


class Remote:
    """A remote that returns the next of `answers` each time, then 200: a status, a status with a `Location`, seconds
    to wait, or an event to wait for."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.calls: list[Call] = []
        self.port = 0
        self._runner: web.AppRunner | None = None
        self.body = '{"ok": true}'

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/memories?token=in-the-url"

    @property
    def summaries(self) -> list[str]:
        """Return what was sent, in order."""
        return [call.body["record"]["summary"] for call in self.calls]

    def options(self, **more: object) -> dict[str, object]:
        """Return the options of a store that sends here, with resolved secrets."""
        own = {"url": Secret(self.url.encode(), "env URL"), "api_key": Secret(KEY.encode(), "env KEY")}
        given = {**own, "project": "neuronx", "timeout": timedelta(seconds=5), **more}
        return {"remote": Variant(name="contextstream", options=given)}

    async def up(self) -> None:
        """Accept calls again, on the same port as before."""
        app = web.Application()
        app.router.add_post("/memories", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        server = site._server
        assert isinstance(server, asyncio.Server)
        self.port = server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Refuse all calls."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.Response:
        self.calls.append(Call(dict(request.headers), await request.json()))
        answer = self.answers.pop(0) if self.answers else 200
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            answer = 200
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            answer = 200
        if isinstance(answer, tuple):
            return web.Response(status=answer[0], headers={"Location": answer[1]})
        return web.Response(status=answer, text=self.body, content_type="application/json")


@asynccontextmanager
async def remote(answers: Sequence[Answer] = ()) -> AsyncIterator[Remote]:
    """A running remote."""
    found = Remote()
    found.answers += answers
    await found.up()
    try:
        yield found
    finally:
        await found.down()


@asynccontextmanager
async def sending(root: Path, to: Remote, clock: Clock = SYSTEM, **more: object) -> AsyncIterator[RecordsStore]:
    """A store that sends its records there."""
    store = RecordsStore(root, clock)
    store.configure(to.options(**more))
    await store.recover()
    try:
        yield store
    finally:
        await store.close()
