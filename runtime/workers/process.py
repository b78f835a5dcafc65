"""Starts a module of this program as a process of its own, which gets a socket to the daemon as standard input."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from pathlib import Path
from typing import BinaryIO, Final

_INHERITED: Final = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
"""Variables that a process gets: no others, because they contain secrets."""


async def start_worker(module: str, folder: Path, errors: BinaryIO | int = DEVNULL) -> tuple[Process, socket.socket]:
    """Start `python -m MODULE` in a folder, and return it with our end of the socket, which does not block. `errors`:
    for what it writes to standard error. Raises OSError."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            # Not even the folder it starts in adds modules.
            "-P",
            "-m",
            module,
            stdin=theirs.fileno(),
            stdout=DEVNULL,
            stderr=errors,
            cwd=folder,
            env=_environment(),
            # No signal of the terminal reaches it: the daemon ends it.
            start_new_session=True,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return process, ours


def _environment() -> dict[str, str]:
    """Return the variables of a process. It imports from the same places as this one."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return kept | {"PYTHONPATH": os.pathsep.join(str(Path(place).absolute()) for place in sys.path)}
