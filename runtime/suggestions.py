"""Names that somebody mistook: the error names the nearest of those that there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from runtime.errors import UsageError

_SHOWN = 12
"""Names that an error lists: one line that can still be read."""


def unknown_name(kind: str, name: str, known: Iterable[str], error: type[UsageError] = UsageError) -> UsageError:
    """The `error` for a `name` that is not among the `known` ones, with the nearest of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(near)}?"
        if near
        else f"there are: {', '.join(names[:_SHOWN])}{_rest(len(names))}"
        if names
        else "there are none"
    )
    return error(f"no {kind} is called {name!r}", hint=hint)


def _rest(count: int) -> str:
    return f" and {count - _SHOWN:,} more" if count > _SHOWN else ""
