"""Start `symbi` and `dslc` as forks of a process that has already loaded them.

Loading the program takes ten times as long as most commands of the tests. So one process for each test worker loads it
once and forks for each command. The fork has its own working folder, environment, standard streams and exit code, runs
the same `main`, and is signalled and waited for like any other process. It is made before a thread or an event loop
exists. What happens before `main` is covered by the tests that start the real command.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final

SYMBI: Final = "runtime.cli:main"
DSLC: Final = "dslc.cli:main"

LOADED: Final = (
    "aiosqlite",
    "anyio._backends._asyncio",
    "asyncpg",
    "click._textwrap",
    "ctypes",
    "dslc.check.model",
    "dslc.cli",
    "dslc.compiler",
    "dslc.editing.edit",
    "dslc.editing.format",
    "dslc.report",
    "dslc.report.selection",
    "dslc.report.text",
    "encodings.idna",
    "html.parser",
    "humanfriendly",
    "numpy",
    "numpy.ma",
    "runtime.api.admin",
    "runtime.cli.collection",
    "runtime.cli.key",
    "runtime.cli.mcp",
    "runtime.cli.memory",
    "runtime.cli.memory.read",
    "runtime.cli.memory.transfer",
    "runtime.cli.memory.maintenance",
    "runtime.cli.memory.write",
    "runtime.cli.collection.push",
    "runtime.cli.readiness",
    "runtime.cli.token",
    "runtime.cli.up",
    "runtime.cli.user",
    "runtime.cli.webhook",
    "runtime.daemon.process.log_setup",
    "runtime.daemon.server",
    "runtime.daemon.process.settings",
    "runtime.mcp.server",
    "runtime.mcp.stdio",
    "runtime.memory.collection.store",
    "runtime.memory.markdown.store",
    "runtime.memory.records.store",
    "runtime.models.ollama",
    "runtime.models.openai",
    "runtime.search.embedding.hashing",
    "runtime.search.embedding.local",
    "runtime.search.index.embedded.index",
    "sqlalchemy.dialects.postgresql.asyncpg",
    "sqlalchemy.dialects.sqlite.aiosqlite",
    "tokenizers",
    "uvloop",
)

_PID: Final = struct.Struct("=q")
_STATUS: Final = struct.Struct("=i")


class Forked:
    """A command that was started, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, arguments: Iterable[str], link: socket.socket) -> None:
        self.args = list(arguments)
        self.returncode: int | None = None
        self._link = link
        self._waiting = threading.Lock()
        (self.pid,) = _PID.unpack(_received(link, _PID.size))

    def poll(self) -> int | None:
        """Return the exit code as `Popen` does, or None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait up to `timeout` seconds for its end and return the exit code, negative for the signal that ended it."""
        with self._waiting:
            if self.returncode is None:
                # With a timeout of 0, the socket does not block.
                self._link.settimeout(timeout)
                try:
                    said = self._link.recv(_STATUS.size)
                except (TimeoutError, BlockingIOError):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
                self._link.settimeout(None)
                (self.returncode,) = _STATUS.unpack(said)
                # Until here no other process could have got the same pid.
                self._link.sendall(b".")
                assert self._link.recv(1) == b""
                self._link.close()
            return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def __del__(self) -> None:
        self._link.close()


