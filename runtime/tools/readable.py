"""What the readables answer."""

from __future__ import annotations

from typing import get_args

from pydantic import BaseModel, RootModel

from runtime.errors import Retry
from runtime.memory import MemoryType
from runtime.tools.context import Context


class MemoryTypes(RootModel[list[str]]):
    """The types that an item may have."""


class Names(RootModel[list[str]]):
    """Names, in their order."""


async def memory_types(_context: Context) -> MemoryTypes:
    """The types that an item may have: what happened, what is so, and how something is done."""
    return MemoryTypes(sorted(get_args(MemoryType)))


async def projects(context: Context) -> Names:
    """The projects that something in the collections belongs to."""
    raise Retry("this cannot be read yet")


async def tags(context: Context, *, project_id: str) -> Names:
    """The tags that are used in a project."""
    raise Retry("this cannot be read yet")


async def health(context: Context) -> BaseModel:
    """Whether the embedding and the index of each collection answer, and what they are."""
    raise Retry("this cannot be read yet")


async def settings(context: Context) -> BaseModel:
    """How each collection cuts, searches and summarises; no secret is among it."""
    raise Retry("this cannot be read yet")
