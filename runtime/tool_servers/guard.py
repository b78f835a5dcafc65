"""Runs one server as a child process, and ends it with everything that it started when the daemon ends, however that
ends. It is run as a script by `python -I -S`, so that it needs nothing but the standard library.

`guard.py DESCRIPTOR`: the read end of a pipe. Its first line is a JSON object with `command` and `env`; its end is the
end of the daemon.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time
from typing import NoReturn

PR_SET_CHILD_SUBREAPER = 36
KILL_SECONDS = 2.0
NOT_STARTED = 127
"""Exit code when the command cannot be started; the reason is on standard error."""


def main() -> None:
    """Run the command; exit with its exit code, or 128 and the number of the signal that ended it."""
    lifeline = int(sys.argv[1])
    start = json.loads(_first_line(lifeline))
    os.set_inheritable(lifeline, False)
    if sys.platform == "linux":
        # Processes whose parents have ended become children of this one, so that none is missed at the end.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if hasattr(os, "pipe2") else os.pipe()
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    server = os.fork()
    if server == 0:
        _become(start["command"], start["env"])
    # The pipes to the daemon belong to the server alone.
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    code = _wait_for_end(server, lifeline, woken)
    _end_all()
    sys.exit(code)


def _first_line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(descriptor, 1 << 16)
        if not part:
            sys.exit(0)
        line += part
    return line


def _become(command: list[str], env: dict[str, str]) -> NoReturn:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Python ignores these; a program expects them as they are by default.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, env)  # noqa: S606 - a command that a person approved
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        os.write(2, f"{command[0]} cannot be started: {reason}\n".encode())
    os._exit(NOT_STARTED)


def _wait_for_end(server: int, lifeline: int, woken: int) -> int:
    """Wait for the end of the server or of the daemon; return the exit code."""
    while True:
        ready, _, _ = select.select([lifeline, woken], [], [], 5)
        if woken in ready:
            os.read(woken, 1 << 12)
        while True:
            try:
                ended, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 0
            if ended == 0:
                break
            if ended == server:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        if lifeline in ready and not os.read(lifeline, 1 << 12):
            return 0


def _end_all() -> None:
    """Kill every process that the server has left."""
    end = time.monotonic() + KILL_SECONDS
    while time.monotonic() < end:
        for child in _children():
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        time.sleep(0.01)


def _children() -> list[int]:
    """Return the processes below this one."""
    parents: dict[int, int] = {}
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - fast to start
    except OSError:
        return []
    for number in numbers:
        try:
            with open(f"/proc/{number}/stat", "rb") as file:  # noqa: PTH123
                parents[number] = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
    found = [number for number, parent in parents.items() if parent == os.getpid()]
    for each in found:
        found += [number for number, parent in parents.items() if parent == each]
    return found


if __name__ == "__main__":
    main()
