"""`symbi chat` while it waits: for a model that is away, for another turn of the thread, for another daemon."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.forked import Forked, start
from tests.runtime.daemon.running import Daemon, environment, on_postgres, running, until, write_program

pytestmark = LONG

PROGRAM = """\
memory notes {{ store collection embedding hashing }}
{model}
agent helper {{ memory notes model scripted instruction "You help in the garden." }}
"""


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(says("Hello.")) as started:
        yield started


def asking(daemon: Daemon, output: Path, *arguments: str) -> Forked:
    """Start a question, whose output goes to a file."""
    with output.open("wb") as file:
        given = ["chat", *arguments]
        return start(given, cwd=daemon.root, env=environment(), stdout=file, stderr=file)


def test_a_chat_says_that_the_model_is_away_and_stays(model: ScriptedModel, tmp_path: Path) -> None:
    model.replies = [503]
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program") as daemon:
        output = tmp_path / "output"
        question = asking(daemon, output, "-m", "Hello", "--wait", "600")
        until(lambda: "the model is away" in output.read_text(), what="the notice")
        assert question.poll() is None
        model.replies = [says("Here again.")]
        assert question.wait(60) == 0
        assert output.read_text().endswith("Here again.\n")


def test_an_interrupted_question_cancels_its_run(model: ScriptedModel, tmp_path: Path) -> None:
    asked, going_on = threading.Event(), threading.Event()

    def slow(_body: object) -> str:
        asked.set()
        going_on.wait(60)
        return says("Too late.")

    model.replies = [slow]
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program") as daemon:
        question = asking(daemon, tmp_path / "output", "-m", "Hello")
        assert asked.wait(60)
        question.send_signal(signal.SIGINT)
        assert question.wait(60) == 130
        until(lambda: '"cancelled"' in daemon.symbi("agent", "runs", "--json").stdout, what="the end of the run")
        going_on.set()


def test_questions_are_answered_whichever_daemon_runs_them(model: ScriptedModel, postgres: str, tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        write_program(tmp_path / name, PROGRAM.format(model=model.block))
    given = on_postgres(postgres)
    with (
        running(tmp_path / "one", "program", wait=True, SYMBIONT_WORKERS="1", **given) as one,
        running(tmp_path / "other", "program", wait=True, **given),
        ThreadPoolExecutor(4) as pool,
    ):
        done = list(pool.map(lambda _: one.symbi("chat", "--new", "-m", "Hello", "--json", **given), range(8)))
    assert [each.returncode for each in done] == [0] * 8, done[0].stderr
    assert [json.loads(each.stdout)["messages"] for each in done] == [["Hello."]] * 8
