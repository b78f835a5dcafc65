"""`symbi` that kills itself at one of its commits: just before it, or just after it.

`KILL_AT` is the number of the point, counted from 1; each commit has two, except claims that found no turn, which are
made all the time. `KILL_ARMED`: a file without which no point is counted.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from runtime.cli import main
from runtime.database import group_commit
from runtime.database.connection import Database
from runtime.database.group_commit import GroupCommit
from runtime.threads.turns.shares import SHARES
from tests.runtime.daemon import sharing

_passed = 0


def _pass() -> None:
    global _passed  # noqa: PLW0603 - the process counts
    armed = os.environ.get("KILL_ARMED")
    if armed is not None and not os.path.exists(armed):  # noqa: PTH110
        return
    _passed += 1
    if _passed == int(os.environ["KILL_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)


def at_commit() -> None:
    """Run `symbi`, and kill it at the point `KILL_AT` of its group commits."""
    _count_group_commits()
    main()


def at_any_commit() -> None:
    """Run `symbi` with short leases, and kill it at the point `KILL_AT` of its group commits and other transactions."""
    _count_group_commits()
    _count_transactions()
    sharing.shorten()
    main()


def _count_group_commits() -> None:
    store: Callable[..., Any] = vars(group_commit)["_store"]
    finish = GroupCommit.finish

    def before(connection: Any, group: Sequence[Any]) -> Any:
        answers = store(connection, group)
        if not _is_idle(group, answers):
            _pass()
        return answers

    def after(self: GroupCommit, transaction: Any, answers: Sequence[Any]) -> None:
        if not _is_idle(transaction.group, answers):
            _pass()
        finish(self, transaction, answers)

    for where, name, value in ((group_commit, "_store", before), (GroupCommit, "finish", after)):
        setattr(where, name, value)


def _is_idle(group: Sequence[Any], answers: Sequence[Any]) -> bool:
    """True if a group only claims turns, and there are none."""
    return all(
        waiting.stage is SHARES and isinstance(answer, list) and not any(turns for _, turns in answer)
        for waiting, answer in zip(group, answers, strict=True)
    )


def _count_transactions() -> None:
    transact = Database.transact

    async def counted(self: Database, function: Callable[[Any], Any]) -> Any:
        def before(connection: Any) -> Any:
            answer = function(connection)
            _pass()
            return answer

        answer = await transact(self, before)
        _pass()
        return answer

    setattr(Database, "transact", counted)  # noqa: B010 - it is a method
