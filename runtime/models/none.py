"""`model none`: no model."""

from __future__ import annotations

from collections.abc import Mapping

from dslc.blocks.block import GroupModel


class NoneOptions(GroupModel):
    """No options."""


async def open_none(options: Mapping[str, object]) -> None:
    """Open nothing."""
    NoneOptions.model_validate(options)
