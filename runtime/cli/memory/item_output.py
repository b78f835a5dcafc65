"""Output of items."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from runtime.cli.terminal.output import local_time
from runtime.cli.terminal.screen import echo, echo_text, style

_KINDS = {"semantic": "fact", "procedural": "procedure", "episodic": "episode"}
_FIELDS = ("author", "session_id", "task", "confidence", "risk_tier", "git_commit")


def kind_of(item: Mapping[str, Any]) -> str:
    """Return `fact`, `pattern`, `procedure` or `episode`."""
    return "pattern" if item["memory_type"] == "semantic" and "pattern" in item["tags"] else _KINDS[item["memory_type"]]


def place_of(answer: Mapping[str, Any]) -> str | None:
    """Return `file:line`, relative to the current folder if the file is below it; None if unknown."""
    if answer["file"] is None:
        return None
    file = os.path.relpath(answer["file"]) if os.path.isabs(answer["file"]) else answer["file"]  # noqa: PTH117
    file = answer["file"] if file.startswith("..") else file
    return file if answer["line"] is None else f"{file}:{answer['line']}"


def listed_kind(item: Mapping[str, Any]) -> str:
    """Return the type of a listed item, and whether it was replaced or withdrawn, or withdraws another."""
    if item["retracts"] is not None:
        return "retraction"
    state = "withdrawn" if item["retracted"] else "replaced" if item["replaced_by"] is not None else None
    return kind_of(item) if state is None else f"{kind_of(item)}, {state}"


def problem_text(problem: Mapping[str, Any]) -> str:
    """Return the file and what is wrong with it, naming the file once."""
    file, message = problem["file"], problem["message"]
    return message if file in message else f"{file}: {message}"


def print_item(item: Mapping[str, Any], place: str | None, user: str) -> None:
    """Print every field of an item, then its text. `user`: the name of its user."""
    said = item["provenance"]
    rows = [
        ("id", item["memory_id"]),
        ("agent", item["agent_id"]),
        ("memory", item["memory"]),
        ("type", kind_of(item)),
        ("when", local_time(item["timestamp"])),
        ("user", user),
        ("project", item["project_id"]),
        ("tags", " ".join(item["tags"])),
        ("source", item["source_uri"]),
        *(("also from", source) for source in item["other_sources"]),
        *((name.replace("_", " "), said[name]) for name in _FIELDS),
        *(("evidence", source) for source in said["sources"]),
        *(("summary of", source) for source in item["source_memory_ids"]),
        ("run", said["run_id"]),
        ("said by", said["said_by"]),
        ("subject", item["subject"]),
        ("replaces", item["replaces"]),
        ("retracts", item["retracts"]),
        ("valid until", item["valid_until"] and local_time(item["valid_until"])),
        ("replaced by", item["replaced_by"]),
        ("withdrawn", "yes" if item["retracted"] else None),
        ("location", place),
    ]
    for name, value in rows:
        if value not in {None, ""}:
            echo(style(f"{name:<11}", bold=True), f" {value}")
    echo()
    echo_text(item["text"])
