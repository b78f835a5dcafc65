"""A deeply immutable dictionary that shows only its keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V], Generic[K, V]):
    """A read-only dictionary: equal to a dictionary with the same items, hashable if its values are. Its repr leaves
    out the values, which may be secrets. Every change raises TypeError."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this mapping is read-only")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __repr__(self) -> str:
        return f"<{', '.join(map(str, self))}>"

    def __copy__(self) -> FrozenDict[K, V]:
        return self

    def __deepcopy__(self, _: object) -> FrozenDict[K, V]:
        return self

    def __reduce__(self) -> Any:
        return FrozenDict, (dict(self),)


def freeze(value: Any) -> Any:
    """Return the value with every mapping as a `FrozenDict` and every list as a tuple, at any depth."""
    if isinstance(value, Mapping):
        return FrozenDict({key: freeze(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    return value
