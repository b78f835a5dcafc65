"""A tool: a typed function whose signature and docstring are its schema for agents, MCP, HTTP and commands."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Final, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from runtime.errors import UsageError
from runtime.identity.caller import Caller, Scope
from runtime.json_bounds import OFF_THE_LOOP
from runtime.memory.item import well_formed
from runtime.switches import AGENTS
from runtime.tool_groups import OF_AGENTS, Group, folder_of
from runtime.tools.call_counts import COUNTS
from runtime.tools.context import Context
from runtime.tools.validation_errors import ParameterError, inlined, problems_of, size_problems

LARGEST_CALL: Final = 64 * 1024
"""Maximum bytes of the parameters of a tool that takes no long text and no items."""
LARGEST_ENTRY: Final = 1024 * 1024
"""Of one that takes a value of the key-value store, however JSON escapes it."""
LARGEST_ITEMS: Final = 16 * 1024 * 1024
"""Of one that takes texts or items: one text of 1,048,576 characters, however JSON escapes it."""

_CACHED: Final = ("parameters", "aliases", "schema")
"""Attributes that a tool computes once."""

Reads = Callable[[Mapping[str, Any]], bool]

Function = Callable[..., Awaitable[BaseModel]]
"""`async def name(context: Context, …) -> Result`: parameters annotated, descriptions in `Field`, the result a model.
Raises SymbiontError."""


class WrongParameters(UsageError):  # noqa: N818
    """`problems`: path of names and positions of each wrong parameter, and the message.

    `example`: a correct value in place of the first one, where the table has none.
    """

    def __init__(
        self, tool: str | None, problems: tuple[ParameterError, ...], *, hint: str | None = None, example: Any = None
    ) -> None:
        text = "; ".join(f"{'.'.join(map(str, path))}: {what}" if path else what for path, what in problems)
        super().__init__(f"{tool}: {text}" if tool else text, hint=hint)
        self.problems = problems
        self.example = example


@dataclass(frozen=True, slots=True)
class ParameterAlias:
    """Other names of a parameter, in its annotation."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class ToolProperties:
    """Properties of a tool beyond the signature of its function. Its folder gives `group`, `indexes` and `people`,
    unless they are given here."""

    scope: Scope
    """Required of the caller."""
    name: str = ""
    """The function's by default; dashes are allowed."""
    _: KW_ONLY
    group: Group | None = None
    """By which clients choose it, and tokens are limited to it. No client is offered a tool without a group."""
    indexes: bool | None = None
    """It may read indexes of memories, which must be open."""
    people: bool | None = None
    """Only for people and their clients; no agent is offered it, and a call of an agent is refused."""
    read_only: bool | None = None
    """It changes nothing; true of the scope `read`."""
    idempotent: bool | None = None
    """Calling it again changes nothing more; true of reading."""
    destructive: bool = False
    """It may delete or overwrite something permanently."""
    long: bool = False
    """A call may take minutes, so clients are offered its progress."""
    keyed: bool = False
    """Calls in a run with the same key (`Acting.key`) happen once."""
    reads: Reads | None = None
    """Returns True for arguments with which it surely changes nothing, if it is not `read_only`; who may only read
    calls it too, and it refuses what changes something itself."""
    largest: int = LARGEST_CALL
    """Maximum bytes of the parameters as JSON."""
    quotes: bool = True
    """Its output repeats what is stored here and is found there, so that no search of conversations finds the output,
    and no summary of a conversation has it."""
    stores: bool = False
    """It adds texts to what the caller has stored, and is refused if there is no room for its parameters."""
    example: Mapping[str, Any] | None = None
    """Correct parameters, by name, for errors and for the description."""


class tool(ToolProperties):  # noqa: N801 - a decorator
    """Make a function the tool of its name: `@tool("write", example={…})`."""

    def __call__(self, function: Function) -> Tool:
        """Return the tool that replaces the function."""
        return Tool(function, self)


