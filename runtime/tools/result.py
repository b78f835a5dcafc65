"""Base of the results of tools."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Result(BaseModel):
    """A result of a tool, or a part of one."""

    model_config = ConfigDict(frozen=True)


NextCursor = Annotated[str | None, Field(description="The cursor of the next page; null on the last page.")]
