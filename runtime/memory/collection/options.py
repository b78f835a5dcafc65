"""The options of `store collection`."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

STORE: Final = "collection"
"""The name of the store, and of the collection that exists without a block."""
PROJECT: Final = "default"
"""The project of items without one."""
CHUNK_SIZE = 1200
CHUNK_OVERLAP = 150


class CollectionOptions(BaseModel):
    """Options of chunks: how pushed texts are split."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    chunk_size: int = Field(
        default=CHUNK_SIZE,
        ge=100,
        le=20_000,
        description="Maximum number of characters of a chunk. A chunk is the unit of search; embeddings read no "
        "more than a few hundred words of it.",
    )
    chunk_overlap: int = Field(
        default=CHUNK_OVERLAP,
        ge=0,
        le=10_000,
        description="Maximum number of characters that a chunk repeats from the end of the previous one, in "
        "whole sentences; never more than half of `chunk_size`.",
    )
