"""How a command reaches the state of a root: through the daemon's admin socket, or by owning the root itself."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from runtime.daemon.root import Owned, Root, locate, named, own
from runtime.errors import SymbiontError, UsageError

TIMEOUT_SECONDS = 30
# How long a command waits for another one that works on the same root.
OWN_SECONDS = 30


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def find_root(explicit: Path | None) -> Root:
    """The root of the command, or UsageError saying how to get one."""
    root = locate(Path.cwd(), os.environ, explicit)
    if root is None:
        where = named(os.environ, explicit) or Path.cwd()
        raise UsageError(
            f"no root here: {where} holds no .symbi folder", hint="start one with `symbi up`, or name it with --root"
        )
    return root


def call(
    root: Root, name: str, parameters: Mapping[str, Any] | None = None, *, null: Collection[str] = ()
) -> dict[str, Any]:
    """What the operation `name` answers, from the daemon that owns `root`, or from this process when nobody does.

    Parameters that are None are left out, but for those in `null`. Raises SymbiontError as the operation did, with its
    exit code.
    """
    given = {key: value for key, value in (parameters or {}).items() if value is not None or key in null}
    answer = _ask_daemon(root, name, given)
    if answer is not None:
        return answer
    # Loaded before the lock is taken, which others may wait for.
    import runtime.api
    import runtime.daemon.house  # noqa: F401

    try:
        with own(root, seconds=OWN_SECONDS):
            return asyncio.run(_answer(root, name, given))
    except Owned:
        # It may have come up in the meantime.
        answer = _ask_daemon(root, name, given)
        if answer is not None:
            return answer
        raise UsageError(
            f"the daemon that owns {root.folder} does not answer on its admin socket",
            hint="is it starting or stopping? try again",
        ) from None


def call_daemon(root: Root, name: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Like `call`, for what only a running daemon can do."""
    given = {key: value for key, value in (parameters or {}).items() if value is not None}
    answer = _ask_daemon(root, name, given)
    if answer is None:
        raise SymbiontError(f"no daemon is running on {root.folder}", hint="start it with `symbi up`")
    return answer


def _ask_daemon(root: Root, name: str, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
    address = root.read("daemon.json").get("socket")
    return _ask(str(address), name, parameters) if address else None


def _ask(address: str, name: str, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
    """The daemon's answer, or None when no daemon listens at `address` (it was killed, or is not up yet)."""
    connection = _SocketConnection(address)
    try:
        connection.request("POST", f"/v1/{name}", json.dumps(dict(parameters)), {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, http.client.RemoteDisconnected):
        return None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise SymbiontError(f"the daemon's admin socket {address} cannot be used: {error}") from None
    finally:
        connection.close()
    if response.status >= 400:
        told = answer.get("error", {})
        kind = UsageError if told.get("exit_code") == 2 else SymbiontError
        raise kind(told.get("message", f"the daemon answered {response.status}"), hint=told.get("hint"))
    assert isinstance(answer, dict)
    return answer


async def _answer(root: Root, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    from runtime.api import OPERATIONS
    from runtime.daemon import log
    from runtime.daemon.house import House
    from runtime.daemon.settings import Settings

    # A command answers what it was asked; what the daemon would log of the same program is not its business.
    log.configure("auto", "error")
    settings = Settings.read({})
    last = root.read("program.json").get("database")
    if settings.database is None and str(last).startswith("postgresql:"):
        # Its URL may hold a password and is kept nowhere; the file in the root would answer with other secrets.
        raise UsageError(f"the state of {root.folder} is in {last}", hint="set SYMBIONT_DATABASE to its URL")
    async with House.open(root, settings) as house:
        await house.load_last_program()
        return await OPERATIONS[name](house, parameters)
