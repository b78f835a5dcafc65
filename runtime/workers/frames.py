"""Messages between the daemon and its worker processes: MessagePack, each after its length in 4 bytes."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

if TYPE_CHECKING:  # workers do not load it
    from asyncio import StreamReader

Message = TypeVar("Message")

_LENGTH_BYTES: Final = 4


class TooLong(Exception):  # noqa: N818 - named for what is wrong
    """A message has more bytes than one may have."""


class Frames(Generic[Message]):
    """Writes and reads messages of one type. `most`: maximum bytes of a message."""

    def __init__(self, kind: Any, most: int) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder[Message](kind)
        self._most = most

    def encode(self, message: Message) -> bytes:
        """Return a message with its length. Raises TooLong."""
        content = self._encoder.encode(message)
        self._check(len(content))
        return len(content).to_bytes(_LENGTH_BYTES, "big") + content

    async def read(self, reader: StreamReader) -> Message:
        """Return the next message. Raises EOFError at the end, TooLong, msgspec.DecodeError, and OSError."""
        size = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
        self._check(size)
        message: Message = self._decoder.decode(await reader.readexactly(size))
        return message

    def receive(self, channel: socket.socket) -> Message | None:
        """Wait for the next message, and return it; None at the end of the connection. Raises TooLong,
        msgspec.DecodeError, and OSError."""
        head = channel.recv(_LENGTH_BYTES, socket.MSG_WAITALL)
        size = int.from_bytes(head, "big")
        self._check(size)
        content = channel.recv(size, socket.MSG_WAITALL)
        return self._decoder.decode(content) if len(head) == _LENGTH_BYTES and len(content) == size else None

    def _check(self, size: int) -> None:
        if size > self._most:
            raise TooLong
