"""Items of a collection, made into one semantic item that is kept once (the fifth design, M9)."""

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
from runtime.memory.summary.abstractive import bounded, write
from runtime.memory.summary.extractive import extract
from runtime.memory.summary.key import TAG, content_of, is_summary, key_tag, summary_key
from runtime.models.model import Model, ModelRefused, ModelUnavailable

Strategy = Literal["auto", "abstractive", "extractive"]

MAX_WORDS: Final = 250
"""Words of a summary at most, where neither the call nor the memory says another number."""

_TICK: Final = timedelta(microseconds=1)
_turns = KeyedLock()


class NothingToSummarise(UsageError):  # noqa: N818 - it says what is the case
    """No item is what was asked for."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is summarised, and how."""

    collection: str
    """The items' agent_id."""
    user_id: str
    """Whose the summary is."""
    seen: str | None
    """Whose items are looked at; None for everybody's."""
    start: datetime
    end: datetime
    """The last moment that is wanted."""
    project_id: str = PROJECT
    memory_type: MemoryType = "episodic"
    tags: tuple[str, ...] = ()
    """An item must have one or more of them."""
    limit: int = 50
    strategy: Strategy = "auto"
    provider: str | None = None
    """The row of the model that is to be asked; `none`: none is."""
    model: str | None = None
    max_words: int | None = None

    @property
    def without_model(self) -> bool:
        """Whether no model may be asked."""
        return self.strategy == "extractive" or self.provider == "none"

    @property
    def by_model(self) -> bool:
        """Whether the call itself asks for a model."""
        return self.strategy == "abstractive" or self.provider is not None or self.model is not None


class Made(NamedTuple):
    """How a summary was made: by which model of which row, or by none."""

    provider: str | None = None
    model: str | None = None

    @property
    def strategy(self) -> Literal["abstractive", "extractive"]:
        """The design's word for it."""
        return "extractive" if self.provider is None else "abstractive"

    def author(self) -> str:
        """As the summary's provenance says it."""
        return self.strategy if self.provider is None else f"{self.provider}/{self.model}"


class Summary(NamedTuple):
    """`item` is kept; `fell_back`: why no model was asked, or none answered, though one might have been. `left_out`:
    whether there were more items than the limit. `not_configured`: the texts went to the model that is there by default
    because the call asked for one, and nobody configured it."""

    item: Item
    made: Made
    fell_back: str | None = None
    left_out: bool = False
    not_configured: bool = False


async def consolidate(memory: OpenMemory, wanted: Wanted, now: datetime) -> Summary:
    """The summary of what is wanted, made and kept now unless there is one.

    One that is there is answered as it is, whatever made it, unless an item says something else now, or the call asks
    for another way (a strategy, provider or model) or another number of words: then its text is written anew, and its
    id stays. Raises NothingToSummarise, ModelUnavailable, ModelRefused, StoreError.
    """
    items = [item async for item in _sources(memory, wanted)]
    left_out = len(items) > wanted.limit
    del items[wanted.limit :]
    if not items:
        raise NothingToSummarise(
            f"there is nothing to summarise: no {wanted.memory_type} item of the project {wanted.project_id} "
            + (f"with one of the tags {', '.join(wanted.tags)} " if wanted.tags else "")
            + f"was kept from {rfc3339(wanted.start)} to {rfc3339(wanted.end)}",
            hint=f"in the collection {wanted.collection}; is what happened pushed as episodic?",
        )
    key = summary_key(wanted.project_id, wanted.start, wanted.end, (item.memory_id for item in items))
    most = _most_words(memory, wanted)
    content = content_of((item.chunk_hash for item in items), most)
    async with _turns.of((memory.store.identity, wanted.collection, wanted.user_id, key)):
        there = await _existing(memory, wanted, key)
        fresh = there is not None and there.provenance.task == content
        if there is not None and fresh and _is_made_as(there, wanted):
            return Summary(there, _made(there), left_out=left_out)
        written = await _written(memory, items, wanted, most)
        if there is not None and fresh and written.fell_back is not None:
            return Summary(there, _made(there), written.fell_back, left_out=left_out)
        summary = _summary(wanted, key, items, written, content, now)
        kept = await _keep(memory, wanted, key, there, summary)
        not_configured = written.made.provider is not None and not _is_configured(memory)
        return Summary(kept, written.made, written.fell_back, left_out=left_out, not_configured=not_configured)


