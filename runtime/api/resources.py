"""TABLE of HTTP resources: which method and path calls which tool. What the path does not name comes from the query of
a GET, else from a JSON body."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from runtime.tools import TOOLS, Tool

_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@dataclass(frozen=True)
class Resource:
    """One row. `path`: with `{parameter}` for each id in it. `location`: the path of what a 201 made."""

    method: str
    path: str
    tool: Tool
    status: int = 200
    location: str | None = None

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What a request's path must be, wholly. An id that cannot be one is a path that is not there."""
        return re.compile(re.sub(r"\\\{(\w+)\\\}", rf"(?P<\1>{_UUID})", re.escape(self.path)), re.ASCII)

    @property
    def in_path(self) -> tuple[str, ...]:
        """The parameters that the path names."""
        return tuple(self.pattern.groupindex)

    @property
    def others(self) -> tuple[str, ...]:
        """The parameters that the path does not name."""
        return tuple(name for name in self.tool.parameters.model_fields if name not in self.in_path)

    @property
    def body(self) -> bool:
        """Whether the other parameters come in a body."""
        return self.method in {"POST", "PATCH", "PUT"} and bool(self.others)


_WEBHOOKS = "/v1/webhooks"
_WEBHOOK = f"{_WEBHOOKS}/{{webhook_id}}"

RESOURCES: Final = (
    Resource("POST", _WEBHOOKS, TOOLS["webhook_create"], status=201, location=_WEBHOOK),
    Resource("GET", _WEBHOOKS, TOOLS["webhook_list"]),
    Resource("GET", _WEBHOOK, TOOLS["webhook_get"]),
    Resource("PATCH", _WEBHOOK, TOOLS["webhook_update"]),
    Resource("DELETE", _WEBHOOK, TOOLS["webhook_delete"], status=204),
    Resource("POST", f"{_WEBHOOK}/rotate", TOOLS["webhook_rotate_secret"]),
    Resource("GET", f"{_WEBHOOK}/audit", TOOLS["webhook_get_audit_log"]),
)
