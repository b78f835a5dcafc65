"""A toolset binds parameters and hides tools."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from runtime.errors import NotFound
from runtime.identity.caller import Caller, Scope
from runtime.tools.context import Context
from runtime.tools.failure import failure_of
from runtime.tools.tool import ParameterAlias, WrongParameters, tool
from runtime.tools.toolset import ALL_TOOLS, Toolset
from tests.runtime.tools.asking import OWNER_CALLER, Asked, asking, collection
from tests.runtime.tools.bare_context import bare_context

Agent = Annotated[str, ParameterAlias(("who",)), Field(pattern="^[a-z-]+$", description="Name of an agent.")]


class Said(BaseModel):
    """The arguments of a tool's call."""

    agent: str
    text: str


async def note(_context: Context, agent: Agent, text: Annotated[str, Field(description="A text.")] = "-") -> Said:
    """Record a text."""
    return Said(agent=agent, text=text)


async def look(_context: Context) -> Said:
    """Do nothing."""
    return Said(agent="", text="")


TOOLS = Toolset(
    {
        "note": tool("write", example={"agent": "planner", "text": "x"})(note),
        "look": tool("read", example={})(look),
        "note_down": tool("admin", name="note_down", example={"agent": "planner"})(note),
    }
)


def caller(*scopes: Scope) -> Caller:
    return Caller("ada", frozenset(scopes))


CONTEXT = bare_context(caller("admin"))


async def said(tools: Toolset, name: str = "note", **given: Any) -> dict[str, Any]:
    return (await tools.call(name, CONTEXT, given)).model_dump()


def test_a_bound_parameter_and_its_other_names_are_no_part_of_the_schema() -> None:
    schema = TOOLS.bind(agent="reviewer")["note"].schema
    assert set(schema["properties"]) == {"text"}
    assert "required" not in schema
    assert TOOLS["note"].schema["required"] == ["agent"]


async def test_a_bound_parameter_has_its_value_whatever_the_caller_passes() -> None:
    tools = TOOLS.bind(agent="reviewer")
    expected = {"agent": "reviewer", "text": "t"}
    assert await said(tools, text="t") == expected
    assert await said(tools, text="t", agent="planner") == expected
    assert await said(tools, text="t", who="planner") == expected
    assert await said(tools, text="t", who=None, agent={"not": "even text"}) == expected


async def test_what_two_bindings_of_a_parameter_share_is_made_once_and_their_values_are_their_own() -> None:
    one, other = TOOLS.bind(agent="reviewer"), TOOLS.bind(agent="planner")
    assert one["note"].parameters is other["note"].parameters
    assert one["note"].schema is other["note"].schema
    assert await said(one, text="t") == {"agent": "reviewer", "text": "t"}
    assert await said(other, text="t") == {"agent": "planner", "text": "t"}
    assert await said(one.bind(text="u")) == {"agent": "reviewer", "text": "u"}
    assert await said(other.bind(text="v")) == {"agent": "planner", "text": "v"}


async def test_a_later_binding_of_another_parameter_keeps_the_first() -> None:
    tools = TOOLS.bind(agent="reviewer").bind(text="t")
    assert await said(tools, agent="planner", text="other") == {"agent": "reviewer", "text": "t"}
    assert tools["note"].schema["properties"] == {}


async def test_binding_changes_only_the_tools_that_have_the_parameter() -> None:
    tools = TOOLS.bind(agent="reviewer")
    assert tools["look"] is TOOLS["look"]
    assert await said(tools, "look") == {"agent": "", "text": ""}
    assert await said(TOOLS, agent="planner") == {"agent": "planner", "text": "-"}


def test_a_wrong_value_cannot_be_bound() -> None:
    with pytest.raises(WrongParameters, match="note: agent: invalid; expected: name of an agent"):
        TOOLS.where(lambda tool: tool.name == "note").bind(agent="No Such Name")


async def test_an_error_shows_an_example_without_what_is_bound() -> None:
    tools = TOOLS.bind(agent="reviewer")
    with pytest.raises(WrongParameters) as wrong:
        await said(tools, text=5)
    failure = failure_of(wrong.value, tools["note"])
    assert (failure.field, failure.example) == ("text", {"text": "x"})
    with pytest.raises(WrongParameters) as wrong:
        await said(tools, agents="planner")
    assert "agent," not in str(wrong.value)
    assert "mean agent" not in str(wrong.value)


