"""`symbi up` shows one line for each run of an agent with a model, when the run has ended."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import running, until, write_program

PROGRAM = """\
memory notes {{ path "notes" embedding hashing }}
{model}
webhook pushes {{ path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" agent helper }}
webhook others {{ path "/hooks/others" provider github secret "secret://env/GITHUB_SECRET" agent recorder }}
agent helper {{ memory notes model scripted tools [memory_append] }}
agent recorder {{ memory notes }}
"""
LEARNED = says(memory_append={"label": "human", "content": "Name: okapi"})


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(LEARNED, says("Hello okapi.")) as started:
        yield started


def test_a_run_has_one_line_with_what_it_used_and_no_text(model: ScriptedModel, tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program") as daemon:
        answer = json.loads(daemon.symbi("chat", "helper", "-m", "I am okapi.", "--json").stdout)
        until(lambda: len(daemon.entries("run_ended")) == 1, what="the line of the message")
        assert daemon.github(b'{"n":1}', "1", path="/hooks/others").status == 202
        delivery = daemon.github(b'{"n":1}', "2").json()["delivery_id"]
        until(lambda: len(daemon.entries("run_ended")) == 2, what="the line of the delivery")
        until(lambda: {row["run_state"] for row in daemon.attempts()} == {"done"}, what="the recorder")
        model.replies = [401]
        assert daemon.symbi("chat", "helper", "-m", "Hello").returncode == 1
        until(lambda: len(daemon.entries("run_ended")) == 3, what="the line of the failure")
    message, second, failed = daemon.entries("run_ended")
    usage = answer["usage"]
    assert {name: message[name] for name in ("level", "agent", "trigger", "ended", "outcome", "attempt")} == {
        "level": "info",
        "agent": "helper",
        "trigger": "message",
        "ended": "answered",
        "outcome": "done",
        "attempt": 1,
    }
    assert (message["run_id"], message["thread_id"]) == (answer["run"], answer["thread"])
    assert (message["calls"], message["tokens_in"], message["tokens_out"]) == (
        2,
        usage["tokens_in"],
        usage["tokens_out"],
    )
    assert message["seconds"] > 0
    assert (second["trigger"], second["delivery_id"], second["calls"]) == ("delivery", delivery, 1)
    assert (failed["ended"], failed["outcome"], failed["tokens_out"]) == ("failed", "dead", 0)
    assert "okapi" not in daemon.log.read_text()


def test_a_cancelled_run_has_its_line(model: ScriptedModel, tmp_path: Path) -> None:
    going_on = threading.Event()

    def slow(_body: Any) -> str:
        going_on.wait(60)
        return says("Too late.")

    model.replies = [slow]
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program") as daemon:
        asking = threading.Thread(target=lambda: daemon.symbi("chat", "helper", "-m", "Hello"))
        asking.start()
        until(lambda: model.bodies, what="the call of the model")
        (run,) = json.loads(daemon.symbi("agent", "runs", "--json").stdout)["runs"]
        assert daemon.symbi("agent", "cancel", run["run"]).returncode == 0
        until(lambda: daemon.entries("run_ended"), what="the end of the run")
        going_on.set()
        asking.join(60)
    (line,) = daemon.entries("run_ended")
    assert (line["run_id"], line["ended"]) == (run["run"], "cancelled")


@LONG
def test_a_run_that_waits_for_its_model_has_no_line_until_it_ends(model: ScriptedModel, tmp_path: Path) -> None:
    model.replies = [503]
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program") as daemon:
        assert daemon.symbi("chat", "helper", "-m", "Hello", "--wait", "1").returncode == 1
        assert daemon.entries("run_ended") == []
        model.replies = [says("Hello.")]
        until(lambda: daemon.entries("run_ended"), what="the end of the run")
    (line,) = daemon.entries("run_ended")
    assert (line["ended"], line["attempt"] > 1) == ("answered", True)


def test_the_line_is_readable_on_a_terminal(model: ScriptedModel, tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program", "--log-format", "text") as daemon:
        assert daemon.symbi("chat", "helper", "-m", "I am okapi.").returncode == 0
        daemon.until_logged("run_ended")
    (line,) = [line for line in daemon.log.read_text().splitlines() if "run_ended" in line]
    for part in (
        "agent=helper",
        "ended=answered",
        "trigger=message",
        "calls=2",
        "tokens_in=",
        "tokens_out=",
        "seconds=",
    ):
        assert part in line
