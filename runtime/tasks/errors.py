"""Errors of tasks."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.errors import UsageError

OK = "ok"
"""The result of a task that can be changed."""


class BulkRefused(UsageError):  # noqa: N818
    """Some of several tasks cannot be changed, so none was. `results`: `OK` or the reason, by the id of each task."""

    def __init__(self, results: Mapping[str, str]) -> None:
        failed = [(task_id, reason) for task_id, reason in results.items() if reason != OK]
        first = ", ".join(f"{task_id}: {reason}" for task_id, reason in failed[:3])
        more = f", and {len(failed) - 3} more" if len(failed) > 3 else ""
        super().__init__(
            f"{len(failed)} of {len(results)} tasks cannot be changed, so none was ({first}{more})",
            hint="call it again without them; `results` has the reason for each",
        )
        self.results = results
