"""`/metrics`: the daemon's metrics for Prometheus, and access to them."""

from __future__ import annotations

import asyncio

from aiohttp import web

from runtime.api.admin.readiness import unmounted_webhooks
from runtime.api.rest.authentication import Authenticator
from runtime.api.rest.problem import Problem, problem_of
from runtime.daemon.listeners.origin_check import problem_response
from runtime.daemon.program.app import App
from runtime.errors import SymbiontError
from runtime.metrics.exposition import Exposition
from runtime.threads.turns.backlog import BacklogReader

FORWARDED = ("Forwarded", "Via", "X-Forwarded-For", "X-Real-IP")
"""Headers that proxies add: a request with one of them is not from this machine."""

WAIT_SECONDS = 2
"""Seconds to wait for the database; after that its metrics are left out."""


class MetricsEndpoint:
    """The handler of `/metrics`. `open`: no token is needed unless the request came through a proxy; otherwise one
    with the scope `read`. `public`: no token is ever needed."""

    def __init__(self, app: App, bearer: Authenticator, *, open: bool, public: bool) -> None:  # noqa: A002
        self._app = app
        self._bearer = bearer
        self._open = open
        self._public = public
        self._exposition = Exposition(app.state.metrics)
        self._backlog = BacklogReader(app.state.database, app.state.clock)
        self._looking: asyncio.Task[None] | None = None
        _connect(app, self._backlog)

    async def __call__(self, request: web.Request) -> web.Response:
        try:
            await self._admit(request)
        except Problem as problem:
            return problem_response(problem)
        except SymbiontError as error:
            return problem_response(problem_of(error))
        await self._look()
        # Rendering the metrics of thousands of webhooks takes a while, so it runs in a thread and deliveries need not
        # wait.
        accept = request.headers.get("Accept")
        body, content_type = await asyncio.to_thread(self._exposition.render, accept)
        return web.Response(body=body, headers={"Content-Type": content_type, "Cache-Control": "no-store"})

    async def close(self, _application: web.Application) -> None:
        """Stop querying the database."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})

    async def _look(self) -> None:
        """Query the database once for all concurrent scrapes."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._ask(), name="metrics")
        # Another scrape may have started a query before this one resumes.
        looking = self._looking
        done, _ = await asyncio.wait({looking}, timeout=WAIT_SECONDS)
        if done:
            looking.result()
        else:
            self._backlog.last = None

    async def _ask(self) -> None:
        await self._backlog.look()

    async def _admit(self, request: web.Request) -> None:
        """Check the caller's access. Raises Problem, `Forbidden` and `Unavailable`."""
        proxied = any(name in request.headers for name in FORWARDED)
        if self._public or (self._open and not proxied):
            return
        caller = await self._bearer.caller(request.headers.getall("Authorization", ()), request.remote)
        caller.need("read")
        caller.need_all_tools("/metrics")


def _connect(app: App, backlog: BacklogReader) -> None:
    """Connect the gauges to `app` and `backlog`."""
    metrics = app.state.metrics
    metrics.inbox_depth.ask = lambda: (known := backlog.all) and known.states
    metrics.inbox_oldest.ask = lambda: (known := backlog.all) and known.oldest_seconds
    metrics.dead_letters.ask = lambda: None if backlog.last is None else backlog.last["delivery"].dead
    metrics.generation.ask = lambda: app.generation.number
    metrics.webhooks.ask = lambda: _webhooks(app)
    metrics.reload_successful.ask = lambda: float(app.problem is None)
    metrics.storage_up.ask = lambda: float(app.storage_problem is None)


def _webhooks(app: App) -> dict[str, float]:
    return {"mounted": len(app.table), "not_mounted": len(unmounted_webhooks(app.mounts))}
