"""The contract of tools, for every row of the table."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import replace
from typing import Any, get_args, get_type_hints

import pytest
import pytest_asyncio
from jsonschema import Draft202012Validator
from pydantic import BaseModel, PlainSerializer

from runtime.database.connection import Database
from runtime.errors import NotFound, SymbiontError
from runtime.identity.caller import SCOPES, Caller, Forbidden, Scope
from runtime.memory.errors import NoSuchItem, Unsupported
from runtime.tables.errors import StatementError
from runtime.tool_groups import GROUPS, ToolChoice
from runtime.tools import TOOLS
from runtime.tools.call_counts import COUNTS, Counts
from runtime.tools.context import Context
from runtime.tools.failure import failure_of
from runtime.tools.tool import Tool, WrongParameters
from runtime.tools.toolset import Toolset
from runtime.tools.validation_errors import MOST_PROBLEMS
from runtime.tools.webhooks.manage import AuditEntry
from tests.cases import each_case
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.api.app import App
from tests.runtime.tools.asking import line

ROWS = each_case("tool", TOOLS.values())


SHARED = pytest.mark.asyncio(loop_scope="module")
"""A client of the shared `app`."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    """An app with a database and one memory."""
    folder = tmp_path_factory.mktemp("app")
    database = await Database.open(with_keys(folder / "symbiont.db", KEY), KEY)
    async with App(database, ManualClock()).remembering(folder) as app:
        yield app
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
    schema = tool.schema
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {*tool.parameters.model_fields, *tool.aliases}
    described = {name for name, field in tool.parameters.model_fields.items() if field.description}
    assert described | {"is_active", "title"} >= set(tool.parameters.model_fields)


@ROWS
def test_a_tool_is_in_a_group_by_which_clients_choose_it(tool: Tool) -> None:
    assert tool.group in GROUPS


@ROWS
def test_a_token_without_its_group_is_refused_before_anything_is_read(tool: Tool) -> None:
    others = ToolChoice(frozenset({*GROUPS} - {tool.group}))
    with pytest.raises(Forbidden, match="this token is limited to the tools "):
        tool.permit(Caller("ada", frozenset({"admin"}), "token", others))
    tool.permit(Caller("ada", frozenset({"admin"}), "token", ToolChoice(frozenset(GROUPS) - others.groups)))


@ROWS
def test_what_a_tool_answers_has_a_schema(tool: Tool) -> None:
    schema = tool.result_schema
    Draft202012Validator.check_schema(schema)
    assert schema["description"]
    # In MCP, structured results must be objects (2025-11-25, tools, output schema).
    assert schema["type"] == "object"


@ROWS
def test_every_schema_stands_in_one_piece(tool: Tool) -> None:
    # Some clients do not follow references.
    for schema in (tool.schema, tool.result_schema):
        assert not {"$ref", "$defs"} & keys_in(schema)


def keys_in(value: Any) -> set[str]:
    """Return every key of every object in a JSON value."""
    if isinstance(value, Mapping):
        return set(value).union(*map(keys_in, value.values()))
    return set().union(*map(keys_in, value)) if isinstance(value, list) else set()


@SHARED
@ROWS
async def test_its_example_fits_its_schema_and_is_taken(tool: Tool, app: App) -> None:
    assert tool.example is not None
    Draft202012Validator(tool.schema).validate(dict(tool.example))
    failed: SymbiontError | None = None
    try:
        await tool.call(app.context(Caller("ada", frozenset({"admin"}))), tool.example)
    except SymbiontError as error:
        failed = error
    # The named thing does not exist; no other error is allowed.
    absent = isinstance(failed, NotFound | NoSuchItem | Unsupported) or "is called" in str(failed)
    absent = absent or "nothing to summarize" in str(failed) or isinstance(failed, StatementError)
    assert failed is None or absent, failed


@SHARED
@ROWS
async def test_wrong_parts_of_a_call_are_described_up_to_twenty(tool: Tool, app: App) -> None:
    context = app.context(Caller("ada", frozenset({"admin"})))
    many = [*(1 for _ in range(500)), {}]
    names = {f"{'n' * 5000}{number}": 1 for number in range(100)}
    cases: list[dict[str, Any]] = [
        names,
        *({name: value} for name in tool.parameter_names for value in (many, names, [names])),
    ]
    for given in cases:
        error = await _error(tool.call(context, given))
        if isinstance(error, WrongParameters):
            assert len(error.problems) <= MOST_PROBLEMS
        assert len(str(error)) < 40_000


async def _error(call: Awaitable[Any]) -> SymbiontError | None:
    try:
        await call
    except SymbiontError as error:
        return error
    return None


@SHARED
@ROWS
async def test_a_call_that_is_larger_than_its_row_says_is_refused(tool: Tool, app: App) -> None:
    with pytest.raises(WrongParameters, match=rf"the parameters have more than {tool.largest:,} bytes|of its|there"):
        await tool.call(app.context(Caller("ada", frozenset({"admin"}))), {_text_of(tool): "x" * tool.largest})


def _text_of(tool: Tool) -> str:
    """Return the name of a parameter; another one if there is none."""
    return next(iter(tool.parameter_names), "more")


@ROWS
def test_its_lists_and_objects_have_a_limit(tool: Tool) -> None:
    # Without one, each of their parts is described in an error. `input` is read part by part.
    unbounded = {name for name, part in tool.schema["properties"].items() if not _is_bounded(part)}
    assert unbounded <= {"input", "message"}


def _is_bounded(part: Mapping[str, Any]) -> bool:
    limits = {"array": "maxItems", "object": "maxProperties"}
    kind = part.get("type")
    bounded = kind not in limits or limits[kind] in part or part.get("additionalProperties") is False
    return bounded and all(map(_is_bounded, part.get("anyOf", ())))


@ROWS
def test_its_annotations_follow_from_its_row(tool: Tool) -> None:
    assert tool.read_only or tool.scope != "read" or tool.only_reads({"query": "SELECT 1"})
    assert not (tool.read_only and tool.destructive)
    assert tool.idempotent or not tool.read_only
    assert tool.title
    assert re.fullmatch(r"[a-z][a-z_-]{1,63}", tool.name)


@SHARED
@ROWS
async def test_a_wrong_parameter_is_answered_with_its_field_and_a_right_example(tool: Tool, app: App) -> None:
    context = app.context(Caller("ada", frozenset({"admin"})))
    fields = tool.parameters.model_fields
    for name in (*(name for name, field in fields.items() if field.annotation is not Any), *tool.aliases):
        with pytest.raises(WrongParameters) as wrong:
            # No parameter of a tool is an object with this key.
            await tool.call(context, {**(tool.example or {}), name: {"marked": 1.5, "x" * 70: []}})
        failure = failure_of(wrong.value, tool)
        assert failure.code == "invalid_params"
        told = {path[0] for path, _ in wrong.value.problems if path}
        assert name in told or tool.aliases.get(name) in (tool.example or {}), failure
        assert failure.example is not None
        Draft202012Validator(partly(tool.schema)).validate(dict(failure.example))
        assert line(failure).startswith("invalid_params: ")
        assert "marked" not in failure.message


@SHARED
@ROWS
async def test_null_stands_for_what_is_not_given(tool: Tool, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[dict[str, Any]] = []

    async def noting(_context: Context, **given: Any) -> None:
        taken.append(given)

    monkeypatch.setattr(tool, "parameters", tool.parameters)  # Taken from the signature, before it is wrapped.
    monkeypatch.setattr(tool, "function", noting)
    fields = tool.parameters.model_fields.items()
    nothing = {name: None for name, field in fields if not field.is_required()}
    nothing |= {alias: None for alias, name in tool.aliases.items() if name in nothing}
    context = app.context(Caller("ada", frozenset({"admin"})))
    # Language models pass null for omitted parameters.
    await tool.call(context, {**nothing, **(tool.example or {})})
    await tool.call(context, tool.example or {})
    assert taken[0] == taken[1]


def values_for(tool: Tool) -> dict[str, list[Any]]:
    """Return two valid values of each parameter whose schema allows to derive them."""
    found: dict[str, list[Any]] = {}
    for name, part in tool.schema["properties"].items():
        validator = Draft202012Validator(part)
        tried = [*part.get("examples", ()), (tool.example or {}).get(name), *part.get("enum", ()), part.get("default")]
        tried += [each for kind in part.get("anyOf", ()) for each in kind.get("enum", ())]
        tried += ["other", "2026-11-20", "7d", 1, 2, True, False, ["other"]]
        right = [each for each in tried if each is not None and validator.is_valid(each)]
        found[name] = [each for index, each in enumerate(right) if each not in right[:index]][:2]
    return found


@SHARED
@ROWS
async def test_a_bound_parameter_is_hidden_and_keeps_its_value(
    tool: Tool, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[dict[str, Any]] = []

    async def noting(_context: Context, **given: Any) -> None:
        taken.append(given)

    values, context = values_for(tool), app.context(Caller("ada", frozenset({"admin"})))
    # What agents bind, what has another name, and the first: the others are bound in the same way.
    names = {*("agent", "subject", "user"), *tool.aliases.values(), *list(tool.parameter_names)[:1]}
    for name in names.intersection(tool.parameter_names):
        (value, *others) = values[name]
        bound = Toolset({tool.name: tool}).bind(**{name: value})[tool.name]
        same = {name, *(alias for alias, full in tool.aliases.items() if full == name)}
        assert not same & set(bound.schema["properties"])
        assert name not in bound.schema.get("required", ())
        assert not same & set(bound.example or {})
        Draft202012Validator(bound.schema).validate(dict(bound.example or {}))
        with monkeypatch.context() as patch:
            patch.setattr(bound, "function", noting)
            taken.clear()
            await bound.call(context, bound.example or {})
            for given in same:
                # A caller's value for it is ignored.
                for other in (*others, {"marked": 1.5}):
                    await bound.call(context, {**(bound.example or {}), given: other})
        assert all(each == taken[0] for each in taken)
        assert taken[0].keys() == tool.parameters.model_fields.keys()


def partly(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of some of the parameters."""
    return {key: value for key, value in schema.items() if key != "required"}