class Tool:
    """A function, and its properties beyond the signature. Immutable."""

    def __init__(self, function: Function, properties: ToolProperties) -> None:
        folder = folder_of(function.__module__)
        self.function = function
        self.scope = properties.scope
        self.name = properties.name or function.__name__
        self.group = properties.group or folder.group
        self.indexes = folder.indexes if properties.indexes is None else properties.indexes
        self.people = folder.people if properties.people is None else properties.people
        self.read_only = self.scope == "read" if properties.read_only is None else properties.read_only
        self.idempotent = self.read_only if properties.idempotent is None else properties.idempotent
        self.destructive = properties.destructive
        self.long = properties.long
        self.keyed = properties.keyed
        self.largest = properties.largest
        self.quotes = properties.quotes
        self.stores = properties.stores
        self.example = properties.example
        self._reads = properties.reads
        self._bound: Mapping[str, Any] = {}
        self._ignored: frozenset[str] = frozenset()
        self._remaining: dict[frozenset[str], tuple[Tool, type[BaseModel]]] = {}

    @property
    def stopped_by(self) -> str | None:
        """The switch without which no client is answered, see `runtime.switches`."""
        return AGENTS if self.group in OF_AGENTS else None

    @property
    def doc(self) -> str:
        """The function's docstring."""
        return inspect.getdoc(self.function) or ""

    @property
    def title(self) -> str:
        """The name for people."""
        return self.name.replace("-", " ").replace("_", " ").capitalize()

    @property
    def may_read(self) -> bool:
        """True if it is not `read_only`, but changes nothing with some arguments."""
        return self._reads is not None

    def only_reads(self, given: Mapping[str, Any]) -> bool:
        """Return True if a call with these arguments changes nothing."""
        return self.read_only or (self._reads is not None and self._reads(given))

    def repeatable(self, given: Mapping[str, Any]) -> bool:
        """Return True if a call of an agent with these arguments that may have happened can be made again with the same
        key."""
        return self.idempotent or self.keyed or self.only_reads(given)

    @cached_property
    def parameters(self) -> type[BaseModel]:
        """Return a model of the function's parameters, which refuses others."""
        hints = get_type_hints(self.function, include_extras=True)
        fields: dict[str, Any] = {
            name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
            for name, parameter in list(inspect.signature(self.function).parameters.items())[1:]
            if name not in self._bound
        }
        title = "".join(part.title() for part in self.name.replace("-", "_").split("_"))
        # Errors do not contain the input, which may be a secret.
        config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)
        return create_model(title, __config__=config, __doc__=None, **fields)

    @property
    def parameter_names(self) -> Collection[str]:
        """The full names of the parameters."""
        return self.parameters.model_fields

    @cached_property
    def aliases(self) -> Mapping[str, str]:
        """Full names of parameters by their other names."""
        return aliases_of(self.parameters)

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the parameters without references, with every name that a parameter may have."""
        schema = schema_of(self.parameters)
        return _without_in_lists(schema, self._ignored) if self._ignored else schema

    @property
    def schema_of_full_names(self) -> Mapping[str, Any]:
        """The JSON Schema of the parameters by their full names alone, also in objects in a list."""
        names = self.parameter_names
        properties = {name: part for name, part in self.schema["properties"].items() if name in names}
        return _without_in_lists({**self.schema, "properties": properties}, self.aliases)

    @property
    def exact(self) -> Mapping[str, Any]:
        """Everything but its arguments that decides what a call does, as JSON: who approves a call approves it too."""
        return {**self.definition, "bound": dict(self._bound)}

    @property
    def definition(self) -> Mapping[str, Any]:
        """Everything that decides what its calls do, whoever makes them, as JSON."""
        return {"schema": self.schema}

    @property
    def server(self) -> str | None:
        """The server that has it; None for one of ours."""
        return None

    @cached_property
    def result(self) -> type[BaseModel]:
        """The model that the function returns."""
        kind = get_type_hints(self.function)["return"]
        assert isinstance(kind, type)
        assert issubclass(kind, BaseModel)
        return kind

    @cached_property
    def result_schema(self) -> Mapping[str, Any]:
        """Return the JSON Schema of the result, without references."""
        return inlined(self.result.model_json_schema(mode="serialization"))

    def permit(self, caller: Caller) -> None:
        """Raise `Forbidden` unless the caller's scopes and its token allow the call."""
        caller.need(self.scope)
        caller.need_tool(self.group, self.name, read_only=self.read_only or self.may_read)

    async def call(self, context: Context, given: Mapping[str, Any]) -> BaseModel:
        """Call the function with `given`, JSON values by name, for the context's caller.

        Raises `Forbidden`, `WrongParameters`, UsageError for an agent that calls a tool for people, and what the
        function raises.
        """
        counts = COUNTS[context.caller.user_id][self.name]
        counts.calls += 1
        try:
            self.permit(context.caller)
            if self.people and context.acting is not None:
                raise UsageError(f"{self.name} is for people, and an agent cannot call it")
            if self.stores and context.limits.texts is not None:
                await context.limits.texts.check(context.caller.user_id, _bytes(given), context.memories)
            done = await self._run(context, given)
        except BaseException as error:
            counts.failures += 1
            context.on_called(self.name, error)
            raise
        context.on_called(self.name, None)
        return done

    async def _run(self, context: Context, given: Mapping[str, Any]) -> BaseModel:
        """Call the function with `given`, JSON values by name; long texts are read in a thread."""
        large = any(isinstance(value, str) and len(value) > OFF_THE_LOOP for value in given.values())
        read = await asyncio.to_thread(self._parse, given) if large else self._parse(given)
        return await self.function(context, **_values(read), **self._bound)

    def check(self, given: Mapping[str, Any]) -> None:
        """Raise WrongParameters if the function cannot be called with `given`."""
        self._parse(given)

    def _parse(self, given: Mapping[str, Any]) -> BaseModel:
        """Return the parameters by full name. Raises WrongParameters.

        null counts as absent for every optional parameter, because language models send it; a lone surrogate, half of a
        character that was cut, becomes U+FFFD (see `runtime.memory.item.well_formed`).
        """
        fields = self.parameters.model_fields
        there = {
            name: _without_names(value, self._ignored)
            for name, value in given.items()
            if name not in self._ignored
            if value is not None or (field := fields.get(self.aliases.get(name, name))) is None or field.is_required()
        }
        full, said = in_full(there, self.aliases, self.name)
        return _validate(self.parameters, full, self.name, said, self.largest)

    def bind(self, **values: Any) -> Tool:
        """Return this tool with JSON values for some of its parameters, by any of their names.

        They are no longer part of its schema, and a caller's own values for them are ignored, also in objects in a
        list, such as the items of `push`. A bound value stays: another one for the same parameter is ignored. Raises
        WrongParameters for a wrong value, and for two values for one parameter; KeyError for a parameter that the tool
        does not have."""
        new = {name: value for name, value in values.items() if name not in self._ignored}
        if not new:
            return self
        full, said = in_full(new, self.aliases, self.name)
        rest, model = self._without(frozenset(full))
        bound = copy(rest)
        bound._remaining = {}
        bound._bound = {**self._bound, **_values(_validate(model, full, self.name, said, self.largest))}
        return bound

    def _without(self, names: frozenset[str]) -> tuple[Tool, type[BaseModel]]:
        """Return this tool without these parameters, and the model of those. They are made once for all values: agents
        bind their tools in every turn."""
        if names not in self._remaining:
            hints = get_type_hints(self.function, include_extras=True)
            fields: dict[str, Any] = {name: (hints[name], ...) for name in names}
            model = create_model("Bound", __config__=self.parameters.model_config, __doc__=None, **fields)
            rest = copy(self)
            rest._bound = {**self._bound, **dict.fromkeys(names)}
            rest._ignored = self._ignored.union(names, (alias for alias, name in self.aliases.items() if name in names))
            for made_of_parameters in _CACHED:
                rest.__dict__.pop(made_of_parameters, None)
            rest.example = self.example and {
                name: _without_names(value, rest._ignored)
                for name, value in self.example.items()
                if name not in rest._ignored
            }
            for made_of_parameters in _CACHED:
                getattr(rest, made_of_parameters)  # so that every copy has it
            self._remaining[names] = rest, model
        return self._remaining[names]

    def __repr__(self) -> str:
        return f"Tool({self.name})"


