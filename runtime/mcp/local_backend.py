"""The backend of an opened root: the tables of tools and readables, for one caller."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import structlog

from runtime.errors import SymbiontError
from runtime.identity.caller import Caller, Scope
from runtime.mcp.backend import Answer, Failed, Progress
from runtime.tools import TOOLS, resources
from runtime.tools.context import App as ToolsApp
from runtime.tools.context import Context, untold
from runtime.tools.failure import failure_of

log = structlog.get_logger("symbiont.mcp")


class App(ToolsApp, Protocol):
    """An opened root whose generation can be kept."""

    def pinned(self) -> AbstractAsyncContextManager[None]:
        """Keep what the running generation has open while inside."""


class LocalBackend:
    """`Backend` over an app in this process."""

    def __init__(self, app: App, caller: Caller) -> None:
        self._app = app
        self._caller = caller

    def may(self, scope: Scope) -> bool:
        """See `Backend`."""
        return self._caller.may(scope)

    async def call(self, name: str, arguments: Mapping[str, Any], progress: Progress | None) -> Answer:
        """See `Backend`."""
        tool = TOOLS[name]
        try:
            async with self._app.pinned():
                context = Context(self._caller, self._app, progress or untold)
                text = (await tool.call(context, arguments)).model_dump_json()
        except SymbiontError as error:
            raise Failed(failure_of(error, tool, self._caller).json()) from None
        except Exception:
            raise _unforeseen(name) from None
        return Answer(text, json.loads(text))

    async def read(self, uri: str) -> Answer:
        """See `Backend`."""
        try:
            async with self._app.pinned():
                found = await resources.read(Context(self._caller, self._app), resources.path_in(uri))
                text = found.model_dump_json()
        except SymbiontError as error:
            raise Failed(failure_of(error, None, self._caller).json()) from None
        except Exception:
            raise _unforeseen(uri[:200]) from None
        return Answer(text, json.loads(text))


def _unforeseen(what: str) -> Failed:
    """A mistake of ours: the log has it whole, the model hears that there was one."""
    log.exception("a call failed", called=what)
    return Failed({"code": "provider_unavailable", "message": f"{what} failed; the log says why"})
