"""`symbi` in which every fsync of a memory fails as soon as the file `broken-disk` exists in the root."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from runtime.cli import main
from runtime.memory.files import folder


class _Disk:
    """The module `os` with an `fsync` that fails."""

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    @staticmethod
    def fsync(descriptor: int) -> None:
        if Path("broken-disk").exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fsync(descriptor)


def failing() -> None:
    """Run `symbi` with it."""
    assert vars(folder)["os"] is os
    vars(folder)["os"] = _Disk()
    main()
