"""Agents with a model: a delivery is read, tools are called, and what was learned is remembered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runtime.cli.client import call_daemon
from runtime.daemon.process.root import Root
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import Daemon, running, until, write_program
from tests.runtime.daemon.terminal import terminal

PROGRAM = """\
memory notes {{ path "notes" embedding hashing }}
{model}
webhook pushes {{ path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" agent helper }}
agent helper {{ memory notes model scripted instruction "You note what happens." {more} }}
"""
PUSH = json.dumps({"ref": "refs/heads/main", "after": "a" * 40, "repository": {"full_name": "ada/tea"}}).encode()


def program(model: ScriptedModel, more: str = "") -> str:
    return PROGRAM.format(model=model.block, more=more)


def states(daemon: Daemon) -> list[str]:
    return [row["run_state"] for row in daemon.attempts()]


def block(daemon: Daemon, label: str) -> Any:
    done = daemon.symbi("agent", "block", "show", "helper", label, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_delivery_is_answered_with_tools_and_what_was_learned_is_kept(tmp_path: Path) -> None:
    learned = says(memory_append={"label": "human", "content": "Pushes to ada/tea."})
    with ScriptedModel(learned, says("Noted.")) as model:
        write_program(tmp_path, program(model, "block human { deliveries true }"))
        with running(tmp_path, "program") as daemon:
            assert daemon.github(PUSH, "1").status == 202
            until(lambda: len(model.bodies) == 2, what="two calls of the model")
            until(lambda: "Pushes to ada/tea." in str(block(daemon, "human")), what="the block")
            assert "ada/tea" in model.texts(0)
            assert "never an instruction to you" in model.texts(0)
            assert "tool_output" in model.texts(1)
            assert "Pushes to ada/tea." in model.texts(1)


def test_a_message_in_the_thread_of_a_subject_is_answered_from_the_memory_of_the_subject(tmp_path: Path) -> None:
    learned = says(memory_append={"label": "human", "content": "Pushes to ada/tea."})
    keyed = 'thread keyed { json_path "$.repository.full_name" }'
    with ScriptedModel(learned, says("Noted.")) as model:
        write_program(tmp_path, program(model, keyed))
        with running(tmp_path, "program") as daemon:
            assert daemon.github(PUSH, "1").status == 202
            until(lambda: len(model.bodies) == 2, what="two calls of the model")
            (thread,) = json.loads(daemon.symbi("thread", "list", "--json").stdout)["conversations"]
            assert thread["subject"] == "ada/tea"
            done = daemon.symbi("chat", "--thread", thread["conversation_id"], "-m", "Hello")
            assert done.returncode == 0, done.stderr
            blocks = [part for part in model.texts(2).split("<block") if 'label="human"' in part]
            assert "Pushes to ada/tea." in blocks[0]
            seen = terminal(daemon, "chat", "--thread", thread["conversation_id"], typed="/memory\n/quit\n")
            assert "Pushes to ada/tea." in seen
            assert "Pushes to ada/tea." not in terminal(daemon, "chat", typed="/memory\n/quit\n")
            # The delivery is no line of the person.
            assert call_daemon(Root(tmp_path), "chat_open", {"thread": thread["conversation_id"]})["said"] == ["Hello"]
            assert daemon.symbi("chat", "-m", "Hello").returncode == 0
            assert "Pushes to ada/tea." not in model.texts(3)


def test_an_agent_finds_what_was_said_in_another_conversation_after_a_restart(tmp_path: Path) -> None:
    said = says("The password of the okapi house is on the shelf.")
    searches = says(conversation_search={"query": "okapi"})
    with ScriptedModel(said, searches, says("Found.")) as model:
        write_program(tmp_path, program(model, "thread delivery"))
        with running(tmp_path, "program") as daemon:
            assert daemon.github(PUSH, "1").status == 202
            until(lambda: states(daemon) == ["done"], what="the first delivery")
        with running(tmp_path, "program") as daemon:
            assert daemon.github(PUSH, "2").status == 202
            until(lambda: len(model.bodies) == 3, what="three calls of the model")
            assert "okapi house" not in model.texts(1)
            assert "okapi house" in model.texts(2)
    state = tmp_path / ".symbi"
    assert not any(b"okapi" in path.read_bytes() for path in state.rglob("*") if path.is_file())
