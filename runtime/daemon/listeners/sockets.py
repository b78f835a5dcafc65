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
from typing import Any, Final, Self

import structlog
from aiohttp import web

from runtime.daemon.process.root import DAEMON_FILE, MEMORIES_FILE, PROGRAM_FILE, Root
from runtime.daemon.process.root_registry import IDENTITY_FILE
from runtime.daemon.process.settings import parse_address, runtime_folder
from runtime.errors import UsageError
from runtime.http.aiohttp_private import AppRunner
from runtime.http.connection import ListenerState
from runtime.http.limits import HttpLimits
from runtime.http.server import Listener, Server

log = structlog.get_logger("symbiont.daemon")

BACKLOG = 1024
OPERATORS = HttpLimits(connections=512)

LOOK_SECONDS: Final = 2
"""Seconds between two looks whether the admin socket is still at its path."""

RECORDS: Final = (IDENTITY_FILE, DAEMON_FILE, PROGRAM_FILE, MEMORIES_FILE)
"""Files of the root that its process writes again if they are removed: without them commands find neither the root nor
the process, and the next start less of what was lost."""

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
        refused = UsageError(
            f"{flag} {address}: {reason}", hint=f"choose another with {flag} HOST:PORT or {variable}=HOST:PORT"
        )
        # The interface may come up later.
        refused.may_pass = error.errno == errno.EADDRNOTAVAIL
        raise refused from None
    listener.setblocking(False)
    return listener


def address_of(listener: socket.socket) -> str:
    """Return `HOST:PORT` as a client would write it; a wildcard is shown as the loopback address."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Return True if a bound socket accepts connections from this machine only."""
    return ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback


class AdminSocket:
    """The admin socket, served while inside. The root records its address, with `entries`, for other commands.

    Its path is short, in a folder that only this user can enter and that is named for the root.
    """

    def __init__(self, root: Root, runner: web.BaseRunner, environ: Mapping[str, str]) -> None:
        self._root = root
        self._runner = runner
        self._base = runtime_folder(environ)
        self._path: Path | None = None
        self._site: web.UnixSite | None = None
        self._inode = (0, 0)
        self._entries: Mapping[str, Any] = {}

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        return self

    async def __aexit__(self, *_: object) -> None:
        path, self._path = self._path, None
        await self._runner.cleanup()
        if path is not None:
            if self._root.read(DAEMON_FILE).get("socket") == str(path):
                (self._root.state / DAEMON_FILE).unlink(missing_ok=True)
            _remove(path)

    async def open(self, entries: Mapping[str, Any]) -> None:
        """Bind the socket and record it, in place of one that a killed process of this root left behind."""
        self._entries = entries
        await self._bind()

    async def keep(self) -> None:
        """Bind it again whenever its path is removed, such as by a cleaner of /tmp, and write the records of the root
        again that commands need. Ends with the socket."""
        records: dict[str, Mapping[str, Any]] = {}
        while self._path is not None:
            self._restore(records)
            if not _is_at(self._path, self._inode):
                try:
                    await self._bind()
                    log.warning("admin_socket_bound_again", socket=str(self._path))
                except OSError as error:
                    log.error("admin_socket_lost", reason=error.strerror or str(error))
            await asyncio.sleep(LOOK_SECONDS)

    def _restore(self, records: dict[str, Mapping[str, Any]]) -> None:
        """Write the records again that are not there any more, and remember in `records` what is in the others."""
        for name in RECORDS:
            if content := self._root.read(name):
                records[name] = content
            elif name in records:
                with contextlib.suppress(OSError):
                    self._root.write(name, records[name])
                    log.warning("root_record_written_again", file=name)

    async def _bind(self) -> None:
        path = _new_path(self._base, _prefix(self._root))
        site = web.UnixSite(self._runner, path)
        try:
            # The umask of the process creates the socket for this user only; the folder around it has mode 0700 too.
            await site.start()
            inode = _inode(path)
            remove_stale_socket(self._root)
            self._root.write(DAEMON_FILE, {"pid": os.getpid(), "socket": str(path), **self._entries})
        except BaseException:
            if site in self._runner.sites:
                await site.stop()
            _remove(path)
            raise
        former, self._site, self._path, self._inode = self._site, site, path, inode
        if former is not None:
            await former.stop()


def _new_path(base: Path | None, prefix: str) -> Path:
    """Create a folder for a socket, and return the path of the socket."""
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=base)) / SOCKET_NAME
    if len(os.fsencode(path)) <= _LONGEST_SOCKET:
        return path
    path.parent.rmdir()
    return Path(tempfile.mkdtemp(prefix=prefix)) / SOCKET_NAME


def _is_at(path: Path, inode: tuple[int, int]) -> bool:
    try:
        return _inode(path) == inode
    except OSError:
        return False


def _inode(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino


def _remove(path: Path) -> None:
    """Remove a socket and its folder, if the folder belongs to this user."""
    with contextlib.suppress(OSError):
        folder = path.parent.lstat()
        if stat.S_ISDIR(folder.st_mode) and folder.st_uid == os.geteuid():
            path.unlink(missing_ok=True)
            path.parent.rmdir()


def remove_stale_socket(root: Root) -> None:
    """Remove the socket folder that a killed process of this root left behind, unless the socket answers or is not
    named for this root."""
    address = root.read(DAEMON_FILE).get("socket")
    path = Path(address) if isinstance(address, str) else None
    if path is None or path.name != SOCKET_NAME or not path.parent.name.startswith(_prefix(root)):
        return
    if not _answers(path):
        _remove(path)


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


class Runner(AppRunner):
    """Runs an application on a `Listener`."""

    def __init__(
        self, application: web.Application, *, limits: HttpLimits = OPERATORS, shutdown_timeout: float
    ) -> None:
        super().__init__(application, shutdown_timeout=shutdown_timeout)
        self._limits = limits

    def server_of(self, made: web.Server) -> web.Server:
        return Listener(made.request_handler, ListenerState(self._limits), made.request_factory)


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
