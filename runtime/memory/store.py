"""The interface of stores of items."""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, date, datetime, timedelta
from heapq import nlargest
from typing import Any, Final, Literal, NamedTuple, TypeVar, final

import structlog

from runtime.clock import SYSTEM, Clock, utc
from runtime.memory.errors import FsyncFailed, RefusedItem, StoreError, Unsupported
from runtime.memory.item import NOTHING_KNOWN, Item, valid_agent, well_formed
from runtime.memory.redaction.redact import redact
from runtime.memory.store_types import (
    Append,
    Changes,
    Compaction,
    Inspection,
    ItemLocation,
    Part,
    Position,
    Scan,
    StoreProblem,
    StoreStats,
    UpsertResult,
    position_of,
)

Capability = Literal["edit", "delete", "compact", "remove", "gates", "upsert", "replace", "keep_ids"]
"""`keep_ids`: `append` preserves the memory_id of an item that has one, unless that id is in use."""

LARGEST_TEXT = 1024 * 1024
"""Maximum characters of an item's text, and also of all its other fields; a larger item is refused."""
UPSERT_KEEPS = frozenset({"memory_type", "tags", "source_uri", "provenance"})
"""The fields that an upsert may leave unchanged on an existing item."""
_ON_THE_LOOP = 64 * 1024  # characters that are redacted without a thread
_WINDOWS: Final = (timedelta(days=1), timedelta(days=8), timedelta(days=64), timedelta(days=512))
"""Periods of time that `newest` reads before it reads everything."""
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)
_log = structlog.get_logger(__name__)
T = TypeVar("T")


