"""The same over the Model Context Protocol: tools, and resources there and below `/v1`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final

import pytest
from mcp.shared.exceptions import MCPError

from runtime.api.rest.endpoints import VERSION
from runtime.identity.caller import SCOPES, Scope
from runtime.tools import TOOLS
from runtime.tools.resources import RESOURCES, SCHEMES, Resource
from runtime.tools.tool import Tool
from tests.cases import each_case
from tests.runtime.attacks.isolation.parameters import base_of, cases
from tests.runtime.attacks.isolation.world import NEW, OTHER, OWNER, PROJECT, TWIN, World, unknown
from tests.runtime.daemon.running import Answer
from tests.runtime.daemon.v1 import ask
from tests.runtime.mcp.connected import Connected, over_http

Clients = Mapping[tuple[str, Scope], Connected]
CLIENTS: Final[tuple[tuple[str, Scope], ...]] = (
    *((OWNER, "read"), (OTHER, "write"), (TWIN, "write"), (NEW, "read"), (NEW, "write"), (NEW, "admin")),
)


@pytest.fixture(scope="module")
def clients(world: World) -> Iterator[Clients]:
    with ExitStack() as stack:
        yield {key: stack.enter_context(over_http(world.daemon, world.tokens[key], mode="auto")) for key in CLIENTS}


def called(client: Connected, tool: Tool, given: Mapping[str, Any]) -> Answer:
    """Return the result of a call as an answer: 200, or 400 for a failure."""
    result = client.call(tool.name, **given)
    body = json.dumps(result.structured_content, separators=(",", ":"))
    return Answer(400 if result.is_error else 200, {}, body.encode())


@each_case("tool", [tool for tool in TOOLS.values() if tool.scope != "admin"])
def test_what_another_user_has_is_like_what_nobody_has(tool: Tool, world: World, clients: Clients) -> None:
    """The last case names all that the tool needs; the routes of the same tools are called with the others too."""
    before, base, named = world.fingerprint(), base_of(tool), cases(world, tool)[-1]
    answer = called(clients[OTHER, "write"], tool, base | named)
    other = called(clients[TWIN, "write"], tool, base | {name: unknown(value) for name, value in named.items()})
    assert world.leaks(answer, *(base | named).values()) == set(), named
    assert world.shape(answer) == world.shape(other), named
    assert world.fingerprint() == before


@pytest.mark.parametrize("scope", SCOPES)
def test_a_client_sees_and_calls_the_tools_of_its_scope_alone(clients: Clients, scope: Scope) -> None:
    client = clients[NEW, scope]
    listed = {tool.name for tool in client.ask(lambda each: each.list_tools()).tools}
    held = SCOPES[: SCOPES.index(scope) + 1]
    assert listed == {name for name, tool in TOOLS.items() if tool.scope in held}
    for name in set(TOOLS) - listed:
        with pytest.raises(MCPError, match="Unknown tool"):
            client.call(name, **(TOOLS[name].example or {}))


def read(client: Connected, uri: str) -> Answer:
    """Return a resource as an answer, 400 for an error."""
    try:
        return Answer(200, {}, client.ask(lambda each: each.read_resource(uri)).model_dump_json().encode())
    except MCPError as error:
        return Answer(400, {}, str(error).encode())


@each_case("row", RESOURCES.values())
def test_a_resource_shows_nothing_of_another_user(row: Resource, world: World, clients: Clients) -> None:
    for names in (PROJECT, unknown(PROJECT)):
        path = row.path_of(**dict.fromkeys(row.parameters, names))
        for uri in (f"{scheme}{row.path}" for scheme in SCHEMES):
            answer = read(clients[NEW, "read"], uri.replace(row.path, path))
            assert world.leaks(answer, names, user=NEW) == set()
        answer = ask(world.daemon, world.tokens[NEW, "read"], "GET", f"{VERSION}{path}")
        assert world.leaks(answer, names, user=NEW) == set()
        assert ask(world.daemon, None, "GET", f"{VERSION}{path}").status == 401


def test_the_resources_of_the_first_user_name_what_is_theirs(world: World, clients: Clients) -> None:
    assert PROJECT in read(clients[OWNER, "read"], "symbiont://projects").body.decode()
    tags = read(clients[OWNER, "read"], f"symbiont://projects/{PROJECT}/tags").body
    assert world.leaks(Answer(200, {}, tags), user=OWNER)
