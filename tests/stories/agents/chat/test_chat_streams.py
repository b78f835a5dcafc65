"""Streams of a chat over HTTP with real daemons: stopped, killed, flooded, and two on one database."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import LONG, sampled
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon import killing
from tests.runtime.daemon.event_client import Event, connect_without_reading, opened
from tests.runtime.daemon.running import on_postgres, running, until, write_program
from tests.runtime.daemon.v1 import ask, make_token
from tests.stories.agents.test_postgres import Held, daemons

pytestmark = LONG
PROGRAM = """\
memory notes {{ store collection embedding hashing }}
{model}
agent helper {{ memory notes model scripted instruction "You help." }}
"""
CHAT = "/v1/agent/chat"
HELLO = {"input": "Note two facts."}
TOLD = [
    *(("agent.typing", 1), ("agent.message", 1), ("agent.tool", 1), ("agent.tool", 1)),
    *(("agent.typing", 2), ("agent.tool", 2), ("agent.tool", 2)),
    *(("agent.typing", 3), ("agent.message", 3), ("agent.done", None)),
]


def answer(body: Mapping[str, Any]) -> str:
    """Note two facts one after the other, then say something."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    done = text.count("<tool_output")
    if done < 2:
        said = ["I note two facts."] if not done else []
        return says(*said, memory_append={"label": "human", "content": f"Fact {done}."})
    return says("Noted both.")


def is_last(event: Event) -> bool:
    return event.name in ("agent.done", "agent.error")


def told(events: list[Event]) -> list[tuple[str, Any]]:
    return [(event.name, event.data.get("step")) for event in events]


def test_a_stream_that_a_stop_ends_goes_on_after_the_restart_without_a_gap(tmp_path: Path) -> None:
    held = Held(says("Hello."))
    with ScriptedModel(held) as model:
        write_program(tmp_path, PROGRAM.format(model=model.block))
        with running(tmp_path, "program") as daemon:
            token = make_token(daemon, "--scope", "write")
            with opened(daemon, token, CHAT, HELLO) as stream:
                location = stream.location or ""
                seen = stream.until(lambda event: event.name == "agent.typing")
                held.asked.wait(60)
                stopping = threading.Thread(target=daemon.stop)
                stopping.start()
                [stopped] = list(stream.events())
                # It tells that the stream ends, and not the run.
                assert (stopped.name, stopped.id, stream.ended) == ("error", None, True)
                assert stopped.data["status"] == 503
                stopping.join()
        held.going_on.set()
        with running(tmp_path, "program") as daemon, opened(daemon, token, location, last=seen[-1].id) as stream:
            seen += stream.until(is_last)
    assert told(seen) == [("agent.typing", 1), ("agent.message", 1), ("agent.done", None)]
    assert [event.id for event in seen] == ["1", "2", "3"]


def test_a_call_that_waits_is_answered_when_the_daemon_stops(tmp_path: Path) -> None:
    held = Held(says("Hello."))
    with ScriptedModel(held) as model:
        write_program(tmp_path, PROGRAM.format(model=model.block))
        with running(tmp_path, "program") as daemon:
            token, answers = make_token(daemon, "--scope", "write"), list[Any]()
            asking = threading.Thread(target=lambda: answers.append(ask(daemon, token, "POST", CHAT, HELLO)))
            asking.start()
            held.asked.wait(60)
            assert daemon.stop() == 0
            asking.join()
        held.going_on.set()
    assert answers[0].status == 202
    assert answers[0].headers["location"] == f"/v1/agents/helper/chat/{answers[0].json()['run']}"


