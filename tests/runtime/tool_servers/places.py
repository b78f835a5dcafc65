"""Places of servers for tests, and connections to them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from runtime.tool_servers.connection import ServerConnection
from runtime.tool_servers.server_address import ServerAddress

RAW = Path(__file__).parent / "raw_server.py"


def raw(way: str = "serves", file: Path | None = None) -> tuple[str, ...]:
    """Return the command of `raw_server`."""
    return (sys.executable, "-I", "-S", str(RAW), way, *(() if file is None else (str(file),)))


def program(
    folder: Path, *command: str, env: Mapping[str, str] | None = None, secrets: tuple[str, ...] = ()
) -> ServerAddress:
    """Return the place of a program."""
    return ServerAddress("raw", command or raw(), env or {}, folder / "server", None, {}, secrets)


def service(folder: Path, url: str, headers: Mapping[str, str] | None = None) -> ServerAddress:
    """Return the place of a service."""
    return ServerAddress("service", None, {}, folder / "server", url, headers or {}, ())


@asynccontextmanager
async def connection(place: ServerAddress, *, start_seconds: float = 60) -> AsyncIterator[ServerConnection]:
    """Yield a connection to a server, which is closed at the end."""

    async def no_login() -> Any:
        return None

    opened = ServerConnection(place, start_seconds=start_seconds, authentication=no_login)
    try:
        yield opened
    finally:
        await opened.close()


async def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Return the first true value of `condition`."""
    async with asyncio.timeout(seconds):
        while not (value := condition()):
            await asyncio.sleep(0.005)
        return value