@SHARED
@ROWS
async def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(tool: Tool, app: App) -> None:
    context = app.context(Caller("ada", frozenset({"admin"})))
    for name in tool.parameters.model_fields:
        if len(name) < 5:
            continue
        with pytest.raises(WrongParameters) as wrong:
            await tool.call(context, {f"{name}x": 1})
        told = dict(wrong.value.problems)[f"{name}x",]
        assert f"did you mean {name}" in told or "did you mean" in told
        assert name in told


@SHARED
async def test_calls_and_failures_are_counted(app: App) -> None:
    tool = TOOLS["webhook_list"]
    context = app.context(Caller("ada", frozenset({"admin"})))
    before = replace(COUNTS["ada"][tool.name])
    with pytest.raises(WrongParameters):
        await tool.call(context, {"nonsense": 1})
    assert COUNTS["ada"][tool.name] == Counts(before.calls + 1, before.failures + 1)
    await tool.call(context, {})
    assert COUNTS["ada"][tool.name] == Counts(before.calls + 2, before.failures + 1)


@ROWS
def test_only_two_tools_show_a_secret_and_no_repr_does(tool: Tool) -> None:
    secrets = [field for name, field in tool.result.model_fields.items() if "secret" in name and "until" not in name]
    assert bool(secrets) == (tool.name in {"webhook_create", "webhook_rotate_secret"})
    assert not any(field.repr for field in secrets)


