"""Catalog of the language: names, options and documentation of block kinds, providers, stores, tools …, as data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from dslc.frozen import FrozenDict
from dslc.setting import Setting


class CatalogEntry(NamedTuple):
    """Row of a family: a name, for example after `provider`, and its options.

    `signed`: the parts of a request that a provider's scheme signs. `signed_by`: the option, a template over these
    parts, that decides instead; an option without a default is not a template and signs the body if it is given.
    `event`: location of a provider's event type, `header:NAME` or a JSONPath; `event_by`: the option that names a
    header instead. `extra`: the optional dependency that the row needs. `keyless`: webhooks with this provider have no
    secret, because keys are fetched; `keyless_by`: the option that has this effect. `files`: a store's memories are
    files under their path. `expires`: a store deletes items after the retention time. `destructive`: a tool that no
    pattern selects. `shared`: a tool on what all subjects of keyed threads share.
    """

    name: str
    title: str = ""
    doc: str = ""
    doc_url: str | None = None
    extra: str | None = None
    signed: tuple[str, ...] | None = None
    signed_by: str | None = None
    event: tuple[str, ...] | None = None
    event_by: str | None = None
    keyless: bool = False
    keyless_by: str | None = None
    files: bool = True
    expires: bool = True
    destructive: bool = False
    shared: bool = False
    options: tuple[Setting, ...] = ()

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> CatalogEntry:
        """Convert a row of the catalog file. Raises TypeError for unknown fields."""
        signed = given.get("signed")
        options = tuple(map(Setting.from_json, given.get("options", ())))
        event = given.get("event")
        lists = {"signed": signed and tuple(signed), "event": event and tuple(event)}
        return cls(**{**given, **lists, "options": options})


class Catalog:
    """Families of rows, and the settings of every kind of block.

    Raises ValueError if a family has two rows with the same name.
    """

    def __init__(
        self, families: Mapping[str, tuple[CatalogEntry, ...]], kinds: Mapping[str, tuple[Setting, ...]]
    ) -> None:
        self.families: Mapping[str, tuple[CatalogEntry, ...]] = FrozenDict(families)
        self.kinds: Mapping[str, tuple[Setting, ...]] = FrozenDict(kinds)
        for family, rows in self.families.items():
            names = [row.name for row in rows]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{family} has two rows named {', '.join(twice)}")

    def rows(self, family: str) -> Mapping[str, CatalogEntry]:
        """Return the rows of a family by name, in the catalog's order; empty for an unknown family."""
        return {row.name: row for row in self.families.get(family, ())}

    @staticmethod
    @cache
    def installed() -> Catalog:
        """Return the catalog of this installation."""
        import json
        from pathlib import Path

        given = json.loads((Path(__file__).parent / "catalog.json").read_bytes())
        return Catalog(
            {family: tuple(map(CatalogEntry.from_json, rows)) for family, rows in given["families"].items()},
            {kind: tuple(map(Setting.from_json, settings)) for kind, settings in given["kinds"].items()},
        )
