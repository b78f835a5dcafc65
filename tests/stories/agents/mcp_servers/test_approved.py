"""Agents use the tools of servers that a person approved, and nothing else of a program starts by being written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from runtime.agents.loop.call import UNKNOWN
from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, calling
from tests.runtime.daemon.running import Daemon, running, until, write_program
from tests.runtime.daemon.terminal import terminal
from tests.runtime.tool_servers.places import raw

SECRET = "the-value-of-a-token"


def listed(*words: object) -> str:
    """Return a list of strings as a program writes it."""
    return "[" + ", ".join(json.dumps(str(word)) for word in words) + "]"


def program(model: ScriptedModel, command: tuple[str, ...], *, settings: str = "", tools: str = '["raw.*"]') -> str:
    """Return a program with one server and one agent."""
    return f"""\
memory notes {{ path "notes" embedding hashing }}
{model.block}
mcp raw {{
    command {listed(*command)}
    env {{ A_TOKEN "secret://env/A_TOKEN" }}
    {settings}
}}
agent helper {{ memory notes model scripted tool_calling native tools {tools} }}
"""


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(calling(text="Done.")) as started:
        yield started


def approve(daemon: Daemon, name: str = "raw") -> str:
    """Approve a server, and wait until it is connected. Return what is printed."""
    done = daemon.symbi("mcp-server", "approve", name, "--yes", A_TOKEN=SECRET)
    assert done.returncode == 0, done.stdout + done.stderr
    until(lambda: state(daemon, name) == "connected", what="the connection")
    return done.stdout


def state(daemon: Daemon, name: str = "raw") -> str:
    rows = json.loads(daemon.symbi("mcp-server", "list", "--json").stdout)["servers"]
    return next((str(row["state"]) for row in rows if row["server"] == name), "")


def readiness(daemon: Daemon, name: str = "raw") -> tuple[str, str]:
    """Return the status and the text of the check of a server."""
    checks = json.loads(daemon.symbi("readiness", "--json").stdout)["checks"]
    return next(((c["status"], c["text"]) for c in checks if c["check"] == f"mcp {name}"), ("", ""))


def called(daemon: Daemon, model: ScriptedModel, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the one call of a run in which the model calls `tool`."""
    model.replies = [calling((tool, arguments)), calling(text="Done.")]
    done = daemon.symbi("chat", "helper", "-m", "Do it.", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["ended"], answer["messages"]) == ("answered", ["Done."])
    [call] = answer["tool_calls"]
    return dict(call)


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_server_is_used_after_it_was_approved_and_until_it_changes(tmp_path: Path, model: ScriptedModel) -> None:
    calls = tmp_path / "calls"
    write_program(tmp_path, program(model, raw("serves", calls)))
    with running(tmp_path, "program", A_TOKEN=SECRET) as daemon:
        assert readiness(daemon) == (
            "YELLOW", "not approved, so it is not started: `symbi mcp-server approve raw` shows it",
        )  # fmt: skip
        assert "no tool is called" in called(daemon, model, "raw_echo")["output"]
        said = daemon.symbi("mcp-server", "tools", "raw").stdout
        assert said == "no tools of raw are offered: it is unapproved; `symbi mcp-server approve raw`\n"
        refused = daemon.symbi("mcp-server", "approve", "raw")
        assert (refused.returncode, "give --yes" in refused.stderr) == (2, True)
        assert not (tmp_path / ".symbi/mcp-servers").exists()

        shown = approve(daemon)
        assert "secret://env/A_TOKEN" in shown
        assert "raw.echo(text)\n    Does echo.\n    {\n" in shown
        assert "approved raw with" in shown
        assert (tmp_path / ".symbi/mcp-approvals.json").stat().st_mode & 0o777 == 0o600
        call = called(daemon, model, "raw_echo", text="hello")
        assert (call["status"], json.loads(call["output"])) == ("ok", {"text": "echo: hello"})
        # What a model reads is what the person has seen, to the letter.
        read = [each["function"] for each in model.bodies[-1]["tools"] if each["function"]["name"].startswith("raw_")]
        assert read
        for each in read:
            schema = indent(json.dumps(each["parameters"], ensure_ascii=False, indent=2), "    ")
            assert f"    {each['description']}\n{schema}\n" in shown
        env = json.loads(json.loads(called(daemon, model, "raw_env")["output"])["text"])
        assert env.keys() <= {"PATH", "HOME", "LANG", "LC_CTYPE", "A_TOKEN"}
        assert env["A_TOKEN"] == "[secret]"

        daemon.load(program(model, raw("serves", tmp_path / "elsewhere")))
        assert state(daemon) == "changed"
        status, text = readiness(daemon)
        assert (status, f"→ {raw()[0]}" in text, "elsewhere" in text) == ("YELLOW", True, True)
        assert "no tool is called" in called(daemon, model, "raw_echo")["output"]
        assert not (tmp_path / "elsewhere").exists()
        everything = [daemon.log.read_text(), text, *map(json.dumps, model.bodies)]
        everything.append((tmp_path / ".symbi/mcp-approvals.json").read_text())
    assert SECRET not in "".join(everything)
    assert [json.loads(line)["name"] for line in calls.read_text().splitlines()] == ["echo", "env"]


