"""What providers, stores, tools … add to the language: names, options and documentation, as data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dslc.blocks import Setting
from dslc.blocks.frozen import FrozenDict


class Row(BaseModel):
    """One row of a family: what may stand after `provider`, and its options.

    `signed`: the parts of a request that a provider's scheme signs, or None when its options decide. `extra`: the
    optional dependency it needs.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    title: str = ""
    doc: str = ""
    doc_url: str | None = None
    extra: str | None = None
    signed: tuple[str, ...] | None = None
    options: tuple[Setting, ...] = ()


def _without_duplicates(families: Mapping[str, tuple[Row, ...]]) -> Mapping[str, tuple[Row, ...]]:
    for family, rows in families.items():
        names = [row.name for row in rows]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{family} has two rows called {', '.join(twice)}")
    return FrozenDict(families)


class Catalog(BaseModel):
    """Families of rows. Raises pydantic's ValidationError, a ValueError, when built from anything else."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: Literal[1] = 1
    families: Annotated[Mapping[str, tuple[Row, ...]], AfterValidator(_without_duplicates)] = Field(
        default=FrozenDict()
    )

    def rows(self, family: str) -> Mapping[str, Row]:
        """The rows of a family by name, in the catalogue's order; none for a family it does not know."""
        return {row.name: row for row in self.families.get(family, ())}

    @staticmethod
    @cache
    def installed() -> Catalog:
        """The catalogue that this installation came with."""
        return Catalog.model_validate_json(resources.files("dslc").joinpath("catalog.json").read_bytes())
