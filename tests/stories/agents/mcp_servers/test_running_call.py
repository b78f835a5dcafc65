"""A call of a server runs, and meanwhile keys, users, programs and switches change: it is made once, and its run says
what is not known."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel
from tests.runtime.daemon.running import Daemon, until
from tests.stories.agents.mcp_servers.test_approved import gone, state
from tests.stories.agents.mcp_servers.test_comment import HELD, Story, answer
from tests.stories.agents.mcp_servers.test_waiting_call import (
    asked_by_ada,
    command,
    output,
    waiting,
    without_server,
)

pytestmark = LONG


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(answer) as started:
        yield started


def ends_unknown(story: Story, daemon: Daemon, process: int, written: int) -> None:
    """Kill the server in the middle of the call, and check the end of the run."""
    os.kill(process, signal.SIGKILL)
    until(lambda: story.run(daemon).get("ended") is not None, what="the end of the run")
    assert (story.check(daemon, 1), story.written(1)) == ("unknown", written)


@HELD
def test_keys_are_rotated(tmp_path: Path, model: ScriptedModel, when: str, written: int) -> None:
    story = Story(tmp_path, model, {})
    with story.daemon() as daemon:
        story.approve_server(daemon)
        process = story.hold(daemon, 1, when)
        command(story, daemon, "key", "rotate", "--all")
        command(story, daemon, "key", "rotate", "--master", "--yes")
        assert state(daemon, "github") == "connected"
        ends_unknown(story, daemon, process, written)


@HELD
def test_its_server_is_removed_from_the_program(tmp_path: Path, model: ScriptedModel, when: str, written: int) -> None:
    """The server ends when the run has ended."""
    story = Story(tmp_path, model, {})
    with story.daemon() as daemon:
        story.approve_server(daemon)
        process = story.hold(daemon, 1, when)
        daemon.load(without_server((tmp_path / "program" / "hooks.symbiont").read_text()))
        assert not gone(process)
        ends_unknown(story, daemon, process, written)
        until(partial(gone, process), what="the end of the server")


@HELD
def test_its_user_switches_the_agent_off(tmp_path: Path, model: ScriptedModel, when: str, written: int) -> None:
    """The attempt ends as it began; the next delivery waits."""
    story = Story(tmp_path, model, {})
    with story.daemon() as daemon:
        story.approve_server(daemon)
        process = story.hold(daemon, 1, when)
        command(story, daemon, "agent", "config", "set", "reviewer", "enabled", "false")
        ends_unknown(story, daemon, process, written)
        story.deliver(daemon, 2)
        until(lambda: story.run(daemon).get("state") == "switched_off", what="the delivery that waits")
        assert story.written(2) == 0
        until(lambda: state(daemon, "github") == "connected", what="another start of the server")
        command(story, daemon, "agent", "config", "set", "reviewer", "enabled", "true")
        until(lambda: story.ended(daemon), what="the end of the next run")
        assert story.check(daemon, 2) == "ok"


@HELD
def test_the_daemon_is_started_again_without_tools(
    tmp_path: Path, model: ScriptedModel, when: str, written: int
) -> None:
    story = Story(tmp_path, model, {})
    with story.daemon() as daemon:
        story.approve_server(daemon)
        story.hold(daemon, 1, when)
        daemon.kill()
    with story.daemon(SYMBIONT_AGENT_TOOLS="off") as daemon:
        until(lambda: story.run(daemon).get("ended") is not None, what="the end of the run")
        assert (story.check(daemon, 1), story.written(1)) == ("unknown", written)


@HELD
def test_its_user_is_removed(tmp_path: Path, model: ScriptedModel, when: str, written: int) -> None:
    story = Story(tmp_path, model, {})
    mark = story.comments.with_suffix(f".{when}")
    with story.daemon() as daemon:
        approval = asked_by_ada(story, daemon)
        mark.touch()
        command(story, daemon, "agent", "approve", approval)
        process = int(until(mark.read_text, what="the call"))
        mark.unlink()
        command(story, daemon, "user", "remove", "ada", "--yes")
        os.kill(process, signal.SIGKILL)
        # The server is started again, and others go on.
        until(lambda: state(daemon, "github") == "connected", what="another start of the server")
        story.deliver(daemon, 1)
        command(story, daemon, "agent", "deny", waiting(story, daemon))
        assert output(story, daemon)["status"] == "error"
        assert "Traceback" not in daemon.log.read_text()
    assert (story.written(5), story.written(1)) == (written, 0)
