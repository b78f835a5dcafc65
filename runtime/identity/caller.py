"""The caller: for whom something is done, and how much of it may be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from runtime.database.schema import OWNER
from runtime.errors import SymbiontError

Scope = Literal["read", "write", "admin"]

SCOPES: Final[tuple[Scope, ...]] = ("read", "write", "admin")
"""From the least to the most; each implies those before it."""


class Forbidden(SymbiontError):  # noqa: N818 - it says what is the case
    """The caller is known, but may not do this. `scope` is what it would need."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(f"this needs a token with the scope {scope}", hint="make one with `symbi token create`")
        self.scope = scope


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `token_id` is None for whoever uses the admin socket: the root's own user."""

    user_id: str
    scopes: frozenset[Scope]
    token_id: str | None = None

    def may(self, scope: Scope) -> bool:
        """Whether one of the caller's scopes is `scope` or implies it."""
        return any(held in self.scopes for held in SCOPES[SCOPES.index(scope) :])

    def need(self, scope: Scope) -> None:
        """Raises `Forbidden` unless the caller may do what needs `scope`."""
        if not self.may(scope):
            raise Forbidden(scope)


OWNER_CALLER: Final = Caller(OWNER, frozenset({"admin"}))


def read_scopes(words: Iterable[str]) -> frozenset[Scope]:
    """The scopes among `words`; what a newer program may have written is no scope of this one."""
    known = set(words)
    return frozenset(scope for scope in SCOPES if scope in known)
