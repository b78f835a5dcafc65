"""The storage of a Qdrant test server, if `QDRANT_ENGINE=edge` is set and the package `qdrant-edge-py` is installed:
the engine of Qdrant in this process, with its own segments, payload indexes, filters and HNSW.

It is called like the client's local mode, as far as `QdrantServer` needs.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from qdrant_client import models

WANTED = os.environ.get("QDRANT_ENGINE") == "edge"


class EdgeEngine:
    """Collections, each a shard in a folder that is deleted at the end."""

    def __init__(self) -> None:
        self.edge: Any = import_module("qdrant_edge")
        self._folder = Path(tempfile.mkdtemp(prefix="qdrant-edge-"))
        self._shards: dict[str, Any] = {}
        self._configs: dict[str, Any] = {}
        self._metadata: dict[str, dict[str, Any] | None] = {}
        self._made = 0

    async def close(self) -> None:
        for name in list(self._shards):
            await self.delete_collection(name)
        shutil.rmtree(self._folder)

    async def collection_exists(self, name: str) -> bool:
        return name in self._shards

    async def create_collection(self, name: str, *, vectors_config: Any, metadata: Any = None) -> bool:
        self._made += 1
        given = vectors_config
        (vectors_config,) = given.values() if isinstance(given, dict) else [given]
        distance = {"Cosine": "Cosine", "Dot": "Dot"}[vectors_config.distance.value]
        params = self.edge.EdgeVectorParams(vectors_config.size, getattr(self.edge.Distance, distance))
        config = self.edge.EdgeConfig(vectors=params)
        folder = self._folder / str(self._made)
        folder.mkdir()
        self._shards[name] = await asyncio.to_thread(self.edge.EdgeShard.create, str(folder), config)
        self._configs[name], self._metadata[name] = given, metadata
        return True

    async def delete_collection(self, name: str) -> bool:
        if (shard := self._shards.pop(name, None)) is not None:
            await asyncio.to_thread(shard.close)
        return shard is not None

    async def update_collection(self, name: str, *, metadata: Any = None) -> bool:
        self._shard(name)
        self._metadata[name] = {**(self._metadata[name] or {}), **(metadata or {})}
        return True

    async def get_collection(self, name: str) -> models.CollectionInfo:
        self._shard(name)
        info: dict[str, Any] = {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": 1,
            "payload_schema": {},
            "config": {
                "params": {"vectors": self._configs[name]},
                "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000},
                "optimizer_config": {
                    "deleted_threshold": 0.2,
                    "vacuum_min_vector_number": 1000,
                    "default_segment_number": 0,
                    "flush_interval_sec": 5,
                },
                "metadata": self._metadata[name],
            },
        }
        return models.CollectionInfo.model_validate(info)

    async def index(self, name: str, field: str, kind: models.PayloadSchemaType) -> None:
        schema = getattr(self.edge.PayloadSchemaType, kind.value.capitalize())
        await self._update(name, self.edge.UpdateOperation.create_field_index(field, schema))

    async def upsert(self, name: str, points: Any) -> None:
        made = [self.edge.Point(point.id, list(point.vector), point.payload or {}) for point in points]
        await self._update(name, self.edge.UpdateOperation.upsert_points(made))

    async def delete(self, name: str, *, points_selector: Any) -> None:
        operation = self.edge.UpdateOperation
        if isinstance(points_selector, models.PointIdsList):
            await self._update(name, operation.delete_points([_id(each) for each in points_selector.points]))
        else:
            assert points_selector.filter == models.Filter()
            await self._update(name, operation.delete_points_by_filter(self.edge.Filter()))

    async def overwrite_payload(self, name: str, *, payload: Any, points: Any) -> None:
        ids = [_id(each) for each in points]
        await self._update(name, self.edge.UpdateOperation.overwrite_payload(ids, payload))

    async def retrieve(self, name: str, points: Any) -> Any:
        return await asyncio.to_thread(self._shard(name).retrieve, [_id(each) for each in points], True, False)

    async def count(self, name: str) -> models.CountResult:
        asked = self.edge.CountRequest(exact=True)
        return models.CountResult(count=await asyncio.to_thread(self._shard(name).count, asked))

    async def scroll(self, name: str, *, limit: int = 10, offset: Any = None) -> tuple[list[models.Record], Any]:
        asked = self.edge.ScrollRequest(offset=None if offset is None else _id(offset), limit=limit, with_payload=True)
        records, more = await asyncio.to_thread(self._shard(name).scroll, asked)
        found = [models.Record(id=str(each.id), payload=each.payload) for each in records]
        return found, None if more is None else str(more)

    async def query_batch_points(self, name: str, *, requests: list[models.QueryRequest]) -> list[dict[str, Any]]:
        shard, edge = self._shard(name), self.edge
        answers = []
        for request in requests:
            vector = request.query.nearest if isinstance(request.query, models.NearestQuery) else request.query
            asked = edge.QueryRequest(
                limit=request.limit,
                query=edge.Query.Nearest(vector),
                filter=None if request.filter is None else self._filter(request.filter),
                params=edge.SearchParams(exact=bool(request.params and request.params.exact)),
                with_payload=edge.PayloadSelector.Include(["memory_id"]),
            )
            points = await asyncio.to_thread(shard.query, asked)
            scored = [
                models.ScoredPoint(id=str(each.id), version=0, score=each.score, payload=each.payload)
                for each in points
            ]
            answers.append({"points": scored})
        return answers

    def _filter(self, asked: models.Filter) -> Any:
        assert isinstance(asked.must, list)
        return self.edge.Filter(must=[self._condition(each) for each in asked.must])

    def _condition(self, asked: Any) -> Any:
        edge = self.edge
        if isinstance(asked, models.HasIdCondition):
            return edge.HasIdCondition({_id(each) for each in asked.has_id})
        if isinstance(asked.match, models.MatchAny):
            return edge.FieldCondition(asked.key, match=edge.MatchAny(list(asked.match.any)))
        if isinstance(asked.match, models.MatchValue):
            return edge.FieldCondition(asked.key, match=edge.MatchValue(asked.match.value))
        said = {name: time.isoformat() for name, time in asked.range.model_dump(exclude_none=True).items()}
        return edge.FieldCondition(asked.key, range=edge.RangeDateTime(**said))

    async def _update(self, name: str, operation: Any) -> None:
        await asyncio.to_thread(self._shard(name).update, operation)

    def _shard(self, name: str) -> Any:
        if name not in self._shards:
            raise ValueError(f"Collection {name} not found")
        return self._shards[name]


def _id(given: Any) -> Any:
    from uuid import UUID

    return given if isinstance(given, int) else UUID(str(given))
