"""Messages between the daemon and the worker process of a model: MessagePack, each after its length in 4 bytes."""

from __future__ import annotations

import socket
from typing import Final, Literal

import msgspec
from msgspec import Struct

from runtime.models.request import Reply, Request

LENGTH_BYTES: Final = 4
MOST_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes of a message, in both directions."""


class Start(Struct, frozen=True, tag=True, kw_only=True):
    """The first message to a worker: what it loads. `window`: tokens of a request and its reply. `socket`: a path that
    the library listens on, relative to the worker's folder. `parent`: the process id of the daemon."""

    path: str
    window: int
    threads: int
    socket: str
    parent: int


class Ask(Struct, frozen=True, tag=True):
    """Answer a request: any number of `Part`, then `Ended`, `Stopped` or `Failed`. Requests are answered in order."""

    id: int
    request: Request


class Cancel(Struct, frozen=True, tag=True):
    """Stop answering a request. It ends with `Stopped`, unless it has ended already."""

    id: int


class Count(Struct, frozen=True, tag=True):
    """Count the tokens of each text. Answered at once, also during a request."""

    id: int
    texts: list[str]


class Loaded(Struct, frozen=True, tag=True):
    """The model is loaded."""


class NotLoaded(Struct, frozen=True, tag=True):
    """The model cannot be loaded; the worker ends."""

    reason: str


class Part(Struct, frozen=True, tag=True):
    """The next part of a reply's text."""

    id: int
    text: str


class Ended(Struct, frozen=True, tag=True):
    """The whole reply."""

    id: int
    reply: Reply


class Stopped(Struct, frozen=True, tag=True):
    """The request was cancelled."""

    id: int


class Failed(Struct, frozen=True, tag=True):
    """There is no reply: the request has too many tokens (`window`), the model can never answer it (`refused`), or
    another try may succeed (`failed`)."""

    id: int
    reason: Literal["window", "refused", "failed"]
    message: str


class Counted(Struct, frozen=True, tag=True):
    """The tokens of each text."""

    id: int
    tokens: list[int]


ToWorker = Start | Ask | Cancel | Count
Answer = Part | Ended | Stopped | Failed | Counted
"""What belongs to a request. All but `Part` end it."""
FromWorker = Loaded | NotLoaded | Answer

_encoder: Final = msgspec.msgpack.Encoder()
_to_worker: Final = msgspec.msgpack.Decoder(ToWorker)
_from_worker: Final = msgspec.msgpack.Decoder(FromWorker)


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
    """Return a worker's message. Raises msgspec.DecodeError."""
    message: FromWorker = _from_worker.decode(content)
    return message


def receive(channel: socket.socket) -> ToWorker | None:
    """Return the daemon's next message; None at the end of the connection. Blocks."""
    head = _exactly(channel, LENGTH_BYTES)
    content = None if head is None else _exactly(channel, length(head))
    return None if content is None else _to_worker.decode(content)


def _exactly(channel: socket.socket, size: int) -> bytes | None:
    content = bytearray()
    while len(content) < size:
        some = channel.recv(min(size - len(content), 1 << 20))
        if not some:
            return None
        content += some
    return bytes(content)
