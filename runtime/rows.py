"""Tables of rows: providers, stores, secret backends and whatever else can be extended by one file and one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Protocol, TypeVar


class Row(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str: ...


R = TypeVar("R", bound=Row)


def by_name(kind: str, rows: Iterable[R]) -> Mapping[str, R]:
    """A read-only table of `rows` by name. Raises ValueError naming the `kind` and the row whose name was taken."""
    found: dict[str, R] = {}
    for row in rows:
        if row.name in found:
            raise ValueError(f"{kind} {row.name} stands in the table twice")
        found[row.name] = row
    return MappingProxyType(found)
