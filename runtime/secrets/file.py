"""`secret://file/PATH`: the content of a file, without one trailing line end."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

from dslc.blocks.values.quantity import format_size
from runtime.secrets.backend import SecretBackend, SecretContext, Unresolved

MAX_BYTES = 64 * 1024


def read_file(file: Path) -> bytes:
    """Return the bytes of a regular file of at most 64 KiB, without one trailing line end. Raises `Unresolved`."""
    try:
        # O_NONBLOCK: opening a FIFO must not block the reload.
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unresolved(f"{file} is not a regular file")
            value = os.read(descriptor, MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Unresolved(f"{file}: {(error.strerror or 'cannot be read').lower()}") from None
    if len(value) > MAX_BYTES:
        raise Unresolved(f"{file} is too large for a secret: more than {format_size(MAX_BYTES)}")
    return value.removesuffix(b"\n").removesuffix(b"\r")


async def read(path: str, context: SecretContext) -> bytes:
    return await asyncio.to_thread(read_file, context.root / path)


FILE = SecretBackend(
    name="file",
    title="File",
    doc="`secret://file/PATH`: a file under the root; two slashes for an absolute path, `secret://file//run/key`. "
    "One line end at the end of the file is not part of the secret.",
    read=read,
)
