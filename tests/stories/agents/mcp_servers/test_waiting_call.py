"""A call waits for a person, and meanwhile keys, users, programs, switches, budgets, disks and databases change."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel
from tests.runtime.daemon.proxy import proxied
from tests.runtime.daemon.running import Daemon, on_postgres, running, until
from tests.stories.agents.mcp_servers.test_approved import state
from tests.stories.agents.mcp_servers.test_comment import LEASED, Story, answer
from tests.stories.disturbance import full, small_disk

pytestmark = LONG

GOOD, UNKNOWN = 0, 2


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(answer) as started:
        yield started


def asked(story: Story, daemon: Daemon) -> str:
    """Let a call wait for a person; return the id of its approval."""
    story.approve_server(daemon)
    story.deliver(daemon, 1)
    return waiting(story, daemon)


def waiting(story: Story, daemon: Daemon) -> str:
    [waits] = until(lambda: story.shown(daemon, "agent", "pending").get("approvals"), what="the question")
    return str(waits["id"])


def command(story: Story, daemon: Daemon, *arguments: str) -> CompletedProcess[str]:
    """Run a command that must succeed."""
    done = daemon.symbi(*arguments, **story.given)
    assert done.returncode == GOOD, done.stdout + done.stderr
    return done


def approved(story: Story, daemon: Daemon, approval: str) -> None:
    """Approve a call, and check that it runs once."""
    command(story, daemon, "agent", "approve", approval)
    until(lambda: story.run(daemon).get("ended") is not None, what="the end of the run")
    assert story.check(daemon, 1) == "ok"


def without_server(text: str) -> str:
    """Return a program without its server, and without what names it."""
    return "\n".join(line for line in text.splitlines() if "github" not in line or line.startswith("webhook"))


def output(story: Story, daemon: Daemon) -> dict[str, Any]:
    """Return the output of the call of the newest run, once it has ended."""
    run = until(lambda: run if (run := story.run(daemon)).get("ended") else None, what="the end of the run")
    messages = story.shown(daemon, "thread", "show", run["thread"])["items"]
    [item] = [item for item in messages if item["type"] == "function_call_output"]
    return {**item, "status": item["outcome"], "text": item["output"]}


@pytest.mark.parametrize("what", [("--user", "owner"), ("--all",), ("--master", "--yes")], ids=lambda what: what[0])
def test_keys_are_rotated_and_the_daemon_is_started_again(
    tmp_path: Path, model: ScriptedModel, what: tuple[str, ...]
) -> None:
    story = Story(tmp_path, model, {})
    with story.daemon() as daemon:
        approval = asked(story, daemon)
        before = story.shown(daemon, "agent", "pending")
        command(story, daemon, "key", "rotate", *what)
        assert story.shown(daemon, "agent", "pending") == before
        daemon.kill()
    with story.daemon() as daemon:
        assert story.shown(daemon, "agent", "pending") == before
        until(lambda: state(daemon, "github") == "connected", what="the server, approved under the key before")
        approved(story, daemon, approval)


def asked_by_ada(story: Story, daemon: Daemon) -> str:
    """Let a call of another user wait for a person; return the id of its approval."""
    story.approve_server(daemon)
    command(story, daemon, "user", "add", "ada")
    asking = daemon.symbi("chat", "reviewer", "--user", "ada", "-m", 'Comment on "number": 5, please.')
    assert (asking.returncode, "waits for the approval" in asking.stderr) == (1, True)
    [waits] = story.shown(daemon, "agent", "pending", "--user", "ada")["approvals"]
    return str(waits["id"])


def test_the_user_is_removed_whose_call_waits(tmp_path: Path, model: ScriptedModel) -> None:
    story = Story(tmp_path, model, {})
    with story.daemon() as daemon:
        approval = asked_by_ada(story, daemon)
        command(story, daemon, "user", "remove", "ada", "--yes")
        assert daemon.symbi("agent", "approve", approval).returncode == UNKNOWN
        assert story.shown(daemon, "agent", "pending").get("approvals") == []
    with story.daemon() as daemon:
        assert daemon.symbi("agent", "approve", approval).returncode == UNKNOWN
        story.deliver(daemon, 1)
        approved(story, daemon, waiting(story, daemon))
    assert story.written(5) == 0


def test_the_user_is_removed_whose_call_waits_and_the_data_is_kept(tmp_path: Path, model: ScriptedModel) -> None:
    """An administrator decides then."""
    story = Story(tmp_path, model, {})
    with story.daemon() as daemon:
        approval = asked_by_ada(story, daemon)
        command(story, daemon, "user", "remove", "ada", "--yes", "--keep")
        daemon.kill()
    with story.daemon() as daemon:
        command(story, daemon, "agent", "approve", approval)
        until(lambda: story.written(5), what="the comment")


def test_the_server_is_removed_from_the_program(tmp_path: Path, model: ScriptedModel) -> None:
    story = Story(tmp_path, model, {})
    text = (tmp_path / "program" / "hooks.symbiont").read_text()
    with story.daemon() as daemon:
        approval = asked(story, daemon)
        daemon.load(without_server(text))
        assert state(daemon, "github") == ""
        command(story, daemon, "agent", "approve", approval)
        assert output(story, daemon)["status"] == "error"
    assert story.written(1) == 0


def test_the_server_is_removed_from_the_program_and_comes_back(tmp_path: Path, model: ScriptedModel) -> None:
    story = Story(tmp_path, model, {})
    text = (tmp_path / "program" / "hooks.symbiont").read_text()
    with story.daemon() as daemon:
        approval = asked(story, daemon)
        daemon.load(without_server(text))
        assert state(daemon, "github") == ""
        daemon.load(text)
        until(lambda: state(daemon, "github") == "connected", what="the server")
        approved(story, daemon, approval)


def test_the_user_switches_the_agent_off_and_on(tmp_path: Path, model: ScriptedModel) -> None:
    story = Story(tmp_path, model, {})
    with story.daemon() as daemon:
        approval = asked(story, daemon)
        command(story, daemon, "agent", "config", "set", "reviewer", "enabled", "false")
        command(story, daemon, "agent", "approve", approval)
        until(lambda: story.run(daemon)["state"] == "switched_off", what="the run that waits for the switch")
        assert story.written(1) == 0
    with story.daemon() as daemon:
        command(story, daemon, "agent", "config", "set", "reviewer", "enabled", "true")
        until(lambda: story.run(daemon).get("ended") is not None, what="the end of the run")
        assert story.check(daemon, 1) == "ok"


def test_the_agent_is_disabled_in_the_program_and_comes_back(tmp_path: Path, model: ScriptedModel) -> None:
    story = Story(tmp_path, model, {})
    text = (tmp_path / "program" / "hooks.symbiont").read_text()
    with story.daemon() as daemon:
        approval = asked(story, daemon)
        daemon.load(text.replace("thread delivery", "thread delivery enabled false"))
        refused = daemon.symbi("agent", "approve", approval)
        assert (refused.returncode, "the agent reviewer is disabled" in refused.stderr) == (1, True)
        assert waiting(story, daemon) == approval
        daemon.load(text)
        approved(story, daemon, approval)


def test_the_budget_is_used_up_when_a_person_approves(tmp_path: Path, model: ScriptedModel) -> None:
    story = Story(tmp_path, model, {})
    with story.daemon() as daemon:
        approval = asked(story, daemon)
        command(story, daemon, "user", "set", "owner", "--tokens-per-day", "1")
        command(story, daemon, "agent", "approve", approval)
        until(lambda: story.run(daemon)["state"] == "budget_exceeded", what="the run that waits for the next day")
        daemon.kill()
    with story.daemon() as daemon:
        command(story, daemon, "user", "set", "owner", "--tokens-per-day", "none")
        until(lambda: story.run(daemon).get("ended") is not None, what="the end of the run")
        assert story.check(daemon, 1) == "ok"


def test_the_deadline_passes_while_no_daemon_runs(tmp_path: Path, model: ScriptedModel) -> None:
    story = Story(tmp_path, model, {"SYMBIONT_CONFIRM_TIMEOUT": "60s"})
    with story.daemon(SYMBIONT_CONFIRM_TIMEOUT="10s") as daemon:
        approval = asked(story, daemon)
    time.sleep(10)
    with story.daemon() as daemon:
        found = output(story, daemon)
        assert (found["status"], "obody" in found["text"]) == ("error", True)
        late = daemon.symbi("agent", "approve", approval)
        assert (late.returncode, "Traceback" in late.stderr) == (1, False)
    assert story.written(1) == 0


def test_a_copy_of_the_root_decides_for_itself(tmp_path: Path, model: ScriptedModel) -> None:
    root = tmp_path / "root"
    root.mkdir()
    story = Story(root, model, {})
    with story.daemon() as daemon:
        approval = asked(story, daemon)
    copy = tmp_path / "copy"
    shutil.copytree(root, copy, symlinks=True)
    other = Story.__new__(Story)
    other.__dict__.update(story.__dict__, root=copy)
    with running(copy, "program", "--root", str(copy), wait=True) as daemon:
        command(other, daemon, "agent", "deny", approval)
        assert output(other, daemon)["status"] == "error"
    assert story.written(1) == 0
    with story.daemon() as daemon:
        assert waiting(story, daemon) == approval
        approved(story, daemon, approval)


def test_the_disk_is_full_when_a_person_approves(tmp_path: Path, model: ScriptedModel) -> None:
    with small_disk(tmp_path / "disk") as folder:
        story = Story(folder, model, {})
        with story.daemon() as daemon:
            approval = asked(story, daemon)
            with full(folder):
                failed = daemon.symbi("agent", "approve", approval)
            assert "Traceback" not in failed.stderr
            assert failed.returncode == GOOD or failed.stderr.strip()
            if failed.returncode != GOOD:
                command(story, daemon, "agent", "approve", approval)
            until(lambda: story.run(daemon).get("ended") is not None, what="the end of the run")
            assert story.check(daemon, 1) == "ok"


def test_the_database_is_away_when_a_person_approves(tmp_path: Path, model: ScriptedModel, postgres_url: str) -> None:
    with proxied(postgres_url) as proxy:
        story = Story(tmp_path, model, on_postgres(proxy.url, SHARING_LEASE="1"))
        with story.daemon(LEASED) as daemon:
            approval = asked(story, daemon)
            proxy.cut()
            failed = daemon.symbi("agent", "approve", approval, **story.given)
            assert (failed.returncode != GOOD, "Traceback" in failed.stderr) == (True, False)
            proxy.reconnect()
            until(lambda: daemon.readyz().status == 200, what="the database")
            approved(story, daemon, approval)
