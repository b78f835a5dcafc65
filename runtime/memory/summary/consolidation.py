"""Turns items of a collection into one semantic item that is stored once (the fifth design, M9)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

from runtime.errors import UsageError
from runtime.memory.collection.options import PROJECT
from runtime.memory.errors import StoreError
from runtime.memory.item import Item, MemoryType, Provenance, rfc3339, summary_uri
from runtime.memory.keyed_lock import KeyedLock
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store_types import Scan
from runtime.memory.succession import HiddenItems, changes_among
from runtime.memory.summary.abstractive import ModelSummary, limit_words, write
from runtime.memory.summary.extractive import extract
from runtime.memory.summary.key import TAG, content_of, is_summary, key_tag, summary_key
from runtime.models.budgets.limits import BudgetExceeded
from runtime.models.calls.call import CallOwner
from runtime.models.client import ModelClient
from runtime.models.model import ModelRefused, ModelUnavailable

Strategy = Literal["auto", "abstractive", "extractive"]

MAX_WORDS: Final = 250
"""Maximum words of a summary, unless the call or the memory has another number."""

_TICK: Final = timedelta(microseconds=1)
_locks = KeyedLock()


class NothingToSummarise(UsageError):  # noqa: N818 - it says what is the case
    """No item matches the criteria."""


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """The criteria of a summary, and how it is made."""

    collection: str
    """The items' agent_id."""
    user_id: str
    """The owner of the summary."""
    seen: str | None
    """The user whose items are read; None for all users."""
    start: datetime
    end: datetime
    """The last wanted moment."""
    project_id: str = PROJECT
    memory_type: MemoryType = "episodic"
    tags: tuple[str, ...] = ()
    """An item must have one or more of them."""
    subject: str | None = None
    """The subject of the items and of the summary; None: none. A summary never mixes subjects."""
    limit: int = 50
    strategy: Strategy = "auto"
    provider: str | None = None
    """The row of the model to use, or `none`."""
    model: str | None = None
    max_words: int | None = None

    @property
    def without_model(self) -> bool:
        """True if no model may be used."""
        return self.strategy == "extractive" or self.provider == "none"

    @property
    def by_model(self) -> bool:
        """True if the call itself asks for a model."""
        return self.strategy == "abstractive" or self.provider is not None or self.model is not None


class SummaryMethod(NamedTuple):
    """The method of a summary: the row and the model, or none."""

    provider: str | None = None
    model: str | None = None

    @property
    def strategy(self) -> Literal["abstractive", "extractive"]:
        """Return the design's name of the strategy."""
        return "extractive" if self.provider is None else "abstractive"

    def author(self) -> str:
        """Return the author for the summary's provenance."""
        return self.strategy if self.provider is None else f"{self.provider}/{self.model}"


class Summary(NamedTuple):
    """`item` is stored. `fallback_reason`: why no model was used although one might have been. `left_out`: True if
    there were more items than the limit. `not_configured`: True if the texts went to the default model because the call
    asked for one, although none is configured."""

    item: Item
    method: SummaryMethod
    fallback_reason: str | None = None
    left_out: bool = False
    not_configured: bool = False


