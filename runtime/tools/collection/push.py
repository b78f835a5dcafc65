"""`push`: texts into a collection, in chunks, each once (the fifth design, M3)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from runtime.clock import utc
from runtime.errors import SymbiontError
from runtime.memory.chunking import chunks
from runtime.memory.collection.options import PROJECT
from runtime.memory.collection.store import BATCH
from runtime.memory.errors import NoSuchItem, RefusedItem
from runtime.memory.item import NOTHING_KNOWN, Item, Provenance
from runtime.memory.keyed_lock import KeyedLock
from runtime.memory.redaction.redact import redact
from runtime.memory.store import LARGEST_TEXT, RedactedItems, redacted_item
from runtime.memory.store_types import Scan
from runtime.tools.collection import types
from runtime.tools.collection.access import Collection, collection_notes, find_collection
from runtime.tools.context import Context
from runtime.tools.failure import code_of, wrong
from runtime.tools.memory.access import own_subject, with_origin
from runtime.tools.memory.parameters import OwnSubject
from runtime.tools.tool import LARGEST_ITEMS, WrongParameters, aliases_of, in_full, tool
from runtime.tools.validation_errors import problems_of, size_problems

_AT_ONCE: Final = 32  # items that are split before other tasks run
_ON_THE_LOOP: Final = 64 * 1024  # characters that are split without a thread
_ALIASES: Final = aliases_of(types.PushedItem)
_GIVEN: Final = ("memory_type", "tags", "source_uri")
_locks = KeyedLock()


@tool(
    "write",
    stores=True,
    largest=LARGEST_ITEMS,
    idempotent=True,
    long=True,
    example={
        "text": "We chose PostgreSQL for the new service.",
        "project_id": "default",
        "memory_type": "episodic",
        "tags": ["architecture", "daily"],
        "source_uri": "file:///home/ada/notes.md",
    },
)
async def push(
    context: Context,
    text: types.Text = None,
    *,
    items: types.Items = None,
    project_id: types.NewProject = None,
    memory_type: types.NewType = None,
    tags: types.Tags = None,
    source_uri: types.SourceUri = None,
    subject: OwnSubject = None,
    collection: types.Collection = None,
    replace: types.Replace = False,
) -> types.PushResult:
    """Store one or several texts in chunks; each chunk is stored once.

    Give `text`, or `items` with a text each; parameters beside `items` are defaults for items that do not set them. An
    existing chunk is not stored twice: new values for type, tags and source replace the old ones, other fields stay.
    Secrets are redacted. When the call returns, the text is on disk. It can be found by its words at once, and by
    meaning as soon as it has a vector. An invalid item of `items` fails alone, and is listed in `failed`.
    """
    if (text is None) == (items is None):
        what = "it is required, or items" if text is None else "give either text or items, not both"
        raise wrong("text", what)
    if replace and items is None and source_uri is None:
        raise wrong("replace", "it requires source_uri, which identifies the chunks to replace")
    common = {
        "project_id": project_id,
        "memory_type": memory_type,
        "tags": tags,
        "source_uri": source_uri,
        "subject": subject,
    }
    known = {name: value for name, value in common.items() if value is not None}
    target = await find_collection(context, collection)
    options = target.store.chunking
    work = _Push(context, target, options.chunk_size, options.chunk_overlap, replace=replace, alone=items is None)
    if items is None:
        assert text is not None
        one = types.PushedItem(
            text=text, project_id=project_id, memory_type=memory_type, tags=tags, source_uri=source_uri, subject=subject
        )
        await work.cut(0, one)
    else:
        await work.cut_each(items, known)
    if replace:
        # Two concurrent calls would each delete the chunks of the other.
        async with _locks.of((target.store.identity, target.name, context.caller.user_id)):
            await work.store_waiting()
            await work.forget_replaced()
    else:
        await work.store_waiting()
    return await work.answer()


class _Chunk(NamedTuple):
    """A chunk as an item, and the fields that an existing item preserves."""

    number: int
    item: Item
    keep: frozenset[str]


@dataclass
class _Push:
    """One push: chunks that wait to be stored, and the results."""

    context: Context
    target: Collection
    size: int
    overlap: int
    replace: bool
    alone: bool
    """True if there is one text, so that an error in it fails the push."""
    waiting: list[_Chunk] = field(default_factory=list)
    kept: dict[str, None] = field(default_factory=dict)
    changed: dict[str, None] = field(default_factory=dict)
    skipped: int = 0
    removed: int = 0
    failed: dict[int, types.FailedItem] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    sources: dict[tuple[str, str, str | None], set[str]] = field(default_factory=dict)
    """Hashes that stay, for each source, project and subject that is replaced."""

    async def cut_each(self, items: Sequence[Any], known: dict[str, Any]) -> None:
        """Split the valid items; report the others."""
        for number, given in enumerate(items):
            try:
                await self.cut(number, _parse_item(given, known))
            except SymbiontError as error:
                if not isinstance(error, WrongParameters | RefusedItem):
                    raise
                self.fail(number, _source(given, known), error)
            if number % _AT_ONCE == _AT_ONCE - 1:
                # Other tasks on this event loop must not wait for a thousand items.
                await asyncio.sleep(0)

    async def cut(self, number: int, given: types.PushedItem) -> None:
        """Split a text into chunks that wait to be stored. Raises WrongParameters, RefusedItem."""
        if not given.text.strip():
            if not self.replace or given.source_uri is None:
                raise wrong("text", "it is blank: there is nothing to store")
            # The file is empty now: its former chunks are deleted.
            whole = redact(given.source_uri), given.project_id or PROJECT, own_subject(self.context, given.subject)
            self.sources.setdefault(whole, set())
            return
        if len(given.text) > LARGEST_TEXT:
            raise wrong("text", f"it has {len(given.text):,} characters; the maximum is {LARGEST_TEXT:,}")
        if self.replace and given.source_uri is None:
            raise wrong("source_uri", "it identifies the chunks to replace, and is missing")
        if len(given.text) > _ON_THE_LOOP:
            items: Sequence[Item] = await asyncio.to_thread(self._items, given)
        else:
            items = self._items(given)
        if self.replace:
            # Hashed as the store will store them: without secrets.
            items = await asyncio.to_thread(lambda: RedactedItems(map(redacted_item, items)))
            for item in items:
                assert item.source_uri is not None
                stays = self.sources.setdefault((item.source_uri, item.project_id or PROJECT, item.subject), set())
                stays.add(item.chunk_hash)
        keep = _kept_fields(given, len(items))
        self.waiting += [_Chunk(number, item, keep) for item in items]

    def _items(self, given: types.PushedItem) -> list[Item]:
        parts = chunks(given.text, self.size, self.overlap)
        about = NOTHING_KNOWN
        if len(parts) > 1:
            whole = hashlib.sha256(given.text.encode(errors="replace")).hexdigest()[:16]
            about = Provenance(session_id=given.source_uri or f"text:{whole}")
        about = with_origin(self.context, about, "tool")
        now, subject = utc(self.context.clock.now()), own_subject(self.context, given.subject)
        return [
            Item(
                project_id=given.project_id or PROJECT,
                agent_id=self.target.name,
                user_id=self.context.caller.user_id,
                memory_type=given.memory_type or "semantic",
                timestamp=now,
                source_uri=given.source_uri,
                tags=tuple(given.tags or ()),
                text=part,
                provenance=about,
                subject=subject,
            )
            for part in parts
        ]

    async def store_waiting(self) -> None:
        """Store the waiting chunks, batch by batch. An interrupted push has stored whole batches, and may be
        repeated."""
        for begin in range(0, len(self.waiting), BATCH):
            batch = self.waiting[begin : begin + BATCH]
            # Chunks that preserve the same fields are stored together.
            for keep in dict.fromkeys(chunk.keep for chunk in batch):
                await self._upsert([chunk for chunk in batch if chunk.keep == keep], keep)
            self.context.progress("storing", begin + len(batch), len(self.waiting))

    async def _upsert(self, batch: Sequence[_Chunk], keep: frozenset[str]) -> None:
        memory, items = self.target.memory, [chunk.item for chunk in batch]
        try:
            done = await memory.upsert(RedactedItems(items) if self.replace else items, keep=keep)
        except RefusedItem as error:
            if self.alone:
                raise
            if len(batch) == 1:
                source = batch[0].item.source_uri
                self.fail(batch[0].number, None if source is None else redact(source), error)
                return
            # One of them is refused and the others are not: each is stored by itself.
            for chunk in batch:
                await self._upsert([chunk], keep)
            return
        self.kept.update(dict.fromkeys(item.memory_id for item in done.inserted))
        self.changed.update(dict.fromkeys(item.memory_id for item in done.updated))
        self.skipped += done.skipped

    def fail(self, number: int, source: str | None, error: SymbiontError) -> None:
        """Record that an item was not stored, or not completely."""
        path, what = error.problems[0] if isinstance(error, WrongParameters) else ((), error.line())
        where = ".".join(map(str, path)) or ("text" if isinstance(error, RefusedItem) else None)
        self.failed[number] = types.FailedItem(
            index=number, source_uri=source, field=where, code=code_of(error, None), message=what
        )

    async def forget_replaced(self) -> None:
        """Delete stored chunks of the sources that are no longer in them. Comes last: an interrupted push has both."""
        broken = {each.source_uri for each in self.failed.values()}
        for (source, project, subject), stays in self.sources.items():
            if source in broken:
                # It is unknown which chunks the source no longer has.
                self.notes.append(f"no chunk of {source} was deleted: one of its items is invalid")
                continue
            gone = [item.memory_id async for item in self._of(source, project, subject) if item.chunk_hash not in stays]
            for number, memory_id in enumerate(gone):
                # Another process may have deleted it meanwhile.
                with suppress(NoSuchItem):
                    await self.target.store.detach(memory_id, self.target.name, source)
                    self.removed += 1
                self.context.progress("deleting", number + 1, len(gone))

    def _of(self, source: str, project: str, subject: str | None) -> AsyncIterator[Item]:
        user = self.context.caller.user_id
        wanted = Scan(agent_id=self.target.name, user_id=user, project_id=project, source_uri=source, subject=subject)
        return self.target.memory.store.scan(wanted)

    async def answer(self) -> types.PushResult:
        """Return the result of the push."""
        # A chunk that the same push inserted and then changed counts as inserted.
        updated = [each for each in self.changed if each not in self.kept]
        written = [*self.kept, *updated]
        unfound = await collection_notes(self.context, self.target.memory) if written else ()
        return types.PushResult(
            inserted=len(self.kept),
            updated=len(updated),
            skippedDuplicates=self.skipped + len(self.changed) - len(updated),
            chunksIndexed=len(written),
            chunkSize=self.size,
            removed=self.removed,
            memory_ids=written,
            failed=[self.failed[number] for number in sorted(self.failed)],
            notes=[*self.notes, *unfound],
            collection=self.target.name,
        )


def _parse_item(given: Any, known: dict[str, Any]) -> types.PushedItem:
    """Return one of the items, completed with the values for all. Raises WrongParameters."""
    if not isinstance(given, dict):
        raise WrongParameters(None, (((), "it is not a JSON object"),))
    own, _ = in_full({key: it for key, it in given.items() if it is not None}, _ALIASES)
    problems = size_problems(own, types.PushedItem, _ALIASES)
    if not problems:
        try:
            return types.PushedItem.model_validate({**known, **own})
        except ValidationError as error:
            problems = problems_of(error, types.PushedItem, _ALIASES)
    raise WrongParameters(None, problems)


def _source(given: Any, known: dict[str, Any]) -> str | None:
    """Return the source of an invalid item, as the chunks of its valid ones have it."""
    own = given.get("source_uri") if isinstance(given, dict) else None
    source = known.get("source_uri") if own is None else own
    return redact(source.strip()) if isinstance(source, str) else None


def _kept_fields(given: types.PushedItem, parts: int) -> frozenset[str]:
    """Return the fields that an existing item preserves: those not given for this one. The source determines the
    position of a chunk."""
    keep = {name for name in _GIVEN if getattr(given, name) is None}
    if given.source_uri is None or parts == 1:
        keep.add("provenance")
    return frozenset(keep)
