"""Access of a command to the state of a root: through the daemon's admin socket, or by owning the root itself."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from runtime.api.admin.protocol import (
    ABANDON_HEADER,
    LINES,
    MISDIRECTED,
    ROOT_HEADER,
    OperationOutcome,
    read_line,
    read_whole,
)
from runtime.cli.terminal.option_errors import error_of
from runtime.cli.terminal.progress import no_progress
from runtime.cli.terminal.screen import echo
from runtime.daemon.process.root import DAEMON_FILE, Root, RootInUse, locate, named_folder, own
from runtime.errors import SymbiontError, UsageError

if TYPE_CHECKING:
    from runtime.daemon.program.app import App
    from runtime.memory.indexing.progress import Progress

OnEvent = Callable[[dict[str, Any]], None]
Answering = Callable[[str, Mapping[str, Any], str | None, "Progress | None"], dict[str, Any]]

TIMEOUT_SECONDS = 30
# Seconds that a daemon which owns the root, but does not listen, may take to start or to end.
BETWEEN_SECONDS = 3


class _ConnectionLost(Exception):  # noqa: N818
    """The daemon ended before it answered; the operation may have been done."""


class DaemonGone(SymbiontError):  # noqa: N818
    """No daemon runs on the root, or it ended before it answered."""


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def find_root(explicit: Path | None, *, adopt: bool = False) -> Root:
    """Return the root of the command; `adopt`: see `locate`. Raises UsageError with instructions if there is none."""
    root = locate(Path.cwd(), os.environ, explicit, adopt=adopt)
    if root is None:
        asked = named_folder(os.environ, explicit)
        hint = "start one with `symbi up`, or name it with --root"
        if asked is not None:
            hint = f"`symbi up --root {asked}` makes one there, and so does `symbi mcp --root {asked}`"
        raise UsageError(f"no root here: {asked or Path.cwd()} contains no .symbi folder", hint=hint)
    return root


class RootClient:
    """Calls the daemon that owns a root, or owns the root itself while this is open.

    A context manager for several calls; the function `call` is for one.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._stack = ExitStack()
        self._answer_alone: Answering | None = None
        self._has_answered = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def call(
        self,
        name: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        user: str | None = None,
        null: Collection[str] = (),
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Return the answer of the tool or operation `name`, called as `user`, by default as the root's own user.

        Parameters that are None are left out, except those in `null`. With `progress`, which is called with the
        progress, the duration is not limited. Raises SymbiontError as the operation did, with its exit code; also if
        the daemon ended before it answered an operation that must not be repeated.
        """
        given = {key: value for key, value in (parameters or {}).items() if value is not None or key in null}
        if self._answer_alone is not None:
            return self._answer_alone(name, given, user, progress)
        answer = _ask_daemon(self._root, name, given, user, progress)
        if answer is None and self._has_answered:
            raise SymbiontError(
                f"the daemon on {self._root.folder} stopped", hint="answered operations are done; repeat the rest"
            )
        end = time.monotonic() + BETWEEN_SECONDS
        while answer is None:
            try:
                self._answer_alone = self._stack.enter_context(_own_root(self._root, name, given))
            except RootInUse:
                # Another daemon may have started in the meantime, or is about to end.
                answer = _ask_daemon(self._root, name, given, user, progress)
                if answer is None and time.monotonic() > end:
                    address = self._root.read(DAEMON_FILE).get("socket")
                    gone = isinstance(address, str) and not Path(address).exists()
                    raise UsageError(
                        f"the daemon that owns {self._root.folder} does not respond on its admin socket",
                        hint=f"{address} is missing: if the daemon is not starting or stopping, restart it"
                        if gone
                        else "is it starting or stopping? try again",
                    ) from None
                if answer is None:
                    time.sleep(0.05)
            else:
                return self._answer_alone(name, given, user, progress)
        self._has_answered = True
        return answer

    def pages(self, name: str, parameters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the answers of an operation that returns the cursor of the next page."""
        cursor = None
        while True:
            answer = self.call(name, {**parameters, "cursor": cursor}, progress=no_progress)
            yield answer
            cursor = answer["next_cursor"]
            if cursor is None:
                return


def call(
    root: Root,
    name: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    user: str | None = None,
    null: Collection[str] = (),
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return the answer of the tool or operation `name`, from the daemon that owns `root`, or from this process.
    See `RootClient.call`."""
    with RootClient(root) as client:
        return client.call(name, parameters, user=user, null=null, progress=progress)


def call_daemon(
    root: Root,
    name: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    user: str | None = None,
    on_event: OnEvent | None = None,
) -> dict[str, Any]:
    """Like `call`, for operations that need a running daemon. With `on_event`, which is called with the events that the
    operation tells, the duration is not limited, and the operation ends when this is interrupted. Raises DaemonGone."""
    given = {key: value for key, value in (parameters or {}).items() if value is not None}
    answer = _ask_daemon(root, name, given, user, on_event=on_event)
    if answer is None:
        raise DaemonGone(f"no daemon is running on {root.folder}", hint="start it with `symbi up`")
    return answer


def _ask_daemon(
    root: Root,
    name: str,
    parameters: Mapping[str, Any],
    user: str | None,
    progress: Progress | None = None,
    on_event: OnEvent | None = None,
) -> dict[str, Any] | None:
    """Return the daemon's answer; None if there is none, or if it ended during an operation that may be repeated.

    Raises DaemonGone if it ended during an operation that must not be repeated.
    """
    address = root.socket()
    try:
        envelope = {"user": user, "parameters": dict(parameters)}
        return _ask(address, root.identity, name, envelope, progress, on_event) if address else None
    except _ConnectionLost as lost:
        from runtime.api.admin.operations import AdminCall

        target = AdminCall(name, parameters).target
        if target.idempotent or target.only_reads(parameters):
            return None
        raise DaemonGone(
            f"the daemon stopped before it answered ({lost}): the operation may have been done or not",
            hint="check whether it was done before you repeat it",
        ) from None


def _ask(
    address: str,
    identity: str,
    name: str,
    envelope: Mapping[str, Any],
    progress: Progress | None,
    on_event: OnEvent | None = None,
) -> dict[str, Any] | None:
    """Return the daemon's answer, or None if no daemon of this root listens at `address` (killed or not started yet):
    nothing was done then. Raises SymbiontError, and _ConnectionLost if it ended after it may have begun."""
    connection = _SocketConnection(address)
    try:
        try:
            connection.connect()
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError as error:
            raise SymbiontError(f"cannot connect to the daemon's admin socket {address}: {error}") from None
        headers = {"Content-Type": "application/json", ROOT_HEADER: identity}
        if progress is not None or on_event is not None:
            headers["Accept"] = LINES
        if on_event is not None:
            headers[ABANDON_HEADER] = "yes"
        status, outcome = _exchange(connection, name, envelope, headers, progress, on_event)
    finally:
        connection.close()
    if status == MISDIRECTED:
        return None
    if outcome.failed:
        raise error_of(outcome.content, f"the daemon answered {status}")
    assert isinstance(outcome.content, dict)
    return outcome.content


def _exchange(
    connection: _SocketConnection,
    name: str,
    envelope: Mapping[str, Any],
    headers: Mapping[str, str],
    progress: Progress | None,
    on_event: OnEvent | None,
) -> tuple[int, OperationOutcome]:
    """Return the status and the outcome of an operation. Raises _ConnectionLost, SymbiontError."""
    body = json.dumps(envelope)
    try:
        # A refused request is answered before its whole body was read.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request("POST", f"/v1/{name}", body, dict(headers))
        response = connection.getresponse()
        if response.headers.get(ROOT_HEADER) != headers[ROOT_HEADER]:
            return MISDIRECTED, OperationOutcome(True, {})
        if response.headers.get("Content-Type") == LINES:
            outcome = next(filter(None, (read_line(line, progress, on_event) for line in response)), None)
        else:
            outcome = read_whole(response.status, response.read())
    except TimeoutError:
        raise _ConnectionLost(f"no response for {TIMEOUT_SECONDS} s") from None
    except (OSError, http.client.HTTPException) as error:
        raise _ConnectionLost(str(error) or type(error).__name__) from None
    except ValueError as error:
        raise SymbiontError(f"the daemon's answer is invalid: {error}") from None
    if outcome is None:
        raise _ConnectionLost("the answer is incomplete")
    return response.status, outcome


@contextmanager
def _own_root(root: Root, name: str, parameters: Mapping[str, Any]) -> Iterator[Answering]:
    """Own the root, with its last program, while inside; `name`: the first operation. Raises RootInUse and
    SymbiontError."""
    # Loaded before the lock is taken, because others may wait for it.
    import runtime.daemon.program.app  # noqa: F401
    from runtime.api.admin.operations import AdminCall

    with own(root), asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            target = AdminCall(name, parameters).target
            opening = _open(root, stack, searching=target.indexes, changes=not target.only_reads(parameters))
            app = runner.run(opening)
            yield lambda *asked: runner.run(_answer(app, *asked))
        finally:
            # A call that was interrupted as it ended leaves the callback in the loop that stops it.
            loop = runner.get_loop()
            loop.call_soon(loop.stop)
            loop.run_forever()
            runner.run(stack.aclose())


async def _open(root: Root, stack: AsyncExitStack, *, searching: bool, changes: bool) -> App:
    from runtime.daemon.process import log_setup
    from runtime.daemon.process.settings import ProcessSettings
    from runtime.daemon.program.app import App, refuse_another_database

    # The output of a command is its answer, not the daemon's log of the same program.
    log_setup.configure("text", "error")
    # Except the rebuild of a damaged index, which is reported nowhere else.
    logging.getLogger("symbiont.index").setLevel(logging.WARNING)
    settings = ProcessSettings.read({})
    refuse_another_database(root, settings)
    app = await stack.enter_async_context(App.open(root, settings, changes=changes))
    if app.state.database.upgraded:
        echo(f"symbi: {app.state.database.upgraded}", err=True)
    await app.load_last_program(searching=searching)
    return app


async def _answer(
    app: App, name: str, parameters: Mapping[str, Any], user: str | None, progress: Progress | None
) -> dict[str, Any]:
    from runtime.api.admin.operations import AdminCall, error_json
    from runtime.tools.context import no_progress

    called = AdminCall(name, parameters, user)
    try:
        return await called.answer(replace(app.admin_context(), progress=progress or no_progress))
    except SymbiontError as error:
        raise error_of(error_json(error, called.tool), "") from error
