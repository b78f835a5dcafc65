"""Qdrant for tests: a real HTTP server with the part of Qdrant's API that the index uses, and with faults on demand.

Its storage and search are the local mode of Qdrant's own client, in memory or in a folder. With `QDRANT_URL` set
`options` names the server there instead.
"""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web
from pydantic_core import to_json
from qdrant_client import AsyncQdrantClient, models

from runtime.search.index import NAMELESS
from runtime.search.index.qdrant.point import INDEXED, WORDS

REAL = os.environ.get("QDRANT_URL")
KEY = os.environ.get("QDRANT_API_KEY")

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class QdrantServer:
    """`asked`: every call as method and path; `key`: the only accepted one; `fault` responds in place of the
    server while it is set."""

    def __init__(self, folder: Path | None = None) -> None:
        self.asked: list[str] = []
        self.key: str | None = None
        self.fault: Handler | None = None
        self.indexed: dict[str, dict[str, Any]] = {}
        self.metadata = True
        """True if it keeps the metadata of collections, as Qdrant does since 1.16."""
        self.local = _held(folder)
        self._one = asyncio.Lock()
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Start, on the same port as before if there was one."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening; the data stays."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def close(self) -> None:
        await self.stop()
        await self.local.close()

    async def prepare(self, name: str) -> None:
        """Create an empty collection as the index does, with all its payload indexes."""
        sparse = {WORDS: models.SparseVectorParams()}
        said = {"symbiont_index": NAMELESS, "symbiont_made": True}
        await self.local.create_collection(name, vectors_config={}, sparse_vectors_config=sparse, metadata=said)
        self.indexed[name] = {
            field: models.PayloadIndexInfo(data_type=models.PayloadSchemaType(kind), points=0)
            for field, kind in INDEXED.items()
        }

    async def points(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the payload of every entry's point by its `memory_id`."""
        if not await self.local.collection_exists(name):
            return {}
        records, _ = await self.local.scroll(name, limit=100_000)
        payloads = [dict(record.payload or {}) for record in records]
        return {str(each["memory_id"]): each for each in payloads if "memory_id" in each}

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        if self.fault is not None:
            return await self.fault(request)
        if self.key is not None and request.headers.get("api-key") != self.key:
            return _error(401, "Must provide an API key or an Authorization bearer token")
        body = await request.json() if request.can_read_body else {}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                async with self._one:
                    result = await self._done(request, body)
        except ValueError as error:
            return _error(404 if "not found" in str(error) else 400, str(error))
        said = to_json({"time": 0.0, "status": "ok", "result": result})
        return web.Response(body=said, content_type="application/json")

    async def _done(self, request: web.Request, body: Any) -> Any:
        _, _, name, *rest = request.path.split("/")
        asked = {
            "GET": self._look,
            "PUT": self._create,
            "PATCH": self._update,
            "DELETE": self._drop,
            "PUT index": self._index,
            "PUT vectors meaning": self._add_vector,
            "DELETE vectors meaning": self._drop_vector,
            "POST points": self._retrieve,
            "POST points delete": self._delete,
            "POST points payload delete": self._delete_payload,
            "POST points batch": self._operations,
            "POST points count": self._count,
            "POST points scroll": self._scroll,
            "POST points query": self._query,
            "POST points query batch": self._queries,
            "POST facet": self._facet,
        }
        return await asked[" ".join((request.method, *rest))](name, body)

    async def _look(self, name: str, _body: Any) -> Any:
        info = await self.local.get_collection(name)
        info.payload_schema = self.indexed.get(name, {})
        return info

    async def _create(self, name: str, body: Any) -> Any:
        asked = models.CreateCollection.model_validate(body)
        if await self.local.collection_exists(name):
            raise ValueError(f"Collection `{name}` already exists!")
        said = asked.metadata if self.metadata else None
        self.indexed[name] = {}
        return await self.local.create_collection(
            name, vectors_config=asked.vectors, sparse_vectors_config=asked.sparse_vectors, metadata=said
        )

    async def _update(self, name: str, body: Any) -> Any:
        said = body.get("metadata") if self.metadata else None
        return await self.local.update_collection(name, metadata=said)

    async def _drop(self, name: str, _body: Any) -> Any:
        self.indexed.pop(name, None)
        return await self.local.delete_collection(name)

    async def _index(self, name: str, body: Any) -> Any:
        await self.local.get_collection(name)
        kind = models.PayloadSchemaType(body["field_schema"])
        self.indexed.setdefault(name, {})[body["field_name"]] = models.PayloadIndexInfo(data_type=kind, points=0)
        return models.UpdateResult(operation_id=0, status=models.UpdateStatus.COMPLETED)

    async def _add_vector(self, name: str, body: Any) -> Any:
        config = models.DenseVectorNameConfig.model_validate(body)
        return await self.local.create_vector_name(name, "meaning", config)

    async def _drop_vector(self, name: str, _body: Any) -> Any:
        return await self.local.delete_vector_name(name, "meaning")

    async def _retrieve(self, name: str, body: Any) -> Any:
        return await self.local.retrieve(name, body["ids"], with_payload=body.get("with_payload", True))

    async def _delete(self, name: str, body: Any) -> Any:
        return await self.local.delete(name, models.FilterSelector(filter=models.Filter.model_validate(body["filter"])))

    async def _delete_payload(self, name: str, body: Any) -> Any:
        return await self.local.delete_payload(name, body["keys"], models.Filter.model_validate(body["filter"]))

    async def _operations(self, name: str, body: Any) -> Any:
        asked = models.UpdateOperations.model_validate(body)
        await self.local.get_collection(name)
        return await self.local.batch_update_points(name, asked.operations)

    async def _count(self, name: str, body: Any) -> Any:
        return await self.local.count(name, _filter(body))

    async def _scroll(self, name: str, body: Any) -> Any:
        asked = models.ScrollRequest.model_validate(body)
        records, offset = await self.local.scroll(
            name, asked.filter, limit=asked.limit, order_by=asked.order_by, offset=asked.offset,
            with_payload=asked.with_payload,
        )  # fmt: skip
        return models.ScrollResult(points=records, next_page_offset=offset)

    async def _query(self, name: str, body: Any) -> Any:
        asked = models.QueryRequest.model_validate(body)
        return await self.local.query_points(
            name, asked.query, using=asked.using, query_filter=asked.filter, limit=asked.limit,
            with_vectors=asked.with_vector or False,
        )  # fmt: skip

    async def _queries(self, name: str, body: Any) -> Any:
        searches = [models.QueryRequest.model_validate(each) for each in body["searches"]]
        return await self.local.query_batch_points(name, requests=searches)

    async def _facet(self, name: str, body: Any) -> Any:
        return await self.local.facet(name, body["key"], _filter(body), limit=body["limit"])


def _filter(body: Any) -> models.Filter | None:
    return None if body.get("filter") is None else models.Filter.model_validate(body["filter"])


def _held(folder: Path | None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return AsyncQdrantClient(":memory:") if folder is None else AsyncQdrantClient(path=str(folder))


def _error(status: int, reason: str) -> web.Response:
    return web.json_response({"status": {"error": reason}, "time": 0.0, "result": None}, status=status)


async def hang(_request: web.Request) -> web.StreamResponse:
    """Never respond."""
    await asyncio.Event().wait()
    raise AssertionError


async def hang_up(request: web.Request) -> web.StreamResponse:
    """Close the connection without a response."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def answering(status: int, reason: str = "it went wrong") -> Handler:
    """Return a fault that responds to everything with this."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        return _error(status, reason)

    return answer


class Served:
    """A server whose loop runs in a thread, for tests that wait for other processes."""

    def __init__(self) -> None:
        self.server = QdrantServer()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def do(self, what: Coroutine[Any, Any, T]) -> T:
        """Run it in the loop and wait for its end."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(60)

    def payloads(self) -> list[dict[str, Any]]:
        """Return the payload of every point of all collections."""
        return self.do(self._payloads())

    async def _payloads(self) -> list[dict[str, Any]]:
        found = [await self.server.points(name) for name in list(self.server.indexed)]
        return [payload for points in found for payload in points.values()]

    def __enter__(self) -> Served:
        self._thread.start()
        self.do(self.server.start())
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self.server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()


@asynccontextmanager
async def options(served: Served) -> AsyncIterator[dict[str, Any]]:
    """Return the options of `index qdrant` in a test of all indexes: an empty collection of its own, prepared on this
    server, or not yet made on the server of QDRANT_URL."""
    name = f"test_{uuid.uuid4().hex}"
    given: dict[str, Any] = {"url": REAL or served.server.url, "collection": name, "exact": True}
    if REAL is None:
        served.do(served.server.prepare(name))
        yield given
        served.do(served.server.local.delete_collection(name))
        return
    try:
        yield given | ({} if KEY is None else {"api_key": KEY})
    finally:
        client = AsyncQdrantClient(url=REAL, api_key=KEY, check_compatibility=False)
        await client.delete_collection(name)
        await client.close()
