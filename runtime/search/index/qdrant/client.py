"""One collection of a Qdrant server: its calls, and their failures.

Every call is bounded in time and can be repeated. A server's answer is shown in part, and never with the key.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import structlog

from runtime.search.entry import EntryFilter
from runtime.search.errors import IndexFailed
from runtime.search.index.qdrant.point import INDEXED, among, filter_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from qdrant_client import AsyncQdrantClient, models

T = TypeVar("T")
log = structlog.get_logger("symbiont.index")

AT_ONCE: Final = 256
"""Maximum number of points written, deleted or read in one call."""
_TRIES: Final = 2
"""Errors of a reused connection that the server may have closed: the call is repeated once."""
_SHOWN: Final = 200
_OWNER, _MODEL, _MADE = "symbiont_index", "symbiont_model", "symbiont_made"
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

    async def look(self) -> models.CollectionInfo | None:
        """Return the server's description of the collection; None: it does not exist."""
        try:
            return await self._call(lambda: self._client.get_collection(self._name))
        except CollectionGone:
            return None

    async def prepare(self, model: str, dimension: int, *, known: bool) -> bool:
        """Create or check the collection for the vectors of this model, with its payload indexes, which are created
        before any point. Returns True if the collection itself names this model. `known`: its content is known to be
        ours.

        A collection that was created for this index is created again for another model or dimension. Another one is
        used if it fits and is empty, and never deleted.
        """
        info = await self.look()
        said = {} if info is None else info.config.metadata or {}
        if info is not None:
            mine = said.get(_OWNER) == self._server.owner
            if said.get(_OWNER) not in {None, self._server.owner}:
                raise IndexFailed(
                    f"{self.shown} is the index of another memory, {said[_OWNER]}",
                    hint='name another one for this memory: `collection "…"`',
                )
            wrong = _misfit(info, dimension)
            if mine and said.get(_MADE) and (wrong or said.get(_MODEL) != model):
                log.info("collection_recreated", collection=self._name, reason=wrong or "the model has changed")
                await self._call(lambda: self._client.delete_collection(self._name))
                info = None
            elif wrong:
                raise IndexFailed(
                    f"{self.shown} {wrong}, and the embedding {model} returns vectors of {dimension} numbers",
                    hint='name another `collection "…"`, or delete this one on the server if it is unused: it was '
                    "not created here, so it is left alone",
                )
            else:
                await self._take_over(model, said, mine=mine or known)
        if info is None:
            await self._make(model, dimension)
        await self._index({} if info is None else info.payload_schema)
        return said.get(_OWNER) == self._server.owner and said.get(_MODEL) == model

    async def _make(self, model: str, dimension: int) -> None:
        from qdrant_client import models

        params = models.VectorParams(size=dimension, distance=models.Distance.COSINE)
        said = {_OWNER: self._server.owner, _MODEL: model, _MADE: True}
        await self._call(
            lambda: self._client.create_collection(self._name, vectors_config=params, metadata=said), created=True
        )

    async def _take_over(self, model: str, said: Mapping[str, Any], *, mine: bool) -> None:
        """Use an existing collection that fits."""
        if mine and said.get(_MODEL) == model:
            return
        if not mine and (count := await self.count()):
            raise IndexFailed(
                f"{self.shown} contains {count} points of other data",
                hint='name another one: `collection "…"`',
            )
        if mine and said.get(_MODEL) is not None:
            await self.empty()
        now = {_OWNER: self._server.owner, _MODEL: model}
        await self._call(lambda: self._client.update_collection(self._name, metadata=now))

    async def _index(self, there: Mapping[str, Any]) -> None:
        from qdrant_client import models

        for name, kind in INDEXED.items():
            if name not in there:
                schema = models.PayloadSchemaType(kind)
                await self._call(
                    lambda name=name, schema=schema: self._client.create_payload_index(  # type: ignore[misc]
                        self._name, field_name=name, field_schema=schema, wait=True
                    )
                )

    async def count(self) -> int:
        """Return the exact number of points."""
        return (await self._call(lambda: self._client.count(self._name, exact=True))).count

    async def upsert(self, points: Sequence[tuple[str, NDArray[np.float32], Mapping[str, Any]]]) -> None:
        """Write these points: id, vector and payload; return when they can be found."""
        from qdrant_client import models

        for begin in range(0, len(points), AT_ONCE):
            made = [
                models.PointStruct(id=name, vector=vector.tolist(), payload=dict(payload))
                for name, vector, payload in points[begin : begin + AT_ONCE]
            ]
            await self._call(lambda made=made: self._client.upsert(self._name, points=made, wait=True))  # type: ignore[misc]

    async def repair(self, delete: Sequence[str], payloads: Mapping[str, Mapping[str, Any]]) -> None:
        """Delete these points, and replace the payload of those."""
        from qdrant_client import models

        operations: list[Any] = [
            models.OverwritePayloadOperation(overwrite_payload=models.SetPayload(payload=dict(payload), points=[name]))
            for name, payload in payloads.items()
        ]
        if delete:
            operations.append(models.DeleteOperation(delete=models.PointIdsList(points=list(delete))))
        if operations:
            await self._call(lambda: self._client.batch_update_points(self._name, operations, wait=True))

    async def empty(self) -> None:
        """Delete every point."""
        from qdrant_client import models

        every = models.FilterSelector(filter=models.Filter())
        await self._call(lambda: self._client.delete(self._name, points_selector=every, wait=True))

    async def forget(self, *, known: bool) -> None:
        """Delete this index's data, and the collection itself if it was created for it. `known`: as in `prepare`."""
        info = await self.look()
        said = {} if info is None else info.config.metadata or {}
        if said.get(_OWNER) == self._server.owner and said.get(_MADE):
            await self._call(lambda: self._client.delete_collection(self._name))
        elif info is not None and (said.get(_OWNER) == self._server.owner or (known and _OWNER not in said)):
            await self.empty()

    async def page(self, offset: Any) -> tuple[list[tuple[str, dict[str, Any]]], Any]:
        """Return some points with their payload, and where the next page begins (None: end)."""
        records, more = await self._call(
            lambda: self._client.scroll(self._name, limit=AT_ONCE, offset=offset, with_payload=True, with_vectors=False)
        )
        return [(str(record.id), dict(record.payload or {})) for record in records], more

    async def nearest(
        self,
        vector: NDArray[np.float32],
        wanted: EntryFilter,
        limit: int,
        besides: list[str],
        hidden: Sequence[str] = (),
    ) -> list[tuple[str, float]]:
        """Return the `memory_id` and cosine of the points nearest to `vector`, best first, and then of the wanted
        points among `besides`. `hidden`: points that are left out."""
        from qdrant_client import models

        def asked(within: models.Filter | None, most: int, *, exact: bool) -> models.QueryRequest:
            return models.QueryRequest(
                query=vector.tolist(),
                filter=within,
                limit=most,
                params=models.SearchParams(exact=exact),
                with_payload=["memory_id"],
                with_vector=False,
            )

        requests = [asked(filter_of(wanted, hidden), limit, exact=self._server.exact)] if limit > 0 else []
        if besides:
            requests.append(asked(among(wanted, besides), len(besides), exact=True))
        if not requests:
            return []
        answers = await self._call(lambda: self._client.query_batch_points(self._name, requests))
        found: dict[str, float] = {}
        for answer in answers:
            for point in answer.points:
                found.setdefault(str((point.payload or {}).get("memory_id")), point.score)
        return list(found.items())

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
                failure = self._refused(error.status_code or 0, error.content)
            except ResponseHandlingException as error:
                if left and isinstance(error.source, TransportError) and not _waited(error.source):
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

    def _refused(self, status: int, content: bytes) -> IndexFailed:
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
            hint="check that `url` is that of a Qdrant, 1.16 or later",
        )

    def _unreachable(self, error: BaseException) -> IndexFailed:
        if _waited(error):
            reason = f"did not answer within {self._server.seconds:g} s"
        elif isinstance(error, (OSError,)) or type(error).__module__.startswith(("httpx", "httpcore")):
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


def _misfit(info: models.CollectionInfo, dimension: int) -> str | None:
    """Return why a collection does not fit unnamed vectors of this dimension compared by cosine."""
    from qdrant_client import models

    vectors = info.config.params.vectors
    if not isinstance(vectors, models.VectorParams):
        return "has vectors with names, or none"
    if vectors.size != dimension:
        return f"takes vectors of {vectors.size} numbers"
    return (
        None if vectors.distance == models.Distance.COSINE else f"compares by {vectors.distance.value}, not by cosine"
    )


def _waited(error: BaseException) -> bool:
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
