"""The contract of tools, over every row of the table by itself."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_type_hints

import pytest
from jsonschema import Draft202012Validator

from runtime.database import Database
from runtime.identity import SCOPES, Caller, Forbidden, Scope
from runtime.rows import by_name
from runtime.tools import TOOLS, Context, Tool, WrongParameters
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.runtime.api.house import House

ROWS = pytest.mark.parametrize("tool", [pytest.param(tool, id=name) for name, tool in TOOLS.items()])


@pytest.fixture
async def house(tmp_path: Path, clock: ManualClock) -> AsyncIterator[House]:
    database = await Database.open(tmp_path / "symbiont.db", KEY)
    async with House(database, clock).remembering(tmp_path) as opened:
        yield opened
    await database.close()


@ROWS
def test_a_tool_is_a_typed_function_of_a_context(tool: Tool) -> None:
    assert inspect.iscoroutinefunction(tool.function)
    first, *others = inspect.signature(tool.function).parameters.values()
    assert get_type_hints(tool.function)[first.name] is Context
    assert all(parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY} for parameter in others)
    assert list(tool.parameters.model_fields) == [parameter.name for parameter in others]


@ROWS
def test_a_tool_says_what_it_does_and_what_each_parameter_is(tool: Tool) -> None:
    summary = tool.doc.partition("\n")[0]
    assert summary.endswith(".")
    assert len(summary) < 80
    schema = tool.parameters.model_json_schema()
    Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    described = {name for name, field in tool.parameters.model_fields.items() if field.description}
    assert described | {"is_active", "title"} >= set(tool.parameters.model_fields)


@ROWS
def test_what_a_tool_answers_has_a_schema(tool: Tool) -> None:
    schema = tool.result.model_json_schema(mode="serialization")
    Draft202012Validator.check_schema(schema)
    assert schema["description"]


@ROWS
def test_only_what_says_so_shows_a_secret_and_no_repr_does(tool: Tool) -> None:
    secrets = [field for name, field in tool.result.model_fields.items() if "secret" in name and "until" not in name]
    assert bool(secrets) == tool.shows_secret
    assert not any(field.repr for field in secrets)


@ROWS
async def test_a_caller_without_the_scope_is_refused_before_anything_is_read(tool: Tool, house: House) -> None:
    assert tool.scope in SCOPES
    smaller: frozenset[Scope] = frozenset(SCOPES[: SCOPES.index(tool.scope)])
    with pytest.raises(Forbidden) as refused:
        await tool.call(Context(Caller("ada", smaller), house), {"nonsense": object})
    assert refused.value.scope == tool.scope


@ROWS
async def test_a_parameter_that_it_does_not_have_is_refused(tool: Tool, house: House) -> None:
    caller = Caller("ada", frozenset({"admin"}))
    for name in ("nonsense", "context", "caller", "user_id"):
        with pytest.raises(WrongParameters) as wrong:
            await tool.call(Context(caller, house), {name: "whsec_marked"})
        assert (name,) in [path for path, _ in wrong.value.problems]
        # What was given may be a secret in the wrong place.
        assert "whsec_marked" not in str(wrong.value)


def test_two_tools_of_one_name_are_refused() -> None:
    tool = TOOLS["webhook_list"]
    with pytest.raises(ValueError, match="webhook_list stands in the table twice"):
        by_name("tool", [tool, tool])
