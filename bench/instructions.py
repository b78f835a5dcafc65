"""`python -m bench.instructions [--json]`: instructions per request, without system calls. Needs valgrind.

Each side runs in its own process and gets the same signed delivery over 64 connections without a network. Valgrind
counts after a warm-up, so other load on the machine makes no difference.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import subprocess
import sys
import tempfile
from argparse import SUPPRESS
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop
from aiohttp import web

from bench.harness.bare import ANSWER, answer
from bench.harness.checked import receiving
from bench.harness.load import github_request
from bench.harness.program import PATH, body
from bench.harness.report import command_line, show
from runtime.daemon.listeners.sockets import bind
from runtime.http.request import Request
from runtime.http.response import Response
from runtime.http.server import Server

CONNECTIONS = 64
WARM = 5
ROUNDS = 30
"""Requests of each connection during warm-up and while counting."""

SIDES = {"bare": "bare aiohttp", "http": "our HTTP, body read and answered", "checked": "our HTTP and all checks"}


class Nowhere(asyncio.Transport):
    """A transport that counts the responses written to it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.answers = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        # Long responses are written as head and body.
        self.answers += bytes(data[:5]) == b"HTTP/"

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """Do nothing: requests come one at a time."""

    def resume_reading(self) -> None:
        """Do nothing: reading is never paused."""


async def _read(request: Request) -> Response:
    await request.read(1024 * 1024)
    return Response(202, "application/json", ANSWER)


async def _protocols(side: str, folder: Path) -> Callable[[], Any]:
    """Return a function that creates a connection of `side`."""
    if side == "bare":
        application = web.Application()
        application.router.add_post(PATH, answer)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        assert runner.server is not None
        return runner.server
    server = Server(_read if side == "http" else (await receiving(folder)).handle)
    await server.start(bind("PORT", "127.0.0.1:0"))
    return server.accept


async def _serve(side: str, folder: Path) -> None:
    gc.set_threshold(50_000, 20, 50)
    make = await _protocols(side, folder)
    links = [(make(), Nowhere()) for _ in range(CONNECTIONS)]
    for protocol, transport in links:
        protocol.connection_made(transport)
    request = github_request(PATH, body())
    rounds = [[request(f"{turn}-{n}") for n in range(CONNECTIONS)] for turn in range(WARM + ROUNDS)]
    for turn, requests in enumerate(rounds, 1):
        for (protocol, _), data in zip(links, requests, strict=True):
            protocol.data_received(data)
        while any(transport.answers < turn for _, transport in links):
            await asyncio.sleep(0)
        # Work after the response.
        for _ in range(4):
            await asyncio.sleep(0)
        if turn in {WARM, WARM + ROUNDS}:
            print("now", flush=True)
            sys.stdin.readline()
    # Without waiting for the connections.
    os._exit(0)


def measure(side: str) -> int:
    """Return the instructions per request."""
    with tempfile.TemporaryDirectory() as folder:
        counting = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/counts"]
        process = subprocess.Popen(
            [*counting, sys.executable, "-m", "bench.instructions", "--serve", side, folder],
            env={**os.environ, "BENCH_SECRET": "bench-secret", "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        for state in ("on", "off"):
            if process.stdout.readline() != "now\n":
                raise RuntimeError(process.communicate()[1])
            subprocess.run(["callgrind_control", "-i", state, str(process.pid)], check=True, capture_output=True)
            process.stdin.write("\n")
            process.stdin.flush()
        found = re.search(r"Collected : (\d+)", process.communicate()[1])
    assert found is not None
    return int(found[1]) // (ROUNDS * CONNECTIONS)


def table(counts: dict[str, int]) -> str:
    """Return the measurement as text."""
    return "\n".join(f"{name:36}{count / 1000:8,.0f} thousand" for name, count in counts.items())


def main() -> None:
    parser = command_line("instructions", __doc__)
    parser.add_argument("--serve", nargs=2, help=SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        uvloop.run(_serve(options.serve[0], Path(options.serve[1])))
    show({name: measure(side) for side, name in SIDES.items()}, table, as_json=options.json)


if __name__ == "__main__":
    main()
