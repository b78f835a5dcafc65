"""The process that all workers are forked from: `python -m runtime.tables.sqlite.template`, with a socket to the daemon
as standard input. It has loaded SQLite and this package, and has nothing of any user.

The messages are those of `runtime.tables.sqlite.messages.control`.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

# Forked workers share what is loaded here.
from runtime.tables.sqlite import worker
from runtime.tables.sqlite.messages import CONTROL_BYTES, control

_SET_PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG, prctl(2)
_SET_DUMPABLE: Final = 4  # PR_SET_DUMPABLE
_SET_NO_NEW_PRIVILEGES: Final = 38  # PR_SET_NO_NEW_PRIVS
_LOOK_SECONDS: Final = 1.0
"""Seconds after which an end of a worker is noticed."""
_OOM_SCORE: Final = "500"
"""As if it had half of the memory more."""


def main() -> None:
    """Serve until the daemon closes the socket, and end with all workers."""
    # What else was inherited is for neither this process nor its workers.
    os.closerange(3, 1 << 10)
    be_one_user()
    channel = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    gc.collect()
    gc.freeze()
    workers: set[int] = set()
    while True:
        ready, _, _ = select.select([channel], [], [], _LOOK_SECONDS if workers else None)
        workers.difference_update(_reap())
        if not ready:
            continue
        content, descriptors, _, _ = socket.recv_fds(channel, CONTROL_BYTES, 1)
        if len(content) < CONTROL_BYTES:
            break
        if descriptors:
            number = _fork(channel, descriptors[0])
            if number:
                workers.add(number)
            channel.sendall(control(number))
        elif (number := int.from_bytes(content, "big")) in workers:
            os.kill(number, signal.SIGKILL)
    for number in workers:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def be_one_user() -> None:
    """Give up the user who started the program, if it works with the rights of another one: a command of the superuser
    on the root of a service. Otherwise every process here could become the superuser again."""
    if os.getuid() != os.geteuid():
        os.setregid(os.getegid(), os.getegid())
        os.setreuid(os.geteuid(), os.geteuid())


def _reap() -> list[int]:
    found = []
    with suppress(ChildProcessError):
        while ended := os.waitpid(-1, os.WNOHANG)[0]:
            found.append(ended)
    return found


def _fork(channel: socket.socket, descriptor: int) -> int:
    """Fork a worker for the socket, and return its process; 0 if that is not possible."""
    parent = os.getpid()
    try:
        number = os.fork()
    except OSError:
        number = 0
    else:
        if number == 0:
            _become(channel, descriptor, parent)
    os.close(descriptor)
    return number


def _become(channel: socket.socket, descriptor: int, parent: int) -> NoReturn:
    try:
        if sys.platform == "linux":
            with suppress(OSError):
                # Of a machine without memory the kernel ends this process, and not the daemon.
                Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
            libc = ctypes.CDLL(None)
            libc.prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
            libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
            # Keys are in this memory: no process of the same user of the system may look at it.
            libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
        if os.getppid() == parent:
            channel.close()
            served = os.dup2(descriptor, 3)
            os.closerange(4, 1 << 10)
            worker.serve(socket.socket(fileno=served))
    except BaseException:
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
