"""One collection of a Qdrant server: its calls, and their failures.

Every call is bounded in time and can be repeated. A server's answer is shown in part, and never with the key.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import structlog

from dslc.blocks.values.quantity import format_duration
from runtime.search.errors import IndexFailed
from runtime.search.index.qdrant.point import EMBEDDED, INDEXED, NEAREST, WORDS

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, models

T = TypeVar("T")
log = structlog.get_logger("symbiont.index")

AT_ONCE: Final = 256
"""Maximum number of points written, deleted or read in one call."""
MOST_VALUES: Final = 10_000
"""Maximum number of authors that are listed."""
_TRIES: Final = 2
"""Errors of a reused connection that the server may have closed: the call is repeated once."""
_SHOWN: Final = 200
_OWNER, _MADE = "symbiont_index", "symbiont_made"
_RECOVERS = "nothing is lost: it continues automatically when the server answers again"


class CollectionGone(IndexFailed):
    """The server answers, but the collection or a point is missing."""


class QdrantServer(NamedTuple):
    """`host`: as shown. `collection`: its name. `owner`: the index that owns the collection. `seconds`: limit of a
    call. `exact`: searches compare every point. `key`: never shown."""

    host: str
    collection: str
    owner: str
    seconds: float
    exact: bool
    key: str | None


class Collection:
    """The collection of one index. Every method raises IndexFailed, and CollectionGone if the collection is missing."""

    def __init__(self, client: AsyncQdrantClient, server: QdrantServer) -> None:
        self._client = client
        self._server = server
        self.shown = f"the collection {server.collection} of Qdrant at {server.host}"
        self._name = server.collection

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def info(self) -> models.CollectionInfo | None:
        """Return the server's description of the collection; None: it does not exist."""
        try:
            return await self._call(lambda: self._client.get_collection(self._name))
        except CollectionGone:
            return None

    async def prepare(self) -> bool:
        """Create the collection, or check that it is that of this index; True if it was created.

        A collection of another memory, or one with other data, is refused. An empty one that fits is used, and never
        deleted.
        """
        info = await self.info()
        metadata = {} if info is None else info.config.metadata or {}
        if info is None:
            await self._create()
        elif metadata.get(_OWNER) not in {None, self._server.owner}:
            raise IndexFailed(
                f"{self.shown} is the index of another memory, {metadata[_OWNER]}",
                hint='name another one for this memory: `collection "…"`',
            )
        elif metadata.get(_OWNER) is None:
            if WORDS not in (info.config.params.sparse_vectors or {}) or isinstance(
                info.config.params.vectors, models_of().VectorParams
            ):
                raise IndexFailed(
                    f"{self.shown} was not created here, and lacks the sparse vector `{WORDS}` or has an unnamed one",
                    hint='name another one: `collection "…"`',
                )
            if count := (await self._call(lambda: self._client.count(self._name, exact=True))).count:
                raise IndexFailed(
                    f"{self.shown} contains {count} points of other data",
                    hint='name another one: `collection "…"`',
                )
            await self._call(lambda: self._client.update_collection(self._name, metadata={_OWNER: self._server.owner}))
        there: Mapping[str, Any] = {} if info is None else info.payload_schema
        for name, kind in INDEXED.items():
            if name not in there:
                schema = models_of().PayloadSchemaType(kind)
                await self._call(partial(self._client.create_payload_index, self._name, name, schema, wait=True))
        return info is None

    async def _create(self) -> None:
        models = models_of()
        await self._call(
            lambda: self._client.create_collection(
                self._name,
                vectors_config={},
                sparse_vectors_config={WORDS: models.SparseVectorParams()},
                metadata={_OWNER: self._server.owner, _MADE: True},
            ),
            created=True,
        )

    async def delete_all(self) -> None:
        """Delete the collection, or every point if it was not created for this index."""
        info = await self.info()
        metadata = {} if info is None else info.config.metadata or {}
        if metadata.get(_OWNER) == self._server.owner and metadata.get(_MADE):
            await self._call(lambda: self._client.delete_collection(self._name))
        elif metadata.get(_OWNER) == self._server.owner:
            models = models_of()
            every = models.FilterSelector(filter=models.Filter())
            await self._call(lambda: self._client.delete(self._name, points_selector=every, wait=True))

    async def dimension(self) -> int | None:
        """Return the dimension of the embeddings; None: there are none."""
        info = await self._call(lambda: self._client.get_collection(self._name))
        named = info.config.params.vectors
        return named[NEAREST].size if isinstance(named, dict) and NEAREST in named else None

    async def use_dimension(self, dimension: int) -> None:
        """Have embeddings of this dimension, and delete those of another one."""
        models = models_of()
        if (known := await self.dimension()) == dimension:
            return
        if known is not None:
            every = models.Filter()
            await self._call(lambda: self._client.delete_payload(self._name, EMBEDDED, points=every, wait=True))
            await self._call(lambda: self._client.delete_vector_name(self._name, NEAREST))
        params = models.DenseVectorConfig(size=dimension, distance=models.Distance.COSINE)
        config = models.DenseVectorNameConfig(dense=params)
        await self._call(lambda: self._client.create_vector_name(self._name, NEAREST, config), created=True)

    async def change(self, operations: Sequence[Any]) -> None:
        """Do these operations in order; return when their result can be found."""
        for begin in range(0, len(operations), AT_ONCE):
            some = operations[begin : begin + AT_ONCE]
            await self._call(partial(self._client.batch_update_points, self._name, some, wait=True))

    async def count(self, wanted: models.Filter) -> int:
        """Return the exact number of points that pass."""
        return (await self._call(lambda: self._client.count(self._name, wanted, exact=True))).count

    async def values(self, name: str, wanted: models.Filter) -> list[str]:
        """Return the values of a field in the points that pass, at most MOST_VALUES."""
        found = await self._call(
            lambda: self._client.facet(self._name, name, facet_filter=wanted, limit=MOST_VALUES, exact=True)
        )
        return [str(hit.value) for hit in found.hits]

    async def payloads(self, keys: Sequence[int], fields: Sequence[str] | None = None) -> dict[int, dict[str, Any]]:
        """Return the payloads of those of these points that exist. `fields`: only these."""
        found: dict[int, dict[str, Any]] = {}
        for begin in range(0, len(keys), AT_ONCE):
            some = list(keys[begin : begin + AT_ONCE])
            records = await self._call(partial(self._client.retrieve, self._name, some, with_payload=_fields(fields)))
            found |= {int(record.id): dict(record.payload or {}) for record in records}
        return found

    async def scroll(self, wanted: models.Filter, fields: Sequence[str] | None = None) -> dict[int, dict[str, Any]]:
        """Return the payloads of all points that pass. `fields`: only these."""
        found: dict[int, dict[str, Any]] = {}
        offset: Any = None
        while True:
            records, offset = await self._call(
                partial(
                    self._client.scroll, self._name, wanted, limit=AT_ONCE, offset=offset, with_payload=_fields(fields)
                )
            )
            found |= {int(record.id): dict(record.payload or {}) for record in records}
            if offset is None:
                return found

    async def newest(
        self, wanted: models.Filter, limit: int, fields: Sequence[str] | None = None
    ) -> dict[int, dict[str, Any]]:
        """Return the payloads of up to `limit` points that pass, newest first. `fields`: only these."""
        if limit < 1:
            return {}
        models = models_of()
        order = models.OrderBy(key="time", direction=models.Direction.DESC)
        records, _ = await self._call(
            lambda: self._client.scroll(self._name, wanted, limit=limit, order_by=order, with_payload=_fields(fields))
        )
        return {int(record.id): dict(record.payload or {}) for record in records}

    async def nearest(
        self, vector: Sequence[float], wanted: models.Filter, limit: int, also: models.Filter | None, most: int
    ) -> list[tuple[int, float]]:
        """Return the ids and cosines of the points nearest to `vector`, best first, and then of up to `most` others
        that pass `also`."""
        models = models_of()
        requests = [
            models.QueryRequest(
                query=list(vector),
                using=NEAREST,
                filter=within,
                limit=count,
                params=models.SearchParams(exact=exact),
            )
            for within, count, exact in ((wanted, limit, self._server.exact), (also, most, True))
            if within is not None and count > 0
        ]
        answers = await self._call(lambda: self._client.query_batch_points(self._name, requests)) if requests else []
        found: dict[int, float] = {}
        for answer in answers:
            for point in answer.points:
                found.setdefault(int(point.id), point.score)
        return list(found.items())

    async def by_words(
        self, weights: Mapping[int, float], wanted: models.Filter, limit: int
    ) -> list[tuple[int, float, dict[int, float]]]:
        """Return the ids and scores of the points with the highest sum of weighted terms, best first, and the share of
        each of these terms."""
        models = models_of()
        query = models.SparseVector(indices=list(weights), values=list(weights.values()))
        answer = await self._call(
            lambda: self._client.query_points(
                self._name, query, using=WORDS, query_filter=wanted, limit=limit, with_vectors=[WORDS]
            )
        )
        found = []
        for point in answer.points:
            vector = point.vector[WORDS] if isinstance(point.vector, dict) else None
            assert isinstance(vector, models.SparseVector)
            terms = {each: share for each, share in zip(vector.indices, vector.values, strict=True) if each in weights}
            found.append((int(point.id), point.score, terms))
        return found

    async def _call(self, ask: Callable[[], Awaitable[T]], *, created: bool = False) -> T:
        """Call within the time limit. `created`: an existing object counts as success."""
        from httpx import TransportError
        from qdrant_client.common.client_exceptions import QdrantException
        from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

        left = _TRIES
        while True:
            left -= 1
            try:
                async with asyncio.timeout(self._server.seconds):
                    return await ask()
            except UnexpectedResponse as error:
                if created and error.status_code == 409:
                    return True  # type: ignore[return-value]  # another process made it a moment ago
                failure = self._status_error(error.status_code or 0, error.content)
            except ResponseHandlingException as error:
                if left and isinstance(error.source, TransportError) and not _is_timeout(error.source):
                    continue
                failure = self._unreachable(error.source)
            except TimeoutError as error:
                failure = self._unreachable(error)
            except QdrantException:
                failure = IndexFailed(f"Qdrant at {self._server.host} is overloaded", hint=_RECOVERS)
            except (ApiException, OSError, ValueError) as error:
                failure = self._unreachable(error)
            # Outside of the handler: the caught exception contains the answer, and perhaps the request.
            raise failure

    def _status_error(self, status: int, content: bytes) -> IndexFailed:
        host, detail = self._server.host, self._detail(content)
        match status:
            case 401 | 403:
                return IndexFailed(
                    f"Qdrant at {host} does not accept the key (it answered {status})",
                    hint="write `api_key` with a reference to a valid key"
                    if self._server.key is None
                    else "check that `api_key` is valid and may write to the collection",
                )
            case 404:
                return CollectionGone(f"{self.shown} is missing{detail}", hint="it is created again automatically")
            case 429 | 500 | 502 | 503 | 504:
                return IndexFailed(f"Qdrant at {host} answered {status}{detail}", hint=_RECOVERS)
        return IndexFailed(
            f"Qdrant at {host} refuses the request (it answered {status}{detail})",
            hint="check that `url` is that of a Qdrant, 1.18 or later",
        )

    def _unreachable(self, error: BaseException) -> IndexFailed:
        if _is_timeout(error):
            reason = f"did not answer within {format_duration(self._server.seconds)}"
        elif isinstance(error, OSError) or type(error).__module__.startswith(("httpx", "httpcore")):
            reason = f"cannot be reached: {_reason(error)}"
        else:
            return IndexFailed(
                f"Qdrant at {self._server.host} sent an answer that is not from Qdrant",
                hint="check `url`, and proxies in between",
            )
        return IndexFailed(f"Qdrant at {self._server.host} {reason}", hint=f"check that it is running; {_RECOVERS}")

    def _detail(self, content: bytes) -> str:
        """Return the server's error text in one line, without the key."""
        try:
            found = json.loads(content)["status"]["error"]
        except (ValueError, TypeError, KeyError):
            return ""
        text = " ".join(str(found).split())
        key = self._server.key
        return f": {text.replace(key, '…') if key else text}"[:_SHOWN]


def models_of() -> Any:
    """Return the client's models, whose import takes a second."""
    from qdrant_client import models

    return models


def _fields(fields: Sequence[str] | None) -> list[str] | bool:
    """Return the fields of payloads to read; True: all."""
    return True if fields is None else list(fields)


def _is_timeout(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) or "Timeout" in type(error).__name__


def _reason(error: BaseException) -> str:
    """Return a short reason that quotes nothing that was sent."""
    text = " ".join(str(error).split()).lower()
    for fragment, reason in (
        ("all connection attempts failed", "the connection was refused"),
        ("connection refused", "the connection was refused"),
        ("name or service not known", "there is no host of that name"),
        ("nodename nor servname", "there is no host of that name"),
        ("no address associated", "there is no host of that name"),
        ("temporary failure in name", "its name cannot be resolved at the moment"),
        ("certificate", "its certificate is not trusted"),
        ("wrong version number", "it does not use TLS: write `http://`"),
        ("disconnected", "it closed the connection"),
    ):
        if fragment in text:
            return reason
    return "the connection was closed"