async def consolidate(memory: OpenMemory, wanted: SummaryRequest, now: datetime, *, owner: CallOwner) -> Summary:
    """Return the stored summary for these criteria; create and store it if missing. `owner`: for whom a model is
    called.

    An existing one is returned however it was made, unless an item has changed since, or the call asks for another
    strategy, provider, model or number of words: then its text is made again, and its id stays. Raises
    NothingToSummarise, ModelUnavailable, ModelRefused, BudgetExceeded, StoreError.
    """
    items = [item async for item in _sources(memory, wanted)]
    left_out = len(items) > wanted.limit
    del items[wanted.limit :]
    if not items:
        raise NothingToSummarise(
            f"there is nothing to summarize: no {wanted.memory_type} item of the project {wanted.project_id} "
            + (f"with one of the tags {', '.join(wanted.tags)} " if wanted.tags else "")
            + f"was stored from {rfc3339(wanted.start)} to {rfc3339(wanted.end)}",
            hint=f"in the collection {wanted.collection}; check that events are pushed as episodic",
        )
    key = summary_key(wanted.project_id, wanted.start, wanted.end, (item.memory_id for item in items))
    most = _most_words(memory, wanted)
    content = content_of((item.chunk_hash for item in items), most)
    async with _locks.of((memory.store.identity, wanted.collection, wanted.user_id, key)):
        there = await _existing(memory, wanted, key)
        fresh = there is not None and there.provenance.task == content
        if there is not None and fresh and _has_wanted_method(there, wanted):
            return Summary(there, _method_of(there), left_out=left_out)
        written = await _write_text(memory, items, wanted, most, owner)
        if there is not None and fresh and written.fallback_reason is not None:
            return Summary(there, _method_of(there), written.fallback_reason, left_out=left_out)
        summary = _summary_item(wanted, key, items, written, content, now)
        kept = await _keep(memory, wanted, key, there, summary)
        not_configured = written.method.provider is not None and not _is_configured(memory)
        return Summary(kept, written.method, written.fallback_reason, left_out=left_out, not_configured=not_configured)


async def _sources(memory: OpenMemory, wanted: SummaryRequest) -> AsyncIterator[Item]:
    """Yield the items to summarize, oldest first, and one more than the limit if there is one. Summaries are left out
    unless their tag is asked for, and items that a newer one replaced or that were withdrawn always."""
    # Items written by agents name no project and belong to the default one.
    project = None if wanted.project_id == PROJECT else wanted.project_id
    mine = Scan(agent_id=wanted.collection, user_id=wanted.seen, subject=wanted.subject, changes=True)
    hidden = HiddenItems(changes_among([item async for item in memory.store.scan(mine)]))
    scan = Scan(
        agent_id=wanted.collection,
        user_id=wanted.seen,
        subject=wanted.subject,
        project_id=project,
        memory_type=wanted.memory_type,
        tags_any=frozenset(wanted.tags),
        since=wanted.start,
        until=None if wanted.end > datetime.max.replace(tzinfo=wanted.end.tzinfo) - _TICK else wanted.end + _TICK,
    )
    found = 0
    async for item in memory.store.scan(scan):
        if found > wanted.limit:
            return
        if item in hidden:
            continue
        if (item.project_id or PROJECT) == wanted.project_id and (TAG in wanted.tags or not is_summary(item.tags)):
            found += 1
            yield item


async def _existing(memory: OpenMemory, wanted: SummaryRequest, key: str) -> Item | None:
    """Return the user's summary of exactly these items, found by its source or, as that may have been changed, by its
    tag."""
    mine = Scan(
        agent_id=wanted.collection,
        user_id=wanted.user_id,
        project_id=wanted.project_id,
        subject=wanted.subject,
        limit=1,
    )
    for only in ({"source_uri": summary_uri(key)}, {"tags": frozenset({key_tag(key)})}):
        found = await anext(memory.store.scan(mine.model_copy(update=only)), None)
        if found is not None:
            return found
    return None


def _method_of(summary: Item) -> SummaryMethod:
    provider, stroke, model = (summary.provenance.author or "").partition("/")
    return SummaryMethod(provider, model) if stroke else SummaryMethod()


def _has_wanted_method(there: Item, wanted: SummaryRequest) -> bool:
    """True if an existing summary was made in the wanted way."""
    made = _method_of(there)
    if wanted.without_model:
        return made.provider is None
    return (
        (not wanted.by_model or made.provider is not None)
        and wanted.provider in (None, made.provider)
        and wanted.model in (None, made.model)
    )


def _most_words(memory: OpenMemory, wanted: SummaryRequest) -> int:
    return wanted.max_words or memory.block.summarize.max_words or MAX_WORDS


class _SummaryText(NamedTuple):
    """A text, how it was made, and why not by a model."""

    text: str
    method: SummaryMethod
    fallback_reason: str | None = None


