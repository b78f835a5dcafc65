"""Parts of the receiver, measured in this process: commits on PostgreSQL, and filters."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from bench.harness.load import SECRET
from bench.harness.postgresql import postgresql
from bench.harness.program import body, one_webhook
from bench.harness.report import Ratio
from runtime.clock import SYSTEM
from runtime.crypto import MasterKey, new_key
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import bodies, deliveries
from runtime.database.sealed import Seal
from runtime.secrets.secret import Secret
from runtime.webhooks.deliveries.delivery import Candidate
from runtime.webhooks.deliveries.storage_usage import StorageUsage
from runtime.webhooks.receiving.admission import Admission
from runtime.webhooks.receiving.pending_delivery import COLUMNS, prepare_delivery
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.payload import Payload, decode_json
from runtime.webhooks.routing.route import build_route

WAITING = 64
POOL = 16
"""Connections of the side that commits each delivery alone; PostgreSQL groups concurrent commits too."""

ROUNDS = 5


def measure() -> list[Ratio]:
    """Return all ratios; those of PostgreSQL only if there is a server."""
    return [*asyncio.run(_postgresql()), _filter()]


async def _postgresql(each: int = 1500) -> list[Ratio]:
    """Compare deliveries per second on PostgreSQL, in groups and with one transaction each."""
    with postgresql() as url:
        if url is None:
            return []
        database = await Database.open(url, MasterKey(new_key()))
        try:
            in_groups = Admission(database, SYSTEM).admit
            async with _alone(database, url) as alone:
                turns = []
                for turn in range(ROUNDS + 1):
                    rates = [await _rate(admit, f"{turn}-{n}", each) for n, admit in enumerate((in_groups, alone))]
                    turns.append(rates[0] / rates[1])
        finally:
            await database.close()
    value = statistics.median(turns[1:])
    return [Ratio("PostgreSQL, group commit / commit per request", value, "at least 1.4")]


async def _rate(admit: Callable[[Candidate], Awaitable[Any]], tag: str, total: int) -> float:
    """Return deliveries per second, `WAITING` at a time."""
    numbers = iter(range(total))
    content = body()

    async def sender() -> None:
        for number in numbers:
            await admit(_candidate(f"{tag}-{number}", content))

    start = time.perf_counter()
    await asyncio.gather(*(sender() for _ in range(WAITING)))
    return total / (time.perf_counter() - start)


def _candidate(delivery_id: str, content: bytes) -> Candidate:
    headers = (("content-type", "application/json"), ("x-github-event", "push"), ("x-github-delivery", delivery_id))
    return Candidate(
        webhook="github",
        provider="github",
        agent="recorder",
        body=content,
        event="push",
        provider_delivery_id=delivery_id,
        content_type="application/json",
        headers=headers,
        received=headers,
    )


class _alone:  # noqa: N801 - used as a function
    """Stores each candidate in its own transaction, over a pool: the same rows by the same statements."""

    def __init__(self, database: Database, url: str) -> None:
        self._url = url
        self._seal = Seal(database.keys, bodies.c.body)

    async def __aenter__(self) -> Callable[[Candidate], Awaitable[None]]:
        import asyncpg

        self._pool = await asyncpg.create_pool(self._url, min_size=POOL, max_size=POOL)
        return self._admit

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    async def _admit(self, candidate: Candidate) -> None:
        entry = prepare_delivery(candidate, SYSTEM, StorageUsage())
        sealed = self._seal.close(candidate.body, row=entry.delivery_id, user_id=candidate.user_id)
        row = (entry.delivery_id, candidate.user_id, sealed, 0)
        columns = ("delivery_id", "user_id", "body", "headers_size")
        statements = [
            *bulk.insert_statements("postgresql", deliveries, COLUMNS, [entry.row]),
            *bulk.insert_statements("postgresql", bodies, columns, [row]),
        ]
        async with self._pool.acquire() as connection, connection.transaction():
            for statement in statements:
                await connection.execute(statement.sql, *statement.parameters)


def _filter() -> Ratio:
    """Compare a plain filter on a parsed body with the parsing."""
    webhook = one_webhook('    filter { json_path "$.pull_request.base.ref" equals "main" }\n')
    route = build_route(webhook, origin="bench", secrets=[Secret(SECRET.encode(), "bench")], problem=None).route
    assert route is not None
    filters = route.filters
    assert filters is not None
    content, headers = _pull_request(), Headers(())
    payload = Payload(decode_json, content, "application/json")
    assert filters.refusing_filter("pull_request", headers, payload) is None
    evaluating = _seconds(lambda: filters.refusing_filter("pull_request", headers, payload))
    parsing = _seconds(lambda: decode_json(content))
    return Ratio(f"a filter / parsing its {len(content) / 1024:.0f} KiB body", evaluating / parsing, "at most 0.1")


def _pull_request() -> bytes:
    """Return a body of many short values, like GitHub's pull_request deliveries, of some 7 KiB."""
    user = {key: f"https://api.github.com/users/mona/{key}" for key in ("url", "repos_url", "events_url", "gists_url")}
    repository = {f"{key}_url": f"https://api.github.com/repos/octo/site/{key}" for key in _RESOURCES}
    branch = {"ref": "main", "sha": "0" * 40, "user": user, "repo": {**repository, "owner": user, "id": 7}}
    document = {
        "action": "opened",
        "number": 7,
        "pull_request": {"title": "Add a thing", "base": branch, "head": branch, "user": user, "draft": False},
        "repository": {**repository, "owner": user},
        "sender": user,
    }
    return msgspec.json.encode(document)


_RESOURCES = (
    *("archive", "assignees", "blobs", "branches", "collaborators", "comments", "commits", "compare", "contents"),
    *("contributors", "deployments", "downloads", "events", "forks", "hooks", "issues", "keys", "labels", "languages"),
    *("merges", "milestones", "notifications", "pulls", "releases", "stargazers", "statuses", "tags", "teams", "trees"),
)


def _seconds(work: Callable[[], object], times: int = 500) -> float:
    """Return the seconds per call, of the fastest of twenty rounds of `times` calls."""
    quickest = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(times):
            work()
        quickest = min(quickest, time.perf_counter() - start)
    return quickest / times
