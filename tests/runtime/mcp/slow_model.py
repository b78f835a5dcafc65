"""An Ollama server in a thread that returns vectors, and never answers for a text with the word `wait`."""

from __future__ import annotations

import json
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class SlowModel:
    """`asked`: it got a request that it does not answer; `left`: the client closed that connection."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked = threading.Semaphore(0)
        self.left = threading.Semaphore(0)


@contextmanager
def slow_model() -> Iterator[SlowModel]:
    """Start the server, and stop it at the end."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            if any("wait" in text for text in asked):
                model.asked.release()
                # Readable means closed: the client sends nothing more.
                select.select([self.connection], [], [], 60)
                model.left.release()
                self.close_connection = True
                return
            body = json.dumps({"embeddings": [[1.0, 0.5, 0.25, float(len(text) % 7)] for text in asked]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model = SlowModel(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="slow model")
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
