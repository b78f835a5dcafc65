"""A model's service with OpenAI's API, and a server of MCP with one tool, whose answers are bytes that a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CALL = json.dumps({"messages": [], "tool_calls": [{"name": "raw_echo", "args": {"text": "a"}}]})


def said(content: str) -> bytes:
    """Return an answer of a model."""
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice]}, ensure_ascii=False).encode()


class RawAnswers(ThreadingHTTPServer):
    """`replies`: the next answers of the model, then it says `ok`; `media`: their type. `result`: of the tool."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: list[bytes] = []
        self.media = "application/json"
        self.result = b"{}"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[RawAnswers]:
        with cls() as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            yield server
            server.shutdown()
            thread.join()

    def answer(self, path: str, asked: dict[str, Any]) -> tuple[str, bytes | None]:
        """Return the media type and the body; None: there is nothing to answer."""
        if path != "/mcp":
            return (self.media, self.replies.pop(0)) if self.replies else ("application/json", said("ok"))
        results = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "echo", "description": "Echo.", "inputSchema": {"type": "object"}}]},
        }
        method = asked.get("method", "")
        result = self.result if method == "tools/call" else json.dumps(results.get(method, {})).encode()
        number = json.dumps(asked.get("id")).encode()
        return "application/json", b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (
            number,
            result,
        ) if "id" in asked else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RawAnswers

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        media, body = self.server.answer(self.path, asked)
        self.send_response(202 if body is None else 200)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def do_GET(self) -> None:
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_DELETE = do_GET  # noqa: N815 - the name of the library

    def log_message(self, *_: Any) -> None:
        return
