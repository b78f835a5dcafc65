"""TABLE of operations, and the one call of tools and operations for the admin socket and commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from runtime.agents.reply.arguments import client_arguments
from runtime.api.admin import readiness, resources, secrets, tables, tasks, tokens, users
from runtime.api.admin.agents import chat, context_preview, mcp_servers, overview, undo
from runtime.api.admin.keys import keys
from runtime.api.admin.operation import Operation
from runtime.api.admin.state import AdminContext
from runtime.api.admin.webhooks import deliveries, filter_explanation, mounts
from runtime.errors import SymbiontError, UsageError
from runtime.extension_table import table_of
from runtime.identity.caller import Caller
from runtime.tools.failure import failure_of
from runtime.tools.memory.access import asked_user
from runtime.tools.tool import Tool
from runtime.tools.toolset import ALL_TOOLS

_MODULES: Final = (
    *(overview, context_preview, undo, chat, deliveries, mounts, filter_explanation, secrets, mcp_servers),
    *(tables, tasks, users, tokens, keys, readiness, resources),
)

OPERATIONS: Final[Mapping[str, Operation]] = table_of(
    "operation",
    (
        each
        for module in _MODULES
        for each in vars(module).values()
        if isinstance(each, Operation) and each.function.__module__ == module.__name__
    ),
)
"""Functions that are no tools: they act on the process, on its keys, tokens and users, or serve one command."""

ENVELOPE: Final = frozenset({"user", "parameters"})


class AdminCall(NamedTuple):
    """A call of a tool or operation. `user`: the name of the user as whom it acts, with that user's data and no more;
    None: as the root's own user."""

    name: str
    parameters: Mapping[str, Any]
    user: str | None = None

    @property
    def target(self) -> Tool:
        """The tool or operation. Raises UsageError."""
        found = OPERATIONS.get(self.name) or ALL_TOOLS.get(self.name)
        if found is None:
            raise UsageError(
                f"this daemon has no operation {self.name!r}",
                hint="the daemon may be older than the command; restart it",
            )
        return found

    @property
    def tool(self) -> Tool | None:
        """The tool; None for an operation."""
        return ALL_TOOLS.get(self.name)

    @classmethod
    def read(cls, name: str, envelope: object) -> AdminCall:
        """Return the call of `name` with the envelope `{"user": NAME, "parameters": {…}}`. Raises UsageError."""
        if not isinstance(envelope, dict) or not envelope.keys() <= ENVELOPE:
            raise UsageError("the request is not an object with `user` and `parameters`")
        user, parameters = envelope.get("user"), envelope.get("parameters", {})
        if not isinstance(parameters, dict):
            raise UsageError("`parameters` is not an object")
        if user is not None and (not isinstance(user, str) or not user):
            raise UsageError("`user` is not the name of a user")
        return cls(name, parameters, user)

    async def answer(self, context: AdminContext) -> dict[str, Any]:
        """Return the result as JSON. Raises SymbiontError."""
        target = self.target
        if self.user is not None:
            user_id = await asked_user(context, self.user)
            assert user_id is not None
            context = replace(context, caller=Caller(user_id, frozenset({"write"}), via=context.caller.via))
        if isinstance(target, Operation):
            return await target(context, self.parameters)
        given = self.parameters
        if context.caller.via == "agent":
            given = client_arguments(given, target.schema)
        return (await ALL_TOOLS.call(self.name, context, given)).model_dump(mode="json")


def error_json(error: SymbiontError, tool: Tool | None) -> dict[str, Any]:
    """Return an error in the form that commands read; `failure` is for clients of tools."""
    failure = failure_of(error, tool).json()
    return {"message": str(error), "hint": error.hint, "exit_code": error.exit_code, "failure": failure}
