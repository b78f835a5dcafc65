"""`model none`: no model."""

from __future__ import annotations

from collections.abc import Mapping

from dslc.blocks.block import GroupModel


class NoneOptions(GroupModel):
    """There is nothing to set."""


async def open_none(options: Mapping[str, object]) -> None:
    """Open nothing."""
    NoneOptions.model_validate(options)
