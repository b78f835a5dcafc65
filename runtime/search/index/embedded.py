"""The index in the daemon itself: one SQLite file, and what is searched in memory."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from runtime.search.index.index import Index


class EmbeddedOptions(BaseModel):
    """The embedded index has no options."""

    model_config = ConfigDict(frozen=True, extra="forbid")


async def open_embedded(_path: Path | None, _options: BaseModel) -> Index:
    """The row's opening."""
    raise NotImplementedError