def test_a_server_that_dies_is_the_error_of_a_call_and_comes_back(tmp_path: Path, model: ScriptedModel) -> None:
    write_program(tmp_path, program(model, raw()))
    with running(tmp_path, "program", A_TOKEN=SECRET) as daemon:
        approve(daemon)
        failed = called(daemon, model, "raw_fail", text="because")
        assert (failed["status"], json.loads(failed["output"])["message"]) == ("error", "no: because")
        died = called(daemon, model, "raw_die")
        assert (died["status"], "it is not known whether it happened" in died["output"]) == ("unknown", True)
        until(lambda: state(daemon) == "connected", what="another start")
        assert called(daemon, model, "raw_echo", text="on")["status"] == "ok"


@LONG
def test_a_tool_that_cannot_be_read_is_named_where_a_person_looks(tmp_path: Path, model: ScriptedModel) -> None:
    write_program(tmp_path, program(model, raw("odd")))
    with running(tmp_path, "program", A_TOKEN=SECRET) as daemon:
        approve(daemon)
        assert called(daemon, model, "raw_good")["status"] == "ok"
        shown = [daemon.symbi("mcp-server", *each).stdout for each in (("list",), ("tools", "raw"))]
        shown.append(readiness(daemon)[1])
    assert all("text: its schema is not one of an object" in " ".join(each.split()) for each in shown)


def test_tools_that_change_are_not_offered_until_they_are_approved_again(tmp_path: Path, model: ScriptedModel) -> None:
    write_program(tmp_path, program(model, raw()))
    with running(tmp_path, "program", A_TOKEN=SECRET) as daemon:
        approve(daemon)
        assert called(daemon, model, "raw_change")["status"] == "ok"
        until(lambda: readiness(daemon)[0] == "YELLOW", what="the change")
        text = readiness(daemon)[1]
        assert all(each in text for each in ("new: added", "changed: env", "gone: echo"))
        names = [tool["function"]["name"] for tool in model.bodies[-1]["tools"]]
        assert "no tool is called" in called(daemon, model, "raw_added")["output"]
        assert called(daemon, model, "raw_cwd")["status"] == "ok"
        # The server starts with its first tools.
        shown = daemon.symbi("mcp-server", "tools", "raw").stdout
        assert "not offered: added: new since it was approved" in shown
    assert "raw_echo" in names


@LONG
def test_a_reload_starts_a_server_again_only_if_what_was_approved_differs(tmp_path: Path, model: ScriptedModel) -> None:
    def pid() -> int:
        return int(json.loads(called(daemon, model, "raw_pid")["output"])["text"])

    write_program(tmp_path, program(model, raw()))
    with running(tmp_path, "program", A_TOKEN=SECRET) as daemon:
        approve(daemon)
        first = pid()
        daemon.load(program(model, raw(), settings="timeout 5m trust_hints true") + "agent other { memory notes }\n")
        assert pid() == first
        daemon.load(program(model, raw("serves", tmp_path / "calls")))
        approve(daemon)
        second = pid()
        assert second != first
        until(partial(gone, first), what="the end of the first server")
        daemon.load(
            f'memory notes {{ path "notes" embedding hashing }}\n{model.block}agent helper {{ model scripted }}\n'
        )
        until(partial(gone, second), what="the end of the server")


@LONG
def test_a_call_that_a_killed_daemon_had_begun_is_made_once_and_reported(tmp_path: Path, model: ScriptedModel) -> None:
    calls = tmp_path / "calls"
    write_program(tmp_path, program(model, raw("serves", calls), settings="timeout 10m"))
    with ThreadPoolExecutor(1) as pool:
        with running(tmp_path, "program", A_TOKEN=SECRET) as daemon:
            approve(daemon)
            started = int(json.loads(called(daemon, model, "raw_pid")["output"])["text"])
            left = int(json.loads(called(daemon, model, "raw_leave")["output"])["text"])
            model.replies = [calling(("raw_hang", {})), calling(text="I am not sure.")]
            question = pool.submit(daemon.symbi, "chat", "-m", "Hang.", "--json")
            until(lambda: '"hang"' in calls.read_text(), what="the call")
            daemon.kill()
            for pid in (started, left):
                until(partial(gone, pid), what="the end of what the server had started")
        with running(tmp_path, "program", A_TOKEN=SECRET):
            done = question.result(120)
    assert done.returncode == 0, done.stderr
    [call] = json.loads(done.stdout)["tool_calls"]
    assert (call["status"], call["output"]) == ("unknown", UNKNOWN)
    assert [json.loads(line)["name"] for line in calls.read_text().splitlines()] == ["pid", "leave", "hang"]


