"""A pull request on GitHub wakes an agent, which comments on it by the tool of an MCP server when a person has approved
the call; also if the daemon or the server is killed in between."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import EFFORT, LONG, sampled
from tests.runtime.agents.scripted import ScriptedModel, calling
from tests.runtime.daemon import forked, killing, sharing
from tests.runtime.daemon.running import Daemon, on_postgres, running, until, write_program
from tests.runtime.daemon.v1 import ask, make_token
from tests.runtime.tool_servers.places import RAW
from tests.stories.agents.mcp_servers.test_approved import state

SERVER = RAW.with_name("comments_server.py")
KILLING = f"{killing.__name__}:{killing.at_any_commit.__name__}"
LEASED = f"{sharing.__name__}:{sharing.leased.__name__}"
STRIDE = 4
"""Each process of a test run tries one of so many points."""
PROGRAM = """\
memory notes {{ store collection embedding hashing }}
{model}
mcp github {{ command {command} }}
webhook pulls {{ path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" agent reviewer }}
agent reviewer {{
    memory notes
    model scripted
    tool_calling native
    tools ["github.*"]
    confirm ["github.create_comment"]
    thread delivery
}}
"""
KINDS = ["message", "message", "function_call", "function_call_output", "message"]
"""Of the items of a thread."""
OUTPUT = "status of the output"
TOLD = [
    ("agent.typing", None),
    ("agent.message", None),
    ("agent.tool", "started"),
    ("agent.confirm", "awaiting"),
    ("agent.confirm", "approved"),
    ("agent.tool", OUTPUT),
    ("agent.typing", None),
    ("agent.message", None),
    ("agent.done", None),
]
"""What is told of a run, with the states of its call."""


def answer(body: Mapping[str, Any]) -> dict[str, Any]:
    """Comment on the pull request; then say that it is done, or ask a person if that is not known."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    outputs = [str(message["content"]) for message in body["messages"] if message["role"] == "tool"]
    number = int(text.split('"number": ')[1].split(",")[0])
    if not outputs:
        comment = {"pull": number, "body": f"Thank you for {number}."}
        return calling(("github_create_comment", comment), text=f"I comment on {number}.")
    return calling(text=conclusion(number, "unknown" if "status: unknown" in outputs[-1] else "ok"))


def conclusion(number: int, status: str) -> str:
    """Return what the agent says at the end."""
    return f"Commented on {number}." if status == "ok" else f"Is there a comment on {number}? I cannot tell."


class Story:
    """Pull requests that arrive at one root. `given`: variables of its daemons."""

    def __init__(self, root: Path, model: ScriptedModel, given: Mapping[str, str]) -> None:
        self.root, self.given = root, dict(given)
        self.comments, self.armed = root / "comments", root / "armed"
        self.token = ""
        self.checked = ""
        """Id of the run that was checked last."""
        self.seen = 0
        """Id of the newest event that was looked at."""
        command = json.dumps([sys.executable, "-I", str(SERVER), str(self.comments)])
        write_program(root, PROGRAM.format(model=model.block, command=command))

    def daemon(self, command: str = forked.SYMBI, **more: str) -> AbstractContextManager[Daemon]:
        """Run a daemon on the root."""
        given = {**self.given, **more}
        return running(self.root, "program", wait=True, command=command, admin_host="127.0.0.1", **given)

    def approve_server(self, daemon: Daemon) -> None:
        done = daemon.symbi("mcp-server", "approve", "github", "--yes", **self.given)
        assert done.returncode == 0, done.stdout + done.stderr
        self.token = make_token(daemon, "--scope", "read", **self.given)

    def deliver(self, daemon: Daemon, number: int) -> None:
        """Send what GitHub sends, until it is acknowledged."""
        pull = {"number": number, "title": f"Change {number}"}
        body = json.dumps({"action": "opened", "number": number, "pull_request": pull}).encode()
        assert daemon.github(body, f"pull-{number}", event="pull_request").status == 202

    def hold(self, daemon: Daemon, number: int, when: str) -> int:
        """Deliver a pull request whose call does not end, and return the process of the server when it is called."""
        mark = self.comments.with_suffix(f".{when}")
        mark.touch()
        self.deliver(daemon, number)
        until(lambda: self.ended(daemon) or mark.read_text(), what="the call")
        process = int(mark.read_text())
        mark.unlink()
        return process

    def approve_call(self, daemon: Daemon) -> None:
        """Decide about what waits. A daemon that is killed meanwhile may answer nothing."""
        for waits in self.shown(daemon, "agent", "pending").get("approvals", ()):
            daemon.symbi("agent", "approve", waits["id"], **self.given)

    def run(self, daemon: Daemon) -> dict[str, Any]:
        """Return the newest run, unless it was checked; empty if there is none."""
        found = self.shown(daemon, "agent", "runs", "--limit", "1").get("runs")
        return dict(found[0]) if found and found[0]["run"] != self.checked else {}

    def ended(self, daemon: Daemon) -> bool:
        """Approve what waits; return True when the newest run has ended."""
        self.approve_call(daemon)
        return self.run(daemon).get("ended") is not None

    def check(self, daemon: Daemon, number: int) -> str:
        """Check everything that the run for a pull request has left, and return the status of its call."""
        run = self.run(daemon)
        self.checked = run["run"]
        assert run["ended"] == "answered", run
        messages = self._messages(daemon, run["thread"])
        assert [message["type"] for message in messages] == KINDS
        call, output = messages[2], messages[3]
        status, says = str(output["outcome"]), conclusion(number, output["outcome"])
        assert (output["call_id"], status in ("ok", "unknown")) == (call["call_id"], True), output
        assert messages[4]["content"][0]["text"] == says
        assert self.written(number) in ((1,) if status == "ok" else (0, 1))
        asked = self.shown(daemon, "agent", "pending", "--all")["approvals"]
        assert [each["state"] for each in asked if each["run_id"] == run["run"]] == ["approved"]
        self._check_events(daemon, run["run"], status, says)
        return status

    def written(self, number: int) -> int:
        """Return how many comments a pull request has."""
        lines = self.comments.read_text().splitlines() if self.comments.exists() else []
        return [json.loads(line)["pull"] for line in lines].count(number)

    def _check_events(self, daemon: Daemon, run_id: str, status: str, says: str) -> None:
        page = ask(daemon, self.token, "GET", f"/v1/agent/events?after={self.seen}&limit=200").json()
        events, self.seen = page["events"], page["next"]
        told = [(event["event"], event["data"].get("state")) for event in events]
        assert told == [(name, status if state == OUTPUT else state) for name, state in TOLD]
        assert {event["data"]["run"] for event in events} == {run_id}
        assert {event["data"]["name"] for event in events if "name" in event["data"]} == {"github.create_comment"}
        ids = [event["id"] for event in events]
        assert ids == sorted(set(ids))
        assert events[-2]["data"]["messages"] == [says]

    def _messages(self, daemon: Daemon, thread: str) -> list[dict[str, Any]]:
        lines = daemon.symbi("thread", "export", thread, **self.given).stdout.splitlines()
        return [message for message in map(json.loads, lines) if "type" in message]

    def shown(self, daemon: Daemon, *arguments: str) -> dict[str, Any]:
        done = daemon.symbi(*arguments, "--json", **self.given)
        return json.loads(done.stdout) if done.returncode == 0 else {}


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(answer) as started:
        yield started


def test_a_comment_is_written_when_a_person_has_approved_it(tmp_path: Path, model: ScriptedModel) -> None:
    story = Story(tmp_path, model, {})
    with story.daemon() as daemon:
        story.approve_server(daemon)
        story.deliver(daemon, 1)
        until(lambda: story.ended(daemon), what="the end of the run")
        assert story.check(daemon, 1) == "ok"


HELD = pytest.mark.parametrize(("when", "written"), [("before", 0), ("after", 1)])
"""A call is held before or after it has written its comment."""


@LONG
@HELD
def test_a_call_in_which_the_server_is_killed_is_not_known_and_not_repeated(
    tmp_path: Path, model: ScriptedModel, when: str, written: int
) -> None:
    story = Story(tmp_path, model, {})
    with story.daemon() as daemon:
        story.approve_server(daemon)
        os.kill(story.hold(daemon, 1, when), signal.SIGKILL)
        until(lambda: story.ended(daemon), what="the end of the run")
        assert (story.check(daemon, 1), story.written(1)) == ("unknown", written)
        until(lambda: state(daemon, "github") == "connected", what="another start of the server")
        story.deliver(daemon, 2)
        until(lambda: story.ended(daemon), what="the end of the next run")
        assert story.check(daemon, 2) == "ok"
        assert story.written(1) == written


@LONG
@HELD
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_call_in_which_the_daemon_ends_is_not_known_and_not_repeated(
    tmp_path: Path, model: ScriptedModel, when: str, written: int, end: signal.Signals
) -> None:
    story = Story(tmp_path, model, {})
    with story.daemon(SYMBIONT_DRAIN_TIMEOUT="0s") as daemon:
        story.approve_server(daemon)
        story.hold(daemon, 1, when)
        daemon.process.send_signal(end)
        daemon.process.wait(60)
    with story.daemon() as daemon:
        until(lambda: story.ended(daemon), what="the end of the run")
        assert (story.check(daemon, 1), story.written(1)) == ("unknown", written)


@LONG
@pytest.mark.parametrize("first", sampled(range(1, STRIDE + 1), 3))
def test_a_kill_at_any_commit_comments_at_most_once_and_says_what_is_not_known(
    tmp_path: Path, model: ScriptedModel, first: int
) -> None:
    found = killed(Story(tmp_path, model, {}), range(first, 1000, STRIDE))
    assert found.total() > 3


@LONG
@pytest.mark.parametrize("first", sampled(range(1, STRIDE + 1), 3))
def test_a_kill_at_any_commit_comments_at_most_once_on_postgresql(
    tmp_path: Path, model: ScriptedModel, first: int, postgres_url: str
) -> None:
    found = killed(Story(tmp_path, model, on_postgres(postgres_url, SHARING_LEASE="1")), range(first, 1000, STRIDE))
    assert found.total() > 3


@LONG
@pytest.mark.parametrize("rounds", [25 if EFFORT > 1 else 4])
def test_a_daemon_that_is_killed_again_and_again_comments_at_most_once(
    tmp_path: Path, model: ScriptedModel, rounds: int
) -> None:
    chance = random.Random(15)
    points = [chance.randrange(20, 75) for _ in range(rounds)]
    found = killed(Story(tmp_path, model, {}), points, again=lambda: [chance.randrange(20, 75) for _ in range(2)])
    assert found.total() > 0


@LONG
@pytest.mark.parametrize("rounds", [25 if EFFORT > 1 else 4])
def test_a_kill_at_any_moment_comments_at_most_once_and_says_what_is_not_known(
    tmp_path: Path, model: ScriptedModel, rounds: int
) -> None:
    assert killed_at_moments(Story(tmp_path, model, {}), rounds).total() == rounds


@LONG
@pytest.mark.parametrize("rounds", [10 if EFFORT > 1 else 2])
def test_a_kill_at_any_moment_comments_at_most_once_on_postgresql(
    tmp_path: Path, model: ScriptedModel, rounds: int, postgres_url: str
) -> None:
    story = Story(tmp_path, model, on_postgres(postgres_url, SHARING_LEASE="1"))
    assert killed_at_moments(story, rounds).total() == rounds


def killed_at_moments(story: Story, rounds: int) -> Counter[tuple[str, int]]:
    """Kill a daemon at some moment after each of `rounds` deliveries, while it runs or soon after a person approved.
    Return how often a call had which status and how many comments there were."""
    found: Counter[tuple[str, int]] = Counter()
    with story.daemon(LEASED) as daemon:
        story.approve_server(daemon)
        began = time.monotonic()
        story.deliver(daemon, 0)
        until(lambda: story.ended(daemon), what="the end of an undisturbed run")
        whole = time.monotonic() - began
        story.check(daemon, 0)
    for number in range(1, rounds + 1):
        after, acknowledged = random.uniform(0, whole), False
        with story.daemon(LEASED) as daemon, suppress(OSError, HTTPException):
            killing = threading.Timer(after, daemon.process.kill)
            killing.start()
            try:
                story.deliver(daemon, number)
                acknowledged = True
                until(lambda: daemon.process.poll() is not None or story.ended(daemon), what="the kill, or the end")
            finally:
                killing.join()
                daemon.process.wait(60)
        found[end(story, number, acknowledged=acknowledged, what=f"a kill after {after:.3f} s")] += 1
    return found


def end(story: Story, number: int, *, acknowledged: bool, what: str) -> tuple[str, int]:
    """Let the run for a pull request end in another daemon after `what`. Return the status of its call, and how many
    comments there are."""
    with story.daemon(LEASED) as daemon:
        if not acknowledged:
            story.deliver(daemon, number)
        until(lambda: story.ended(daemon), 120, f"the end of the run after {what}")
        return story.check(daemon, number), story.written(number)


def killed(
    story: Story, points: Iterable[int], again: Callable[[], Iterable[int]] = lambda: ()
) -> Counter[tuple[str, int]]:
    """Kill a daemon at each of these points after a delivery, and those that follow it at `again`; end when none is
    killed. Return how often a call had which status and how many comments there were."""
    found: Counter[tuple[str, int]] = Counter()
    with story.daemon() as daemon:
        story.approve_server(daemon)
    for number, point in enumerate(points, 1):
        acknowledged, kills = False, 0
        for each in (point, *again()):
            acknowledged, was_killed = killed_once(story, number, each, acknowledged=acknowledged)
            kills += was_killed
        found[end(story, number, acknowledged=acknowledged, what=f"a kill at {point}")] += 1
        if not kills:
            break
    return found


def killed_once(story: Story, number: int, point: int, *, acknowledged: bool) -> tuple[bool, bool]:
    """Run a daemon that is killed at a point after the delivery. Return whether it acknowledged the delivery, and
    whether it was killed."""
    story.armed.unlink(missing_ok=True)
    with story.daemon(KILLING, KILL_AT=str(point), KILL_ARMED=str(story.armed)) as daemon:
        story.armed.touch()
        with suppress(OSError, HTTPException):
            if not acknowledged:
                story.deliver(daemon, number)
                acknowledged = True
            until(lambda: daemon.process.poll() is not None or story.ended(daemon), what="the kill, or the end")
        return acknowledged, daemon.process.poll() is not None or daemon.stop() != 0
