"""The process of one model: `python -m runtime.models.local.worker`, with a socket to the daemon as standard input.

It reads what to load, writes the control tokens of the model when that is loaded, and answers llama.cpp's HTTP on a
socket in its folder until the daemon closes the connection or is killed. Only this process loads the library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from runtime.models.local.model_file import control_tokens

SOCKET: Final = "model.sock"
"""The name of the socket in the worker's folder, which nobody else may enter."""
_NICENESS: Final = 10
_BATCH: Final = 128
"""Tokens of a prompt that are read at once: a cancelled request ends after at most two batches. On a processor 512 are
hardly faster."""
_CACHE_MIB: Final = 256
"""Maximum memory for the state of earlier prompts: a conversation that goes on is not read again from its start, also
when another one was answered in between."""
_ERRORS_ONLY: Final = 1
_SET_PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG, prctl(2)


class Start(Struct, frozen=True, kw_only=True):
    """The model to load. `window`: tokens of a request and its reply. `parent`: the process id of the daemon."""

    path: str
    window: int
    threads: int
    parent: int


def main() -> None:
    """Serve until the daemon closes the socket."""
    channel = socket.socket(fileno=os.dup(0))
    with channel.makefile("rb") as sent:
        start = msgspec.json.decode(sent.readline(), type=Start)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is needed
        os.dup2(nothing.fileno(), 0)
    # The library holds the interpreter's lock while it loads: until then, only the kernel can end this process.
    _end_with_parent(signal.SIGKILL, start.parent)
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    _server = _load(start)  # it serves while there is a reference to it
    signal.signal(signal.SIGTERM, lambda *_: _end())
    _end_with_parent(signal.SIGTERM, start.parent)
    channel.sendall(msgspec.json.encode(control_tokens(Path(start.path))) + b"\n")
    channel.recv(1)  # nothing is sent: this is the end of the connection
    _end()


def _load(start: Start) -> Any:
    """Return the library's server with the model loaded. It listens on the socket."""
    import xllamacpp

    found = xllamacpp.CommonParams()
    found.model.path = start.path
    found.n_ctx = start.window
    found.n_batch = found.n_ubatch = _BATCH
    found.n_parallel = 1
    found.cpuparams.n_threads = found.cpuparams_batch.n_threads = start.threads
    found.cache_ram_mib = _CACHE_MIB
    # The daemon has chosen the window; the library would change it to fit the memory.
    found.fit_params = False
    found.warmup = False
    # An answer at the end of a conversation is history, not the beginning of the next one.
    found.prefill_assistant = False
    found.hostnames = [SOCKET]
    found.n_threads_http = 4
    found.ui = False
    found.offline = True
    found.verbosity = _ERRORS_ONLY
    return xllamacpp.Server(found)


def _end_with_parent(sent: signal.Signals, parent: int) -> None:
    """Send this process a signal when its parent ends; at once, if it has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(sent), 0, 0, 0)
    if os.getppid() != parent:
        _end()


def _end() -> None:
    """End this process without waiting for the library, and remove its folder."""
    shutil.rmtree(Path.cwd(), ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
