"""The reading half of a store of files: lists agents, and reads their files in threads."""

from __future__ import annotations

import contextlib
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import date
from pathlib import Path

from dslc.blocks.values.names import is_name
from runtime.memory.errors import StoreError
from runtime.memory.files.agent_folder import open_folder
from runtime.memory.files.folder import Folder
from runtime.memory.item import Item
from runtime.memory.store_types import Inspection, ItemLocation, Part, Scan, StoreStats


class FileReader(ABC):
    """Reads the files under a root. Blocks; several threads may use it. Without another promise, each method does what
    the one of `Store` does."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def open_folder(self, agent_id: str) -> AbstractContextManager[Folder | None]:
        """Open an agent's folder without its lock; None if it does not exist."""
        return open_folder(self.root, agent_id)

    def agents(self) -> tuple[str, ...]:
        """Return the agents that have items; links are ignored."""
        root = Folder.open_root(self.root)
        if root is None:
            return ()
        with root:
            return tuple(name for name in root.names() if is_name(name) and self._is_agent(root, name))

    def _is_agent(self, root: Folder, name: str) -> bool:
        found = root.status(name)
        if found is None or not stat.S_ISDIR(found.st_mode):
            return False
        with contextlib.suppress(StoreError):
            folder = root.child(name)
            with folder or contextlib.nullcontext():
                return folder is not None and self.holds_items(folder)
        return True

    @abstractmethod
    def holds_items(self, folder: Folder) -> bool:
        """True if a folder is the memory of an agent."""

    def parts_of(self, agents: Sequence[str], alone: bool) -> tuple[Part, ...]:
        """Return the parts of these agents: see `Store.parts`. `alone`: one agent was asked for."""
        found: list[Part] = []
        for agent in agents:
            try:
                found += self.parts(agent)
            except StoreError:
                if alone:
                    raise
                found.append(self.unreadable_part(agent))
        return tuple(found)

    @abstractmethod
    def parts(self, agent_id: str) -> list[Part]:
        """Return the parts of an agent."""

    @abstractmethod
    def unreadable_part(self, agent_id: str) -> Part:
        """Return the only part of an agent whose folder cannot be read, whose revision is `UNREADABLE`."""

    @abstractmethod
    def read(self, part: Part) -> list[tuple[Item, ItemLocation]]: ...

    @abstractmethod
    def batches(self, agent_id: str, wanted: Scan) -> Sequence[Callable[[], Sequence[Item]]]:
        """Return functions that read the files of an agent that may have wanted items, in the order of the scan."""

    @abstractmethod
    def locate(self, items: Sequence[Item]) -> dict[str, ItemLocation]: ...

    @abstractmethod
    def inspect(self, agent_id: str, day: date) -> Inspection: ...

    @abstractmethod
    def stats(self, agent_id: str | None) -> StoreStats: ...
