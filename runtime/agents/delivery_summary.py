"""The summary of a delivery: a title and the few most important facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runtime.webhooks.providers import find_provider
from runtime.webhooks.providers.summaries import summary_paths
from runtime.webhooks.request.json_path import compile_path

_LENGTH = 200
_FALLBACK = 6


class Summary(NamedTuple):
    """`title`: one line from provider and event. `facts`: (label, value) pairs; each text is one line of at most 200
    printable characters."""

    title: str
    facts: list[tuple[str, str]]


def describe(provider: str, event: str | None, payload: object) -> Summary:
    """Summarize a payload by the facts that `summaries.json` names for the provider, or by its first few top-level
    scalars when there are none.

    `payload`: decoded, None when it could not be: `row.payload(body, content_type).value_or_none()`. Raises ValueError
    for an unknown provider.
    """
    row = find_provider(provider)
    facts = [(label, text) for label, paths in summary_paths(provider).items() if (text := _first(paths, payload))]
    return Summary(one_line(f"{row.title} {event or 'delivery'}"), facts or _top(payload))


def one_line(text: str) -> str:
    """Return `text` in one line: white space and control characters become single spaces, a long end an ellipsis."""
    head = text[: 4 * _LENGTH]
    line = " ".join("".join(each if each.isprintable() else " " for each in head).split())
    return line if len(line) <= _LENGTH and len(head) == len(text) else line[: _LENGTH - 1].rstrip() + "…"


def _first(paths: Sequence[str], payload: object) -> str | None:
    for path in paths:
        for node in compile_path(path)(payload):
            if text := _scalar(node):
                return text
    return None


def _top(payload: object) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, value in payload.items() if isinstance(payload, dict) else ():
        if (text := _scalar(value)) and (label := one_line(key)):
            found.append((label, text))
        if len(found) == _FALLBACK:
            break
    return found


def _scalar(node: object) -> str | None:
    """Return a scalar in one line; None for null, empty text, objects and arrays."""
    if isinstance(node, bool):
        return "true" if node else "false"
    if isinstance(node, str | int | float):
        return one_line(str(node)) or None
    return None
