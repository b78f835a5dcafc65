"""A row of a family with its options: `provider custom { header "X-Signature" }`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from dslc.blocks.checked_variant import CheckedVariant
from dslc.blocks.values.types import Name
from dslc.frozen import FrozenDict, freeze


def _frozen_options(options: Mapping[str, Any]) -> Any:
    return freeze(_with_choices(options))


def _with_choices(value: Any) -> Any:
    """Convert variants inside options (`store records { remote contextstream { … } }`) to `Variant`."""
    match value:
        case CheckedVariant():
            return Variant.model_validate(value)
        case Mapping():
            return {key: _with_choices(item) for key, item in value.items()}
        case list() | tuple():
            return [_with_choices(item) for item in value]
    return value


class Variant(BaseModel):
    """Name of a row with the options that the program sets. Compares by value; can be created from a plain name.

    `options` holds the options that were written, without defaults, as Python values: str, int, float, bool, timedelta,
    tuples of these, nested mappings for groups, and a `Variant` for a variant. It is read-only. `repr` does not show
    its values: an option may be a secret.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Name
    options: Annotated[Mapping[str, Any], AfterValidator(_frozen_options)] = Field(default=FrozenDict())

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        if isinstance(value, CheckedVariant):
            return value._asdict()
        return {"name": value} if isinstance(value, str) else value

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        yield "name", self.name
        if self.options:
            yield "options", sorted(self.options)
