"""What a secret backend promises, and what it is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from runtime.clock import Clock
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.errors import SymbiontError


class Unresolved(SymbiontError):  # noqa: N818 - it is a state of a secret, told in one line
    """The secret is not to be had now. The message names the place and the reason, never a value."""


class BackendUnavailable(Unresolved):
    """The backend does not answer, or cannot just now: nothing else that it is asked will fare better."""


class Session(Protocol):
    """Something that a backend is logged in to."""

    def close(self) -> None:
        """Let go of it."""


@dataclass(frozen=True, slots=True)
class SecretContext:
    """What backends may look at: the process's environment, the root, and the sealed secrets of the database."""

    environ: Mapping[str, str] = field(repr=False)
    root: Path
    database: Database
    key: MasterKey
    clock: Clock
    sessions: dict[str, Session] = field(default_factory=dict, repr=False, compare=False)
    """What backends keep between two reads, each under its own name: somewhere to be logged in to."""

    def close(self) -> None:
        """Let go of what backends kept."""
        for session in self.sessions.values():
            session.close()
        self.sessions.clear()


class Rotated(NamedTuple):
    """A secret that was changed, while the one before it is good until `until` (Unix seconds)."""

    value: bytes
    previous: bytes
    until: float


@dataclass(frozen=True, slots=True)
class Backend:
    """A row: `read(path, context)` gives the raw bytes or raises `Unresolved`.

    `path` is what follows `secret://NAME/`, never empty. `extra` names the optional dependency that it needs. `keep`
    is run for as long as the daemon is, and never raises: it keeps what `context.sessions` holds in use.
    """

    name: str
    title: str
    doc: str
    read: Callable[[str, SecretContext], Awaitable[bytes | Rotated]]
    extra: str | None = None
    keep: Callable[[SecretContext], Coroutine[Any, Any, None]] | None = None
