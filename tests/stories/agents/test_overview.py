"""`symbi agent list|show|runs|cancel` and `symbi thread`: what agents did is shown, exported and deleted."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import Daemon, running, symbi, until, write_program

PROGRAM = """\
memory notes {{ path "notes" embedding hashing }}
{model}
agent helper {{
    memory notes
    model scripted
    instruction "You help in the garden."
    tools [memory_append]
    limits {{ runs_per_hour 500 }}
    lock [model]
    block persona {{ value "I am Hana." }}
}}
agent recorder {{ memory notes }}
"""


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(says("Hello.")) as started:
        yield started


@pytest.fixture
def daemon(model: ScriptedModel, tmp_path: Path) -> Iterator[Daemon]:
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program") as started:
        yield started


def good(daemon: Daemon, *arguments: str) -> str:
    done = daemon.symbi(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shown(daemon: Daemon, *arguments: str) -> Any:
    return json.loads(good(daemon, *arguments, "--json"))


def ask(daemon: Daemon, message: str, *arguments: str) -> Any:
    return shown(daemon, "chat", *arguments, "-m", message)


def test_agents_are_listed_with_their_models_and_last_runs(daemon: Daemon) -> None:
    ask(daemon, "Hello")
    helper, recorder = shown(daemon, "agent", "list")["agents"]
    assert (helper["agent"], helper["model"], helper["last_run"]["state"]) == ("helper", "scripted", "answered")
    assert (recorder["model"], recorder["last_run"]) == (None, None)
    listed = good(daemon, "agent", "list")
    assert "scripted" in listed
    assert "answered" in listed


def test_an_agent_is_shown_with_its_settings(daemon: Daemon) -> None:
    said = good(daemon, "agent", "show", "helper")
    for part in ("scripted", "You help in the garden.", "memory_append"):
        assert part in said
    for line in ("blocks +persona, human", "limits +500 runs per hour", "locked +model"):
        assert re.search(f"^{line}$", said, re.MULTILINE)
    done = daemon.symbi("agent", "show", "helpr")
    assert done.returncode == 2
    assert "did you mean helper?" in done.stderr


def test_what_is_not_there_is_said_in_one_line_with_what_is(daemon: Daemon) -> None:
    for command, said in (
        (("agent", "runs", "helpr"), "did you mean helper?"),
        (("agent", "context", "helpr"), "did you mean helper?"),
        (("agent", "block", "show", "helper", "humen"), "did you mean human?"),
        (("agent", "cancel", "none"), "expected: the id of a run"),
        (("thread", "list", "helpr"), "did you mean helper?"),
        (("thread", "show", "none"), "`symbi thread list` lists them"),
        (("thread", "export", "none"), "`symbi thread list` lists them"),
        (("thread", "delete", "none", "--yes"), "`symbi thread list` lists them"),
    ):
        done = daemon.symbi(*command)
        assert (done.returncode, done.stdout) == (2, ""), command
        assert said in done.stderr, command
        assert len(done.stderr.splitlines()) <= 2, done.stderr


def test_runs_are_listed_newest_first_with_what_they_used(daemon: Daemon) -> None:
    first, second = ask(daemon, "One"), ask(daemon, "Two")
    runs = shown(daemon, "agent", "runs", "helper")["runs"]
    assert [run["run"] for run in runs] == [second["run"], first["run"]]
    assert runs[0]["usage"] == second["usage"]
    assert first["run"] in good(daemon, "agent", "runs")
    assert [run["run"] for run in shown(daemon, "agent", "runs", "--limit", "1")["runs"]] == [second["run"]]


@LONG
def test_the_runs_of_an_agent_that_the_program_does_not_have_any_more_are_found(
    daemon: Daemon, model: ScriptedModel, tmp_path: Path
) -> None:
    run = ask(daemon, "Hello")["run"]
    daemon.load(PROGRAM.format(model=model.block).replace("agent helper", "agent other"))
    assert "helper" not in good(daemon, "agent", "list")
    assert [each["run"] for each in shown(daemon, "agent", "runs", "helper")["runs"]] == [run]
    assert daemon.symbi("agent", "runs", "helpr").returncode == 2


def test_a_running_run_is_cancelled_and_its_chat_says_so(daemon: Daemon, model: ScriptedModel) -> None:
    asked, going_on = threading.Event(), threading.Event()

    def slow(_body: Any) -> str:
        asked.set()
        going_on.wait(60)
        return says("Too late.")

    model.replies = [slow]
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(daemon.symbi("chat", "-m", "Hello")))
    asking.start()
    assert asked.wait(60)
    (run,) = shown(daemon, "agent", "runs")["runs"]
    assert run["state"] == "running"
    assert shown(daemon, "agent", "cancel", run["run"])["run"] == run["run"]
    asking.join(60)
    going_on.set()
    assert (answers[0].returncode, answers[0].stdout) == (1, "")
    assert "The turn was cancelled." in answers[0].stderr
    until(lambda: shown(daemon, "agent", "runs")["runs"][0]["ended"] == "cancelled", what="the end of the run")


def test_a_thread_is_shown_exported_and_deleted(daemon: Daemon, model: ScriptedModel) -> None:
    model.replies = [says(memory_append={"label": "human", "content": "Name: Ada"}), says("Hello Ada.")]
    thread = ask(daemon, "I am Ada.")["thread"]
    ask(daemon, "Again", "--new")
    assert {row["kind"] for row in shown(daemon, "thread", "list")["conversations"]} == {"main", "conversation"}
    (main,) = shown(daemon, "thread", "list", "helper", "--kind", "main")["conversations"]
    assert (main["conversation_id"], main["messages"]) == (thread, 4)
    for given in (("thread", "show", thread[:-2]), ("chat", "--thread", f"{thread[:8]}x{thread[9:]}", "-m", "Hello")):
        assert f"did you mean {thread}?" in daemon.symbi(*given).stderr
    said = good(daemon, "thread", "show", thread)
    for part in ("I am Ada.", "memory_append", "Hello Ada."):
        assert part in said
    about, *messages = map(json.loads, good(daemon, "thread", "export", thread).splitlines())
    assert about["conversation_id"] == thread
    assert [each["type"] for each in messages] == ["message", "function_call", "function_call_output", "message"]
    assert messages[0]["content"] == [{"type": "input_text", "text": "I am Ada."}]
    assert daemon.symbi("thread", "delete", thread).returncode == 2
    assert good(daemon, "thread", "delete", thread, "--yes") == "deleted the thread with 4 messages\n"
    assert daemon.symbi("thread", "show", thread).returncode == 2
    assert [row["kind"] for row in shown(daemon, "thread", "list")["conversations"]] == ["conversation"]


def test_threads_and_runs_are_shown_without_a_daemon(daemon: Daemon, tmp_path: Path) -> None:
    answer = ask(daemon, "Hello")
    assert daemon.stop() == 0
    for command, part in (
        (("thread", "list"), answer["thread"]),
        (("thread", "export", answer["thread"]), "Hello"),
        (("agent", "runs"), answer["run"]),
        (("agent", "list"), "scripted"),
    ):
        done = symbi(*command, root=tmp_path)
        assert done.returncode == 0, done.stderr
        assert part in done.stdout
    done = symbi("agent", "cancel", answer["run"], root=tmp_path)
    assert done.returncode == 1
    assert "symbi up" in done.stderr


def test_the_threads_of_another_user_are_not_found(daemon: Daemon) -> None:
    thread = ask(daemon, "Hello")["thread"]
    assert daemon.symbi("user", "add", "bob").returncode == 0
    assert daemon.symbi("thread", "show", thread, "--user", "bob").returncode == 2
    assert daemon.symbi("thread", "delete", thread, "--user", "bob", "--yes").returncode == 2
    assert shown(daemon, "thread", "list", "--user", "bob")["conversations"] == []


def test_the_context_is_shown_part_by_part_without_asking_the_model(daemon: Daemon, model: ScriptedModel) -> None:
    ask(daemon, "The tulips are red.")
    asked = len(model.bodies)
    answer = shown(daemon, "agent", "context", "helper")
    parts = {part["name"]: part["tokens"] for part in answer["parts"]}
    assert {"instruction", "tools", "block persona", "block human", "messages", "state"} <= parts.keys()
    assert sum(parts.values()) <= answer["tokens"] <= answer["window"] - answer["reply"]
    said = good(daemon, "agent", "context")
    assert "persona" in said
    assert f"{answer['tokens']:,} of" in said
    assert "The tulips are red." in good(daemon, "agent", "context", "helper", "--text")
    assert len(model.bodies) == asked
    done = daemon.symbi("agent", "context", "recorder")
    assert done.returncode == 2
    assert "has no model" in done.stderr
