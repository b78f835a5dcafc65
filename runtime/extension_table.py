"""Tables of rows: providers, stores, secret backends and everything else that one file and one row extend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import BaseModel


class ExtensionRow(Protocol):
    """Any object with a name."""

    @property
    def name(self) -> str: ...


R = TypeVar("R", bound=ExtensionRow)


@dataclass(frozen=True)
class LazyRow:
    """A row whose code is imported on first use, so that a table costs nothing and an extra may be missing.

    `options_path` and `opener_path` are `module:name`: the pydantic model of the options that a program may give after
    the row's name, and the function that opens it. `doc_url`: the page that describes it. `extra`: the optional
    dependency that it needs.
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
        """The pydantic model of the row's options."""
        return cast("type[BaseModel]", _load(self.options_path))

    @property
    def opener(self) -> Any:
        """The function that opens it. Its parameters are defined by the table."""
        return _load(self.opener_path)


def table_of(kind: str, rows: Iterable[R]) -> Mapping[str, R]:
    """Return a read-only table of `rows` by name. Raises ValueError with `kind` and the name if a name occurs twice."""
    found: dict[str, R] = {}
    for row in rows:
        if row.name in found:
            raise ValueError(f"{kind} {row.name} is in the table twice")
        found[row.name] = row
    return MappingProxyType(found)


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
