"""Tables of rows: providers, stores, secret backends and whatever else can be extended by one file and one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, cast

from pydantic import BaseModel


class ExtensionRow(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str: ...


R = TypeVar("R", bound=ExtensionRow)


@dataclass(frozen=True)
class LazyRow:
    """A row whose code is loaded when it is first needed, so that a table costs nothing and an extra may be absent.

    `options_path` and `opener_path` are `module:name`: the pydantic model of what the program may say behind the row's
    name, and what opens it. `doc_url` is where it is described, `extra` the optional dependency that it needs.
    """

    name: str
    title: str
    doc: str
    options_path: str
    opener_path: str
    doc_url: str | None = None
    extra: str | None = None

    @property
    def options(self) -> type[BaseModel]:
        """The model of the row's options."""
        return cast("type[BaseModel]", _load(self.options_path))

    @property
    def opener(self) -> Any:
        """What opens it; the table says what that takes."""
        return _load(self.opener_path)


def table_of(kind: str, rows: Iterable[R]) -> Mapping[str, R]:
    """A read-only table of `rows` by name. Raises ValueError naming the `kind` and the row whose name was taken."""
    found: dict[str, R] = {}
    for row in rows:
        if row.name in found:
            raise ValueError(f"{kind} {row.name} stands in the table twice")
        found[row.name] = row
    return MappingProxyType(found)


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
