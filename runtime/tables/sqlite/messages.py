"""Messages between the daemon and the worker process of a file."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from runtime.tables.sql_database import TableInfo
from runtime.workers.frames import Frames

MOST_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of a message, in both directions."""


class Blob(Struct, frozen=True, array_like=True):
    """A blob."""

    content: bytes


Scalar: TypeAlias = str | int | float | Blob | None
"""A value of a parameter or of a result."""
Bound: TypeAlias = list[Scalar] | dict[str, Scalar]
"""Values for `?`, or for `:name`."""


class OpenRequest(Struct, frozen=True, tag=True):
    """The first message to a worker: the file that it serves. `known`: the file has tables, so it must exist."""

    path: bytes
    key: bytes
    known: bool

    def __repr__(self) -> str:
        return f"Open({self.path!r})"


class Limits(Struct, frozen=True, array_like=True):
    """Limits of this file. None: no limit."""

    tables: int | None
    rows: int | None
    bytes: int


class Run(Struct, frozen=True, tag=True):
    """Run a statement with each of these parameters, in one transaction of at most so many seconds. `result`: return
    the rows of the first. `read_only`: refuse one that may change something."""

    statement: str
    parameters: list[Bound]
    limits: Limits
    seconds: float
    result: bool = True
    read_only: bool = False

    def __repr__(self) -> str:
        return f"Run({len(self.statement)} characters, {len(self.parameters)} times)"


class Describe(Struct, frozen=True, tag=True):
    """Return all tables."""


class ReadPage(Struct, frozen=True, tag=True):
    """Return rows of a table."""

    table: str
    after: str | None
    limit: int


class Copy(Struct, frozen=True, tag=True):
    """Copy the file to a new one that is sealed with this key, and is on disk on return."""

    path: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"Copy({self.path!r})"


class Commit(Struct, frozen=True, tag=True):
    """The change is within the limits of the user, or not: then it is taken back, and the answer is `Failure`."""

    allowed: bool


class Close(Struct, frozen=True, tag=True):
    """Close the file, and end."""


class Size(Struct, frozen=True, array_like=True):
    """Size of the file now."""

    tables: int
    bytes: int


class PendingChange(Struct, frozen=True, tag=True):
    """A statement has changed something, and this is the size with the change. `asks`: it waits for `Commit`. From now
    on, or from then on, the change may be on disk."""

    size: Size
    asks: bool


class StatementRows(Struct, frozen=True, tag=True):
    """The result of a statement."""

    columns: list[str]
    rows: list[list[Scalar]]
    affected_rows: int
    truncated: bool


class Tables(Struct, frozen=True, tag=True):
    """All tables, by name."""

    tables: list[TableInfo]


class Page(Struct, frozen=True, tag=True):
    """Rows of a table."""

    columns: list[str]
    rows: list[list[Scalar]]
    after: str | None


class FileReady(Struct, frozen=True, tag=True):
    """The file is open, or copied."""

    size: Size


Reason: TypeAlias = Literal[
    "statement", "time", "changes", "table", "column", "tables", "rows", "bytes", "disk", "file", "failed"
]


class Failure(Struct, frozen=True, tag=True):
    """Nothing was changed. `reason`: what the caller can correct, of which a wrong name of a table or column; a limit
    of the user, of tables, rows of a table, or bytes; a full or failing disk; a file that is not what it should be;
    anything else. `time`: it took too long. `changes`: it may change something, and was to be run only if it does
    not. `row`: position of the parameters that failed, if there are several.

    For a wrong name, `message` is the name and `known` are those that exist. For a limit of rows, `message` is the
    table; `count`: what there is of what is limited.
    """

    reason: Reason
    message: str
    hint: str | None = None
    known: list[str] = []
    count: int = 0
    row: int | None = None


ToWorker: TypeAlias = OpenRequest | Run | Describe | ReadPage | Copy | Commit | Close
Answer: TypeAlias = StatementRows | Tables | Page | FileReady | Failure
FromWorker: TypeAlias = PendingChange | Answer

TO_WORKER: Final = Frames[ToWorker](ToWorker, MOST_BYTES)
FROM_WORKER: Final = Frames[FromWorker](FromWorker, MOST_BYTES)

CONTROL_BYTES: Final = 4
"""Of a message to and from the template: the number of a process. To it: the worker to kill, or 0 with the socket of a
worker to fork; from it: the worker that was forked, or 0 if that is not possible."""


def control(number: int = 0) -> bytes:
    """Return a message to or from the template."""
    return number.to_bytes(CONTROL_BYTES, "big")
