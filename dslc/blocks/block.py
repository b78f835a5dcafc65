"""Base models of blocks and of groups of settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from dslc.blocks.values.types import HEAD, Name

# pydantic's errors would show the value, which may be a secret.
_CONFIG = ConfigDict(
    frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=False, validate_by_name=True
)


class GroupModel(BaseModel):
    """Group of settings under one key: `search { … }`."""

    model_config = _CONFIG


class NamedGroupModel(GroupModel):
    """Group that may be given several times, each with a name: `block NAME { … }`."""

    name: Annotated[Name, HEAD] = Field(description="The name, unique among these groups.")


class Block(BaseModel):
    """A block: `kind name { … }`. The fields of a subclass are its settings, its docstring is its documentation."""

    model_config = _CONFIG

    name: Annotated[Name, HEAD] = Field(description="The name by which other blocks refer to it.")
