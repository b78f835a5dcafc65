"""Calls of the tools on tasks for one user, and how commands show tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from types import TracebackType
from typing import Any, Final, Self, get_args
from zoneinfo import ZoneInfo

from runtime.cli.client import RootClient
from runtime.cli.terminal.progress import no_progress
from runtime.daemon.process.root import Root
from runtime.errors import UsageError
from runtime.tasks.task import Priority, Status

STATUSES: Final[tuple[str, ...]] = get_args(Status)
PRIORITIES: Final[tuple[str, ...]] = get_args(Priority)[::-1]
"""The most important first."""
SHORT: Final = 6
"""Digits of an id that are shown at least."""


class TaskClient:
    """The tasks of one user of a root; a context manager. `user`: the name; None for the owner."""

    def __init__(self, root: Root, user: str | None) -> None:
        self.root = RootClient(root)
        self._user = user

    def __enter__(self) -> Self:
        self.root.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.root.__exit__(kind, error, traceback)

    def call(self, name: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of a tool or operation for the user. Raises SymbiontError."""
        # A search may load a model first.
        return self.root.call(name, parameters, user=self._user, progress=no_progress)

    def ids(self, names: Sequence[str], subject: str | None = None) -> list[str]:
        """Return the ids of the tasks of these names, or else of a subject. Raises SymbiontError."""
        if bool(names) == (subject is not None):
            raise UsageError("give either tasks or --subject", hint="`symbi task list` shows both")
        if subject is not None:
            return self._ids_of(subject)
        return list(self.call("task_find", {"names": list(names)})["task_ids"])

    def _ids_of(self, subject: str) -> list[str]:
        """Return the ids of the tasks of a subject. Raises SymbiontError."""
        ids: list[str] = []
        while rows := self.call("task_list", {"subject": subject, "limit": 100, "offset": len(ids)})["tasks"]:
            ids += [row["task_id"] for row in rows]
        return list(dict.fromkeys(ids))

    def zone(self) -> ZoneInfo | None:
        """Return the time zone of the user; None for that of the machine."""
        name = self.call("task_zone")["time_zone"]
        return None if name is None else ZoneInfo(name)


def due_text(row: Mapping[str, Any], zone: ZoneInfo | None) -> str:
    """Return when a task is due, as a person reads it; `-` for one without a due date."""
    due = row["due_date"]
    if due is None:
        return "-"
    text = moment(due, zone)
    return f"overdue {text}" if row["overdue"] else text


def moment(due: str, zone: ZoneInfo | None) -> str:
    """Return a due date, as a person reads it."""
    if "T" not in due:
        return f"{date.fromisoformat(due):%a %Y-%m-%d}"
    return f"{datetime.fromisoformat(due).astimezone(zone):%a %Y-%m-%d %H:%M}"


def task_colour(cell: str) -> str:
    """Return the colour of a cell of a table of tasks."""
    if cell.startswith("overdue ") or cell == "urgent":
        return "red"
    return {"high": "yellow", "in_progress": "cyan", "completed": "green", "cancelled": "bright_black"}.get(cell, "")


def short_ids(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the ends of the ids of these tasks, long enough to tell them apart."""
    ids = [str(row["task_id"]) for row in rows]
    size = next(size for size in (*range(SHORT, 13), 36) if size == 36 or len({i[-size:] for i in ids}) == len(ids))
    return [each[-size:] for each in ids]