@LONG
def test_on_a_terminal_a_person_is_asked_before_the_start_and_before_the_approval(
    tmp_path: Path, model: ScriptedModel
) -> None:
    calls = tmp_path / "calls"
    write_program(tmp_path, program(model, raw("serves", calls)))
    with running(tmp_path, "program", A_TOKEN=SECRET) as daemon:
        first = terminal(daemon, "mcp-server", "approve", "raw", typed="n\n")
        assert "Start this command to list its tools?" in first
        assert "nothing was started or approved" in first
        assert not (tmp_path / ".symbi/mcp-servers").exists()
        second = terminal(daemon, "mcp-server", "approve", "raw", typed="y\nn\n")
        assert "raw.echo(text)" in second
        assert "nothing was approved" in second
        assert state(daemon) == "unapproved"
        third = terminal(daemon, "mcp-server", "approve", "raw", typed="y\ny\n")
        assert "approved raw with" in third
        until(lambda: state(daemon) == "connected", what="the connection")


@LONG
def test_a_server_that_does_not_list_its_tools_ends_a_command_in_time(tmp_path: Path, model: ScriptedModel) -> None:
    # Python starts slowly on a busy machine: in one second the server may not even have answered.
    write_program(tmp_path, program(model, raw("lists_nothing"), settings="start_timeout 5s"))
    with running(tmp_path, "program", A_TOKEN=SECRET) as daemon:
        done = daemon.symbi("mcp-server", "approve", "raw", "--yes", A_TOKEN=SECRET)
    assert done.returncode == 1
    assert "raw is away: it did not list its tools within 5 seconds after its start" in done.stderr


@LONG
def test_without_a_daemon_the_commands_say_the_same(tmp_path: Path, model: ScriptedModel) -> None:
    write_program(tmp_path, program(model, raw()))
    with running(tmp_path, "program", A_TOKEN=SECRET) as daemon:
        assert daemon.stop() == 0
        refused = daemon.symbi("mcp-server", "test", "raw", A_TOKEN=SECRET)
        assert (refused.returncode, "raw is not approved" in refused.stderr) == (2, True)
        done = daemon.symbi("mcp-server", "approve", "raw", "--yes", A_TOKEN=SECRET)
        assert done.returncode == 0, done.stderr
        tested = json.loads(daemon.symbi("mcp-server", "test", "raw", "--json", A_TOKEN=SECRET).stdout)
        assert (tested["says"], tested["differences"]) == ("raw 7", [])
        # Nothing is left that runs.
        assert daemon.symbi("mcp-server", "list", A_TOKEN=SECRET).stdout.count("connecting") == 1
        unknown = daemon.symbi("mcp-server", "approve", "rwa", "--yes")
        assert (unknown.returncode, "did you mean" in unknown.stderr) == (2, True)


def test_an_agent_cannot_call_more_than_its_program_lists(tmp_path: Path, model: ScriptedModel) -> None:
    write_program(
        tmp_path, program(model, raw(), tools='["raw.echo", "raw.nothing", memory_append] confirm ["raw.Echo"]')
    )
    with running(tmp_path, "program", A_TOKEN=SECRET) as daemon:
        approve(daemon)
        assert readiness(daemon) == ("YELLOW", f"{len_of_tools()} tools; no tool matches: raw.Echo; raw.nothing")
        assert called(daemon, model, "raw_echo", text="x")["status"] == "ok"
        assert "no tool is called" in called(daemon, model, "raw_env")["output"]
        offered = {tool["function"]["name"] for tool in model.bodies[-1]["tools"]}
    assert offered == {"raw_echo", "memory_append", "done"}


def test_a_pattern_of_every_tool_asks_about_those_of_servers_too(tmp_path: Path, model: ScriptedModel) -> None:
    write_program(tmp_path, program(model, raw(), tools='["raw.echo"] confirm ["*"]'))
    model.replies = [calling(("raw_echo", {"text": "x"})), calling(text="Done.")]
    with running(tmp_path, "program", A_TOKEN=SECRET) as daemon:
        approve(daemon)
        assert "waits for the approval of a person" in daemon.symbi("chat", "helper", "-m", "Do it.").stderr
        [waits] = json.loads(daemon.symbi("agent", "pending", "--json").stdout)["approvals"]
    assert (waits["tool"], waits["arguments"]) == ("raw.echo", {"text": "x"})


def len_of_tools() -> int:
    """Return how many tools the server has."""
    from tests.runtime.tool_servers.raw_server import CALLS

    return len(CALLS)
