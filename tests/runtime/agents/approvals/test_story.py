"""A person approves what an agent does: on the command line, in a chat, over HTTP; across kills and daemons."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import LONG, first_of
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon import killing, sharing
from tests.runtime.daemon.running import Daemon, on_postgres, running, until, write_program
from tests.runtime.daemon.terminal import terminal
from tests.runtime.daemon.v1 import ask, make_token
from tests.runtime.mcp.lines import lines

pytestmark = LONG

PROGRAM = """\
memory notes {{ store collection embedding hashing }}
{model}
agent helper {{ memory notes model scripted tools [webhook_create] confirm ["webhook_*"] }}
"""
CREATE = {"title": "Nightly build", "agent": None}
KILLING = f"{killing.__name__}:{killing.at_commit.__name__}"


def shown(daemon: Daemon, *arguments: str, **extra: str) -> Any:
    done = daemon.symbi(*arguments, "--json", **extra)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def pending(daemon: Daemon, **extra: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shown(daemon, "agent", "pending", **extra)["approvals"]
    return found


def ended(daemon: Daemon, **extra: str) -> str | None:
    [run] = shown(daemon, "agent", "runs", **extra)["runs"]
    return str(run["ended"]) if run["ended"] is not None else None


def created(daemon: Daemon, **extra: str) -> list[str]:
    return [row["title"] for row in shown(daemon, "webhook", "list", **extra)["webhooks"]]


@pytest.fixture
def model() -> Any:
    with ScriptedModel(says("I create it.", webhook_create=CREATE), says("It is there.")) as started:
        yield started


def test_a_call_waits_across_a_kill_and_is_decided_on_the_command_line(model: ScriptedModel, tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program") as daemon:
        asked = daemon.symbi("chat", "-m", "Create a webhook.")
        assert (asked.returncode, asked.stdout) == (1, "I create it.\n")
        assert "waits for the approval of a person" in asked.stderr
        [waits] = pending(daemon)
        assert (waits["tool"], waits["arguments"]) == ("webhook_create", CREATE)
        daemon.kill()
    with running(tmp_path, "program") as daemon:
        assert pending(daemon) == [waits]
        assert created(daemon) == []
        page = daemon.symbi("agent", "pending").stdout
        assert "webhook_create" in page
        assert '"title": "Nightly build"' in page
        done = daemon.symbi("agent", "approve", waits["id"][:-3])
        assert done.stdout == f"approved the call of webhook_create by helper: {waits['id']}\n"
        until(lambda: ended(daemon) == "answered", what="the end of the run")
        assert created(daemon) == ["Nightly build"]
        again = daemon.symbi("agent", "deny", waits["id"], "--reason", "Too late.")
        assert again.returncode == 1
        assert "this call was approved already" in again.stderr
    assert len(model.bodies) == 2


def test_a_person_is_asked_in_a_chat_and_may_decide_later(model: ScriptedModel, tmp_path: Path) -> None:
    model.replies = [says(webhook_create=CREATE), says("Sunny."), says("It is there.")]
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program") as daemon:
        typed = "Create a webhook.\nl\nHow is the weather?\n/pending\ny\n/pending\n/quit\n"
        said = terminal(daemon, "chat", typed=typed)
        assert "Run this call? (y)es, (n)o, (a)lways, (l)ater" in said
        assert '"title": "Nightly build"' in said
        assert said.index("the call waits for your decision") < said.index("Sunny.") < said.index("It is there.")
        assert "no call waits for approval here" in said
        assert created(daemon) == ["Nightly build"]


def test_a_call_is_told_in_the_events_and_decided_over_http(model: ScriptedModel, tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program") as daemon:
        token = make_token(daemon, "--scope", "write")
        sent = ask(daemon, token, "POST", "/v1/agent/chat", {"input": "Create a webhook."}).json()
        assert (sent["ended"], sent["state"]) == (None, "awaiting")
        [waits] = ask(daemon, token, "GET", "/v1/approvals").json()["approvals"]
        done = ask(daemon, token, "POST", f"/v1/approvals/{waits['id']}/deny", {"reason": "Not now."})
        assert (done.status, done.json()["state"]) == (200, "denied")
        until(lambda: ended(daemon) == "answered", what="the end of the run")
        stream = [("Accept", "text/event-stream")]
        body = ask(daemon, token, "GET", f"/v1/agent/chat/{sent['run']}", headers=stream).body.decode()
        events = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
        confirms = [each for each in map(json.loads, events) if "approval" in each]
        assert [each["state"] for each in confirms] == ["awaiting", "denied"]
        assert (confirms[0]["name"], confirms[0]["arguments"]) == ("webhook_create", CREATE)
        assert confirms[0]["deadline"].startswith(waits["deadline"][:19])
        assert {each["approval"] for each in confirms} == {waits["id"]}
        assert confirms[1]["reason"] == "Not now."
        assert created(daemon) == []
    assert "A person denied this call: Not now." in model.texts(1)


def test_a_person_sees_for_whom_and_on_whose_word_a_call_is_made(model: ScriptedModel, tmp_path: Path) -> None:
    model.replies = [says(webhook_create=CREATE)]
    keyed = """