async def _sources(memory: OpenMemory, wanted: Wanted) -> AsyncIterator[Item]:
    """What is summarised, the oldest first, and one more than the limit if there is: summaries are no part of it unless
    they are asked for by their tag."""
    # What an agent kept names no project, and is of the default one.
    project = None if wanted.project_id == PROJECT else wanted.project_id
    scan = Scan(
        agent_id=wanted.collection,
        user_id=wanted.seen,
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
        if (item.project_id or PROJECT) == wanted.project_id and (TAG in wanted.tags or not is_summary(item.tags)):
            found += 1
            yield item


async def _existing(memory: OpenMemory, wanted: Wanted, key: str) -> Item | None:
    """The user's summary of just these items: by where it is from, else, for that may have been changed, by its tag."""
    mine = Scan(agent_id=wanted.collection, user_id=wanted.user_id, project_id=wanted.project_id, limit=1)
    for only in ({"source_uri": summary_uri(key)}, {"tags": frozenset({key_tag(key)})}):
        found = await anext(memory.store.scan(mine.model_copy(update=only)), None)
        if found is not None:
            return found
    return None


def _made(summary: Item) -> Made:
    provider, stroke, model = (summary.provenance.author or "").partition("/")
    return Made(provider, model) if stroke else Made()


def _is_made_as(there: Item, wanted: Wanted) -> bool:
    """Whether a summary that is there was made in the way that is wanted."""
    made = _made(there)
    if wanted.without_model:
        return made.provider is None
    return (
        (not wanted.by_model or made.provider is not None)
        and wanted.provider in (None, made.provider)
        and wanted.model in (None, made.model)
    )


def _most_words(memory: OpenMemory, wanted: Wanted) -> int:
    return wanted.max_words or memory.block.summarize.max_words or MAX_WORDS


class _Written(NamedTuple):
    """A text, how it was made, and why not by a model."""

    text: str
    made: Made
    fell_back: str | None = None


async def _written(memory: OpenMemory, items: list[Item], wanted: Wanted, max_words: int) -> _Written:
    """Raises ModelUnavailable, ModelRefused where a model must write it."""
    fell_back = None
    if not wanted.without_model:
        try:
            chosen = _chosen(memory, wanted)
            if chosen is not None:
                return _Written(await _abstract(chosen, items, wanted, max_words), Made(chosen.name, chosen.model))
        except (ModelUnavailable, ModelRefused) as error:
            if wanted.strategy == "abstractive":
                raise
            fell_back = error.line()
    texts = [item.text for item in items]
    # Texts may be nothing but full stops.
    return _Written(extract(texts, max_words) or bounded(" ".join(texts), max_words), Made(), fell_back)


def _is_configured(memory: OpenMemory) -> bool:
    """Whether the program or the environment names the memory's model. Texts go to the one that is there by default,
    whatever listens on the local port of Ollama, only where the call itself asks for a model: any user of a shared
    machine can listen there."""
    return memory.block.summarize.model is not None


def _chosen(memory: OpenMemory, wanted: Wanted) -> Model | None:
    """The model that is to be asked; None where nobody wants one. Raises ModelUnavailable."""
    model = memory.summarizer
    if not wanted.by_model and (model is None or not _is_configured(memory)):
        return None
    if model is None:
        raise ModelUnavailable(
            "no language model summarises this memory",
            hint="`summarize { model ollama }` in its block, or SUMMARIZATION_PROVIDER, gives it one",
        )
    if wanted.provider not in (None, model.name):
        raise ModelUnavailable(
            f"the model {wanted.provider} is not the one that summarises this memory", hint=f"that is {model.name}"
        )
    return model if wanted.model is None else model.with_model(wanted.model)


async def _abstract(model: Model, items: list[Item], wanted: Wanted, max_words: int) -> str:
    """What the model makes of the items. Raises ModelUnavailable, ModelRefused."""
    if not await model.reachable():
        raise ModelUnavailable(f"the model {model.name} does not answer", hint="is it running?")
    text = await write(
        model, items, project_id=wanted.project_id, start=wanted.start, end=wanted.end, max_words=max_words
    )
    if not text:
        raise ModelUnavailable(f"the model {model.name} ({model.model}) answered nothing", hint="try another model")
    return text


def _summary(wanted: Wanted, key: str, items: list[Item], written: _Written, content: str, now: datetime) -> Item:
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
        provenance=Provenance(author=written.made.author(), task=content),
    )


async def _keep(memory: OpenMemory, wanted: Wanted, key: str, there: Item | None, summary: Item) -> Item:
    """The summary as it is kept: in place of the one that is there, or as a new one; where another process was quicker,
    the one that it kept."""
    if there is not None:
        # A person may have said more about it by tags: they stay.
        tags = (*there.tags, *summary.tags)
        return await memory.replace(summary.changed(memory_id=there.memory_id, timestamp=there.timestamp, tags=tags))
    written = await memory.store.append([summary])
    if written:
        return written[0]
    first = await _existing(memory, wanted, key)
    if first is None:
        raise StoreError("another process kept this summary and took it away again", hint="ask again")
    return first