def start(
    arguments: Iterable[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    main: str = SYMBI,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    stdout: IO[bytes] | int = subprocess.DEVNULL,
    stderr: IO[bytes] | int = subprocess.DEVNULL,
) -> Forked:
    """Start a command with `arguments`. `main`: the function that is the command, by module and name."""
    given = list(arguments)
    ours, theirs = socket.socketpair()
    with theirs, tempfile.TemporaryFile() as request, Path(os.devnull).open("r+b") as nothing:
        request.write(json.dumps({"arguments": given, "cwd": str(cwd), "env": dict(env), "main": main}).encode())
        request.seek(0)
        streams = [nothing if each == subprocess.DEVNULL else each for each in (stdin, stdout, stderr)]
        numbers = [each if isinstance(each, int) else each.fileno() for each in streams]
        socket.send_fds(_loaded(), [b"."], [theirs.fileno(), request.fileno(), *numbers])
    return Forked(given, ours)


def run(
    arguments: Iterable[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    main: str = SYMBI,
    input: str | None = None,  # noqa: A002
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run a command with `arguments` and wait for its end; `main` as for `start`."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        stdin.write((input or "").encode())
        stdin.seek(0)
        process = start(arguments, cwd=cwd, env=env, main=main, stdin=stdin, stdout=stdout, stderr=stderr)
        try:
            code = process.wait(timeout)
        except BaseException:
            process.kill()
            raise
        said = []
        for stream in (stdout, stderr):
            stream.seek(0)
            said.append(stream.read().decode())
    return subprocess.CompletedProcess(process.args, code, *said)


_starting = threading.Lock()
_asking: list[socket.socket] = []


def _loaded() -> socket.socket:
    """Return the socket on which this process requests forks; start the loaded process if necessary."""
    with _starting:
        if not _asking:
            ours, theirs = socket.socketpair()
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-P", __file__, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
            _asking.append(ours)
            atexit.register(_end, process)
        return _asking[0]


def _end(process: subprocess.Popen[bytes]) -> None:
    _asking.pop().close()
    process.wait()


def _received(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = link.recv(size - len(data))
        assert part, "the process that has loaded symbi has ended"
        data += part
    return data


class _Copies:
    """The forks of this process: starts one for each request and reports its exit code."""

    def __init__(self, asked: socket.socket) -> None:
        self._asked = asked
        self._watched = selectors.DefaultSelector()
        self._open: set[int] = set()  # descriptors that belong to one fork

    def serve(self) -> dict[str, Any]:
        """Serve requests; return only in a fork, with the command that it has to run."""
        self._watched.register(self._asked, selectors.EVENT_READ, self._start)
        while True:
            for key, _ in self._watched.select():
                said = key.data()
                if said is not None:
                    assert isinstance(said, dict)
                    return said

    def _start(self) -> dict[str, Any] | None:
        data, numbers, _, _ = socket.recv_fds(self._asked, 1, 5)
        if not data:
            os._exit(0)
        link, request, *streams = numbers
        pid = os.fork()
        if pid:
            for number in (request, *streams):
                os.close(number)
            self._watch(pid, link)
            return None
        self._asked.close()
        self._watched.close()
        for number in (link, *self._open):  # if another fork held a link open, it would never end
            os.close(number)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        with open(request, "rb") as file:  # noqa: PTH123 - a descriptor
            said = json.load(file)
        assert isinstance(said, dict)
        return said

    def _watch(self, pid: int, link: int) -> None:
        """Send the pid of a fork on its link, and later its exit code."""

        def ended() -> None:
            self._watched.unregister(end)
            self._close(end)
            # It stays a zombie until the test knows of its end, so that no signal reaches another process.
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            assert found is not None
            code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            with suppress(OSError):
                os.write(link, _STATUS.pack(code))
            self._watched.register(link, selectors.EVENT_READ, known)

        def known() -> None:
            self._watched.unregister(link)
            with suppress(OSError):
                os.read(link, 1)
            os.waitpid(pid, 0)
            self._close(link)

        end = os.pidfd_open(pid)
        self._open |= {link, end}
        self._watched.register(end, selectors.EVENT_READ, ended)
        with suppress(OSError):
            os.write(link, _PID.pack(pid))

    def _close(self, number: int) -> None:
        self._open.discard(number)
        os.close(number)


def _main() -> None:
    # OpenBLAS, which numpy uses, would start a thread.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in LOADED:
        import_module(name)
    # As in the process of the tests: on a busy machine two seconds are too short for what was just written.
    setattr(sys.modules["runtime.memory.open_memory"], "CATCH_UP_SECONDS", 60.0)  # noqa: B010
    setattr(sys.modules["runtime.mcp.stdio"], "ANSWER_SECONDS", 120.0)  # noqa: B010
    # Forks do not collect garbage among the objects that they share with this process.
    gc.collect()
    gc.freeze()
    said = _Copies(socket.socket(fileno=int(sys.argv[1]))).serve()
    os.chdir(said["cwd"])
    os.environ.clear()
    os.environ.update(said["env"])
    module, _, name = said["main"].partition(":")
    if module.startswith("tests."):
        # At the front: some libraries install a package `tests`.
        sys.path.insert(0, str(Path(__file__).parents[3]))
    sys.argv = ["dslc" if said["main"] == DSLC else "symbi", *said["arguments"]]
    code = 1
    try:
        getattr(import_module(module), name)()
        code = 0
    except SystemExit as ended:
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    # Ends like an interpreter, but without freeing its objects, for which a fork would copy all memory.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _main()