def _validate(
    model: type[BaseModel], given: Mapping[str, Any], tool: str, said: Mapping[str, str], largest: int
) -> BaseModel:
    """Validate JSON values by full name. `said`: the name by which each was given; `largest`: maximum bytes of the
    values. Raises WrongParameters."""
    aliases = aliases_of(model)
    problems = size_problems(given, model, aliases)
    if not problems:
        text = well_formed(json.dumps(given, ensure_ascii=False, separators=(",", ":")))
        # A character has at least one byte.
        if len(text) > largest:
            raise WrongParameters(tool, (((), f"the parameters have more than {largest:,} bytes"),))
        try:
            return model.model_validate_json(text)
        except ValidationError as error:
            problems = problems_of(error, model, aliases)
    raise WrongParameters(tool, tuple((_as_said(path, said), what) for path, what in problems))


def _bytes(given: object, depth: int = 8) -> int:
    """Return the bytes of the texts in a JSON value; no parameter is nested as deeply as `depth`."""
    match given:
        case str():
            return len(given) if given.isascii() else len(given.encode(errors="surrogatepass"))
        case Mapping() | list() if depth:
            inner = given.values() if isinstance(given, Mapping) else given
            return sum(_bytes(each, depth - 1) for each in inner)
    return 0


def _without_names(value: Any, names: Collection[str]) -> Any:
    """Return a list without these names in its objects, and any other value as it is."""
    if not names or not isinstance(value, list):
        return value
    return [
        {name: it for name, it in each.items() if name not in names} if isinstance(each, dict) else each
        for each in value
    ]


