"""Messages between daemon and worker."""

from __future__ import annotations

import socket

import pytest

from runtime.models.local import protocol
from runtime.models.request import Message, Reply, Request, ToolCall, ToolSchema, Usage

REQUEST = Request(
    messages=(Message("assistant", "é", calls=(ToolCall("1", "look", "{}"),)), Message("tool", "", call_id="1")),
    max_tokens=5,
    tools=(ToolSchema("look", "Look.", {"type": "object", "properties": {"n": {"type": "integer"}}}),),
    schema={"enum": [1, None, 2.5]},
    stop=("a",),
)
TO_WORKER = [
    protocol.Start(path="/m.gguf", window=512, threads=1, socket="s.sock", parent=7),
    protocol.Ask(1, REQUEST),
    protocol.Cancel(1),
    protocol.Count(2, ["a", ""]),
]
FROM_WORKER = [
    protocol.Loaded(),
    protocol.NotLoaded("no"),
    protocol.Part(1, "a"),
    protocol.Ended(1, Reply(text="a", finish="length", usage=Usage(1, 2, None))),
    protocol.Stopped(1),
    protocol.Failed(1, "window", "too long"),
    protocol.Counted(2, [1, 0]),
]


@pytest.mark.parametrize("message", TO_WORKER, ids=lambda each: type(each).__name__)
def test_a_worker_gets_what_was_sent(message: protocol.ToWorker) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(protocol.encode(message) * 2)
        ours.shutdown(socket.SHUT_WR)
        assert [protocol.receive(theirs) for _ in range(3)] == [message, message, None]


@pytest.mark.parametrize("message", FROM_WORKER, ids=lambda each: type(each).__name__)
def test_the_daemon_gets_what_was_sent(message: protocol.FromWorker) -> None:
    content = protocol.encode(message)
    head, rest = content[: protocol.LENGTH_BYTES], content[protocol.LENGTH_BYTES :]
    assert protocol.length(head) == len(rest)
    assert protocol.from_worker(rest) == message


def test_a_message_that_is_cut_off_is_the_end() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(protocol.encode(protocol.Cancel(1))[:-1])
        ours.close()
        assert protocol.receive(theirs) is None


def test_no_message_is_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MOST_BYTES", 100)
    with pytest.raises(protocol.TooLong):
        protocol.encode(protocol.Part(1, "a" * 101))
    with pytest.raises(protocol.TooLong):
        protocol.length((101).to_bytes(4, "big"))
