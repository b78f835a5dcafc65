"""An agent's folder under a store's root: opened for reading, or held under its lock."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from runtime.memory.files import lock
from runtime.memory.files.folder import Folder


@contextlib.contextmanager
def open_folder(root: Path, agent_id: str) -> Iterator[Folder | None]:
    """Yield the folder without its lock; None if it does not exist."""
    with contextlib.ExitStack() as stack:
        above = Folder.open_root(root)
        folder = stack.enter_context(above).child(agent_id) if above is not None else None
        yield stack.enter_context(folder) if folder is not None else None


@contextlib.contextmanager
def lock_folder(root: Path, agent_id: str, *, create: bool) -> Iterator[Folder | None]:
    """Yield the folder under its lock; None if it does not exist and is not to be created."""
    while True:
        with contextlib.ExitStack() as stack:
            above = Folder.open_root(root, create=create)
            folder = stack.enter_context(above).child(agent_id, create=create) if above is not None else None
            if folder is None:
                yield None
                return
            stack.enter_context(folder)
            if stack.enter_context(lock.writing(folder)):
                yield folder
                return