@pytest.mark.parametrize("kill_at", sampled(range(1, 61, 3), 3))
def test_a_daemon_killed_at_any_commit_tells_each_event_once(tmp_path: Path, kill_at: int) -> None:
    """Before a commit or after it: what was seen and what is read after it are the events of one run."""
    command = f"{killing.__name__}:{killing.at_commit.__name__}"
    with ScriptedModel(answer) as model:
        write_program(tmp_path, PROGRAM.format(model=model.block))
        with running(tmp_path, "program") as daemon:
            token = make_token(daemon, "--scope", "write")
        seen, location = list[Event](), ""
        with running(tmp_path, "program", command=command, wait=False, KILL_AT=str(kill_at)) as daemon:
            with suppress(OSError, HTTPException, AssertionError):
                daemon.wait_until_ready()
                with opened(daemon, token, CHAT, HELLO) as stream:
                    location = stream.location or ""
                    seen += stream.events()
            if daemon.process.poll() is None:
                daemon.kill()
        with running(tmp_path, "program") as daemon:
            if not location:
                # The message was not acknowledged.
                return
            if not seen or not is_last(seen[-1]):
                with opened(daemon, token, location, last=seen[-1].id if seen else None) as stream:
                    seen += stream.until(is_last)
            with opened(daemon, token, location) as stream:
                assert list(stream.events()) == seen
    assert told(seen) == TOLD
    ids = [int(event.id or 0) for event in seen]
    assert ids == sorted(set(ids))


def test_a_flood_of_streams_of_one_token_leaves_room_for_others(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        write_program(tmp_path, PROGRAM.format(model=model.block))
        with running(tmp_path, "program") as daemon, ExitStack() as stack:
            flood, other = (make_token(daemon, "--scope", "write") for _ in range(2))
            feed = "/v1/agent/events?after=0"
            links = [stack.enter_context(connect_without_reading(daemon, flood, feed)) for _ in range(70)]
            # All are answered before another request asks for a place: it could take that of one of them.
            begins = (link.recv(12, socket.MSG_PEEK) for link in links)
            assert Counter(map(bytes.decode, begins)) == {"HTTP/1.1 200": 64, "HTTP/1.1 429": 6}
            assert ask(daemon, flood, "GET", feed).status == 429
            # Nobody reads what the others produce.
            for _ in range(30):
                answer = ask(daemon, other, "POST", CHAT, {"input": "x" * 10_000})
                assert (answer.status, answer.json()["messages"]) == (200, ["Hello."])
            assert daemon.readyz().status == 200
            stack.close()
            until(lambda: ask(daemon, flood, "GET", "/v1/agent/events").status == 200, what="a free place")


def test_a_stream_on_one_daemon_follows_a_run_on_another(tmp_path: Path, postgres_url: str) -> None:
    held = Held(says("Hello."))
    with ScriptedModel(held) as model, daemons(model, tmp_path, postgres_url, "one", "two") as [one, two]:
        token = make_token(one, "--scope", "write", **on_postgres(postgres_url))
        with ExitStack() as stack:
            first = stack.enter_context(opened(one, token, CHAT, HELLO))
            held.asked.wait(60)
            streams = [stack.enter_context(opened(daemon, token, first.location or "")) for daemon in (one, two)]
            feeds = [stack.enter_context(opened(daemon, token, "/v1/agent/events?after=0")) for daemon in (one, two)]
            waiting = list[Any]()
            asking = threading.Thread(
                target=lambda: waiting.append(ask(two, token, "GET", f"{first.location}?wait=60")), daemon=True
            )
            asking.start()
            held.going_on.set()
            found = [each.until(is_last) for each in (first, *streams, *feeds)]
            asking.join(60)
        assert told(found[0]) == [("agent.typing", 1), ("agent.message", 1), ("agent.done", None)]
        assert all(each == found[0] for each in found)
        assert waiting[0].json()["messages"] == ["Hello."]
        # Cancelled on the other one.
        held.asked.clear()
        held.going_on.clear()
        with opened(one, token, CHAT, HELLO) as stream:
            held.asked.wait(60)
            assert ask(two, token, "POST", f"{stream.location}/cancel").status == 200
            assert stream.until(is_last)[-1].data["ended"] == "cancelled"
        held.going_on.set()
