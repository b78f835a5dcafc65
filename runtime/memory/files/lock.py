"""The lock of one agent's folder: flock on a file in it, exclusive for writers, shared for readers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from dslc.blocks.values.quantity import format_duration
from runtime.memory.errors import StoreBusy, StoreError
from runtime.memory.files.folder import Folder

NAME = ".lock"
PATIENCE = 30.0
"""Seconds to wait for another process before a write fails."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02


@contextlib.contextmanager
def writing(folder: Folder, patience: float = PATIENCE) -> Iterator[bool]:
    """Hold the folder exclusively. Yields False if the folder was deleted during the wait: open it again.

    Two openings exclude each other, also within one process. Raises StoreBusy after `patience` seconds.
    """
    with folder.open_file(NAME, os.O_RDWR | os.O_CREAT) as descriptor:
        assert descriptor is not None
        if not _acquire(descriptor, fcntl.LOCK_EX, patience):
            raise StoreBusy(
                f"another process has held {folder.path / NAME} for {format_duration(patience)}", hint="stop it or wait"
            )
        found = folder.status(NAME)
        yield found is not None and os.path.samestat(found, os.fstat(descriptor))


@contextlib.contextmanager
def reading(folder: Folder, patience: float = 2.0) -> Iterator[None]:
    """Hold off writers, so that no half-written entry is read. A reader that cannot lock reads without."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(StoreError):
            descriptor = held.enter_context(folder.open_file(NAME))
            if descriptor is not None:
                _acquire(descriptor, fcntl.LOCK_SH, patience)
        yield


def _acquire(descriptor: int, kind: int, patience: float) -> bool:
    """True if the lock was acquired; closing the descriptor releases it."""
    until, pause = time.monotonic() + patience, _FIRST_PAUSE
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        else:
            return True
