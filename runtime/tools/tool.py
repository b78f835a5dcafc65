"""A tool is a typed function: its signature and docstring are its schema for agents, for HTTP and for commands."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import ErrorDetails

from runtime.errors import UsageError
from runtime.identity import Scope
from runtime.tools.context import Context

Function = Callable[..., Awaitable[BaseModel]]
"""`async def name(context: Context, …) -> Result`: parameters annotated, descriptions in `Field`, the result a model.
Raises SymbiontError."""


class WrongParameters(UsageError):  # noqa: N818
    """`problems`: of each wrong parameter its path of names and positions, and what is wrong with it."""

    def __init__(self, tool: str, problems: tuple[tuple[tuple[str | int, ...], str], ...]) -> None:
        told = "; ".join(f"{'.'.join(map(str, path))}: {what}" if path else what for path, what in problems)
        super().__init__(f"{tool}: {told}")
        self.problems = problems


@dataclass(frozen=True)
class Tool:
    """One row. `scope`: what the caller needs. `shows_secret`: its result holds a secret, which is kept nowhere."""

    function: Function
    scope: Scope
    shows_secret: bool = False

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @property
    def doc(self) -> str:
        """The function's docstring."""
        return inspect.getdoc(self.function) or ""

    @cached_property
    def parameters(self) -> type[BaseModel]:
        """A model of the function's parameters; what it does not name is refused."""
        hints = get_type_hints(self.function, include_extras=True)
        fields: dict[str, Any] = {
            name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
            for name, parameter in list(inspect.signature(self.function).parameters.items())[1:]
        }
        title = "".join(part.title() for part in self.name.split("_"))
        # No input in an error: it may be a secret, and is shown to whoever asked and to nobody else anyway.
        config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)
        return create_model(title, __config__=config, __doc__=None, **fields)

    @cached_property
    def result(self) -> type[BaseModel]:
        """The model that the function returns."""
        kind = get_type_hints(self.function)["return"]
        assert isinstance(kind, type)
        assert issubclass(kind, BaseModel)
        return kind

    async def call(self, context: Context, given: Mapping[str, Any]) -> BaseModel:
        """Call the function with `given`, JSON values by name, for the context's caller.

        Raises `Forbidden`, `WrongParameters`, and what the function raises.
        """
        context.caller.need(self.scope)
        try:
            read = self.parameters.model_validate_json(json.dumps(dict(given)))
        except ValidationError as error:
            raise WrongParameters(self.name, tuple(map(self._problem, _errors(error)))) from None
        return await self.function(context, **{name: getattr(read, name) for name in self.parameters.model_fields})

    def _problem(self, error: ErrorDetails) -> tuple[tuple[str | int, ...], str]:
        path, message = error["loc"], error["msg"].removeprefix("Value error, ")
        field = self.parameters.model_fields.get(str(path[0])) if path else None
        if error["type"] == "string_pattern_mismatch" and field is not None and field.description:
            # A pattern is for programs.
            message = f"this is not its form. {field.description}"
        return path, message


def _errors(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_input=False)
