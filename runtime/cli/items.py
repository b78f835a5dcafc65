"""Items of memories and collections, as commands show and delete them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from runtime.cli.client import RootClient
from runtime.cli.terminal.output import beginning, count_text
from runtime.cli.terminal.progress import no_progress
from runtime.cli.terminal.screen import echo, echo_json, one_line
from runtime.cli.tool_command import Fields
from runtime.errors import SymbiontError

_SHOWN = 60
"""Characters of an item's text in a confirmation."""
_KINDS = {"semantic": "fact", "procedural": "procedure", "episodic": "episode"}


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


def problem_text(problem: Mapping[str, Any]) -> str:
    """Return the file and what is wrong with it, naming the file once."""
    file, message = problem["file"], problem["message"]
    return message if file in message else f"{file}: {message}"


def user_name(client: RootClient, user_id: str) -> str:
    """Return the name of the user with this id; for a removed user `id:ID`, which commands accept."""
    if user_id == "owner":
        return user_id
    known = {row["id"]: str(row["user"]) for row in client.call("user_list")["users"]}
    return known.get(user_id, f"id:{user_id}")


def quoted(item: Mapping[str, Any]) -> str:
    """Return the beginning of the item's text, in quotation marks."""
    return f"“{one_line(beginning(item['text'], _SHOWN))}”"


print_item = Fields(
    {
        "id": "memory_id",
        "agent": lambda item: item.get("agent_id"),
        "collection": lambda item: item.get("collection"),
        "memory": lambda item: item.get("memory"),
        "type": lambda item: item["memory_type"] if "collection" in item else kind_of(item),
        "when": "timestamp",
        "user": "user",
        "project": "project_id",
        "tags": lambda item: " ".join(item["tags"]),
        "source": "source_uri",
        "also from": "other_sources",
        "author": lambda item: item["provenance"]["author"],
        "session": lambda item: item["provenance"]["session_id"],
        "task": lambda item: item["provenance"]["task"],
        "confidence": lambda item: item["provenance"]["confidence"],
        "risk tier": lambda item: item["provenance"]["risk_tier"],
        "git commit": lambda item: item["provenance"]["git_commit"],
        "evidence": lambda item: item["provenance"]["sources"],
        "made of": "source_memory_ids",
        "run": lambda item: item["provenance"]["run_id"],
        "said by": lambda item: item["provenance"]["said_by"],
        "subject": "subject",
        "replaces": "replaces",
        "retracts": "retracts",
        "valid until": lambda item: item.get("valid_until"),
        "replaced by": lambda item: item.get("replaced_by"),
        "withdrawn": lambda item: item.get("retracted") or None,
        "location": lambda item: item.get("location"),
    },
    text="text",
)
"""Prints every field of an item, then its text. The answer also has the name of the `user`."""


class DeletionFailed(NamedTuple):
    """An id, and the reason why what it names was not deleted."""

    id: str
    message: str


def delete_each(
    client: RootClient,
    tool: str,
    parameter: str,
    ids: Iterable[str],
    *,
    noun: str,
    as_json: bool,
    user: str | None = None,
    failed: Sequence[DeletionFailed] = (),
    **given: Any,
) -> None:
    """Delete what these ids name by calling `tool` with each as `parameter`, and print the results.

    What cannot be deleted is reported, like those in `failed`; the others are deleted, and the exit code is 1. Raises
    SymbiontError if there is only one.
    """
    ids = tuple(dict.fromkeys(ids))
    done: list[dict[str, Any]] = []
    failed = list(failed)
    for each in ids:
        try:
            done.append(client.call(tool, {parameter: each, **given}, user=user, progress=no_progress))
        except SymbiontError as error:
            if len(ids) == 1 and not failed:
                raise
            failed.append(DeletionFailed(each, error.line()))
    if as_json:
        wrong = [{parameter: refused.id, "message": refused.message} for refused in failed]
        echo_json({"deleted": done, "failed": wrong})
    else:
        for refused in failed:
            echo(f"{refused.id}: {refused.message}", fg="red", err=True)
        echo(f"deleted {count_text(len(done), noun)}")
    if failed:
        sys.exit(1)
