"""Items of a collection, made into one semantic item that is kept once (the fifth design, M9)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

from runtime.errors import UsageError
from runtime.memory.errors import StoreError
from runtime.memory.item import Item, MemoryType, Provenance, rfc3339, summary_uri
from runtime.memory.opened import OpenMemory
from runtime.memory.store import Scan
from runtime.memory.summary.abstractive import bounded, write
from runtime.memory.summary.extractive import extract
from runtime.memory.summary.key import TAG, is_summary, key_tag, summary_key
from runtime.memory.turns import Turns
from runtime.models import Model, ModelRefused, ModelUnavailable

Strategy = Literal["auto", "abstractive", "extractive"]

MAX_WORDS: Final = 250
"""Words of a summary at most, where neither the call nor the memory says another number."""
NO_PROJECT: Final = "default"
"""The project of what names none."""

_TICK: Final = timedelta(microseconds=1)
_turns = Turns()


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
    project_id: str = NO_PROJECT
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
    """`item` is kept; `fell_back`: why no model was asked, or none answered, though one might have been."""

    item: Item
    made: Made
    fell_back: str | None = None


async def consolidate(memory: OpenMemory, wanted: Wanted, now: datetime) -> Summary:
    """The summary of what is wanted, made and kept now unless there is one.

    One that is there is answered as it is, whatever made it, unless the call asks for another way (a strategy, provider
    or model) or for fewer words: then its text is written anew, and its id stays. Raises NothingToSummarise,
    ModelUnavailable, ModelRefused, StoreError.
    """
    items = [item async for item in _sources(memory, wanted)]
    if not items:
        raise NothingToSummarise(
            f"there is nothing to summarise: no {wanted.memory_type} item of the project {wanted.project_id} "
            + (f"with one of the tags {', '.join(wanted.tags)} " if wanted.tags else "")
            + f"was kept from {rfc3339(wanted.start)} to {rfc3339(wanted.end)}",
            hint=f"in the collection {wanted.collection}; is what happened pushed as episodic?",
        )
    key = summary_key(wanted.project_id, wanted.start, wanted.end, (item.memory_id for item in items))
    async with _turns.of((memory.store.identity, wanted.collection, wanted.user_id, key)):
        there = await _existing(memory, wanted, key)
        if there is not None and _will_do(there, wanted):
            return Summary(there, _made(there))
        text, made, fell_back = await _written(memory.summarizer, items, wanted, _most_words(memory, wanted))
        if there is not None and fell_back is not None and not _is_too_long(there, wanted):
            return Summary(there, _made(there), fell_back)
        summary = _summary(wanted, key, items, text, made, now)
        return Summary(await _keep(memory, wanted, key, there, summary), made, fell_back)


async def _sources(memory: OpenMemory, wanted: Wanted) -> AsyncIterator[Item]:
    """What is summarised, the oldest first: summaries are no part of it unless they are asked for by their tag."""
    # What an agent kept names no project, and is of the default one.
    project = None if wanted.project_id == NO_PROJECT else wanted.project_id
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
        if found == wanted.limit:
            return
        if (item.project_id or NO_PROJECT) == wanted.project_id and (TAG in wanted.tags or not is_summary(item.tags)):
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


def _will_do(there: Item, wanted: Wanted) -> bool:
    """Whether a summary that is there is what is wanted."""
    made = _made(there)
    if wanted.without_model:
        asked = made.provider is None
    else:
        by_model = wanted.strategy == "abstractive" or wanted.provider is not None or wanted.model is not None
        asked = (
            (not by_model or made.provider is not None)
            and wanted.provider in (None, made.provider)
            and wanted.model in (None, made.model)
        )
    return asked and not _is_too_long(there, wanted)


def _is_too_long(there: Item, wanted: Wanted) -> bool:
    return wanted.max_words is not None and len(there.text.split()) > wanted.max_words


def _most_words(memory: OpenMemory, wanted: Wanted) -> int:
    return wanted.max_words or memory.block.summarize.max_words or MAX_WORDS


async def _written(
    model: Model | None, items: list[Item], wanted: Wanted, max_words: int
) -> tuple[str, Made, str | None]:
    """The text, how it was made, and why not by a model. Raises ModelUnavailable, ModelRefused where one must."""
    fell_back = None
    if not wanted.without_model:
        try:
            chosen = _chosen(model, wanted)
            if chosen is not None:
                return await _abstract(chosen, items, wanted, max_words), Made(chosen.name, chosen.model), None
        except (ModelUnavailable, ModelRefused) as error:
            if wanted.strategy == "abstractive":
                raise
            fell_back = error.line()
    texts = [item.text for item in items]
    # Texts may be nothing but full stops.
    return extract(texts, max_words) or bounded(" ".join(texts), max_words), Made(), fell_back


def _chosen(model: Model | None, wanted: Wanted) -> Model | None:
    """The model that is to be asked; None where nobody wants one. Raises ModelUnavailable."""
    if model is None:
        if wanted.strategy != "abstractive" and wanted.provider is None and wanted.model is None:
            return None
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


def _summary(wanted: Wanted, key: str, items: list[Item], text: str, made: Made, now: datetime) -> Item:
    given = (tag for tag in wanted.tags if not is_summary((tag,)))
    return Item(
        project_id=wanted.project_id,
        agent_id=wanted.collection,
        user_id=wanted.user_id,
        memory_type="semantic",
        timestamp=now,
        source_uri=summary_uri(key),
        tags=(*given, TAG, key_tag(key)),
        text=text,
        source_memory_ids=tuple(item.memory_id for item in items),
        provenance=Provenance(author=made.author()),
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
