"""The block `memory NAME`: what agents remember and where."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Self

from pydantic import Field, model_validator

from dslc.blocks.block import Block, GroupModel
from dslc.blocks.values.types import As, Duration, Form
from dslc.blocks.variant import Variant


class MemorySearch(GroupModel):
    """How results by meaning and results by keyword are weighed against each other. The weights add up to 1.

    Every memory is searched both ways at once. Where nothing makes vectors, or cannot just now, keywords alone decide.
    """

    vector_weight: float = Field(default=0.7, ge=0, le=1, description="Weight of similarity by meaning.")
    keyword_weight: float = Field(
        default=0.3, ge=0, le=1, description="Weight of keyword matches: the question's words, by BM25."
    )

    @model_validator(mode="after")
    def _finds_something(self) -> Self:
        if self.vector_weight == self.keyword_weight == 0:
            raise ValueError("`vector_weight` and `keyword_weight` are both 0, so that nothing can be found")
        return self


class Summarize(GroupModel):
    """How what happened in some time is made into one item, by the tool `summarize`, and by which language model.

    Without a model, or when it is away, the summary is made of the items' own sentences.
    """

    model: Annotated[Variant | None, As("variant", family="model")] = Field(
        default=None,
        description="The language model for summaries, with its own options; `none` disables it. By default no "
        "model is used, unless a call requests one: then it is Ollama on this machine. The redacted "
        "items are sent to it.",
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
    """The store of what agents learn, its retention and its search.

    An agent that names no memory uses the only one; where there are several, or none, it uses the one called
    `default`. That one need not be declared: unless a Markdown memory has the folder `data/agents` already, it is one
    there, opened only when an agent needs it. No memory that is files lies inside another.

    New items can be searched at once, and a person's edits of its files are found within seconds. Once a day, between
    three and four o'clock UTC, long-term entries of daily logs are copied to the memory file, and logs older than
    `retention` are deleted.

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
            "a folder for memories: `~` is no home here, and `.symbi` is the root's own state",
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
        description="How long daily logs are stored before they are compacted and deleted. In a collection it "
        "applies to episodic items, and only if its block sets it. Records never expire.",
    )
    search: MemorySearch = Field(
        default=MemorySearch(),
        description="How search results are ranked. The weights add up to 1; with the embedding `local`, 0.6 and 0.4 "
        "are recommended.",
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