def _without_in_lists(schema: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the schema of parameters without these properties of objects in lists."""
    return {
        **schema,
        "properties": {name: _objects_without(part, names) for name, part in schema["properties"].items()},
    }


def _objects_without(part: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the schema of a parameter without these properties, if it accepts a list of objects."""
    found = dict(part)
    if "anyOf" in found:
        found["anyOf"] = [_objects_without(each, names) for each in found["anyOf"]]
    if "examples" in found:
        found["examples"] = [_without_names(each, names) for each in found["examples"]]
    each = found.get("items", {})
    if "properties" in each:
        kept = {name: value for name, value in each["properties"].items() if name not in names}
        found["items"] = {**each, "properties": kept}
        if "required" in each:
            found["items"]["required"] = [name for name in each["required"] if name in kept]
    return found


def _values(read: BaseModel) -> dict[str, Any]:
    """Return the fields of a model as they are, models included."""
    return {name: getattr(read, name) for name in type(read).model_fields}


def aliases_of(model: type[BaseModel]) -> dict[str, str]:
    """Return the full names of fields by their other names."""
    return {
        alias: name
        for name, field in model.model_fields.items()
        for each in field.metadata
        if isinstance(each, ParameterAlias)
        for alias in each.names
    }


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model without references, with every name that a field may have."""
    schema = inlined(model.model_json_schema())
    properties = schema.setdefault("properties", {})
    for alias, name in aliases_of(model).items():
        same = {key: value for key, value in properties[name].items() if key not in {"title", "examples"}}
        properties[alias] = {**same, "description": f"Another name for `{name}`."}
    return schema


def in_full(
    given: Mapping[str, Any], aliases: Mapping[str, str], tool: str | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values by full name, and the name by which each was given. Raises WrongParameters for a parameter
    that is given by two names with different values."""
    full: dict[str, Any] = {}
    said: dict[str, str] = {}
    for each, value in given.items():
        name = aliases.get(each, each)
        if name in full and full[name] != value:
            what = f"it is another name for {said[name]}, which is given with another value"
            raise WrongParameters(tool, (((each,), what),))
        said[name], full[name] = each, value
    return full, said


def _as_said(path: tuple[str | int, ...], said: Mapping[str, str]) -> tuple[str | int, ...]:
    """Return the path with the name by which the parameter was given."""
    return (said.get(str(path[0]), path[0]), *path[1:]) if path else path
