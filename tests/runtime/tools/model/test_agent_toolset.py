"""An agent's tools: those that its program names, its caller may use, bound to it, in a form that models read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from runtime.errors import NotFound, UsageError
from runtime.identity.caller import Caller, Scope
from runtime.models.request import ToolSchema
from runtime.tools import TOOLS
from runtime.tools.context import ActingAgent, Context
from runtime.tools.model.agent_toolset import DEFAULT_TOOLS, DONE, FIND_TOOL, AgentIdentity, AgentTools
from runtime.tools.model.schema import model_schema
from runtime.tools.tool import Tool, tool
from runtime.tools.toolset import ALL_TOOLS, Toolset
from tests.cases import each_case
from tests.runtime.tools.bare_context import bare_context

AGENT = AgentIdentity("reviewer", "17")
DESTRUCTIVE = sorted(name for name, tool in TOOLS.items() if tool.destructive and not tool.people)


class Answer(BaseModel):
    """The arguments of a call."""

    given: dict[str, Any]


async def look(
    _context: Context,
    agent: Annotated[str, Field(description="An agent.")],
    subject: Annotated[str | None, Field(description="A subject.")] = None,
    user: Annotated[str | None, Field(description="A user.")] = None,
    text: Annotated[str, Field(description="A text.")] = "-",
) -> Answer:
    """Look."""
    return Answer(given={"agent": agent, "subject": subject, "user": user, "text": text})


def caller(*scopes: Scope) -> Caller:
    return Caller("ada", frozenset(scopes))


def names(patterns: list[str] | None, *scopes: Scope, tools: Toolset | None = None) -> list[str]:
    found = AgentTools(ALL_TOOLS if tools is None else tools).of(patterns, caller(*scopes or ("write",)), AGENT)
    return [each.name for each in found.schemas]


def test_an_agent_whose_program_names_no_tools_has_its_memory_tools_and_done() -> None:
    assert names(None) == ["done", *(name for name in TOOLS if name in DEFAULT_TOOLS)]
    assert {"memory_replace", "memory_append", "memory_insert"} <= set(names(None))


def test_an_empty_list_leaves_done_alone() -> None:
    assert names([]) == ["done"]


def test_patterns_select_by_name() -> None:
    assert names(["memory_app*", "webhook_list", "nothing"]) == ["done", "webhook_list", "memory_append"]


@each_case("name", DESTRUCTIVE)
def test_a_destructive_tool_is_selected_by_its_full_name_only(name: str) -> None:
    for pattern in ("*", f"{name[:-1]}*", f"*{name[1:]}", f"{name}*"):
        assert name not in names([pattern], "admin")
    assert name in names([name], "admin")
    assert name in names(["*", name], "admin")


@each_case("name", [name for name, tool in TOOLS.items() if tool.people])
def test_a_tool_for_people_is_not_selected_even_by_name(name: str) -> None:
    assert names([name, "*", f"{name[:-1]}*"], "admin").count(name) == 0


async def test_a_tool_for_people_refuses_an_agent_that_calls_it() -> None:
    acting = bare_context(caller("admin"), ActingAgent("reviewer", "run", None))
    with pytest.raises(UsageError, match="for people"):
        await TOOLS["agent_config_edit"].call(acting, {"agent": "reviewer"})


def test_what_the_caller_may_not_do_is_not_selected_even_by_name() -> None:
    assert names(["memory_purge", "memory_append"], "write") == ["done", "memory_append"]
    assert "memory_append" not in names(None, "read")


async def test_agent_subject_and_user_are_bound() -> None:
    tools = AgentTools(Toolset({"look": tool("write")(look)})).of(["look"], caller("write"), AGENT)
    assert set(tools.schemas[1].parameters["properties"]) == {"text"}
    context = bare_context(caller("write"))
    given = {"text": "t", "agent": "planner", "subject": "18", "user": "bob"}
    answer = (await tools.call("look", context, given)).model_dump()["given"]
    assert answer == {"agent": "reviewer", "subject": "17", "user": "id:ada", "text": "t"}


@pytest.mark.parametrize("patterns", [None, ["*"], [*TOOLS]])
def test_no_tool_of_an_agent_shows_a_parameter_that_is_bound(patterns: list[str] | None) -> None:
    tools = AgentTools().of(patterns, caller("admin"), AGENT)
    for schema in tools.schemas:
        assert not {"agent", "subject", "user"} & set(schema.parameters["properties"])


def test_tools_are_selected_once_for_the_same_patterns_and_scopes() -> None:
    tools = AgentTools()
    first = tools.of(None, caller("write"), AGENT)
    other = tools.of(None, Caller("bob", frozenset({"write"})), AgentIdentity("planner"))
    assert other.schemas is first.schemas
    bound = [each["memory_append"].exact["bound"] for each in (first, other)]
    assert bound == [{"agent": AGENT.agent, "subject": AGENT.subject}, {"agent": "planner", "subject": None}]
    assert tools.of(["memory_*"], caller("write"), AGENT).schemas != first.schemas
    assert "memory_append" not in tools.of(None, caller("read"), AGENT)
    assert "agent_memory_schema" not in tools.of(["agent_memory_*"], caller("read"), AGENT, tables=False)


async def test_dotted_and_long_names_have_a_way_back() -> None:
    long = "github." + "x" * 80
    rows = {name: tool("read", name=name)(look) for name in ("github.search", "github_search", long)}
    tools = AgentTools(Toolset(rows)).of(["*", "github.*"], caller("write"), AGENT)
    shown = [each.name for each in tools.schemas if each is not DONE]
    assert [tools[name].name for name in shown] == ["github.search", "github_search", long]
    assert len(tools) == 3
    context = bare_context(caller("write"))
    for name in shown:
        await tools.call(name, context, {})
    with pytest.raises(NotFound) as unknown:
        await tools.call("github_serch", context, {})
    assert "github_search" in (unknown.value.hint or "")


@pytest.mark.parametrize(
    ("patterns", "selected"),
    [
        (["*"], ["look"]),
        (["*.*", "git*", "*hub.search", "*search"], []),
        (["github.*"], ["github.search", "github.look"]),
        (["github.s*", "*"], ["look", "github.search"]),
        (["github.look"], ["github.look"]),
    ],
)
def test_the_tools_of_a_server_are_selected_only_where_it_is_named(patterns: list[str], selected: list[str]) -> None:
    rows = {name: tool("read", name=name)(look) for name in ("look", "github.search", "github.look")}
    tools = AgentTools(Toolset(rows)).of(patterns, caller("write"), AGENT)
    assert [tool.name for tool in tools.values()] == sorted(selected, key=lambda name: ("." in name, name))


def test_no_tool_has_the_name_by_which_tools_are_found() -> None:
    rows = {"find.tool": tool("read", name="find.tool")(look)}
    tools = AgentTools(Toolset(rows)).of(["find.tool"], caller("write"), AGENT)
    [name] = tools
    assert name != FIND_TOOL.name
    assert tools[name].name == "find.tool"


def test_a_tool_that_is_called_done_does_not_replace_the_stop_signal() -> None:
    tools = AgentTools(Toolset({"done": tool("read", name="done")(look)})).of(["*"], caller("write"), AGENT)
    assert tools.schemas == (DONE,)


@each_case("tool", TOOLS.values())
def test_every_tool_has_a_short_schema_that_accepts_its_example(tool: Tool) -> None:
    schema = model_schema(tool, tool.name)
    Draft202012Validator.check_schema(schema.parameters)
    Draft202012Validator(schema.parameters).validate(dict(tool.example or {}))
    assert "\n" not in schema.description
    assert 10 < len(schema.description) < 300
    unread = {"title", "examples", "pattern", "maxLength", "maxItems", "$ref", "$defs", "format"}
    assert not unread & keywords(schema.parameters)
    optional = schema.parameters["properties"].keys() - set(schema.parameters.get("required", ()))
    assert not any("{'type': 'null'}" in str(schema.parameters["properties"][name]) for name in optional)
    assert not set(tool.aliases) & set(schema.parameters["properties"])


def keywords(schema: Mapping[str, Any]) -> set[str]:
    """Return every keyword of a JSON Schema, not the names of properties."""
    found = set(schema)
    for part in schema.get("properties", {}).values():
        found |= keywords(part)
    for part in schema.get("anyOf", ()):
        found |= keywords(part)
    return found | (keywords(schema["items"]) if "items" in schema else set())


def test_the_stop_signal_is_a_tool_without_parameters() -> None:
    assert isinstance(DONE, ToolSchema)
    assert "done" not in TOOLS
    Draft202012Validator(DONE.parameters).validate({})


def test_memory_tools_can_be_repeated_and_other_writes_cannot() -> None:
    assert all(TOOLS[name].repeatable({}) for name in DEFAULT_TOOLS if name in TOOLS)
    assert not TOOLS["webhook_create"].repeatable({})
    assert TOOLS["memory_search"].repeatable({})
