"""The block `memory NAME`: a store for what agents remember."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Self

from pydantic import Field, model_validator

from dslc.blocks.block import Block, GroupModel
from dslc.blocks.values.types import As, Duration, Form
from dslc.blocks.variant import Variant


class MemorySearch(GroupModel):
    """Weights of results by meaning and results by keyword. The weights add up to 1.

    Every search uses both. If there is no embedding, or it is unavailable, only keywords count.
    """

    vector_weight: float = Field(default=0.7, ge=0, le=1, description="Weight of similarity by meaning.")
    keyword_weight: float = Field(
        default=0.3, ge=0, le=1, description="Weight of keyword matches: the question's words, by BM25."
    )

    @model_validator(mode="after")
    def _finds_something(self) -> Self:
        if self.vector_weight == self.keyword_weight == 0:
            raise ValueError("`vector_weight` and `keyword_weight` are both 0, so nothing can be found")
        return self


class Summarize(GroupModel):
    """Settings of the tool `summarize`, which makes one item of the items of a period.

    Without a model, or while it is unavailable, a summary consists of sentences of the items.
    """

    model: Annotated[Variant | None, As("variant", family="model", block="model")] = Field(
        default=None,
        description="The language model for summaries: a service with its own options, or the name of a `model` "
        "block; `none` disables it. By default no model is used, unless a call requests one: then it is Ollama on this "
        "machine. The redacted items are sent to it.",
        examples=["ollama"],
    )
    max_words: int | None = Field(
        default=None,
        ge=1,
        le=5000,
        description="Maximum number of words of a summary, unless a call sets another; the default is 250.",
        examples=[250],
    )


class Memory(Block):
    """A store for what agents remember, with its retention and search.

    An agent that names no memory uses the only one; if there are several, or none, it uses the one called `default`.
    If `default` is not declared, it is the Markdown memory in the folder `data/agents`, which need not be declared
    either and is opened when an agent first needs it. The folder of a memory cannot be inside that of another.

    New items can be searched immediately; manual edits of the files are found within seconds. Once a day, between 03:00
    and 04:00 UTC, long-term entries of daily logs are copied to the memory file, and logs older than `retention` are
    deleted.

    ```symbiont
    memory agent-memory {
        store     markdown
        path      "data/agents"
        retention 90d
        search {
            vector_weight  0.7
            keyword_weight 0.3
        }
    }
    ```
    """

    store: Annotated[Variant, As("variant", family="store")] = Field(
        default=Variant(name="markdown"), description="The kind of store, with its own options."
    )
    path: Annotated[
        str,
        Form(
            r"(?s:(?!~)(?!(?:.*/)?\.symbi(?:/|\Z)).*)",
            "a folder for memories: `~` is not expanded, and `.symbi` is reserved for the daemon's state",
        ),
    ] = Field(
        default="data/agents",
        min_length=1,
        max_length=1024,
        description="The folder, relative to the root unless absolute, with one folder per agent. A collection "
        "is stored in the database and has none.",
    )
    retention: Duration = Field(
        default=timedelta(days=90),
        description="How long daily logs are stored. Their long-term entries are copied to the memory file every "
        "day. In a collection it applies to episodic items, and only if its block sets it. Records never expire.",
    )
    search: MemorySearch = Field(
        default=MemorySearch(), description="How search results are ranked. The weights add up to 1."
    )
    embedding: Annotated[Variant | None, As("variant", family="embedding")] = Field(
        default=None,
        description="The embedding, with its own options. The default is `local` if it is installed; otherwise "
        "searches use only keywords. When it is changed, everything is embedded again in the "
        "background.",
    )
    index: Annotated[Variant | None, As("variant", family="index")] = Field(
        default=None,
        description="The search index, with its own options; the default is `embedded`. It contains nothing "
        "that is not in the store, and is rebuilt when it is missing.",
    )
    summarize: Summarize = Field(default=Summarize(), description="How episodic items are summarized.")
