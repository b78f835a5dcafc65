"""The interface of stores that clients can use as collections."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from typing import NamedTuple

from runtime.memory.collection.options import CollectionOptions
from runtime.memory.store import Store


class CollectionCounts(NamedTuple):
    """A collection: how many items of each type it has, of all users or of one, and the bytes of their content."""

    name: str
    episodic: int
    semantic: int
    procedural: int
    bytes: int

    @property
    def items(self) -> int:
        """Return the number of its items."""
        return self.episodic + self.semantic + self.procedural


class CollectionStore(Store):
    """A store whose agents are collections: clients push texts into them, list them and search them.

    It has the capabilities `upsert`, `replace`, `edit`, `delete`, `remove` and `keep_ids`. Code that needs a collection
    asks for this class (`OpenMemory.collection`), never for a store by name.
    """

    @property
    @abstractmethod
    def chunking(self) -> CollectionOptions:
        """Return how pushed texts are cut into chunks."""

    @abstractmethod
    async def create(self, agent_id: str, user_id: str) -> bool:
        """Create an empty collection of this user; False if the user has one of that name. Raises RefusedItem for an
        invalid name, StoreError."""

    @abstractmethod
    async def counts(self, agent_id: str | None = None, user_id: str | None = None) -> tuple[CollectionCounts, ...]:
        """Count the items of every collection or of one, empty ones included; with `user_id` only that user's items, in
        collections that the user created or has items in. Cheap. Raises StoreError."""

    @abstractmethod
    async def projects(self, agent_id: str | None = None, user_id: str | None = None) -> Counter[str | None]:
        """Count the items of every project_id, in a collection or in all, of one user or of all. Raises StoreError."""

    @abstractmethod
    async def tags(
        self, agent_id: str | None = None, user_id: str | None = None, project_id: str | None = None
    ) -> Counter[str]:
        """Count the items with each tag, in a collection or in all, of one user and project or of all. Raises
        StoreError."""

    @abstractmethod
    async def detach(self, memory_id: str, agent_id: str, source_uri: str) -> bool:
        """Remove a source from an item, and delete the item if it has no other; True if it was deleted. Raises
        NoSuchItem, StoreError."""
