"""Errors of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from runtime.errors import UsageError

OK: Final = "ok"
"""The result of a task that can be changed."""


class BulkRefused(UsageError):  # noqa: N818
    """Some of several tasks cannot be changed, so none was. `results`: `OK` or the reason, by the id of each task."""

    def __init__(self, results: Mapping[str, str]) -> None:
        failed = [reason for reason in results.values() if reason != OK]
        reasons = "; ".join(dict.fromkeys(failed))
        super().__init__(
            f"{len(failed)} of {len(results)} tasks cannot be changed, so none was: {reasons}",
            hint="call it again without them; `results` has the reason for each",
        )
        self.results = results
