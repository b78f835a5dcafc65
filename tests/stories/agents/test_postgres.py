"""Agents whose conversations are in PostgreSQL: with tools, with several daemons, one of which is killed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from runtime.cli.chat.conversation import Conversation
from runtime.cli.client import DaemonGone, call_daemon
from runtime.daemon.process.root import Root
from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon import sharing
from tests.runtime.daemon.running import Daemon, on_postgres, running, until, write_program

PROGRAM = """\
memory notes {{ store collection embedding hashing }}
{model}
agent helper {{ memory notes model scripted instruction "You help in the garden." }}
"""
FACT = "The tulips are red."


@contextmanager
def daemons(model: ScriptedModel, folder: Path, url: str, *names: str) -> Iterator[list[Daemon]]:
    """Start daemons on one database, with short leases."""
    with ExitStack() as stack:
        found = []
        for name in names:
            (folder / name).mkdir(exist_ok=True)
            write_program(folder / name, PROGRAM.format(model=model.block))
            command = f"{sharing.__name__}:{sharing.leased.__name__}"
            given = running(
                folder / name, "program", wait=True, command=command, admin_host="127.0.0.1", **on_postgres(url)
            )
            found.append(stack.enter_context(given))
        yield found


def shown(daemon: Daemon, url: str, *arguments: str) -> Any:
    done = daemon.symbi(*arguments, "--json", **on_postgres(url))
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


class Held:
    """A reply that waits until it is let go."""

    def __init__(self, text: str) -> None:
        self.asked, self.going_on = threading.Event(), threading.Event()
        self._text = text

    def __call__(self, _body: Any) -> str:
        self.asked.set()
        self.going_on.wait(120)
        return self._text


def test_a_conversation_with_tools_is_continued_after_a_restart(tmp_path: Path, postgres_url: str) -> None:
    learned = says(memory_append={"label": "human", "content": "Name: Ada"}, archival_insert={"content": FACT})
    searched = says(archival_search={"query": "tulips"})
    with ScriptedModel(learned, says("Hello Ada."), searched, says("Red, Ada.")) as model:
        with daemons(model, tmp_path, postgres_url, "one") as [daemon]:
            first = shown(daemon, postgres_url, "chat", "-m", "I am Ada.")
        with daemons(model, tmp_path, postgres_url, "one") as [daemon]:
            second = shown(daemon, postgres_url, "chat", "-m", "Which colour?")
            thread = shown(daemon, postgres_url, "thread", "show", first["thread"])
    assert [call["status"] for call in (*first["tool_calls"], *second["tool_calls"])] == ["ok"] * 3
    assert (first["messages"], second["messages"]) == (["Hello Ada."], ["Red, Ada."])
    assert "Name: Ada" in model.texts(2)
    assert FACT in model.texts(3)
    assert second["thread"] == first["thread"]
    assert [item["type"] for item in thread["items"] if item["type"] != "message"] == [
        *("function_call", "function_call", "function_call_output", "function_call_output"),
        *("function_call", "function_call_output"),
    ]


@contextmanager
def asking(daemon: Daemon, message: str) -> Iterator[None]:
    """Send a message to the daemon, which may end before it has answered."""
    talk = Conversation.open(Root(daemon.root), None, None, new=False)
    asked = {"agent": talk.agent, "thread": talk.thread, "message": message}

    def send() -> None:
        with suppress(DaemonGone):
            call_daemon(talk.root, "chat_send", asked, on_event=lambda event: None)

    sending = threading.Thread(target=send)
    sending.start()
    yield
    sending.join(120)
    assert not sending.is_alive()


def ended(daemon: Daemon, url: str) -> Any:
    """Return how the only run has ended; None while it goes on."""
    [run] = shown(daemon, url, "agent", "runs")["runs"]
    return run["ended"]


NOTED = says(memory_append={"label": "human", "content": "Name: Ada"})


@LONG
def test_a_run_of_a_killed_daemon_is_continued_by_another(tmp_path: Path, postgres_url: str) -> None:
    held = Held(says("Too late."))
    with ScriptedModel(NOTED, held, says("Hello Ada.")) as model, ExitStack() as stack:
        [one] = stack.enter_context(daemons(model, tmp_path, postgres_url, "one"))
        with asking(one, "I am Ada."):
            assert held.asked.wait(60)
            [other] = stack.enter_context(daemons(model, tmp_path, postgres_url, "other"))
            one.kill()
            until(lambda: ended(other, postgres_url) == "answered", what="the answer of the other daemon")
            held.going_on.set()
        [thread] = shown(other, postgres_url, "thread", "list")["conversations"]
        found = shown(other, postgres_url, "thread", "show", thread["conversation_id"])["items"]
        block = shown(other, postgres_url, "agent", "block", "show", "helper", "human")
    assert [item["type"] for item in found] == ["message", "function_call", "function_call_output", "message"]
    assert found[-1]["content"][0]["text"] == "Hello Ada."
    assert block["value"] == "Name: Ada"
    assert len(model.bodies) == 3


@LONG
def test_a_run_is_cancelled_through_another_daemon(tmp_path: Path, postgres_url: str) -> None:
    held = Held(says("Too late."))
    with ScriptedModel(NOTED, held) as model, ExitStack() as stack:
        [one] = stack.enter_context(daemons(model, tmp_path, postgres_url, "one"))
        with asking(one, "I am Ada."):
            assert held.asked.wait(60)
            [other] = stack.enter_context(daemons(model, tmp_path, postgres_url, "other"))
            [run] = shown(other, postgres_url, "agent", "runs")["runs"]
            shown(other, postgres_url, "agent", "cancel", run["run"])
            until(lambda: ended(other, postgres_url) == "cancelled", what="the end of the run")
        held.going_on.set()
        found = shown(one, postgres_url, "thread", "show", run["thread"])["items"]
    assert found[-1]["event"] == "run_cancelled"
    assert "Too late." not in str(found)


@LONG
def test_two_daemons_tell_an_agent_of_an_urgent_task_once(tmp_path: Path, postgres_url: str) -> None:
    held = Held(says("Hello."))
    with ScriptedModel(held, says("Hello again.")) as model:
        with daemons(model, tmp_path, postgres_url, "one", "two") as [one, two]:
            shown(one, postgres_url, "task", "add", "Pay the rent", "--priority", "urgent")
            with asking(one, "First?"):
                assert held.asked.wait(60)
                with asking(two, "Second?"):
                    until(lambda: len(shown(two, postgres_url, "agent", "runs")["runs"]) == 2, what="both runs")
                    held.going_on.set()
            [task] = shown(two, postgres_url, "agent", "context")["urgent_tasks"]
        assert ["Pay the rent" in model.texts(number) for number in range(len(model.bodies))] == [True, False]
    assert task["said_at"] is not None
    assert not task["in_context"]
