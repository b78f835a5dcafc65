"""A message that the model's service refuses ends its own run only; threads that fail are shown with what helps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import LONG
from tests.runtime.agents.scripted import Given, Refusal, ScriptedModel, says
from tests.runtime.daemon.forked import SYMBI
from tests.runtime.daemon.running import Daemon, on_postgres, running, until, write_program

pytestmark = LONG
PROGRAM = """\
memory notes {{ store collection embedding hashing }}
{model}
webhook issues {{ path "/issues" insecure_allow_unverified true agent helper }}
agent helper {{ memory notes model scripted instruction "{said}" thread keyed {{ json_path "$.issue" }} }}
"""
BAD = "BADWORD"
FILTERED = Refusal(400, "content_filter: against the content policy")


def answer(body: Mapping[str, Any]) -> Given:
    return FILTERED if BAD in json.dumps(body["messages"]) else says("Fine.")


class Issues:
    """A daemon whose agent has a thread for each issue."""

    def __init__(self, daemon: Daemon, **environment: str) -> None:
        self.daemon = daemon
        self._environment = environment
        self._sent = 0

    def shown(self, *arguments: str) -> Any:
        return json.loads(self.daemon.symbi(*arguments, "--json", **self._environment).stdout)

    def tell(self, issue: int, text: str) -> str:
        """Send a delivery, and return how its run ended."""
        self._sent += 1
        body = json.dumps({"issue": issue, "text": text, "number": self._sent}).encode()
        answered = self.daemon.request("POST", "/issues", body, [("Content-Type", "application/json")])
        assert answered.status == 202
        delivery = answered.json()["delivery_id"]

        def state() -> str:
            rows = self.shown("webhook", "logs")["attempts"]
            return next((str(row["run_state"]) for row in rows if row["delivery_id"] == delivery), "")

        return str(until(lambda: (ended := state()) in ("done", "dead") and ended, what="the end of the run"))

    def failing(self) -> list[str]:
        """Return the warnings of `/readyz` about runs."""
        return [each for each in self.daemon.readyz().json()["warnings"] if each.startswith("runs of helper")]

    @property
    def counted(self) -> list[str]:
        lines = self.daemon.request("GET", "/metrics", to="admin").body.decode().splitlines()
        return [line for line in lines if line.startswith("symbiont_red_checks{")]


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_refused_delivery_to_a_keyed_thread_ends_alone(
    tmp_path: Path, request: pytest.FixtureRequest, database: str
) -> None:
    environment = on_postgres(request.getfixturevalue("postgres_url")) if database == "postgres" else {}
    with ScriptedModel(answer) as model:

        def load(said: str) -> None:
            daemon.load(PROGRAM.format(model=model.block, said=said))

        write_program(tmp_path, PROGRAM.format(model=model.block, said="You help."))
        with running(tmp_path, "program", wait=True, command=SYMBI, admin_host="127.0.0.1", **environment) as daemon:
            issues = Issues(daemon, **environment)
            assert [issues.tell(1, f"{BAD} here"), issues.tell(1, "first"), issues.tell(2, "second")] == [
                "dead",
                "done",
                "done",
            ]
        with running(tmp_path, "program", wait=True, command=SYMBI, admin_host="127.0.0.1", **environment) as daemon:
            issues = Issues(daemon, **environment)
            assert issues.tell(1, "after the restart") == "done"
            last = model.texts(-1)
            assert "first" in last
            assert "A message was refused by the model's service" in last
            # A text that each run of a thread reads.
            thread = next(
                each["conversation_id"]
                for each in issues.shown("thread", "list")["conversations"]
                if each["subject"] == "1"
            )
            assert issues.failing() == issues.counted == []
            load(f"You help. {BAD}")
            assert [issues.tell(1, "poisoned") for _ in range(3)] == ["dead"] * 3
            load("You help again.")
            (warning,) = until(issues.failing, what="a warning")
            assert f"all in the thread {thread}: " in warning or f"the last in the thread {thread}: " in warning
            assert "against the content policy" in warning
            assert f"`symbi thread delete {thread}` ends this one" in warning
            assert issues.counted == ['symbiont_red_checks{check="runs of helper"} 1.0']
            assert issues.shown("readiness")["status"] == "RED"
            assert daemon.symbi("thread", "delete", thread, "--yes", **environment).returncode == 0
            assert issues.tell(1, "once more") == "done"
            load("You help once more.")
            until(lambda: not issues.failing() and not issues.counted, what="no warning")
