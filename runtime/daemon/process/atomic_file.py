"""Atomic replacement of files."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_atomically(file: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace `file` by `content`, see `replacing`."""
    with replacing(file, mode=mode) as handle:
        handle.write(content)


@contextmanager
def replacing(file: Path, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Replace `file` with the data written inside: temporary file, fsync, rename, fsync of the folder. After a crash
    the file has its old or its new content, after an error inside the old one."""
    temporary = file.with_name(f".{file.name[:100]}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as handle:  # noqa: PTH123 - it is a descriptor
            yield handle
            handle.flush()
            os.fsync(descriptor)
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Flush the folder's entries to disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
