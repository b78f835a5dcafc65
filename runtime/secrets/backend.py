"""What a secret backend promises, and what it is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runtime.clock import Clock
from runtime.crypto import MasterKey
from runtime.database import Database
from runtime.errors import SymbiontError


class Unresolved(SymbiontError):  # noqa: N818 - it is a state of a secret, told in one line
    """The secret is not to be had now. The message names the place and the reason, never a value."""


@dataclass(frozen=True, slots=True)
class Context:
    """What backends may look at: the process's environment, the root, and the sealed secrets of the database."""

    environ: Mapping[str, str] = field(repr=False)
    root: Path
    database: Database
    key: MasterKey
    clock: Clock


@dataclass(frozen=True, slots=True)
class Backend:
    """A row: `read(path, context)` gives the raw bytes or raises `Unresolved`.

    `path` is what follows `secret://NAME/`, never empty. `extra` names the optional dependency that it needs.
    """

    name: str
    title: str
    doc: str
    read: Callable[[str, Context], Awaitable[bytes]]
    extra: str | None = None