@ROWS
def test_each_field_for_a_secret_is_withheld_from_agents(tool: Tool) -> None:
    for model in models_of(tool.result, set()):
        for name, field in model.model_fields.items():
            # That of an entry of the log says which secret matched, in one word.
            if re.search("secret|token|password", name) and str in (field.annotation, *get_args(field.annotation)):
                withheld = any(isinstance(each, PlainSerializer) for each in field.metadata)
                assert withheld or (model, name) == (AuditEntry, "secret"), (model, name)


def models_of(kind: Any, found: set[type[BaseModel]]) -> set[type[BaseModel]]:
    """Return the models of which a type is made."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if kind not in found:
            found.add(kind)
            for field in kind.model_fields.values():
                models_of(field.annotation, found)
    else:
        for each in get_args(kind):
            models_of(each, found)
    return found


@ROWS
def test_it_needs_a_scope_that_there_is(tool: Tool) -> None:
    assert tool.scope in SCOPES


@pytest.mark.parametrize("scope", SCOPES)
@SHARED
async def test_a_caller_without_the_scope_is_refused_before_anything_is_read(scope: Scope, app: App) -> None:
    tool = next(tool for tool in TOOLS.values() if tool.scope == scope)
    smaller: frozenset[Scope] = frozenset(SCOPES[: SCOPES.index(tool.scope)])
    with pytest.raises(Forbidden) as refused:
        await tool.call(app.context(Caller("ada", smaller)), {"nonsense": object})
    assert refused.value.scope == tool.scope


@SHARED
@ROWS
async def test_a_parameter_that_it_does_not_have_is_refused(tool: Tool, app: App) -> None:
    caller = Caller("ada", frozenset({"admin"}))
    for name in ("nonsense", "context", "caller", "user_id"):
        with pytest.raises(WrongParameters) as wrong:
            await tool.call(app.context(caller), {name: "whsec_marked"})
        assert (name,) in [path for path, _ in wrong.value.problems]
        # The value may be a secret in the wrong parameter.
        assert "whsec_marked" not in str(wrong.value)


TAGS = [
    (name, parameter)
    for name, tool in TOOLS.items()
    for parameter in tool.parameters.model_fields
    if "tag" in parameter
]


@each_case("name, parameter", TAGS)
def test_tags_are_a_list_a_single_one_or_none(name: str, parameter: str) -> None:
    tool = TOOLS[name]
    read = [tool._parse({**(tool.example or {}), parameter: value}) for value in (["work"], "work", '["work"]', [])]
    values = [getattr(each, parameter) for each in read]
    assert [list(value) for value in values] == [["work"], ["work"], ["work"], []]
