"""The interface of secret backends, and the context that they get."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from runtime.clock import Clock
from runtime.database.connection import Database
from runtime.database.keys.ring import KeyRing
from runtime.errors import SymbiontError


class Unresolved(SymbiontError):  # noqa: N818 - a state of a secret, reported in one line
    """The secret is unavailable. The message gives source and reason, never a value."""


class BackendUnavailable(Unresolved):
    """The backend does not respond, or is not ready: other reads from it would fail too."""


class Session(Protocol):
    """A backend's login session."""

    def close(self) -> None:
        """Close the session."""


@dataclass(frozen=True, slots=True)
class SecretContext:
    """The inputs of backends: the process's environment, the root, and the sealed secrets of the database."""

    environ: Mapping[str, str] = field(repr=False)
    root: Path
    database: Database
    key: KeyRing
    clock: Clock
    sessions: dict[str, Session] = field(default_factory=dict, repr=False, compare=False)
    """Sessions that backends keep between reads, each under the backend's name."""

    def close(self) -> None:
        """Close the sessions."""
        for session in self.sessions.values():
            session.close()
        self.sessions.clear()


class RotatedSecret(NamedTuple):
    """A rotated secret, whose previous value is valid until `until` (Unix seconds)."""

    value: bytes
    previous: bytes
    until: float


@dataclass(frozen=True, slots=True)
class SecretBackend:
    """A row: `read(path, context)` returns the raw bytes or raises `Unresolved`.

    `path` is the part after `secret://NAME/`, never empty. `extra`: the optional dependency that it needs. `keep` runs
    while the daemon runs, and never raises: it keeps the backend's session valid.
    """

    name: str
    title: str
    doc: str
    read: Callable[[str, SecretContext], Awaitable[bytes | RotatedSecret]]
    extra: str | None = None
    keep: Callable[[SecretContext], Coroutine[Any, Any, None]] | None = None
