"""A minimal client of the Model Context Protocol, which only writes and reads lines, so that most of the time is the
server's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# -P: without the script's folder on the path, where `mcp` is another module.
HELLO = (sys.executable, "-P", str(Path(__file__).with_name("mcp_minimal.py")))
SYMBI = (str(Path(sys.executable).with_name("symbi")), "mcp", "--tools", "all", "--root")

_HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class Client:
    """A connection to the server that `command` starts. The caller closes it."""

    def __init__(self, command: Sequence[str], **extra: str) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **extra},
        )
        self._number = 0

    def ask(self, method: str, parameters: Mapping[str, Any]) -> Any:
        """Return the result of a request."""
        self._number += 1
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters})
        assert self.process.stdout is not None
        while True:
            message = json.loads(self.process.stdout.readline())
            if message.get("id") == self._number:
                return message["result"]

    def initialize(self) -> None:
        """Perform the handshake."""
        self.ask("initialize", _HANDSHAKE)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Return the structured content of a tool's result."""
        result = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert not result["isError"], result
        return result.get("structuredContent")

    def close(self) -> None:
        """Close its input, and wait for its end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()

    def _write(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
