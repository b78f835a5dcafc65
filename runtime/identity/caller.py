"""The caller: the user on whose behalf an operation runs, and its permissions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from runtime.database.schema import OWNER
from runtime.errors import SymbiontError

Scope = Literal["read", "write", "admin"]

SCOPES: Final[tuple[Scope, ...]] = ("read", "write", "admin")
"""In ascending order; each scope implies those before it."""


class Forbidden(SymbiontError):  # noqa: N818
    """The caller is known but lacks the permission. `scope` is the scope that it needs."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(f"this needs a token with the scope {scope}", hint="create one with `symbi token create`")
        self.scope = scope


@dataclass(frozen=True, slots=True)
class Caller:
    """The user on whose behalf an operation runs. `token_id` is None on the admin socket, which only the root's user
    can use."""

    user_id: str
    scopes: frozenset[Scope]
    token_id: str | None = None

    def may(self, scope: Scope) -> bool:
        """True if one of the caller's scopes is `scope` or implies it."""
        return any(held in self.scopes for held in SCOPES[SCOPES.index(scope) :])

    def need(self, scope: Scope) -> None:
        """Raise `Forbidden` unless the caller has `scope`."""
        if not self.may(scope):
            raise Forbidden(scope)


OWNER_CALLER: Final = Caller(OWNER, frozenset({"admin"}))


def read_scopes(words: Iterable[str]) -> frozenset[Scope]:
    """Return the scopes in `words`; unknown words, which a newer program may have written, are ignored."""
    known = set(words)
    return frozenset(scope for scope in SCOPES if scope in known)
