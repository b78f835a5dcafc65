"""The sockets of the daemon: the public listener, the operators' listener, and the admin socket."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

from aiohttp import web

from runtime.daemon.process.root import DAEMON_FILE, Root
from runtime.daemon.process.settings import parse_address, runtime_folder
from runtime.errors import UsageError
from runtime.http.connection import Shared
from runtime.http.limits import HttpLimits
from runtime.http.server import Listener, Server

BACKLOG = 1024
OPERATORS = HttpLimits(connections=512)

SOCKET_NAME = "symbi.sock"
PREFIX = "symbi-"
# sun_path has 108 bytes, less the terminating zero (unix(7)).
_LONGEST_SOCKET = 107


def bind(flag: str, address: str) -> socket.socket:
    """Return a listening TCP socket. Raises UsageError that names the flag if the address is unavailable."""
    host, port = parse_address(address)
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(where)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        reason = {
            errno.EADDRINUSE: "the port is in use",
            errno.EACCES: "ports below 1024 need root privileges",
            errno.EADDRNOTAVAIL: "this machine has no such address",
        }.get(error.errno or 0, (error.strerror or "cannot listen there").lower())
        variable = f"SYMBIONT_{flag.removeprefix('--').replace('-', '_').upper()}"
        raise UsageError(
            f"{flag} {address}: {reason}", hint=f"choose another with {flag} HOST:PORT or {variable}=HOST:PORT"
        ) from None
    listener.setblocking(False)
    return listener


def shown(listener: socket.socket) -> str:
    """`HOST:PORT` as a client would write it; a wildcard is shown as the loopback address."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Return True if a bound socket accepts connections from this machine only."""
    return ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback


@asynccontextmanager
async def admin_socket_path(root: Root, environ: Mapping[str, str]) -> AsyncIterator[Path]:
    """Create a short path for the admin socket, in a folder that only this user can enter and that is named for the
    root; remove it at the end."""
    base, prefix = runtime_folder(environ), _prefix(root)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=base) as folder:
        path = Path(folder) / SOCKET_NAME
        if len(str(path).encode()) <= _LONGEST_SOCKET:
            yield path
            return
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        yield Path(folder) / SOCKET_NAME


def remove_stale_socket(root: Root) -> None:
    """Remove the socket folder that a killed process of this root left behind, unless the socket answers or is not
    named for this root."""
    address = root.read(DAEMON_FILE).get("socket")
    path = Path(address) if isinstance(address, str) else None
    if path is None or path.name != SOCKET_NAME or not path.parent.name.startswith(_prefix(root)):
        return
    with contextlib.suppress(OSError):
        folder = path.parent.lstat()
        if stat.S_ISDIR(folder.st_mode) and folder.st_uid == os.geteuid() and not _answers(path):
            path.unlink(missing_ok=True)
            path.parent.rmdir()


def _prefix(root: Root) -> str:
    """Return the prefix of the folders of this root's sockets."""
    return f"{PREFIX}{root.identity[:12]}-"


def _answers(path: Path) -> bool:
    """Return True if a process listens there, or if that is unknown."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.setblocking(False)
        try:
            link.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


class Runner(web.AppRunner):
    """Runs an application on a `Listener`."""

    def __init__(
        self, application: web.Application, *, limits: HttpLimits = OPERATORS, shutdown_timeout: float
    ) -> None:
        super().__init__(application, shutdown_timeout=shutdown_timeout)
        self._limits = limits

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return Listener(made.request_handler, Shared(self._limits), made.request_factory)


@asynccontextmanager
async def listen(runner: Runner, listener: socket.socket) -> AsyncIterator[None]:
    """Serve on a bound socket while inside; at the end stop accepting and finish running requests."""
    await runner.setup()
    assert runner.server is not None
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(runner.server, sock=listener, backlog=BACKLOG)
    try:
        yield
    finally:
        listening.close()
        await runner.cleanup()


@asynccontextmanager
async def listen_public(server: Server, listener: socket.socket, *, drain: float) -> AsyncIterator[None]:
    """Serve on a bound socket while inside; at the end stop accepting and finish running requests, within `drain`
    seconds."""
    await server.start(listener, backlog=BACKLOG)
    try:
        yield
    finally:
        await server.close(drain)


@asynccontextmanager
async def listen_unix(runner: web.BaseRunner, path: Path) -> AsyncIterator[None]:
    """Serve on a Unix socket at `path` while inside."""
    await runner.setup()
    await web.UnixSite(runner, path).start()
    # The umask of the process created the socket for this user only; the folder around it has mode 0700 too.
    try:
        yield
    finally:
        await runner.cleanup()
