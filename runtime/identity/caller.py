"""The caller: the user on whose behalf an operation runs, and its permissions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from runtime.database.schema import OWNER
from runtime.errors import SymbiontError
from runtime.tool_groups import ToolChoice

Scope = Literal["read", "write", "admin"]

Surface = Literal["agent", "user", "api"]
"""`agent`: an agent, or a client of MCP; `user`: a command of a person; `api`: a client of HTTP."""

SCOPES: Final[tuple[Scope, ...]] = ("read", "write", "admin")
"""In ascending order; each scope implies those before it."""


class Forbidden(SymbiontError):  # noqa: N818
    """The caller is known but lacks the permission. `scope` is the scope that it needs; None: a scope is not what it
    lacks."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(f"this needs a token with the scope {scope}", hint="create one with `symbi token create`")
        self.scope: Scope | None = scope


class OutsideOfToken(Forbidden):
    """The token is limited to groups of tools, and this is in none of them."""

    def __init__(self, limit: ToolChoice, what: str) -> None:
        hint = "create one with `symbi token create --tools`"
        SymbiontError.__init__(self, f"this token is limited to the tools {limit}: {what}", hint=hint)
        self.scope = None


@dataclass(frozen=True, slots=True)
class Caller:
    """The user on whose behalf an operation runs. `token_id` is None on the admin socket, which only the root's user
    can use. `tools`: the tools to which the token is limited; None: all, and what is no tool. `via`: the surface of
    the call, as it is recorded with changes."""

    user_id: str
    scopes: frozenset[Scope]
    token_id: str | None = None
    tools: ToolChoice | None = None
    via: Surface = "user"

    def may(self, scope: Scope) -> bool:
        """True if one of the caller's scopes is `scope` or implies it."""
        return any(held in self.scopes for held in SCOPES[SCOPES.index(scope) :])

    def need(self, scope: Scope) -> None:
        """Raise `Forbidden` unless the caller has `scope`."""
        if not self.may(scope):
            raise Forbidden(scope)

    def need_tool(self, group: str | None, name: str, *, read_only: bool) -> None:
        """Raise `OutsideOfToken` unless the caller's token has the tool `name` of `group`."""
        if self.tools is not None and not self.tools.has(group, read_only=read_only):
            changes = self.tools.read_only and not read_only
            raise OutsideOfToken(
                self.tools, f"{name} is one of {group or 'no group'}{' and changes something' if changes else ''}"
            )

    def need_all_tools(self, what: str) -> None:
        """Raise `OutsideOfToken` if the caller's token is limited to some tools. `what`: what is no tool."""
        if self.tools is not None:
            raise OutsideOfToken(self.tools, f"{what} is none of them")


OWNER_CALLER: Final = Caller(OWNER, frozenset({"admin"}))


def read_scopes(words: Iterable[str]) -> frozenset[Scope]:
    """Return the scopes in `words`; unknown words, which a newer program may have written, are ignored."""
    known = set(words)
    return frozenset(scope for scope in SCOPES if scope in known)
