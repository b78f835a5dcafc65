"""Messages between daemon and worker."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

import pytest

from runtime.models.local import protocol
from runtime.models.request import Message, Reply, Request, ToolCall, ToolSchema, Usage
from runtime.workers.frames import Frames, TooLong

REQUEST = Request(
    messages=(Message("assistant", "é", calls=(ToolCall("1", "look", "{}"),)), Message("tool", "", call_id="1")),
    max_tokens=5,
    tools=(ToolSchema("look", "Look.", {"type": "object", "properties": {"n": {"type": "integer"}}}),),
    schema={"enum": [1, None, 2.5]},
    stop=("a",),
)
TO_WORKER: list[protocol.ToWorker] = [
    protocol.Start(path="/m.gguf", window=512, threads=1, socket="s.sock", parent=7),
    protocol.Ask(1, REQUEST),
    protocol.Cancel(1),
    protocol.Count(2, ["a", ""]),
]
FROM_WORKER: list[protocol.FromWorker] = [
    protocol.ModelLoaded(),
    protocol.NotLoaded("no"),
    protocol.Part(1, "a"),
    protocol.ReplyEnd(1, Reply(text="a", finish="length", usage=Usage(1, 2, None))),
    protocol.ReplyCancelled(1),
    protocol.Failed(1, "window", "too long"),
    protocol.TokenCounts(2, [1, 0]),
]


async def test_each_message_is_read_as_it_was_sent() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=theirs)
    with ours, closing(writer):
        for to_worker in TO_WORKER:
            writer.write(content := protocol.TO_WORKER.encode(to_worker))
            received = protocol.TO_WORKER.receive(ours)
            assert received is not None
            assert protocol.TO_WORKER.encode(received) == content
        for from_worker in FROM_WORKER:
            ours.sendall(protocol.FROM_WORKER.encode(from_worker))
            assert await protocol.FROM_WORKER.read(reader) == from_worker


def test_a_message_that_is_cut_off_is_the_end() -> None:
    for length in (0, 2, 5):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.sendall(protocol.TO_WORKER.encode(protocol.Cancel(1))[:length])
            ours.close()
            assert protocol.TO_WORKER.receive(theirs) is None


def test_no_message_is_longer_than_the_limit() -> None:
    frames, longer = Frames[str](str, 100), Frames[str](str, 200)
    with pytest.raises(TooLong):
        frames.encode("a" * 101)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(longer.encode("a" * 101))
        with pytest.raises(TooLong):
            frames.receive(theirs)
