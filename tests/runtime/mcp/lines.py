"""`symbi mcp` in its own process; tests write raw lines to it, also invalid ones."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.runtime.daemon import forked
from tests.runtime.daemon.running import environment

HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Lines:
    """A running `symbi mcp`."""

    def __init__(self, root: Path, *paths: str, log: Path, tools: str | None, **extra: str) -> None:
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        self.stdin, self.stdout = os.fdopen(ours_in, "wb"), os.fdopen(ours_out, "rb")
        with os.fdopen(theirs_in, "rb") as stdin, os.fdopen(theirs_out, "wb") as stdout, log.open("ab") as stderr:
            self.process = forked.start(
                ["mcp", "--root", str(root), *(() if tools is None else ("--tools", tools)), *paths],
                cwd=Path.cwd(),
                env=environment(**extra),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
            )
        self._number = 0

    def begin(self) -> Any:
        """Do the handshake and return the server's description of itself."""
        said = self.ask("initialize", HANDSHAKE)["result"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return said

    def ask(self, method: str, parameters: Any = None) -> Any:
        """Send a request and return the response."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters or {}}
        self.send(message)
        answer = self.read()
        assert answer["id"] == self._number, answer
        return answer

    def call(self, name: str, **arguments: Any) -> Any:
        """Call a tool and return its result."""
        return self.ask("tools/call", {"name": name, "arguments": arguments})["result"]

    def send(self, message: Any) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def read(self) -> Any:
        """Return the next line, which must be a message."""
        return json.loads(self.stdout.readline())

    def end(self) -> int:
        """Close its input and wait for its end; assert that its output contained only messages."""
        self.stdin.close()
        for line in self.stdout:
            assert json.loads(line)["jsonrpc"] == "2.0"
        return self.process.wait(60)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(60)
        for stream in (self.stdin, self.stdout):
            try:
                stream.close()
            except BrokenPipeError:
                continue


@contextmanager
def lines(
    root: Path, *paths: str, log: Path | None = None, tools: str | None = "all,approvals", **extra: str
) -> Iterator[Lines]:
    """Start `symbi mcp`; kill it at the end if it still runs. `tools`: the chosen groups of tools."""
    started = Lines(root, *paths, log=log or root.with_name(f"{root.name}.log"), tools=tools, **extra)
    try:
        yield started
    finally:
        started.close()
