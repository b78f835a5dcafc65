"""A tool: a typed function whose signature and docstring are its schema for agents, MCP, HTTP and commands."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from runtime.errors import UsageError
from runtime.identity.caller import Caller, Scope
from runtime.memory.item import well_formed
from runtime.tool_groups import Group
from runtime.tools.call_counts import COUNTS
from runtime.tools.context import Context
from runtime.tools.validation_errors import ParameterError, inlined, problem_of

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


class Annotations(NamedTuple):
    """Properties of a tool for clients (MCP, tool annotations)."""

    title: str
    read_only: bool
    destructive: bool
    """True if it may delete or overwrite something permanently."""
    idempotent: bool
    """True if a second call with the same parameters changes nothing more."""


class _Remaining(NamedTuple):
    """What a tool has without some of its parameters. `bound`: the model of those."""

    bound: type[BaseModel]
    ignored: frozenset[str]
    example: Mapping[str, Any] | None
    parameters: type[BaseModel]
    aliases: Mapping[str, str]
    schema: Mapping[str, Any]


class Tool:
    """One row: a function, and its properties beyond the signature. Immutable."""

    def __init__(
        self,
        function: Function,
        scope: Scope,
        name: str | None = None,
        *,
        destructive: bool = False,
        idempotent: bool | None = None,
        example: Mapping[str, Any] | None = None,
        indexes: bool = True,
        read_only: bool | None = None,
        long: bool = False,
        keyed: bool = False,
        people: bool = False,
        stopped_by: str | None = None,
        group: Group | None = None,
        reads: Reads | None = None,
    ) -> None:
        """`scope`: required of the caller. `name`: the function's by default; dashes are allowed. `idempotent`: calling
        it again changes nothing more; true of reading. `example`: correct parameters, by name, for errors and for the
        description. `indexes`: it may read indexes of memories, which must be open. `read_only`: it changes nothing;
        true of the scope `read`. `long`: a call may take minutes, so clients are offered its progress. `keyed`:
        calls in a run with the same key (`Acting.key`) happen once. `people`: only for people and their clients; no
        agent is offered it, and a call of an agent is refused. `stopped_by`: the switch without which no client is
        answered, see `runtime.switches`. `group`: by which clients choose it, and tokens are limited to it; None: no
        client is offered it. `reads`: returns True for arguments with which it surely changes nothing, if it is not
        `read_only`; who may only read calls it too, and it refuses what changes something itself."""
        self.function = function
        self.scope = scope
        self.name = name or function.__name__
        self.destructive = destructive
        self.read_only = scope == "read" if read_only is None else read_only
        self.idempotent = self.read_only if idempotent is None else idempotent
        self.example = example
        self.indexes = indexes
        self.long = long
        self.keyed = keyed
        self.people = people
        self.stopped_by = stopped_by
        self.group = group
        self._reads = reads
        self._bound: Mapping[str, Any] = {}
        self._ignored: frozenset[str] = frozenset()
        self._remaining: dict[frozenset[str], _Remaining] = {}

    @property
    def doc(self) -> str:
        """The function's docstring."""
        return inspect.getdoc(self.function) or ""

    @property
    def annotations(self) -> Annotations:
        """The tool's annotations."""
        title = self.name.replace("-", " ").replace("_", " ").capitalize()
        return Annotations(title, self.read_only, self.destructive, self.idempotent)

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
        """What decides what a call does, besides its arguments, as JSON: a person who approves one approves it too."""
        return {"schema": self.schema, "bound": dict(self._bound)}

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
            done = await self._run(context, given)
        except BaseException as error:
            counts.failures += 1
            context.on_called(self.name, error)
            raise
        context.on_called(self.name, None)
        return done

    async def _run(self, context: Context, given: Mapping[str, Any]) -> BaseModel:
        """Call the function with `given`, JSON values by name."""
        return await self.function(context, **_values(self._read(given)), **self._bound)

    def check(self, given: Mapping[str, Any]) -> None:
        """Raise WrongParameters if the function cannot be called with `given`."""
        self._read(given)

    def _read(self, given: Mapping[str, Any]) -> BaseModel:
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
        return _validated(self.parameters, full, self.name, said)

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
        rest = self._without(frozenset(full))
        bound = copy(self)
        bound._remaining = {}
        bound._bound = {**self._bound, **_values(_validated(rest.bound, full, self.name, said))}
        bound._ignored, bound.example = rest.ignored, rest.example
        bound.__dict__ |= {"parameters": rest.parameters, "aliases": rest.aliases, "schema": rest.schema}
        return bound

    def _without(self, names: frozenset[str]) -> _Remaining:
        """Return what is left without these parameters. It is made once for all their values: agents bind their tools
        in every turn."""
        if names not in self._remaining:
            hints = get_type_hints(self.function, include_extras=True)
            fields: dict[str, Any] = {name: (hints[name], ...) for name in names}
            model = create_model("Bound", __config__=self.parameters.model_config, __doc__=None, **fields)
            rest = copy(self)
            rest._bound = {**self._bound, **dict.fromkeys(names)}
            rest._ignored = self._ignored.union(names, (alias for alias, name in self.aliases.items() if name in names))
            for made_of_parameters in ("parameters", "aliases", "schema"):
                rest.__dict__.pop(made_of_parameters, None)
            example = self.example and {
                name: _without_names(value, rest._ignored)
                for name, value in self.example.items()
                if name not in rest._ignored
            }
            self._remaining[names] = _Remaining(
                model, rest._ignored, example, rest.parameters, rest.aliases, rest.schema
            )
        return self._remaining[names]

    def __repr__(self) -> str:
        return f"Tool({self.name})"


def _validated(model: type[BaseModel], given: Mapping[str, Any], tool: str, said: Mapping[str, str]) -> BaseModel:
    """Validate JSON values by full name. `said`: the name by which each was given. Raises WrongParameters."""
    try:
        return model.model_validate_json(well_formed(json.dumps(given, ensure_ascii=False)))
    except ValidationError as error:
        known = (*model.model_fields, *aliases_of(model))
        problems = (problem_of(each, model, known) for each in error.errors(include_url=False, include_input=False))
        raise WrongParameters(tool, tuple((_as_said(path, said), what) for path, what in problems)) from None


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
