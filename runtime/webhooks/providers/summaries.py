"""Facts for summaries of deliveries: `summaries.json` has them for each provider, a label with its JSONPaths."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files


@cache
def summary_paths(provider: str) -> Mapping[str, Sequence[str]]:
    """Return the labels for payloads of `provider`, each with the JSONPaths to try: the first that finds a value
    counts. Empty for a sender of any payloads."""
    found = all_summaries().get(provider, {})
    if isinstance(found, str):
        return summary_paths(found)
    return {label: (paths,) if isinstance(paths, str) else tuple(paths) for label, paths in found.items()}


@cache
def all_summaries() -> Mapping[str, Mapping[str, str | list[str]] | str]:
    """Return the content of the file; a text is the name of another provider with the same payloads."""
    found: Mapping[str, Mapping[str, str | list[str]] | str] = json.loads(
        (files(__package__) / "summaries.json").read_bytes()
    )
    return found