async def _write_text(
    memory: OpenMemory, items: list[Item], wanted: SummaryRequest, max_words: int, owner: CallOwner
) -> _SummaryText:
    """Raises ModelUnavailable, ModelRefused, BudgetExceeded if a model is required."""
    fallback_reason = None
    if not wanted.without_model:
        try:
            chosen = _model_to_use(memory, wanted)
            if chosen is not None:
                text, author = await _abstract(chosen, items, wanted, max_words, owner)
                provider, _, model = author.partition("/")
                return _SummaryText(text, SummaryMethod(provider, model))
        except (ModelUnavailable, ModelRefused, BudgetExceeded) as error:
            if wanted.strategy == "abstractive":
                raise
            fallback_reason = error.line()
    texts = [item.text for item in items]
    # Texts may consist of full stops only.
    text = extract(texts, max_words) or limit_words(" ".join(texts), max_words)
    return _SummaryText(text, SummaryMethod(), fallback_reason)


def _is_configured(memory: OpenMemory) -> bool:
    """True if the program or the environment names the memory's model. The default one, which may be any process on the
    local port of Ollama, gets texts only if the call itself asks for a model: every user of a shared machine can listen
    there."""
    return memory.block.summarize.model is not None


def _model_to_use(memory: OpenMemory, wanted: SummaryRequest) -> ModelClient | None:
    """Return the model to use, or None. Raises ModelUnavailable."""
    model = memory.summarizer
    if not wanted.by_model and (model is None or not _is_configured(memory)):
        return None
    if model is None:
        raise ModelUnavailable(
            "this memory has no language model for summaries",
            hint="`summarize { model ollama }` in its block, or SUMMARIZATION_PROVIDER, configures one",
        )
    if wanted.provider not in (None, model.name):
        raise ModelUnavailable(
            f"the model {wanted.provider} is not the one configured for this memory", hint=f"that is {model.name}"
        )
    if wanted.provider is None and wanted.model is None:
        return model
    # A call that names a provider or a model gets no fallback.
    return model.without_fallback(wanted.model)


async def _abstract(
    model: ModelClient, items: list[Item], wanted: SummaryRequest, max_words: int, owner: CallOwner
) -> ModelSummary:
    """Return the model's summary of the items. Raises ModelUnavailable, ModelRefused, BudgetExceeded."""
    if not await model.reachable():
        raise ModelUnavailable(f"the model {model.name} does not answer", hint="check that it is running")
    written = await write(
        model,
        items,
        project_id=wanted.project_id,
        start=wanted.start,
        end=wanted.end,
        max_words=max_words,
        owner=owner,
    )
    if not written.text:
        raise ModelUnavailable(f"the model {model.name} ({model.model}) gave an empty answer", hint="try another model")
    return written


def _summary_item(
    wanted: SummaryRequest, key: str, items: list[Item], written: _SummaryText, content: str, now: datetime
) -> Item:
    given = (tag for tag in wanted.tags if not is_summary((tag,)))
    return Item(
        project_id=wanted.project_id,
        agent_id=wanted.collection,
        user_id=wanted.user_id,
        memory_type="semantic",
        timestamp=now,
        source_uri=summary_uri(key),
        tags=(*given, TAG, key_tag(key)),
        text=written.text,
        source_memory_ids=tuple(item.memory_id for item in items),
        provenance=Provenance(author=written.method.author(), task=content),
        subject=wanted.subject,
    )


async def _keep(memory: OpenMemory, wanted: SummaryRequest, key: str, there: Item | None, summary: Item) -> Item:
    """Store the summary, in place of an existing one or as a new one. If another process was faster, return the summary
    that it stored."""
    if there is not None:
        # A person may have added tags: they are preserved.
        tags = (*there.tags, *summary.tags)
        kept = {"memory_id": there.memory_id, "timestamp": there.timestamp}
        return await memory.replace(summary.with_fields(**kept, tags=tags))
    written = await memory.store.append([summary])
    if written:
        return written[0]
    first = await _existing(memory, wanted, key)
    if first is None:
        raise StoreError("another process stored this summary and deleted it again", hint="ask again")
    return first
