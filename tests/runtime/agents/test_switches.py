"""What a switch stops waits, says so, and goes on after a start with the switch on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.attacks.wire import operate
from tests.runtime.daemon.running import Daemon, on_postgres, running, until, write_program
from tests.runtime.daemon.v1 import ask, make_token

pytestmark = LONG

PROGRAM: Final = """\
memory notes {{ store collection embedding hashing }}
memory library {{ store collection embedding hashing }}
{model}
webhook github {{ path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" agent helper }}
webhook kept {{ path "/hooks/second" provider github secret "secret://env/GITHUB_SECRET" agent recorder }}
agent helper {{ memory notes model scripted context {{ max_tokens 3000 compaction_threshold 0.5 }} }}
agent recorder {{ memory notes }}
"""
REASON: Final = "agents are switched off by SYMBIONT_AGENTS"


@pytest.fixture(params=["sqlite", "postgresql"])
def given(request: pytest.FixtureRequest) -> dict[str, str]:
    """Variables of daemons and commands on a database of each kind."""
    return {} if request.param == "sqlite" else on_postgres(request.getfixturevalue("postgres_url"))


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(says("Hello.")) as started:
        yield started


def checks(daemon: Daemon) -> dict[str, tuple[str, str]]:
    """Return the checks of `symbi readiness` by name."""
    answer = operate(daemon, "readiness", {}).json()
    return {each["check"]: (each["status"], each["text"]) for each in answer["checks"]}


def states(daemon: Daemon) -> set[tuple[str, str]]:
    """Return the states of all deliveries, and of their runs in the log."""
    listed = operate(daemon, "delivery_list", {}).json()["deliveries"]
    logged = {row["delivery_id"]: row["run_state"] for row in daemon.attempts()}
    return {(row["state"], logged[row["id"]]) for row in listed}


def test_deliveries_wait_for_agents_that_are_switched_off(
    model: ScriptedModel, tmp_path: Path, given: dict[str, str]
) -> None:
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program", wait=True, SYMBIONT_AGENTS="off", **given) as daemon:
        assert daemon.github(b'{"n":1}', "one").status == 202
        assert daemon.github(b'{"n":2}', "two", path="/hooks/second").status == 202
        assert states(daemon) == {("switched_off", "switched_off")}
        found = checks(daemon)
        assert found["deliveries"] == ("YELLOW", f"2 deliveries waiting: {REASON}")
        assert found["switch agents"][0] == "YELLOW"
        assert not any(name.startswith(("model ", "context ")) for name in found)
        asked = daemon.symbi("chat", "helper", "-m", "Hello", **given)
        assert (asked.returncode, asked.stdout) == (1, "")
        assert REASON in asked.stderr
        token = make_token(daemon, "--scope", "write", **given)
        answer = ask(daemon, token, "POST", "/v1/tools/archival_search", {"agent": "helper", "query": "x"})
        assert (answer.status, answer.json()["type"]) == (503, "urn:symbiont:problem:switched_off")
        # A person still looks at what agents know, and corrects it.
        assert daemon.symbi("agent", "block", "list", "helper", **given).returncode == 0
    assert not model.bodies
    with running(tmp_path, "program", wait=True, **given) as daemon:
        until(lambda: states(daemon) == {("done", "done")}, what="the runs")
        assert checks(daemon)["deliveries"][0] == "GREEN"
    assert len(model.bodies) == 1


def test_a_message_that_waited_for_its_model_says_that_agents_are_switched_off(
    model: ScriptedModel, tmp_path: Path, given: dict[str, str]
) -> None:
    model.replies = [503]
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program", wait=True, **given) as daemon:
        sent = json.loads(daemon.symbi("chat", "helper", "-m", "Hello", "--wait", "1", "--json", **given).stdout)
        assert (sent["ended"], sent["state"]) == (None, "model_unavailable")
        assert "503" in sent["error"]
    model.replies = [says("Here again.")]
    with running(tmp_path, "program", wait=True, SYMBIONT_AGENTS="off", **given) as daemon:
        (run,) = operate(daemon, "agent_runs", {"agent": "helper"}).json()["runs"]
        assert run["state"] == "switched_off"
        followed = operate(daemon, "chat_follow", {"run": sent["run"], "thread": sent["thread"]}).json()
        assert (followed["ended"], followed["state"]) == (None, "switched_off")
        assert checks(daemon)["messages"] == ("YELLOW", f"1 message to agents waiting: {REASON}")
    with running(tmp_path, "program", wait=True, **given) as daemon:
        followed = {"run": sent["run"], "thread": sent["thread"]}
        assert operate(daemon, "chat_follow", followed).json()["messages"] == ["Here again."]


def test_what_waits_for_an_agent_that_its_user_has_switched_off_says_so(
    model: ScriptedModel, tmp_path: Path, given: dict[str, str]
) -> None:
    model.replies = [503]
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program", wait=True, **given) as daemon:
        token = make_token(daemon, "--scope", "write", **given)
        sent = ask(daemon, token, "POST", "/v1/agents/helper/chat", {"input": "Hello", "subject": "ada", "wait": 0})
        run = f"/v1/agent/chat/{sent.json()['run']}"
        assert ask(daemon, token, "PUT", "/v1/agent/config", {"enabled": False, "version": 0}).status == 200
        assert daemon.github(b'{"n":1}', "one").status == 202
        until(lambda: states(daemon) == {("switched_off", "switched_off")}, what="the waiting delivery")
        # The message waited for its model before.
        until(lambda: ask(daemon, token, "GET", run).json()["state"] == "switched_off", what="the waiting message")
        assert checks(daemon)["switched off"] == (
            "YELLOW",
            "2 runs waiting for agents that their users have switched off",
        )
        told = ask(daemon, token, "GET", run, headers=[("Accept", "text/event-stream")]).body.decode()
        assert "event: agent.error" in told
        assert "urn:symbiont:problem:switched_off" in told
        refused = ask(daemon, token, "POST", "/v1/agents/helper/chat", {"input": "Hello"})
        assert (refused.status, refused.json()["type"]) == (503, "urn:symbiont:problem:switched_off")
        asked = daemon.symbi("chat", "helper", "-m", "Hello", **given)
        assert asked.returncode == 1
        assert "switched off" in asked.stderr
        assert "`symbi agent config unset helper enabled`" in asked.stderr
        model.replies = [says("Here again.")]
        version = ask(daemon, token, "GET", "/v1/agent/config").json()["version"]
        body = {"enabled": True, "version": version}
        assert ask(daemon, token, "PUT", "/v1/agent/config", body).status == 200
        until(lambda: states(daemon) == {("done", "done")}, what="the run")
        until(lambda: ask(daemon, token, "GET", run).json()["ended"] == "answered", what="the answer")


def test_agents_without_tools_are_offered_none_and_every_call_says_so(
    model: ScriptedModel, tmp_path: Path, given: dict[str, str]
) -> None:
    model.replies = [says(memory_append={"label": "human", "content": "Likes tea."}), says("Never mind.")]
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program", wait=True, SYMBIONT_AGENT_TOOLS="off", **given) as daemon:
        answer = json.loads(daemon.symbi("chat", "helper", "-m", "Hello", "--json", **given).stdout)
        assert (answer["messages"], answer["ended"]) == (["Never mind."], "answered")
        (call,) = answer["tool_calls"]
        assert call["status"] == "error"
        assert "tools of agents are switched off by SYMBIONT_AGENT_TOOLS" in call["output"]
        shown = operate(daemon, "agent_block_show", {"agent": "helper", "label": "human"}).json()
        assert "tea" not in shown["value"]
        assert checks(daemon)["switch agent_tools"][0] == "YELLOW"
    assert "memory_append" not in model.texts(0)


def test_threads_are_not_summarized_and_the_oldest_messages_are_left_out(
    model: ScriptedModel, tmp_path: Path, given: dict[str, str]
) -> None:
    write_program(tmp_path, PROGRAM.format(model=model.block))
    long = " ".join(["long"] * 700)
    with running(tmp_path, "program", wait=True, SYMBIONT_AGENT_COMPACTION="off", **given) as daemon:
        thread = json.loads(daemon.symbi("chat", "helper", "-m", f"first {long}", "--json", **given).stdout)["thread"]
        for number in range(4):
            asked = daemon.symbi("chat", "helper", "-m", f"{number} {long}", "--json", **given)
            assert json.loads(asked.stdout)["ended"] == "answered"
        shown = operate(daemon, "agent_conversation_show", {"conversation_id": thread}).json()
        assert "first long" not in model.texts(-1)
    assert len(model.bodies) == 5
    assert not shown["summaries"], shown


def vectors(daemon: Daemon, name: str) -> tuple[str, int]:
    """Return the status of the embedding of a memory, and how many of its entries wait for a vector."""
    found: dict[str, Any] = checks(daemon)
    waiting = found[f"index of {name}"][1].partition(" without a vector")[0].rpartition(" ")[2]
    return found[f"embedding of {name}"][0], int(waiting) if "without" in found[f"index of {name}"][1] else 0


def test_what_agents_remember_gets_its_vectors_when_they_are_switched_on(
    model: ScriptedModel, tmp_path: Path, given: dict[str, str]
) -> None:
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program", wait=True, SYMBIONT_AGENT_EMBEDDING="off", **given) as daemon:
        token = make_token(daemon, "--scope", "write", **given)
        fact = {"agent": "helper", "content": "Ada likes tea."}
        assert ask(daemon, token, "POST", "/v1/tools/archival_insert", fact).status == 200
        assert ask(daemon, token, "POST", "/index", {"text": "A book.", "collection": "library"}).status == 200
        until(lambda: "1 entry" in checks(daemon)["index of notes"][1], what="the entry")
        until(lambda: vectors(daemon, "library") == ("YELLOW", 0), what="the vectors of the library")
        assert vectors(daemon, "notes") == ("YELLOW", 1)
        assert "SYMBIONT_AGENT_EMBEDDING" in checks(daemon)["embedding of notes"][1]
        found = ask(daemon, token, "POST", "/v1/tools/archival_search", {"agent": "helper", "query": "tea"})
        assert "Ada likes tea." in found.body.decode()
    with running(tmp_path, "program", wait=True, **given) as daemon:
        until(lambda: vectors(daemon, "notes")[1] == 0, what="the vectors of the notes")
