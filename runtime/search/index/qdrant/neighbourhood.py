"""The neighbours of a point: links to them, and the words of their texts in its sparse vector.

A neighbour's word counts as much as in the embedded index. Qdrant compares no two points, so the words of a text are
written into the vectors of three points, again whenever a neighbour changes. `context` in a payload says for which
neighbours and texts that was done: a point without it is unfinished, and its part is written again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection as Items
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

import numpy as np

from runtime.search.dependence import dependence
from runtime.search.entry import EVERY_ENTRY
from runtime.search.index.embedded.schema import EPOCH, about
from runtime.search.index.embedded.tokenizer import Tokenizer
from runtime.search.index.qdrant import point
from runtime.search.index.qdrant.client import AT_ONCE, Collection, models_of
from runtime.search.index.qdrant.point import Payload, filter_of, key_of

LINE: Final = ("time", "order", "memory_id", "chunk_hash", "context")
"""The fields by which the order of a group, and what is out of date in it, are known."""
_TIED: Final = 64
"""Number of entries before a change among which the last ones are looked for: so many may have one time."""


class _Links(NamedTuple):
    """The points before and after a point (0: none), and the mark of their texts."""

    before: int
    after: int
    context: str


class Neighbourhood:
    """The neighbours of the points of a collection. One call at a time."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._splitter = Tokenizer()

    async def update(self, touched: Items[Payload], gone: Items[int]) -> None:
        """Write links and words of the points that were written, which `touched` has in their order, and of those
        around them and around the `gone` ones, which are deleted later."""
        latest = {key_of(each["memory_id"]): each for each in touched}
        ungrouped = [key for key, each in latest.items() if "neighbour_group" not in each and key not in gone]
        await self._write({key: _Links(0, 0, "") for key in ungrouped})
        first: dict[str, int] = {}
        for each in touched:
            if group := each.get("neighbour_group"):
                first[group] = min(each["time"], first.get(group, each["time"]))
        for group, time in first.items():
            await self._write(await self._outdated_links(group, time, gone))

    async def _outdated_links(self, group: str, first: int, gone: Items[int]) -> dict[int, _Links]:
        """Return the links of the points of a group, from the last one before the time `first` on, that have others or
        other texts around them."""
        models = models_of()
        in_group = point.equal("neighbour_group", group)
        earlier, since = (
            models.FieldCondition(key="time", range=limits)
            for limits in (models.Range(lt=first), models.Range(gte=first))
        )
        known = await self._collection.newest(filter_of(EVERY_ENTRY, in_group, earlier), _TIED, LINE)
        begin = sorted(known, key=lambda key: _position(known[key]))[-2:]
        line = await self._collection.scroll(filter_of(EVERY_ENTRY, in_group, since), LINE)
        known |= line
        keys = [*begin, *sorted(line.keys() - set(gone), key=lambda key: _position(line[key]))]
        sides = zip([0, *keys], keys, [*keys[1:], 0], strict=False)
        links = {key: _Links(before, after, _mark(before, after, known)) for before, key, after in sides}
        if len(begin) == 2:
            del links[begin[0]]  # What is before it was not read.
        return {key: each for key, each in links.items() if known[key].get("context") != each.context}

    async def _write(self, links: Mapping[int, _Links]) -> None:
        every = list(links)
        for begin in range(0, len(every), AT_ONCE):
            keys = every[begin : begin + AT_ONCE]
            around = {key for each in keys for key in (each, *links[each][:2]) if key}
            points = await self._collection.payloads(list(around), ("text", "author", "time"))
            await self._collection.change(await self._operations({key: links[key] for key in keys}, points))

    async def _operations(self, links: Mapping[int, _Links], points: Mapping[int, Payload]) -> list[Any]:
        models = models_of()
        texts = {key: each["text"] for key, each in points.items()}
        abouts = {key: _about(points[key]) for key in links if key in points}
        split = await asyncio.to_thread(self._splitter.split, [*texts.values(), *abouts.values()])
        words = dict(zip(texts, split, strict=False))
        metadata = dict(zip(abouts, split[len(texts) :], strict=True))
        depends = dict(zip(words, dependence(np.array([len(each) for each in words.values()])).tolist(), strict=True))
        operations: list[Any] = []
        for key in abouts:
            before, after, context = links[key]
            around = [(words[each], depends[key] * depends[each]) for each in (before, after) if each in words]
            shares = point.shares(words[key], metadata[key], around)
            vector = {point.WORDS: models.SparseVector(indices=list(shares), values=list(shares.values()))}
            made = models.UpdateVectors(points=[models.PointVectors(id=key, vector=vector)])
            payload = {"words": len(words[key]), "terms": sorted(shares), "context": context}
            payload |= {"before": before, "after": after}
            operations.append(models.UpdateVectorsOperation(update_vectors=made))
            operations.append(models.SetPayloadOperation(set_payload=models.SetPayload(payload=payload, points=[key])))
        return operations

    def close(self) -> None:
        """Close the splitter of texts."""
        self._splitter.close()


def _position(payload: Payload) -> tuple[int, int, str]:
    """Return the position of an entry in the line of its group."""
    return payload["time"], payload["order"], payload["memory_id"]


def _mark(before: int, after: int, known: Mapping[int, Payload]) -> str:
    """Return a hash of the points before and after, and of their texts."""
    around = [(each, known[each]["chunk_hash"]) if each else None for each in (before, after)]
    return hashlib.blake2b(repr(around).encode(), digest_size=8).hexdigest()


def _about(payload: Payload) -> str:
    return about(payload.get("author"), EPOCH + timedelta(microseconds=payload["time"]))