@pytest.mark.parametrize(
    ("scopes", "names"),
    [((), []), (("read",), ["look"]), (("write",), ["note", "look"]), (("admin",), ["note", "look", "note_down"])],
)
def test_what_the_callers_scope_does_not_allow_is_hidden(scopes: tuple[Scope, ...], names: list[str]) -> None:
    assert list(TOOLS.allowed_to(caller(*scopes))) == names


async def test_a_hidden_tool_is_as_if_it_were_not_there() -> None:
    for tools in (TOOLS.where(lambda tool: tool.name == "look"), TOOLS.allowed_to(caller("read"))):
        with pytest.raises(NotFound) as hidden:
            await said(tools, agent="planner")
        assert "note" not in (hidden.value.hint or "")


async def test_an_agent_with_bound_tools_reaches_its_own_memory_alone(tmp_path: Any) -> None:
    async with asking(tmp_path) as ask:
        own = ALL_TOOLS.bind(agent="reviewer").where(lambda tool: tool.name.startswith("memory_"))
        await write_and_list(ask, own)
        await change_an_item_of_another(ask, own)


async def write_and_list(ask: Asked, own: Toolset) -> None:
    context = ask.app.context(caller("write"))
    await own.call("memory_write", context, {"text": "Mine", "agent": "planner"})
    listed = await own.call("memory_list", context, {"agent": "planner"})
    assert [(item["agent_id"], item["text"]) for item in listed.model_dump()["items"]] == [("reviewer", "Mine")]


async def change_an_item_of_another(ask: Asked, own: Toolset) -> None:
    line = {"agent_id": "planner", "memory_type": "semantic", "timestamp": "2026-11-20T08:30:00Z", "text": "Theirs"}
    (stored,) = (await ask("memory_import", OWNER_CALLER, items=[line | {"user_id": "ada"}]))["lines"]
    context = ask.app.context(caller("write"))
    for name, more in (("memory_show", {}), ("memory_edit", {"text": "x"}), ("memory_forget", {})):
        with pytest.raises(NotFound):
            await own.call(name, context, {"memory_id": stored["memory_id"], "agent": "planner", **more})
    assert [item["text"] for item in (await ask("memory_list", agent="planner"))["items"]] == ["Theirs"]


async def test_a_parameter_is_bound_by_any_of_its_names() -> None:
    tools = TOOLS.bind(who="reviewer")
    assert set(tools["note"].schema["properties"]) == {"text"}
    assert await said(tools, agent="planner") == {"agent": "reviewer", "text": "-"}
    with pytest.raises(WrongParameters, match="another name for agent"):
        TOOLS.bind(agent="reviewer", who="planner")


async def test_a_bound_value_stays_when_the_parameter_is_bound_again() -> None:
    for name in ("agent", "who"):
        again = {name: "planner"}
        assert await said(TOOLS.bind(agent="reviewer").bind(**again)) == {"agent": "reviewer", "text": "-"}
        tool = TOOLS["note"].bind(agent="reviewer").bind(**again)
        assert (await tool.call(CONTEXT, {})).model_dump()["agent"] == "reviewer"


@pytest.mark.parametrize("name", ["project_id", "project"])
async def test_a_bound_parameter_is_ignored_in_the_items_of_a_list_too(tmp_path: Any, name: str) -> None:
    bound: dict[str, Any] = {name: "mine", "tags": ["note"]}
    tools = ALL_TOOLS.bind(**bound).where(lambda tool: tool.name == "push")
    each = tools["push"].schema["properties"]["items"]["anyOf"][0]["items"]
    assert set(each["properties"]) == {"text", "memory_type", "type", "source_uri", "subject"}
    assert "tags" not in str(tools["push"].schema["properties"]["items"]["examples"])
    async with asking(tmp_path, collection("notes")) as ask:
        context = ask.app.context(caller("write"))
        items = [{"text": "One", "project_id": "theirs"}, {"text": "Two", "project": "theirs", "tags": ["theirs"]}, 3]
        pushed = (await tools.call("push", context, {"items": items})).model_dump()
        assert [failed["index"] for failed in pushed["failed"]] == [2]
        kept = [await ask("get", memory_id=each) for each in pushed["memory_ids"]]
        assert [(item["text"], item["project_id"], item["tags"]) for item in kept] == [
            ("One", "mine", ["note"]),
            ("Two", "mine", ["note"]),
        ]
