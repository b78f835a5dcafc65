"""Messages between the daemon and the worker process of a file: MessagePack, each after its length in 4 bytes."""

from __future__ import annotations

import socket
from typing import Final, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct

LENGTH_BYTES: Final = 4
MOST_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of a message, in both directions."""


class Blob(Struct, frozen=True, array_like=True):
    """A blob."""

    content: bytes


Scalar: TypeAlias = str | int | float | Blob | None
"""What is bound to a parameter, and a value of a result."""
Bound: TypeAlias = list[Scalar] | dict[str, Scalar]
"""Values for `?`, or for `:name`."""


class Open(Struct, frozen=True, tag=True):
    """The first message to a worker: the file that it serves. `known`: the file has tables, so it must exist."""

    path: str
    key: bytes
    known: bool

    def __repr__(self) -> str:
        return f"Open({self.path!r})"


class Limits(Struct, frozen=True, array_like=True):
    """What the user may store in this file. None: no limit."""

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

    path: str
    key: bytes

    def __repr__(self) -> str:
        return f"Copy({self.path!r})"


class Commit(Struct, frozen=True, tag=True):
    """The change is within the limits of the user, or not: then it is taken back, and the answer is `Failed`."""

    allowed: bool


class Close(Struct, frozen=True, tag=True):
    """Close the file, and end."""


class Size(Struct, frozen=True, array_like=True):
    """What the file contains now."""

    tables: int
    bytes: int


class Committing(Struct, frozen=True, tag=True):
    """A statement has changed something, and this is the size with the change. `asks`: it waits for `Commit`. From now
    on, or from then on, the change may be on disk."""

    size: Size
    asks: bool


class Ran(Struct, frozen=True, tag=True):
    """What a statement returned."""

    columns: list[str]
    rows: list[list[Scalar]]
    affected_rows: int
    truncated: bool


class Column(Struct, frozen=True, array_like=True):
    """A column of a table."""

    name: str
    type: str
    nullable: bool


class Described(Struct, frozen=True, array_like=True):
    """A table."""

    name: str
    columns: list[Column]
    rows: int


class Tables(Struct, frozen=True, tag=True):
    """All tables, by name."""

    tables: list[Described]


class Page(Struct, frozen=True, tag=True):
    """Rows of a table."""

    columns: list[str]
    rows: list[list[Scalar]]
    after: str | None


class Done(Struct, frozen=True, tag=True):
    """The file is open, or copied."""

    size: Size


Reason: TypeAlias = Literal[
    "statement", "time", "changes", "table", "column", "tables", "rows", "bytes", "disk", "file", "failed"
]


class Failed(Struct, frozen=True, tag=True):
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


ToWorker: TypeAlias = Open | Run | Describe | ReadPage | Copy | Commit | Close
Answer: TypeAlias = Ran | Tables | Page | Done | Failed
FromWorker: TypeAlias = Committing | Answer

_encoder: Final = msgspec.msgpack.Encoder()
_to_worker: Final = msgspec.msgpack.Decoder(ToWorker)
_from_worker: Final = msgspec.msgpack.Decoder(FromWorker)


CONTROL_BYTES: Final = 5
"""Of a message to and from the template: `F` to fork a worker, `K` to kill one; `F` for one that was forked, `X` for
one that has ended; and the number of the process (0: none)."""


def control(kind: bytes, number: int = 0) -> bytes:
    """Return a message to or from the template."""
    return kind + number.to_bytes(CONTROL_BYTES - 1, "big")


class TooLong(Exception):  # noqa: N818 - named for what is wrong
    """A message has more than `MOST_BYTES`."""


def encode(message: ToWorker | FromWorker) -> bytes:
    """Return a message with its length. Raises TooLong."""
    content = _encoder.encode(message)
    if len(content) > MOST_BYTES:
        raise TooLong
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


def length(head: bytes) -> int:
    """Return the length of the message after these `LENGTH_BYTES` bytes. Raises TooLong."""
    size = int.from_bytes(head, "big")
    if size > MOST_BYTES:
        raise TooLong
    return size


def from_worker(content: bytes) -> FromWorker:
    """Raises msgspec.DecodeError."""
    return cast("FromWorker", _from_worker.decode(content))


def receive(channel: socket.socket) -> ToWorker:
    """Wait for a message to a worker. Raises EOFError at the end of the daemon."""
    return cast("ToWorker", _to_worker.decode(_read(channel, length(_read(channel, LENGTH_BYTES)))))


def _read(channel: socket.socket, size: int) -> bytes:
    content = channel.recv(size, socket.MSG_WAITALL)
    if len(content) < size:
        raise EOFError
    return content
