"""`summarize`: a stored summary of a period (the fifth design, M9)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NoReturn

from pydantic import Field, model_validator

from runtime.clock import utc
from runtime.errors import SymbiontError
from runtime.memory.collection.options import PROJECT
from runtime.memory.item import MemoryType
from runtime.memory.summary.consolidation import NothingToSummarise, Summary, SummaryRequest, consolidate
from runtime.memory.summary.consolidation import Strategy as Way
from runtime.models.model import ModelRefused, ModelUnavailable, NoSuchModel
from runtime.tools.collection.access import collection_notes, find_collection
from runtime.tools.collection.types import Collection, NewProject, WantedTags
from runtime.tools.context import Context
from runtime.tools.failure import wrong
from runtime.tools.memory.access import own_subject, sees_all, user_filter
from runtime.tools.result import Result
from runtime.tools.time_input import EXAMPLE, Moment, TimeRange
from runtime.tools.tool import ParameterAlias, tool

MOST_ITEMS: Final = 500
"""Maximum number of items of one summary."""
MOST_WORDS: Final = 5000


class Period(TimeRange):
    """A period of time with both ends."""

    start: Moment = Field(description="The earliest time, RFC 3339.", examples=[EXAMPLE["start"]])
    end: Moment = Field(description="The latest time, RFC 3339.", examples=[EXAMPLE["end"]])

    @model_validator(mode="before")
    @classmethod
    def _both_ends(cls, given: Any) -> Any:
        missing = [end for end in ("start", "end") if end not in given] if isinstance(given, dict) else []
        if missing:
            raise ValueError(f"it has no {' and no '.join(missing)}: both are required, in RFC 3339")
        return given


During = Annotated[Period, Field(description="The period from `start` to `end`, both included.", examples=[EXAMPLE])]
Kind = Annotated[
    MemoryType,
    Field(description="The type of the items to summarize; the default is `episodic`, events."),
    ParameterAlias(("type",)),
]
Sources = Annotated[
    int,
    Field(ge=1, le=MOST_ITEMS, description="Maximum number of items, oldest first.", examples=[25]),
    ParameterAlias(("k",)),
]
Strategy = Annotated[
    Way,
    Field(
        description="`abstractive`: a language model writes it; `extractive`: it consists of sentences from the "
        "items; `auto`: a language model if one answers."
    ),
]
Provider = Annotated[
    Literal["ollama", "openai", "none"] | None,
    Field(description="The kind of language model; `none`: no model. The default is that of the memory."),
]
ModelName = Annotated[
    Annotated[str, Field(min_length=1, max_length=200)] | None,
    Field(description="Another model of the same service.", examples=["llama3.1:8b"]),
]
Words = Annotated[
    Annotated[int, Field(ge=1, le=MOST_WORDS)] | None,
    Field(description="Maximum number of words; the default is that of the memory, else 250.", examples=[150]),
]
Threshold = Annotated[
    Annotated[float, Field(ge=0, le=1)] | None,
    Field(description="Accepted and returned; without a question items have no score, so it excludes nothing."),
    ParameterAlias(("scoreThreshold",)),
]


class SummaryFilters(Result):
    """The filters as they were understood."""

    project_id: str
    memory_type: MemoryType
    tags: list[str]
    time_range: dict[str, str]
    limit: int
    score_threshold: float | None
    scoreThreshold: float | None  # noqa: N815 - clients know it by both names
    collection: str


class SummaryResult(Result):
    """The summary as it is stored."""

    summary: str
    source_memory_ids: list[str] = Field(description="The ids of its items, oldest first.")
    upserted_memory_id: str = Field(description="The id of the summary.")
    used_filters: SummaryFilters
    strategy: Literal["abstractive", "extractive"] = Field(description="The method that was used.")
    provider: str | None = Field(description="The kind of language model that wrote it; null if none did.")
    model: str | None = Field(description="The language model that wrote it; null if none did.")
    notes: list[str] = Field(description="Notes, for instance why no language model wrote it.")


@tool(
    "write",
    stores=True,
    idempotent=True,
    long=True,
    example={
        "project_id": "default",
        "time_range": {"start": "2026-11-01T00:00:00Z", "end": "2026-11-07T23:59:59Z"},
        "tags": ["daily"],
        "limit": 25,
        "strategy": "auto",
        "max_words": 150,
    },
)
async def summarize(
    context: Context,
    time_range: During,
    *,
    project_id: NewProject = None,
    memory_type: Kind = "episodic",
    tags: WantedTags = [],  # noqa: B006 - never changed
    limit: Sources = 50,
    strategy: Strategy = "auto",
    provider: Provider = None,
    model: ModelName = None,
    max_words: Words = None,
    score_threshold: Threshold = None,
    collection: Collection = None,
) -> SummaryResult:
    """Summarize the items of a period in one item, and store it.

    The summary is a semantic item that names its sources; `search` finds it with the tag `summary`. A repeated call
    over the same items returns the stored summary. If one of the items was changed, or another strategy, provider,
    model or number of words is requested, its text is written again under the same id.
    """
    if strategy == "abstractive" and provider == "none":
        raise wrong("provider", "the strategy abstractive needs a language model", example="ollama")
    target = await find_collection(context, collection)
    wanted = SummaryRequest(
        collection=target.name,
        user_id=context.caller.user_id,
        seen=user_filter(context, None),
        start=time_range.start,
        end=time_range.end,
        project_id=project_id or PROJECT,
        memory_type=memory_type,
        tags=tuple(tags),
        limit=limit,
        strategy=strategy,
        provider=provider,
        model=model,
        max_words=max_words,
        subject=own_subject(context, None),
    )
    context.progress("summarizing", 0, 1)
    try:
        done = await consolidate(target.memory, wanted, utc(context.clock.now()), owner=context.call_owner)
    except NothingToSummarise as error:
        raise wrong("time_range", str(error), hint=error.hint) from None
    except (ModelRefused, ModelUnavailable) as error:
        _no_model(context, error, model)
    context.progress("summarizing", 1, 1)
    return SummaryResult(
        summary=done.item.text,
        source_memory_ids=list(done.item.source_memory_ids),
        upserted_memory_id=done.item.memory_id,
        used_filters=SummaryFilters(
            project_id=wanted.project_id,
            memory_type=memory_type,
            tags=tags,
            time_range=time_range.bounds(),
            limit=limit,
            score_threshold=score_threshold,
            scoreThreshold=score_threshold,
            collection=target.name,
        ),
        strategy=done.method.strategy,
        provider=done.method.provider,
        model=done.method.model,
        notes=[
            *_model_notes(context, done),
            *_limit_notes(done, limit),
            *await collection_notes(context, target.memory),
        ],
    )


def _no_model(context: Context, error: SymbiontError, model: str | None) -> NoReturn:
    """Convert a model's failure to the caller's error; configuration errors of the model included."""
    if isinstance(error, NoSuchModel) and model is not None:
        # Only administrators may see the host.
        shown = str(error) if sees_all(context) else f"there is no model {model}"
        raise wrong("model", shown, hint=error.hint) from None
    raise ModelUnavailable(str(error), hint=error.hint) from None


def _model_notes(context: Context, done: Summary) -> list[str]:
    if done.fallback_reason is None:
        return []
    note = "no language model was asked, or none answered"
    return [f"{note}: {done.fallback_reason}" if sees_all(context) else note]


def _limit_notes(done: Summary, limit: int) -> list[str]:
    notes = []
    if done.left_out:
        higher = f"a limit of up to {MOST_ITEMS}, or " if limit < MOST_ITEMS else ""
        notes.append(
            f"there are more items in that time: the {limit} oldest were summarized (give {higher}a shorter time_range)"
        )
    if done.not_configured:
        notes.append(
            f"the texts were sent to {done.method.provider} at its default address, because the call requested a "
            "language model and none is configured"
        )
    return notes