class Store(ABC):
    """A store of items. A row implements `_append`, `_forget_user`, `parts`, `read`, `scan`, `stats`, `agents`,
    `locate` and `inspect`; the rest has defaults. A method that `capabilities` does not name raises Unsupported.

    Items are redacted first: `append` and `edit` are final, and what reaches `_append` and `_edit` contains no secret
    that `redact` knows. An item that cannot be redacted is refused. Every method raises StoreError, naming the file,
    when the disk fails; FsyncFailed must end the process.
    """

    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._listeners: list[_Listener] = []
        self.on_written: Callable[[Sequence[Item]], None] = lambda items: None
        """Called with the items that `append` and `edit` have written."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Return the physical identity: two stores with one identity are the same store."""

    @property
    def index_keys(self) -> Sequence[bytes]:
        """Return the keys (32 bytes) that seal the files of an index over this store: the current one, then earlier
        ones, with which a file may still be sealed. None if the store is not sealed."""
        return ()

    @final
    def subscribe(
        self,
        *,
        on_append: Callable[[Append], None] | None = None,
        on_change: Callable[[Set[str]], None] | None = None,
        on_fatal: Callable[[FsyncFailed], None] | None = None,
    ) -> Callable[[], None]:
        """Register callbacks beside those of other subscribers. Returns the function that removes them.

        `on_append`: called with the items that a write added. `on_change`: called with the ids of agents that changed
        other than by appending; the listener compares their revisions. Both may miss changes: `parts` is
        authoritative. `on_fatal`: called when an fsync fails in the background, where there is no caller to raise to.

        Callbacks run on the event loop, before the write returns, in the order of the writes to a part. They return at
        once; an exception is logged, and neither the write nor another listener notices it.
        """
        listener = _Listener(on_append, on_change, on_fatal)
        self._listeners.append(listener)

        def unsubscribe() -> None:
            self._listeners = [each for each in self._listeners if each is not listener]

        return unsubscribe

    @final
    async def append(self, items: Iterable[Item], *, gates: Mapping[str, str] | None = None) -> tuple[Item, ...]:
        """Store these items; on return they are on disk. `gates`: how each gate of the store is closed, by name;
        ignored by a store without gates.

        Returns the items that were written, in order, redacted and with the memory_id that a scan gives them. Existing
        items are not written again: those with an idempotency key (`item.idempotency_key`), and long-term ones in a
        store that holds them as a set. Hidden items (`succession`) are no part of that set, and an item that replaces
        or retracts another is always written. Raises RefusedItem for an item that is too large or has an invalid
        agent; then none is written.
        """
        clean = await _clean(items)
        written = await self._append(clean, gates or {}) if clean else ()
        self.on_written(written)
        return written

    @final
    async def preview(self, items: Iterable[Item], *, gates: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Return the items that `append` would store, redacted and as JSON; nothing is written. Raises what `append`
        would; a refusal at a gate carries the `records` too."""
        return await self._preview(await _clean(items), gates or {})

    @final
    async def upsert(self, items: Iterable[Item], *, keep: frozenset[str] = frozenset()) -> UpsertResult:
        """Store these items, each once for its user, agent, project_id and chunk_hash; on return they are on disk.

        An item that exists with the same memory_type, tags and sources, or comes earlier in `items`, is skipped; a
        repeated one gets the sources of both. An existing item that differs gets the new fields and provenance, except
        those that `keep` names (of `memory_type`, `tags`, `source_uri`, `provenance`); its previous source moves to its
        other sources; its memory_id and timestamp stay, and the `run_id` and `said_by` of its provenance. Many items
        are written in batches; an interrupted call has written whole batches, and a repeated one skips them. Raises
        RefusedItem, and then none is written; Unsupported.
        """
        self._must_be_able_to("upsert")
        unknown = keep - UPSERT_KEEPS
        if unknown:
            raise ValueError(f"an upsert cannot keep {', '.join(sorted(unknown))}")
        clean = await _clean(items)
        return await self._upsert(clean, keep) if clean else UpsertResult()

    @final
    async def replace(self, item: Item) -> Item:
        """Replace the item with the same memory_id, user and agent. Returns it as stored.

        Raises NoSuchItem, Unsupported, RefusedItem; the last also if another item has this text already.
        """
        self._must_be_able_to("replace")
        (clean,) = await _clean((item,))
        return await self._replace(clean)

    @final
    async def edit(self, memory_id: str, text: str, *, agent_id: str | None = None) -> Item:
        """Replace the text of an item; everything else stays. Returns it with its new memory_id.

        Raises NoSuchItem, Unsupported, RefusedItem, as `replace` does. `agent_id` avoids searching every agent's
        memory.
        """
        self._must_be_able_to("edit")
        text = well_formed(text)
        if not text.strip():
            raise RefusedItem("an item cannot have a blank text", hint="delete the item instead")
        if len(text) > LARGEST_TEXT:
            raise RefusedItem(
                f"a text of {len(text)} characters is too large", hint=f"at most {LARGEST_TEXT} characters"
            )
        edited = await self._edit(memory_id, _redacted_text(text), agent_id)
        self.on_written((edited,))
        return edited

    @final
    async def delete(self, memory_id: str, *, agent_id: str | None = None) -> None:
        """Delete one item. Raises NoSuchItem, Unsupported."""
        self._must_be_able_to("delete")
        await self._delete(memory_id, agent_id)

    @final
    async def compact(self, agent_id: str, *, older_than: date) -> Compaction:
        """Promote marked bullets of logs to long-term memory, each once, then delete logs of days before `older_than`.

        May be interrupted at any point: repeated, it loses nothing and promotes nothing twice. Raises Unsupported.
        """
        self._must_be_able_to("compact")
        return await self._compact(agent_id, older_than)

    @final
    async def remove(self, agent_id: str) -> bool:
        """Delete everything of this agent; True if there was anything. Raises Unsupported."""
        self._must_be_able_to("remove")
        return await self._remove(agent_id)

    @final
    async def forget_user(self, user_id: str, *, agent_id: str | None = None) -> int:
        """Delete everything of the user with this id, for one agent or for all; return how many items.

        Every store can, also one that otherwise never deletes: a user who leaves may have their data removed. May be
        interrupted at any point, and repeated. Raises StoreError if something could not be deleted, after deleting the
        rest.
        """
        count, failure = 0, None
        for agent in await self.agents() if agent_id is None else (agent_id,):
            try:
                count += await self._forget_user(user_id, agent)
            except FsyncFailed:
                raise
            except StoreError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return count

    @abstractmethod
    async def parts(self, agent_id: str | None = None) -> tuple[Part, ...]:
        """Return every part, of one agent or of all. Cheap: only names and sizes are read.

        An unreadable folder of an agent raises StoreError if that agent was asked for; otherwise it has one part with
        the revision UNREADABLE, whose reading raises it.
        """

    async def changes(self, since: str | None) -> Changes | None:
        """Return the parts that changed since the mark `since`, which an earlier call returned; without it only a mark.
        None: the store does not know, and all parts must be compared. Raises StoreError.

        The cost depends on what changed, not on the number of parts. A store that knows it reports no appends.
        """
        return None

    @abstractmethod
    async def read(self, part: Part) -> Sequence[tuple[Item, ItemLocation | None]]:
        """Return the items of a part in order, each with its location (None without files); empty if the part is gone.
        Raises StoreError."""

    @abstractmethod
    def scan(self, wanted: Scan | None = None) -> AsyncIterator[Item]:
        """Yield the wanted items, one file at a time, oldest first unless `newest_first`.

        An unknown agent has none. An unreadable file raises StoreError if one agent was asked for; otherwise it is
        skipped, and `stats` reports it.
        """

    async def newest(self, wanted: Scan, limit: int, *, before: Position | None = None, prefix: str = "") -> list[Item]:
        """Return up to `limit` (1 or more) wanted items, newest first; of equal times the greatest id first.

        `before`: only items after this position in that order, so that the next page begins at the last item of this
        one. `prefix`: only items whose memory_id begins with it. The order and the limit of `wanted` are ignored.
        Raises StoreError as `scan` does. The default reads no further back than needed to find that many.
        """
        wanted = wanted.model_copy(update={"newest_first": False, "limit": None})
        if before is not None and before.timestamp < _LATEST:
            last = before.timestamp + _TICK
            wanted = wanted.model_copy(update={"until": last if wanted.until is None else min(wanted.until, last)})
        found: list[Item] = []
        until = wanted.until
        # An id does not contain the item's time: with a prefix everything is read.
        for since in (*(() if prefix else self._window_starts(wanted)), wanted.since):
            window = wanted.model_copy(update={"since": since, "until": until})
            found += [
                item
                async for item in self.scan(window)
                if (before is None or position_of(item) < before) and item.memory_id.startswith(prefix)
            ]
            if len(found) >= limit:
                break
            until = since
        return nlargest(limit, found, key=position_of)

    def _window_starts(self, wanted: Scan) -> Iterator[datetime]:
        """Yield the times back to which `newest` reads before it reads everything."""
        end = wanted.until or utc(self._clock.now())
        for window in _WINDOWS:
            if end - _EARLIEST > window and (wanted.since is None or end - window > wanted.since):
                yield end - window

    @abstractmethod
    async def stats(self, agent_id: str | None = None) -> StoreStats:
        """Return the size of the store, of one agent or of all."""

    @abstractmethod
    async def agents(self) -> tuple[str, ...]:
        """Return the agents that have a memory here, by name."""

    @abstractmethod
    async def locate(self, items: Sequence[Item]) -> dict[str, ItemLocation]:
        """Return the current locations of these items by memory_id, without those that are gone."""

    @abstractmethod
    async def inspect(self, agent_id: str, day: date | None = None) -> Inspection:
        """Return an agent's memory as text for a person, with the log of a day (UTC; default today)."""

    async def verify(self, agent_id: str | None = None) -> tuple[int, tuple[StoreProblem, ...]]:
        """Read everything of one agent or of all. Returns the number of files, and what is damaged."""
        found = await self.stats(agent_id)
        return found.files, found.problems

    async def ready(self) -> tuple[StoreProblem, ...]:
        """Return the problems that prevent the next write (errors), and those that a person should know (warnings).
        Writes nothing and is quick."""
        return ()

    def configure(self, options: Mapping[str, object]) -> None:  # noqa: B027 - most have no options
        """Apply the valid options of the newly loaded program, with secrets resolved; the store stays open."""

    async def settle(self, seconds: float) -> None:  # noqa: B027 - most leave nothing to be done
        """Wait at most this long for background work of the last appends."""

    async def close(self) -> None:  # noqa: B027 - a store that holds nothing open closes by doing nothing
        """Finish pending writes and release resources. A closed store is not used again."""

    @abstractmethod
    async def _append(self, items: tuple[Item, ...], gates: Mapping[str, str]) -> tuple[Item, ...]: ...

    async def _preview(self, items: tuple[Item, ...], gates: Mapping[str, str]) -> list[dict[str, Any]]:
        return [item.model_dump(mode="json") for item in items]

    async def _upsert(self, items: tuple[Item, ...], keep: frozenset[str]) -> UpsertResult:
        raise NotImplementedError

    async def _replace(self, item: Item) -> Item:
        raise NotImplementedError

    async def _edit(self, memory_id: str, text: str, agent_id: str | None) -> Item:
        raise NotImplementedError

    async def _delete(self, memory_id: str, agent_id: str | None) -> None:
        raise NotImplementedError

    async def _compact(self, agent_id: str, older_than: date) -> Compaction:
        raise NotImplementedError

    async def _remove(self, agent_id: str) -> bool:
        raise NotImplementedError

    @abstractmethod
    async def _forget_user(self, user_id: str, agent_id: str) -> int: ...

    @final
    def _notify_append(self, append: Append) -> None:
        for listener in self._listeners:
            _notify(listener.on_append, append, store=self.identity, part=append.part.name)

    @final
    def _notify_change(self, agents: Set[str]) -> None:
        for listener in self._listeners if agents else ():
            _notify(listener.on_change, agents, store=self.identity)

    @final
    def _notify_fatal(self, error: FsyncFailed) -> None:
        for listener in self._listeners:
            _notify(listener.on_fatal, error, store=self.identity)

    def _must_be_able_to(self, capability: Capability) -> None:
        if capability not in self.capabilities:
            able = ", ".join(sorted(self.capabilities - {"gates"})) or "only append"
            raise Unsupported(f"the store {self.identity} cannot {capability}", hint=f"it can {able}")


class RedactedItems(tuple[Item, ...]):
    """Items that `redacted_item` returned, maybe with other ids; a store does not redact them again."""

    __slots__ = ()


class _Listener(NamedTuple):
    on_append: Callable[[Append], None] | None
    on_change: Callable[[Set[str]], None] | None
    on_fatal: Callable[[FsyncFailed], None] | None


def _notify(callback: Callable[[T], None] | None, argument: T, **fields: str) -> None:
    """Call a listener. The write is done whatever it raises; a listener that missed it compares revisions."""
    if callback is None:
        return
    try:
        callback(argument)
    except Exception:
        _log.exception("memory_listener_failed", **fields)


async def _clean(given: Iterable[Item]) -> tuple[Item, ...]:
    """Return the items without secrets. Raises RefusedItem for one that is too large, cannot be redacted or names no
    valid agent."""
    items = tuple(given)
    characters = 0
    for item in items:
        valid_agent(item.agent_id)
        about = sum([len(text) for text in _texts(item)]) + len(item.subject or "")
        for what, size in (("an item", len(item.text)), ("the fields of an item, its tags and sources,", about)):
            if size > LARGEST_TEXT:
                raise RefusedItem(
                    f"{what} of {size} characters is too large for the memory of {item.agent_id}",
                    hint=f"at most {LARGEST_TEXT} characters",
                )
            characters += size
    if isinstance(given, RedactedItems):
        return given
    if characters > _ON_THE_LOOP:
        return await asyncio.to_thread(_redact_items, items)
    return _redact_items(items)


def text_bytes(item: Item) -> int:
    """Return the bytes of all texts of an item, which count towards what its user may store."""
    return sum(len(text.encode()) for text in (item.text, *_texts(item)))


def _texts(item: Item) -> list[str]:
    """Return every text of an item except its own: other fields may contain secrets, too."""
    about = item.provenance
    single = [item.source_uri, item.project_id, item.user_id, item.replaces, item.retracts]
    more = (*item.tags, *item.other_sources, *item.source_memory_ids)
    if about is not NOTHING_KNOWN:
        single += about.author, about.session_id, about.task, about.git_commit, about.run_id
        more += about.sources
    return [text for text in single if text is not None] + [*more]


def _redact_items(items: Sequence[Item]) -> tuple[Item, ...]:
    harmless: set[str] = set()
    return tuple([redacted_item(item, harmless) for item in items])


def redacted_item(item: Item, harmless: set[str] | None = None) -> Item:
    """Return the item without secrets in any of its texts. Raises RefusedItem if that fails.

    `harmless`: texts known to have none, such as the source of many items; it is added to.
    """
    said = [text for text in _texts(item) if harmless is None or text not in harmless]
    if all(_redacted_text(text) == text for text in (item.text, *said)) and (
        item.subject is None or redacted_subject(item.subject) == item.subject
    ):
        if harmless is not None:
            harmless.update(said)
        return item
    fields = item.model_dump(exclude={"chunk_hash"})
    about = fields["provenance"]
    if item.subject is not None:
        fields["subject"] = redacted_subject(item.subject)
    for name in ("text", "source_uri", "project_id", "user_id", "replaces", "retracts"):
        fields[name] = _redacted_or_none(fields[name])
    for name in ("author", "session_id", "task", "git_commit", "run_id"):
        about[name] = _redacted_or_none(about[name])
    for name in ("tags", "other_sources", "source_memory_ids"):
        fields[name] = tuple(map(_redacted_text, fields[name]))
    about["sources"] = tuple(map(_redacted_text, about["sources"]))
    return Item.model_validate(fields)


def redacted_subject(subject: str) -> str:
    """Return a subject as items have it: unchanged, or if it contains a secret, redacted with a hash, so that subjects
    stay distinct. Raises RefusedItem if it cannot be redacted."""
    redacted = _redacted_text(subject)
    return subject if redacted == subject else f"subject-{hashlib.sha256(subject.encode()).hexdigest()[:32]}"


def _redacted_or_none(text: str | None) -> str | None:
    return None if text is None else _redacted_text(text)


def _redacted_text(text: str) -> str:
    try:
        return redact(text)
    except Exception as error:
        raise RefusedItem("a text could not be redacted, so it is not stored", hint=type(error).__name__) from error
