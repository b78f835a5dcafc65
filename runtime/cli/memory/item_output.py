"""Items as commands show them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from runtime.cli.terminal.output import local_time, one_line, printable

_KINDS = {"semantic": "fact", "procedural": "procedure", "episodic": "episode"}
_FIELDS = ("author", "session_id", "task", "confidence", "risk_tier", "git_commit")


def kind_of(item: Mapping[str, Any]) -> str:
    """`fact`, `pattern`, `procedure` or `episode`."""
    return "pattern" if item["memory_type"] == "semantic" and "pattern" in item["tags"] else _KINDS[item["memory_type"]]


def place_of(answer: Mapping[str, Any]) -> str | None:
    """`file:line`, from where the command stands when the file is below that; None when that is not known."""
    if answer["file"] is None:
        return None
    file = os.path.relpath(answer["file"]) if os.path.isabs(answer["file"]) else answer["file"]  # noqa: PTH117
    file = answer["file"] if file.startswith("..") else file
    return file if answer["line"] is None else f"{file}:{answer['line']}"


def problem_text(problem: Mapping[str, Any]) -> str:
    """What is wrong with a file, which is named once."""
    file, message = problem["file"], problem["message"]
    return message if file in message else f"{file}: {message}"


def print_item(item: Mapping[str, Any], place: str | None, user: str) -> None:
    """Everything that is known of an item, then its text. `user`: the name of whose it is."""
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
        *(("made of", source) for source in item["source_memory_ids"]),
        ("stands in", place),
    ]
    for name, value in rows:
        if value not in {None, ""}:
            click.echo(f"{click.style(f'{name:<11}', bold=True)} {one_line(str(value))}")
    click.echo()
    click.echo(printable(item["text"]))
