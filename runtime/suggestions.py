"""Errors for unknown names, with the nearest known names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from runtime.errors import UsageError

_MOST_NAMES = 12
"""Maximum number of names in an error, so that it stays one readable line."""
_NEAR = 3
"""Maximum number of names that are near."""
_MOST_COMPARED = 200_000
"""Maximum pairs of characters that are compared, which takes some 25 ms. Users can have many columns with long names,
and the daemon does nothing else meanwhile."""


def unknown_name(kind: str, name: str, known: Iterable[str], error: type[UsageError] = UsageError) -> UsageError:
    """Return the `error` for a `name` that is not in `known`, with the nearest names as hint."""
    names = sorted(known)
    few = len(name) * sum(map(len, names)) <= _MOST_COMPARED
    near = difflib.get_close_matches(name, names, n=_NEAR, cutoff=0.5) if few else []
    hint = (
        did_you_mean(near)
        if near
        else f"there are: {', '.join(names[:_MOST_NAMES])}{_rest(len(names))}"
        if names
        else "there are none"
    )
    return error(f"no {kind} is called {name!r}", hint=hint)


def near_ids(wanted: str, known: Sequence[str]) -> list[str]:
    """Return up to three of the ids in `known`: the first that begin with `wanted`, else those that differ from it by a
    few characters. Other ids are made by chance, and similar without a meaning."""
    wanted = wanted.strip().lower()
    begun = [each for each in known if wanted and each.startswith(wanted)]
    return begun[:_NEAR] or difflib.get_close_matches(wanted, known, n=_NEAR, cutoff=0.85)


def did_you_mean(near: Sequence[str]) -> str:
    """Return the hint that names these names."""
    return f"did you mean {' or '.join(near)}?"


def _rest(count: int) -> str:
    return f" and {count - _MOST_NAMES:,} more" if count > _MOST_NAMES else ""
