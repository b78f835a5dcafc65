"""`symbi` in this process, with what it does counted while a file exists: calls of our functions, and what reaches the
disk."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final
from weakref import WeakSet

from runtime.cli import main

SWITCH: Final = "CALLS_SWITCH"
"""Environment variable: the file that exists while it is counted."""
ROOT: Final = f"{Path(__file__).parents[2]}/"
_OURS: Final = (f"{ROOT}runtime/", f"{ROOT}dslc/")
_WORK: Final = ("SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH")


class Costs:
    """What this process does while `on`. `calls`: of our functions, by file and name. `counts`: transactions that
    write, statements and rows of SQLite's databases, files that are opened or flushed to disk from Python."""

    def __init__(self) -> None:
        self.on = False
        self.calls = Counter[tuple[str, str]]()
        self.counts = Counter[str]()
        self._databases = WeakSet[sqlite3.Connection]()
        self._changes = 0

    def install(self) -> None:
        """Count in all threads from now on."""
        connect = sqlite3.connect
        vars(sqlite3)["connect"] = lambda *given, **named: connect(*given, **{"factory": self._database, **named})
        for name in ("fsync", "fdatasync"):
            vars(os)[name] = partial(self._flush, getattr(os, name))
        sys.addaudithook(self._opened)
        threading.setprofile(self)
        sys.setprofile(self)

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Count a call; installed with `sys.setprofile`."""
        if self.on and event == "call" and frame.f_code.co_filename.startswith(_OURS):
            self.calls[frame.f_code.co_filename.removeprefix(ROOT), frame.f_code.co_qualname] += 1

    def add(self, name: str, number: int = 1) -> None:
        """Count something."""
        if self.on:
            self.counts[name] += number

    def follow(self, switch: Path) -> None:
        """Count while the file `switch` exists, and write the counts beside it whenever it is gone again."""
        while True:
            time.sleep(0.005)
            if self.on and not switch.exists():
                self.on = False
                counts = {**self.counts, "rows written": self._written() - self._changes}
                written = switch.with_suffix(".part")
                calls = [[*key, count] for key, count in self.calls.items()]
                written.write_text(json.dumps({"calls": calls, "counts": counts}))
                written.rename(switch.with_suffix(".json"))
                self.calls, self.counts = Counter(), Counter()
            elif not self.on and switch.exists():
                self._changes = self._written()
                self.on = True

    def _opened(self, event: str, given: tuple[object, ...]) -> None:
        # Metrics read facts of the process whenever they like.
        if event == "open" and not str(given[0]).startswith(("/proc/", "/sys/")):
            self.add("files opened")

    def _flush(self, flush: Callable[[int], None], descriptor: int) -> None:
        self.add("flushes")
        flush(descriptor)

    def _database(self, *given: Any, **named: Any) -> sqlite3.Connection:
        database = _Database(*given, **named)
        database.set_trace_callback(self._statement)
        database.row_factory = self._row
        self._databases.add(database)
        return database

    def _statement(self, sql: str) -> None:
        words = sql.split(maxsplit=2)
        if words[:2] == ["BEGIN", "IMMEDIATE"]:
            self.add("transactions")
        elif words[:1] and words[0].upper() in _WORK:
            self.add("statements")

    def _row(self, _cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
        self.add("rows read")
        return row

    def _written(self) -> int:
        return sum(each.total_changes for each in self._databases)


class _Database(sqlite3.Connection):
    """A connection that can be referred to weakly."""


if __name__ == "__main__":
    costs = Costs()
    costs.install()
    threading.Thread(target=costs.follow, args=(Path(os.environ.pop(SWITCH)),), daemon=True).start()
    main()