thread keyed { json_path "$.customer" }
}
webhook tickets { path "/hooks/tickets" provider custom insecure_allow_unverified true agent helper }
"""
    write_program(tmp_path, PROGRAM.format(model=model.block).removesuffix("}\n") + keyed)
    with running(tmp_path, "program") as daemon:
        for customer in ("c-2", "c-3"):
            body = json.dumps({"customer": customer, "text": f"Refund {customer}.\x1b[2J\u202e"}).encode()
            assert daemon.request("POST", "/hooks/tickets", body, [("Content-Type", "application/json")]).status == 202
        until(lambda: len(pending(daemon)) == 2, what="both calls")
        for waits in pending(daemon):
            assert (waits["user"], waits["kind"], waits["webhook"]) == ("owner", "keyed", "tickets")
            assert f"Refund {waits['subject']}." in waits["message"]
            assert daemon.symbi("webhook", "show", waits["delivery_id"]).returncode == 0
        page = terminal(daemon, "agent", "pending")
        for waits in pending(daemon):
            assert f"subject  {waits['subject']}" in page
            assert f"webhook  tickets, delivery {waits['delivery_id']}" in page
            assert f"Refund {waits['subject']}." in page
        assert "\x1b[2J" not in page
        assert "\u202e" not in page + terminal(daemon, "agent", "pending", "--json")


def test_a_client_of_mcp_decides_only_if_its_tools_were_named(model: ScriptedModel, tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with running(tmp_path, "program") as daemon:
        assert daemon.symbi("chat", "-m", "Create a webhook.").returncode == 1
        [waits] = pending(daemon)
        for tools in (None, "all", "agents"):
            with lines(tmp_path, tools=tools) as client:
                client.begin()
                names = {each["name"] for each in client.ask("tools/list")["result"]["tools"]}
                assert "agent_chat" in names
                assert not {each for each in names if "approval" in each or each == "agent_config_edit"}
                refused = client.ask(
                    "tools/call", {"name": "approval_approve", "arguments": {"approval_id": waits["id"]}}
                )
                assert refused["error"]["code"] == -32602
        with lines(tmp_path, tools="approvals") as client:
            client.begin()
            done = client.call("approval_approve", approval_id=waits["id"], always=True)
            assert done["structuredContent"]["decided_via"] == "mcp"
        until(lambda: ended(daemon) == "answered", what="the end of the run")
        assert "owner, mcp" in daemon.symbi("agent", "approvals", "list").stdout


def test_a_decision_on_one_daemon_wakes_the_run_on_another(
    model: ScriptedModel, tmp_path: Path, postgres_url: str
) -> None:
    given = on_postgres(postgres_url)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    write_program(tmp_path / "one", PROGRAM.format(model=model.block))
    # The other has no agent, and runs nothing.
    write_program(tmp_path / "other", "memory notes { store collection embedding hashing }\n")
    command = f"{sharing.__name__}:{sharing.leased.__name__}"
    with (
        running(tmp_path / "one", "program", wait=True, command=command, **given) as one,
        running(tmp_path / "other", "program", wait=True, command=command, **given) as other,
    ):
        assert one.symbi("chat", "-m", "Create a webhook.", **given).returncode == 1
        [waits] = pending(other, **given)
        assert other.symbi("agent", "approve", waits["id"], **given).returncode == 0
        until(lambda: ended(one, **given) == "answered", what="the end of the run")
        assert created(one, **given) == ["Nightly build"]


@first_of("point", range(1, 51), 0, every=4)
def test_a_kill_at_any_commit_asks_once_and_runs_at_most_once(model: ScriptedModel, tmp_path: Path, point: int) -> None:
    """At each commit of the daemon, just before it and just after it."""
    model.replies = [_answer]
    write_program(tmp_path, PROGRAM.format(model=model.block))
    with ThreadPoolExecutor(1) as pool:
        with running(tmp_path, "program", command=KILLING, KILL_AT=str(point)) as daemon:
            question = pool.submit(daemon.symbi, "chat", "-m", "Create a webhook.")
            until(lambda: daemon.process.poll() is not None or _decided(daemon), what="the kill, or the end")
        with running(tmp_path, "program") as daemon:
            question.result(120)
            if not shown(daemon, "agent", "runs")["runs"]:
                # It was killed before the message was stored.
                return
            assert until(lambda: _decided(daemon), what="the end of the run") == "answered"
            made = created(daemon)
            [(status, text)] = _outputs(daemon)
    with closing(sqlite3.connect(tmp_path / ".symbi/symbiont.db")) as database:
        assert database.execute("SELECT state FROM approvals").fetchall() == [("approved",)]
    assert made in ([], ["Nightly build"])
    assert status == ("ok" if "webhook_id" in text else "unknown")
    assert status == "unknown" or made == ["Nightly build"]


def _answer(body: Any) -> str:
    text = "\n".join(str(message["content"]) for message in body["messages"])
    return says("It is decided.") if "<tool_output" in text else says(webhook_create=CREATE)


def _decided(daemon: Daemon) -> str | None:
    """Approve what waits; return how the run ended. A daemon that was killed meanwhile may answer nothing."""
    done = daemon.symbi("agent", "pending", "--json")
    for each in json.loads(done.stdout)["approvals"] if done.returncode == 0 else []:
        daemon.symbi("agent", "approve", each["id"])
    done = daemon.symbi("agent", "runs", "--json")
    found = json.loads(done.stdout)["runs"] if done.returncode == 0 else []
    return found[0]["ended"] if found else None


def _outputs(daemon: Daemon) -> list[tuple[str, str]]:
    """Return status and text of the outputs of all calls."""
    [thread] = shown(daemon, "thread", "list")["conversations"]
    lines = daemon.symbi("thread", "export", thread["conversation_id"]).stdout.splitlines()
    items = [json.loads(line) for line in lines]
    return [(item["outcome"], item["output"]) for item in items if item.get("type") == "function_call_output"]
