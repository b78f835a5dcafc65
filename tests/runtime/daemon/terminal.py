"""Run a command on a pseudo terminal."""

from __future__ import annotations

import os
import pty
import select
import time
from contextlib import suppress

from tests.runtime.daemon.running import BIN, Daemon, environment


def terminal(daemon: Daemon, *arguments: str, shown: str = "", typed: str = "", **extra: str) -> str:
    """Return the output of `symbi` on a terminal until it ends, or until `shown` appeared and a short pause followed.

    `typed`: the keyboard input.
    """
    process, master = pty.fork()
    if process == 0:
        os.chdir(daemon.root)
        os.execve(BIN / "symbi", ["symbi", *arguments], {**environment(), "TERM": "xterm", "COLUMNS": "200", **extra})
    os.write(master, typed.encode())
    end, output = time.monotonic() + 60, b""
    with suppress(OSError):
        while time.monotonic() < end:
            if select.select([master], [], [], 0.3)[0]:
                output += os.read(master, 65_536)
            elif shown and shown.encode() in output:
                break
    if shown:
        os.kill(process, 15)
    os.waitpid(process, 0)
    os.close(master)
    return output.decode("utf-8", "replace")
