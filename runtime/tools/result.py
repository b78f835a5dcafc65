"""Base of the results of tools."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from runtime.clock import utc


class Result(BaseModel):
    """A result of a tool, or a part of one."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def of(cls, source: object, **others: Any) -> Self:
        """Return the result with the fields of the same names of `source`, but for those in `others`."""
        same = {name: getattr(source, name) for name in cls.model_fields if name not in others}
        return cls.model_validate(same | others)


def _time(value: Any) -> Any:
    return utc(value / 1000) if isinstance(value, int) else value


UnixTime = Annotated[datetime, BeforeValidator(_time)]
"""A time, made from Unix milliseconds."""


NextCursor = Annotated[str | None, Field(description="The cursor of the next page; null on the last page.")]
