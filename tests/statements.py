"""Compiled SQL statements that all databases of the process share: compiling them takes longer than executing them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine
from sqlalchemy.util import LRUCache

_SHARED: LRUCache[tuple[Any, ...], Any] = LRUCache(5000)


class _Statements:
    """The cache of all engines, whose keys begin with the dialect: those of one class compile the same."""

    def get(self, key: tuple[Any, ...]) -> Any:
        return _SHARED.get((type(key[0]), *key[1:]))

    def __setitem__(self, key: tuple[Any, ...], compiled: object) -> None:
        _SHARED[type(key[0]), *key[1:]] = compiled


_STATEMENTS = _Statements()


def share_statements() -> None:
    """Let every engine use the statements that another one has compiled."""
    cache = property(lambda _engine: _STATEMENTS, lambda _engine, _own: None)
    setattr(Engine, "_compiled_cache", cache)  # noqa: B010 - an attribute of a library
