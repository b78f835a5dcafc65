"""The language model that a setting names: a block, or a row with its options."""

from __future__ import annotations

from dslc.blocks.model import LanguageModel
from dslc.blocks.variant import Variant
from dslc.program import Program


def language_model(program: Program, variant: Variant) -> LanguageModel:
    """Return the block of that name, else a block of the row with the defaults."""
    declared = program.models.get(variant.name)
    return LanguageModel(name=variant.name, service=variant) if declared is None else declared
