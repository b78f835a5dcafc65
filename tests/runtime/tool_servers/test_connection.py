"""Whatever a server does, a call of it has an answer or an error in time, and the next one finds a server again."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from runtime.tool_servers import child
from runtime.tool_servers import connection as connections
from runtime.tool_servers.connection import ServerConnection
from runtime.tool_servers.errors import CallUncertain, ServerAway, ToolFailed
from runtime.tool_servers.session import Session, ToolListing
from runtime.tool_servers.stdio import LARGEST_MESSAGE
from tests.cases import each_case
from tests.lanes import LONG
from tests.runtime.tool_servers.places import connection, program, raw, until


@pytest.fixture(autouse=True)
def _restarts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(connections, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(child, "CLOSE_SECONDS", 1.0)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ServerConnection]:
    async with connection(program(tmp_path)) as opened:
        yield opened


async def test_a_call_starts_the_server_and_returns_its_text(server: ServerConnection) -> None:
    assert (await server.call("echo", {"text": "Grüße"}, 60)).text == "echo: Grüße"
    assert (server.connected, server.server_label, server.problem) == (True, "raw 7", None)


async def test_a_server_has_three_variables_of_the_daemon_and_those_of_its_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_SECRET", "of-the-daemon")
    monkeypatch.setenv("LANG", "C.UTF-8")
    async with connection(program(tmp_path, env={"MODE": "quiet", "HOME": "/srv/home"})) as server:
        env = json.loads((await server.call("env", {}, 60)).text)
        files = (await server.call("files", {}, 60)).text
    assert env == {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/srv/home", "MODE": "quiet"}
    assert files == "0 1 2"


async def test_a_server_works_in_a_folder_of_its_own_that_npx_takes_for_a_project(tmp_path: Path) -> None:
    async with connection(program(tmp_path)) as server:
        folder = Path((await server.call("cwd", {}, 60)).text)
    assert folder == tmp_path / "server"
    assert json.loads((folder / "package.json").read_text()) == {"private": True}
    assert folder.stat().st_mode & 0o077 == 0


async def test_secrets_of_the_block_are_in_nothing_that_a_server_sends(tmp_path: Path) -> None:
    env = {"A_TOKEN": "a-very-secret-value"}
    async with connection(program(tmp_path, env=env, secrets=tuple(env.values()))) as server:
        said = [
            (await server.call("env", {}, 60)).text,
            str((await server.call("structured", {}, 60)).structured),
        ]
        with pytest.raises(ToolFailed) as failed:
            await server.call("fail", {"text": "a-very-secret-value"}, 60)
        with pytest.raises(CallUncertain) as ended:
            await server.call("die", {"text": "a-very-secret-value"}, 60)
        await until(lambda: server.problem)
        said += [str(failed.value), str(ended.value), str(server.problem)]
    assert not [each for each in said if "very-secret" in each]
    assert [each for each in said if "[secret]" in each][:3] == said[:3]


async def test_secrets_of_the_block_are_in_no_definition_and_no_line_of_the_log(tmp_path: Path) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----"
    env = {"A_TOKEN": "a-very-secret-value", "A_KEY": key}
    with capture_logs() as logged:
        async with connection(program(tmp_path, *raw("tells"), env=env, secrets=tuple(env.values()))) as server:
            assert (await server.call("echo", {}, 60)).text == "echo: None"
            assert server.listing is not None
            [told] = server.listing.tools
            said = [server.server_label, str(server.listing), *(str(each["line"]) for each in logged if "line" in each)]
    assert (server.server_label, told.description) == ("[secret] 7", "[secret]")
    assert told.schema["properties"]["text"] == {"type": "string", "default": "[secret]", "description": "[secret]"}
    assert [line.partition(":")[0] for line in server.listing.refused] == ["t-[secret]", "[secret]"]
    assert f"{'x' * 490} [secret]" in said
    assert not [each for each in said if "a-very" in each or "MIIEv" in each]


async def test_the_error_of_a_tool_is_the_servers(server: ServerConnection) -> None:
    with pytest.raises(ToolFailed, match="no: because"):
        await server.call("fail", {"text": "because"}, 60)
    assert (await server.call("echo", {"text": "on"}, 60)).text == "echo: on"


@each_case(
    ("tool", "text"),
    [
        ("greet", "after a greeting"),
        ("broken_text", "be\ufffd\ufffdlow"),
        ("half_character", "be\ufffdlow"),
        ("picture", "[image image/png, 3 bytes]"),
    ],
)
async def test_what_is_odd_in_an_answer_is_read_over(server: ServerConnection, tool: str, text: str) -> None:
    assert (await server.call(tool, {}, 60)).text == text


@each_case(
    ("result", "text"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "film", "data": {}}]}, "a\n[film, which is not shown]"),
        ({"content": [{"type": "image", "data": "AAAA"}]}, "[image, which is not shown]"),
        ({"content": [{"type": "text", "text": None}, "b"]}, "[text, which is not shown]\nb"),
        ({"content": [{"data": 1}, 7]}, "[a part without a type]\n[a part without a type]"),
        ({"content": [{"type": "resource", "resource": {"uri": "x:/y", "text": "held"}}]}, "held"),
        ({"content": [{"type": "resource", "resource": {"uri": "x:/y", "blob": "AAAA"}}]}, "[resource x:/y, 3 bytes]"),
        ({"content": [{"type": "resource_link", "uri": "x:/y"}]}, "[resource x:/y]"),
        ({"content": {"type": "text", "text": "alone"}}, "alone"),
        ({"content": [], "structuredContent": [1, "é"]}, '[1, "é"]'),
        ({}, ""),
    ],
)  # fmt: skip
async def test_parts_of_a_result_of_which_nothing_is_known_are_named(
    server: ServerConnection, result: dict[str, Any], text: str
) -> None:
    assert (await server.call("return", {"text": json.dumps(result)}, 60)).text == text


async def test_a_result_without_content_is_its_structured_part(server: ServerConnection) -> None:
    found = await server.call("return", {"text": '{"structuredContent": {"n": 1}, "content": null}'}, 60)
    assert (found.text, found.structured) == ("", {"n": 1})
    with pytest.raises(CallUncertain, match="sent a result that is not valid"):
        await server.call("return", {"text": '{"other": 1}'}, 60)


@pytest.mark.parametrize(
    ("tool", "error"),
    [
        ("hang", "did not answer within 1 second"),
        ("die", "the connection to raw ended before the answer"),
    ],
)
async def test_a_call_without_an_answer_may_have_happened_and_the_server_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, error: str | None
) -> None:
    monkeypatch.setattr(connections, "LIST_SECONDS", 0.1)
    file = tmp_path / "calls"
    async with connection(program(tmp_path, *raw("serves", file))) as server:
        await server.call("echo", {}, 60)
        with pytest.raises(CallUncertain, match=error):
            await server.call(tool, {}, 1 if tool != "die" else 60)
        if tool == "hang":
            await until(lambda: not server.connected)
        assert await answered(server) == "echo: again"
    calls = [json.loads(line)["name"] for line in file.read_text().splitlines()]
    assert calls == ["echo", tool, "echo"]


async def answered(server: ServerConnection) -> str:
    """Return the answer of a server as soon as it is there again. Nothing is sent before."""
    while True:
        try:
            return (await server.call("echo", {"text": "again"}, 60)).text
        except ServerAway:
            await asyncio.sleep(0.005)


async def test_an_answer_of_fifty_megabytes_ends_the_connection_and_is_not_kept(server: ServerConnection) -> None:
    await server.call("echo", {}, 60)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CallUncertain):
        await server.call("flood", {}, 60)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 6 * LARGEST_MESSAGE // 1024
    assert await answered(server) == "echo: again"


@each_case(
    ("tool", "what"),
    [
        ("nested", "it is nested more than 500 deep"),
        ("many_values", "it has more than 50,000 values"),
        ("many_parts", "it has more than 50,000 values"),
        ("not_json", "it is not valid"),
    ],
)
async def test_an_answer_that_cannot_be_read_ends_its_call_and_not_the_connection(
    server: ServerConnection, tool: str, what: str
) -> None:
    await server.call("echo", {}, 60)
    before = server.listing
    with pytest.raises(CallUncertain, match=f"sent an answer that cannot be read: {what}"):
        await server.call(tool, {}, 600)
    assert (await server.call("echo", {"text": "on"}, 60)).text == "echo: on"
    assert server.listing is before or server.connected


@pytest.mark.parametrize("flood", ["notify", "answer_for_ever", "end_lines"])
async def test_messages_without_end_cost_little_and_their_call_ends_in_time(
    server: ServerConnection, flood: str
) -> None:
    await server.call("echo", {}, 60)
    with busy() as share, pytest.raises(CallUncertain, match="did not answer within"):
        await server.call(flood, {}, 0.5)
    assert share[0] < 0.2


async def test_error_output_without_end_costs_little(tmp_path: Path) -> None:
    def said() -> list[Any]:
        return [each for each in logged if each["event"] == "mcp_server_said"]

    with capture_logs() as logged:
        async with connection(program(tmp_path, *raw("complains"))) as server:
            await server.call("echo", {}, 60)
            await until(lambda: len(said()) >= child.LINES_PER_MINUTE)
            with busy() as share:
                await asyncio.sleep(0.5)
            assert (await server.call("echo", {}, 60)).text == "echo: None"
    assert share[0] < 0.15
    assert len(said()) == child.LINES_PER_MINUTE


@contextmanager
def busy() -> Iterator[list[float]]:
    """Yield a list that has at the end which share of the time this process was busy."""
    began, used, share = time.monotonic(), time.process_time(), list[float]()
    yield share
    share.append((time.process_time() - used) / (time.monotonic() - began))


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("exits", "it ended (exit code 4): for this machine"),
        ("silent", "it did not answer within 0.3 seconds after its start"),
        ("other", "it sent what is not valid: capabilities: Field required"),
    ],
)
async def test_a_server_that_cannot_be_started_is_away_with_the_reason(tmp_path: Path, way: str, reason: str) -> None:
    async with connection(program(tmp_path, *raw(way)), start_seconds=0.3 if way == "silent" else 60) as server:
        with pytest.raises(ServerAway, match="raw is away"):
            await server.call("echo", {}, 60)
        assert reason in str(server.problem)


async def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    async with connection(program(tmp_path, "/nowhere/server")) as server:
        with pytest.raises(ServerAway, match="/nowhere/server cannot be started: No such file or directory"):
            await server.call("echo", {}, 60)


async def test_tools_are_offered_as_far_as_they_are_what_a_tool_may_be(tmp_path: Path) -> None:
    async with connection(program(tmp_path, *raw("lies"))) as server:
        await server.call("good", {}, 60)
        assert server.listing is not None
        tools = {tool.name: tool for tool in server.listing.tools}
    assert list(tools) == ["good", "dots.are.fine", "cycle", "elsewhere", "long", "hidden"]
    assert tools["good"].description == "Does good."
    assert tools["cycle"].schema["properties"]["node"]["properties"]["next"] == {}
    assert tools["elsewhere"].schema["properties"] == {"a": {}}
    assert len(tools["long"].description) < 5000
    assert tools["hidden"].description == "Adds.[2J"
    refused = [line.partition(":")[0] for line in server.listing.refused]
    assert refused == ["good", "bad name", "*", "huge"]


async def test_a_tool_that_cannot_be_read_takes_no_other_away(tmp_path: Path) -> None:
    async with connection(program(tmp_path, *raw("odd"))) as server:
        assert (await server.call("good", {"text": "x"}, 60)).text == "good: x"
        assert server.listing is not None
        tools = {tool.name: tool.schema for tool in server.listing.tools}
    assert list(tools) == ["good", "empty", "choice", "list_of_types", "odd_others", "odd_part"]
    assert tools["empty"] == {"type": "object", "properties": {}}
    both = {"text": {"anyOf": [{"const": "a"}, {"const": "b"}]}, "n": {"type": "integer"}}
    assert tools["choice"] == {"type": "object", "properties": both, "required": ["text"]}
    assert (tools["list_of_types"]["type"], "anyOf" in tools["list_of_types"]) == ("object", False)
    assert tools["odd_part"]["properties"] == {"a": {}, "b": {"type": "string"}}
    assert server.listing.refused == (
        "text: its schema is not one of an object",
        "half_text: its schema is not one of an object",
        "no_properties: its schema is not valid",
        "bad_part: its schema is not valid",
        "no_schema: its schema is not an object",
        "(a tool without a name): its name is not 1 to 128 letters, digits, `_`, `-` and `.`",
        "(a tool without a name): its name is not 1 to 128 letters, digits, `_`, `-` and `.`",
    )


async def test_a_list_that_repeats_itself_has_each_of_its_parts_once(tmp_path: Path) -> None:
    async with connection(program(tmp_path, *raw("repeats"))) as server:
        await server.call("after_None", {}, 60)
        assert server.listing is not None
        assert [tool.name for tool in server.listing.tools] == ["after_None", "after_a", "after_b"]
        assert server.listing.refused == ("its list of tools has no end: it names the same part again",)


async def test_an_empty_cursor_is_the_end_of_a_list(tmp_path: Path) -> None:
    async with connection(program(tmp_path, *raw("empty_cursor"))) as server:
        assert (await server.call("echo", {"text": "x"}, 60)).text == "echo: x"
        assert server.listing is not None
        assert server.listing.refused == ()


async def test_a_list_without_end_is_cut(tmp_path: Path) -> None:
    async with connection(program(tmp_path, *raw("endless"))) as server:
        await server.call("t0_0", {}, 60)
        assert server.listing is not None
        assert len(server.listing.tools) == 256
        assert len(server.listing.refused) <= 20
        assert server.listing.refused[0] == "it lists its tools in more than 32 parts"


async def test_other_tools_are_known_when_the_server_says_so(server: ServerConnection) -> None:
    await server.call("echo", {}, 60)
    first = server.listing
    await server.call("change", {}, 60)
    await until(lambda: server.listing is not first)
    assert server.listing is not None
    names = [tool.name for tool in server.listing.tools]
    assert ("echo" in names, "added" in names) == (False, True)


async def test_a_server_that_fails_again_and_again_is_started_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "FIRST_WAIT_SECONDS", 0.02)
    monkeypatch.setattr(connections, "LONGEST_WAIT_SECONDS", 0.06)
    file = tmp_path / "starts"
    async with connection(program(tmp_path, "/bin/sh", "-c", f"date +%s.%N >> {file}; exit 1")) as server:
        server.start(lambda name, work: asyncio.create_task(work, name=name))
        await until(lambda: file.exists() and len(file.read_text().splitlines()) >= 6)
    times = [float(line) for line in file.read_text().splitlines()]
    waits = [after - before for before, after in pairwise(times)]
    assert all(wait >= least for wait, least in zip(waits, [0.02, 0.04, 0.06, 0.06, 0.06], strict=False))


@LONG
async def test_everything_that_a_server_has_started_ends_with_it(server: ServerConnection) -> None:
    left = int((await server.call("leave", {}, 60)).text)
    assert Path(f"/proc/{left}").exists()
    await server.close()
    await until(lambda: not Path(f"/proc/{left}").exists())


async def test_a_connection_ends_although_its_cancellation_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, asked = Session.tools, asyncio.Event()

    async def lose_cancellation(session: Session) -> ToolListing:
        asked.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        return await tools(session)

    monkeypatch.setattr(Session, "tools", lose_cancellation)
    async with asyncio.timeout(30), connection(program(tmp_path)) as opened:
        opened.start(lambda name, work: asyncio.create_task(work, name=name))
        await asked.wait()
