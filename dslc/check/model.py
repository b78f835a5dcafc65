"""Builds the models that the runtime uses from checked blocks."""

from __future__ import annotations

from pydantic import ValidationError

from dslc.blocks import TABLE
from dslc.value_reading.check_state import CheckedBlock, ModelResult


def model_of(block: CheckedBlock) -> ModelResult:
    """Return the model of a block, or none if a check reported an error in it. Built once and stored."""
    if block.model_result is None:
        block.model_result = _build(block)
    return block.model_result


def _build(block: CheckedBlock) -> ModelResult:
    if not block.given.good:
        return ModelResult(None)
    try:
        return ModelResult(TABLE[block.kind].model_validate({"name": block.name, **block.given.values}))
    except ValidationError as error:
        # The checks cover all bounds of the fields; a validator of the model may require more.
        problems = []
        for problem in error.errors(include_input=False, include_url=False, include_context=False):
            entry = block.given.entry(str(problem["loc"][0])) if problem["loc"] else None
            problems.append((problem["msg"], entry or block.node))
        return ModelResult(None, tuple(problems))
