"""Errors for unknown names, with the nearest known names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from runtime.errors import UsageError

_SHOWN = 12
"""Maximum number of names in an error, so that it stays one readable line."""


def unknown_name(kind: str, name: str, known: Iterable[str], error: type[UsageError] = UsageError) -> UsageError:
    """Return the `error` for a `name` that is not in `known`, with the nearest names as hint."""
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
