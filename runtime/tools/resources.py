"""TABLE of resources: information for clients before they call a tool. Served as MCP resources, below `/v1` and on the
admin socket (the fifth design, M4, M5 and M8)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, get_type_hints
from urllib.parse import quote, unquote

from pydantic import BaseModel

from runtime.errors import NotFound
from runtime.extension_table import table_of
from runtime.suggestions import unknown_name
from runtime.tool_groups import Group
from runtime.tools import resource_results
from runtime.tools.context import Context

GROUP: Final[Group] = "collections"
"""The group of tools with which a client has the resources."""

SCHEME: Final = "symbiont://"
"""Prefix of the address of a resource, as it is listed."""
SCHEMES: Final = ("mcp://rusty-mem/", SCHEME)
"""The prefixes that are read; both mean the same."""

Function = Callable[..., Awaitable[BaseModel]]
"""`async def name(context, *, project_id: str) -> Result`: a parameter for each name in the path, text."""

_NAMED: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Resource:
    """One row. `path`: with `{parameter}` for each part that is not fixed; reading needs the scope `read`, and the
    group `GROUP`."""

    path: str
    function: Function
    title: str

    @property
    def name(self) -> str:
        """The path, which is unique."""
        return self.path

    @property
    def doc(self) -> str:
        """The function's docstring."""
        return inspect.getdoc(self.function) or ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters in the path; without any there is one address."""
        return tuple(_NAMED.findall(self.path))

    @property
    def uri(self) -> str:
        """Its address, or its template (RFC 6570), under the scheme that is listed."""
        return f"{SCHEME}{self.path}"

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Pattern of the whole path."""
        return re.compile(_NAMED.sub(r"(?P<\1>[^/]+)", re.escape(self.path).replace(r"\{", "{").replace(r"\}", "}")))

    @cached_property
    def result(self) -> type[BaseModel]:
        """The model of the result."""
        kind = get_type_hints(self.function)["return"]
        assert isinstance(kind, type)
        assert issubclass(kind, BaseModel)
        return kind

    def path_of(self, **values: str) -> str:
        """Return the path with these values in place of its parameters."""
        return self.path.format_map({name: quote(value, safe="") for name, value in values.items()})


RESOURCES = table_of(
    "resource",
    [
        Resource("memory-types", resource_results.memory_types, "Memory types"),
        Resource("projects", resource_results.projects, "Projects"),
        Resource("projects/{project_id}/tags", resource_results.tags, "Tags of a project"),
        Resource("health", resource_results.health, "Health"),
        Resource("settings", resource_results.settings, "Settings"),
    ],
)
"""Every resource by its path."""


async def read(context: Context, path: str) -> BaseModel:
    """Return the resource at `path` (`projects/default/tags`; percent-encoded) as the context's caller may see it.

    Raises NotFound with the nearest paths, Forbidden, and what the function raises.
    """
    context.caller.need("read")
    context.caller.need_tool(GROUP, "a resource", read_only=True)
    for row in RESOURCES.values():
        match = row.pattern.fullmatch(path)
        if match is not None:
            return await row.function(context, **{name: _text(part) for name, part in match.groupdict().items()})
    raise unknown_name("resource", path[:200], RESOURCES, NotFound)


def path_in(uri: str) -> str:
    """Return the path in the address of a resource, under either scheme. Raises NotFound."""
    for scheme in SCHEMES:
        if uri.startswith(scheme):
            return uri.removeprefix(scheme)
    raise NotFound(f"{uri[:200]!r} is not the address of a resource", hint=f"they begin with {' or '.join(SCHEMES)}")


def as_json(result: BaseModel) -> Any:
    """Return the result as JSON: a list or an object."""
    return result.model_dump(mode="json")


def _text(part: str) -> str:
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise NotFound(f"{part[:200]!r} is not valid UTF-8") from None
