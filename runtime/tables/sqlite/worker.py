"""The process of one user's file: it answers the messages of the daemon, one after the other, and nothing else."""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Final

import apsw

from runtime.tables.sqlite.failures import failure_of
from runtime.tables.sqlite.messages import (
    FROM_WORKER,
    TO_WORKER,
    Answer,
    Close,
    Commit,
    Copy,
    Describe,
    Failure,
    FileReady,
    FromWorker,
    OpenRequest,
    PendingChange,
    ReadPage,
    Run,
    Size,
    ToWorker,
)
from runtime.tables.sqlite.statement import Refusal
from runtime.tables.sqlite.user_file import UserFile
from runtime.workers.frames import TooLong

_HEAP_BYTES: Final = 48 * 1024 * 1024
"""Maximum memory of SQLite."""
_ADDRESS_BYTES: Final = 384 * 1024 * 1024
"""Maximum address space beyond what the template has. 500,000 rows of an import take half of it."""
_DESCRIPTORS: Final = 32
_CPU_SECONDS: Final = 90
"""Maximum seconds of the processor for one message: the last defence, if nobody kills the process."""


def serve(channel: socket.socket) -> None:
    """Serve until the daemon closes the socket."""
    _limit()
    file: UserFile | None = None
    while True:
        asked = TO_WORKER.receive(channel)
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = int(used.ru_utime + used.ru_stime) + _CPU_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
        if asked is None or isinstance(asked, Close):
            break
        answer: Answer
        try:
            if isinstance(asked, OpenRequest):
                path = Path(os.fsdecode(asked.path))
                os.chdir(path.parent)  # the library takes no paths that are not UTF-8
                file = UserFile(Path(path.name), asked.key, known=asked.known)
                answer = FileReady(file.size)
            else:
                assert file is not None
                answer = _answer(file, asked, channel)
        except Refusal as refusal:
            answer = refusal.failure
        except (apsw.Error, OSError, MemoryError, UnicodeDecodeError) as error:
            answer = failure_of(error, None, lambda _: [])
        _send(channel, answer)
        # Both may be large, and the next message needs the memory.
        del asked, answer
    if file is not None:
        file.close()


def _answer(file: UserFile, asked: ToWorker, channel: socket.socket) -> Answer:
    match asked:
        case Run():
            return file.run(asked, partial(_commit, channel))
        case Describe():
            return file.describe()
        case ReadPage():
            return file.page(asked)
        case Copy():
            path = Path(os.fsdecode(asked.path))
            os.chdir(path.parent)  # it may be another folder at the same path
            file.copy(Path(path.name), asked.key)
            return FileReady(file.size)
    return Failure("failed", "this message is not known")


def _commit(channel: socket.socket, size: Size, asks: bool) -> None:
    """Say that a change is about to be committed. If it asks, wait for the answer. Raises Refusal if that is no."""
    _send(channel, PendingChange(size, asks))
    if not asks:
        return
    answer = TO_WORKER.receive(channel)
    if not isinstance(answer, Commit) or not answer.allowed:
        raise Refusal(Failure("bytes", ""))


def _send(channel: socket.socket, message: FromWorker) -> None:
    try:
        content = FROM_WORKER.encode(message)
    except TooLong:
        content = FROM_WORKER.encode(Failure("failed", "the answer is too long"))
    channel.sendall(content)


def _limit() -> None:
    """Take away what this process does not need."""
    os.umask(0o077)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    apsw.hard_heap_limit(_HEAP_BYTES)
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _DESCRIPTORS),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(kind, (value, value))
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + _ADDRESS_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
