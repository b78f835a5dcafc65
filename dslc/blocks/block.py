"""What every kind of block is made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from dslc.blocks.values.types import HEAD, Name

# Errors of pydantic would show the value, and it may be a secret.
_CONFIG = ConfigDict(
    frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=False, validate_by_name=True
)


class GroupModel(BaseModel):
    """Settings under one key: `search { … }`."""

    model_config = _CONFIG


class Block(BaseModel):
    """A block: `kind name { … }`. A subclass's fields are its settings, its docstring is its documentation."""

    model_config = _CONFIG

    name: Annotated[Name, HEAD] = Field(description="What other blocks call it.")
