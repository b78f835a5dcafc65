"""The last program that ran, kept in the state folder so that a restart with a broken one still serves."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path

from dslc.source import Source
from runtime.crypto import MasterKey, Unsealable
from runtime.daemon.process.atomic_file import write_atomically
from runtime.daemon.process.root import Root

FILE = "last-program.sealed"
# A program may contain a secret, so the copy is sealed; its place is the associated data.
_PLACE = {"user_id": "", "table": "root", "column": "last program", "row": ""}


def keep(root: Root, key: MasterKey, paths: Sequence[Path], sources: Sequence[Source]) -> None:
    """Replace the kept program by `sources`, which were read from `paths`. Raises OSError."""
    content = {
        "paths": [str(path) for path in paths],
        "sources": [[source.name, b64encode(source.data).decode()] for source in sources],
    }
    write_atomically(root.state / FILE, key.seal(json.dumps(content).encode(), **_PLACE))


def kept(root: Root, key: MasterKey, paths: Sequence[Path]) -> list[Source]:
    """The sources that were kept for `paths`; none when there are none, or they cannot be opened."""
    try:
        content = json.loads(key.unseal((root.state / FILE).read_bytes(), **_PLACE))
        if content["paths"] != [str(path) for path in paths]:
            return []
        return [Source(name, b64decode(data)) for name, data in content["sources"]]
    except (OSError, Unsealable, ValueError, KeyError, TypeError):
        return []
