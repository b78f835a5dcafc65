"""Urgent tasks are said once a day, also by an agent whose daemon is killed while its model answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import Daemon, running, symbi, until, write_program

pytestmark = LONG

PROGRAM = """\
memory notes {{ path "notes" embedding hashing }}
{model}
agent helper {{ memory notes model scripted instruction "You help." main true }}
agent other {{ memory notes model scripted instruction "You help too." }}
"""


def urgent(daemon: Daemon) -> dict[str, Any]:
    """Return the urgent tasks of `symbi agent context --json` by title."""
    done = daemon.symbi("agent", "context", "--json")
    assert done.returncode == 0, done.stderr
    return {each["title"]: each for each in json.loads(done.stdout)["urgent_tasks"]}


def test_a_task_is_said_once_although_the_daemon_is_killed_while_the_model_answers(tmp_path: Path) -> None:
    asked, killed = threading.Event(), threading.Event()

    def held(_: Mapping[str, Any]) -> str:
        asked.set()
        killed.wait(60)
        return says("Hello.")

    with ScriptedModel(held, says("Hello.")) as model:
        write_program(tmp_path, PROGRAM.format(model=model.block))
        with running(tmp_path, "program") as daemon:
            for title in ("Call Ada", "Pay rent"):
                assert daemon.symbi("task", "add", title, "--priority", "urgent").returncode == 0
            assert [each["said_at"] for each in urgent(daemon).values()] == [None, None]
            threading.Thread(target=symbi, args=("chat", "-m", "Hello?"), kwargs={"root": tmp_path}).start()
            assert asked.wait(60)
            assert [each["said_at"] for each in urgent(daemon).values()] == [None, None]
            done = daemon.symbi("task", "list", "--json")
            paid = next(row for row in json.loads(done.stdout)["tasks"] if row["title"] == "Pay rent")
            assert daemon.symbi("task", "done", paid["task_id"]).returncode == 0
            daemon.kill()
        killed.set()
        with running(tmp_path, "program") as daemon:
            assert until(lambda: urgent(daemon)["Call Ada"]["said_at"])
            assert daemon.symbi("chat", "-m", "And now?").returncode == 0
            assert urgent(daemon)["Call Ada"]["in_context"] is False
            assert daemon.symbi("task", "add", "New one", "--due", "yesterday").returncode == 0
            assert daemon.symbi("chat", "other", "-m", "You?").returncode == 0
            assert urgent(daemon)["New one"] | {"task_id": ""} == {
                "task_id": "",
                "title": "New one",
                "priority": "normal",
                "due_date": urgent(daemon)["New one"]["due_date"],
                "overdue": True,
                "subject": None,
                "said_at": None,
                "in_context": True,
            }
        texts = [model.texts(number) for number in range(len(model.bodies))]
    lines = [[line for line in text.splitlines() if line.startswith("- ") and "(id " in line] for text in texts]
    assert len(lines[0]) == 2
    # The step that is repeated has the same context, although a task is done meanwhile.
    assert lines[1] == lines[0]
    assert lines[2:] == [[], []]
