"""`symbi chat`: a person talks with an agent, which remembers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import Daemon, running, until, write_program
from tests.runtime.daemon.terminal import terminal

PROGRAM = """\
memory notes {{ path "notes" embedding hashing }}
{model}
agent helper {{ memory notes model scripted instruction "You help in the garden." }}
agent recorder {{ memory notes }}
"""
SECOND = 'agent second { memory notes model scripted instruction "You help in the kitchen." }\n'
FIELDS = {"run", "thread", "messages", "tool_calls", "usage", "ended", "state", "error", "notes"}


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(says("Hello.")) as started:
        yield started


@pytest.fixture
def daemon(model: ScriptedModel, tmp_path: Path) -> Iterator[Daemon]:
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program") as started:
        yield started


def asked(daemon: Daemon, *arguments: str, code: int = 0) -> Any:
    """Ask a question and return the object that is printed."""
    done = daemon.symbi("chat", *arguments, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer.keys() == FIELDS
    return answer


def test_a_question_is_answered_and_what_was_learned_is_in_the_next_context(
    daemon: Daemon, model: ScriptedModel
) -> None:
    learned = says(memory_append={"label": "human", "content": "Name: Ada"})
    model.replies = [learned, says("Hello Ada."), says("You are Ada.")]
    done = daemon.symbi("chat", "-m", "I am Ada.")
    assert (done.returncode, done.stdout) == (0, "Hello Ada.\n"), done.stderr
    assert "memory_append(label: human, content: Name: Ada)" in done.stderr
    answer = asked(daemon, "helper", "-m", "Who am I?")
    assert answer["messages"] == ["You are Ada."]
    assert answer["ended"] == "answered"
    assert answer["usage"]["calls"] == 1
    assert answer["usage"]["tokens_in"] > 0
    assert "Name: Ada" in model.texts(2)
    assert "I am Ada." in model.texts(2)


def test_the_object_of_an_answer_has_its_calls_with_their_outputs(daemon: Daemon, model: ScriptedModel) -> None:
    model.replies = [says(memory_append={"label": "humor", "content": "Tea"}), says("Sorry.")]
    answer = asked(daemon, "-m", "Remember tea.")
    (call,) = answer["tool_calls"]
    assert (call["name"], call["arguments"]["label"], call["status"]) == ("memory_append", "humor", "error")
    assert "human" in call["output"]


def test_standard_input_is_one_question_without_a_terminal(daemon: Daemon, model: ScriptedModel) -> None:
    done = daemon.symbi("chat", input="What grows\nhere?\n")
    assert (done.returncode, done.stdout) == (0, "Hello.\n"), done.stderr
    assert "What grows\nhere?" in model.texts(0)


def test_a_new_conversation_knows_nothing_of_the_main_thread(daemon: Daemon, model: ScriptedModel) -> None:
    main = asked(daemon, "-m", "The tulips are red.")
    new = asked(daemon, "--new", "-m", "What colour?")
    assert new["thread"] != main["thread"]
    assert "tulips" not in model.texts(1)
    assert asked(daemon, "--thread", new["thread"], "-m", "And now?")["thread"] == new["thread"]
    assert "What colour?" in model.texts(2)


def test_another_user_has_a_thread_of_its_own(daemon: Daemon, model: ScriptedModel) -> None:
    assert daemon.symbi("user", "add", "bob").returncode == 0
    main = asked(daemon, "-m", "The tulips are red.")
    assert asked(daemon, "--user", "bob", "-m", "What colour?")["thread"] != main["thread"]
    assert "tulips" not in model.texts(1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("helpr",), "did you mean helper?"),
        (("recorder",), "has no model"),
        (("--user", "nobody"), "no user is called 'nobody'"),
        (("--thread", "none"), "there is no thread none"),
        (("--new", "--thread", "x"), "exclude each other"),
    ],
)
def test_what_cannot_be_asked_is_exit_code_2(daemon: Daemon, arguments: tuple[str, ...], said: str) -> None:
    done = daemon.symbi("chat", *arguments, "-m", "Hello")
    assert done.returncode == 2, done.stdout
    assert said in done.stderr


@pytest.mark.parametrize(("said", "why"), [("x" * 1_048_577, "at most 1,048,576 are allowed"), (" \n", "empty")])
def test_a_message_that_is_too_long_or_empty_is_not_sent(
    daemon: Daemon, model: ScriptedModel, said: str, why: str
) -> None:
    done = daemon.symbi("chat", input=said)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert model.bodies == []


def test_several_agents_with_a_model_are_named(model: ScriptedModel, tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM.format(model=model.block) + SECOND)
    with running(tmp_path, "program") as daemon:
        done = daemon.symbi("chat", "-m", "Hello")
        assert done.returncode == 2
        assert "helper, second" in done.stderr


def test_a_chat_needs_a_daemon(tmp_path: Path, daemon: Daemon) -> None:
    assert daemon.stop() == 0
    done = daemon.symbi("chat", "-m", "Hello")
    assert done.returncode == 1
    assert "symbi up" in done.stderr


def test_a_turn_that_fails_is_exit_code_1(daemon: Daemon, model: ScriptedModel) -> None:
    model.replies = [401]
    done = daemon.symbi("chat", "-m", "Hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert "The turn failed:" in done.stderr
    assert asked(daemon, "-m", "Hello", code=1)["ended"] == "failed"


@LONG
def test_a_model_that_is_away_is_exit_code_1_and_the_message_is_answered_later(
    daemon: Daemon, model: ScriptedModel
) -> None:
    model.replies = [503]
    answer = asked(daemon, "--wait", "1", "-m", "The tulips are red.", code=1)
    assert answer["ended"] is None
    # Another one, which waits for the first one, does not wait longer for the model either.
    assert asked(daemon, "--wait", "1", "-m", "And the roses?", code=1)["ended"] is None
    model.replies = [says("I see.")]
    # The next message waits for the end of the first one.
    assert asked(daemon, "-m", "Hello")["messages"] == ["I see."]
    assert "The tulips are red." in model.texts(-1)


def test_an_answer_survives_a_daemon_that_is_killed(model: ScriptedModel, tmp_path: Path) -> None:
    killed = threading.Event()

    def reply(_body: Any) -> str:
        killed.wait(60)
        return says("Still here.")

    model.replies = [reply]
    write_program(tmp_path, PROGRAM.format(model=model.block))
    answers: list[Any] = []
    with running(tmp_path, "program") as first:
        asking = threading.Thread(target=lambda: answers.append(asked(first, "-m", "Hello")))
        asking.start()
        until(lambda: model.bodies, what="a call of the model")
        first.kill()
        killed.set()
    with running(tmp_path, "program"):
        asking.join(60)
    assert [each["messages"] for each in answers] == [["Still here."]]


def test_a_question_on_a_terminal_is_answered_while_the_answer_arrives(daemon: Daemon, model: ScriptedModel) -> None:
    learned = says("I note it.", memory_append={"label": "human", "content": "Name: Ada"})
    model.replies = [learned, says("Hello Ada.")]
    said = terminal(daemon, "chat", "-m", "I am Ada.")
    assert said.index("I note it.") < said.index("→ memory_append") < said.index("Hello Ada."), said
    assert said.count("Hello Ada.") == 1


def test_a_person_talks_on_a_terminal(daemon: Daemon, model: ScriptedModel) -> None:
    learned = says("I note it.", memory_append={"label": "human", "content": "Name: Ada"})
    model.replies = [learned, says("Hello Ada."), says("Who are you?")]
    typed = "I am Ada.\n/memory\n/context\n/new\nHello\n/nonsense\n/help\n/quit\n"
    said = terminal(daemon, "chat", typed=typed)
    for part in (
        "I note it.",
        "→ memory_append",
        "Hello Ada.",
        "a new conversation",
        "persona",
        "of the room",
        "Who are you?",
        "/help lists",
    ):
        assert part in said, said
    assert said.count("Hello Ada.") == 1
    assert "human, version 2\r\nName: Ada\r\n" in said
