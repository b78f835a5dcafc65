"""The last program that ran, stored in the state folder so that a restart with errors in the program can still serve
it."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from dslc.source import Source
from runtime.crypto import PREFIX_BYTES, Unsealable
from runtime.daemon.process.atomic_file import write_atomically
from runtime.daemon.process.root import LAST_PROGRAM_FILE, Root
from runtime.database.keys.ring import PROCESS, KeyRing

# A program may contain a secret, so the copy is encrypted.
_COLUMN = "root.last program"


def keep(root: Root, keys: KeyRing, paths: Sequence[Path], sources: Sequence[Source]) -> None:
    """Replace the stored program by `sources`, which were read from `paths`. Raises OSError."""
    content = {
        "paths": [str(path) for path in paths],
        "sources": [[source.name, b64encode(source.data).decode()] for source in sources],
    }
    _write(root, keys, json.dumps(content).encode())


def reseal(root: Root, keys: KeyRing) -> None:
    """Seal the stored program again if its key was rotated. What cannot be decrypted, or written, is left as it is: the
    next reload stores the program anew."""
    with suppress(OSError, Unsealable):
        sealed = (root.state / LAST_PROGRAM_FILE).read_bytes()
        if not keys.is_current(PROCESS, sealed[:PREFIX_BYTES]):
            _write(root, keys, keys.unseal(sealed, _COLUMN, user_id=PROCESS, row=""))


def _write(root: Root, keys: KeyRing, content: bytes) -> None:
    write_atomically(root.state / LAST_PROGRAM_FILE, keys.seal(content, _COLUMN, user_id=PROCESS, row=""))


def load(root: Root, keys: KeyRing, paths: Sequence[Path]) -> list[Source]:
    """Return the sources that were stored for `paths`; empty if there are none, or if they cannot be decrypted."""
    try:
        content = json.loads(
            keys.unseal((root.state / LAST_PROGRAM_FILE).read_bytes(), _COLUMN, user_id=PROCESS, row="")
        )
        if content["paths"] != [str(path) for path in paths]:
            return []
        return [Source(name, b64decode(data)) for name, data in content["sources"]]
    except (OSError, Unsealable, ValueError, KeyError, TypeError):
        return []
