"""Messages between daemon and worker."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

import pytest

from runtime.workers.frames import Frames, TooLong

FRAMES = Frames[str](str, 100)


async def test_each_message_is_read_as_it_was_sent() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=theirs)
    with ours, closing(writer):
        for message in ("", "é" * 40):
            writer.write(content := FRAMES.encode(message))
            assert FRAMES.receive(ours) == message
            ours.sendall(content)
            assert await FRAMES.read(reader) == message


def test_a_message_that_is_cut_off_is_the_end() -> None:
    for length in (0, 2, 5):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.sendall(FRAMES.encode("cut off")[:length])
            ours.close()
            assert FRAMES.receive(theirs) is None


def test_no_message_is_longer_than_the_limit() -> None:
    with pytest.raises(TooLong):
        FRAMES.encode("a" * 101)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(Frames[str](str, 200).encode("a" * 101))
        with pytest.raises(TooLong):
            FRAMES.receive(theirs)
