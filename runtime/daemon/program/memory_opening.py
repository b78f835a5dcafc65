"""Opening of a program's memories: the pool holds stores, indexes and embeddings; the generation holds policy."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.daemon.process.embedding_environment import DEFAULT_MODEL, NONE, Environment
from runtime.daemon.program.resource_pool import Lease, Pool
from runtime.daemon.program.secret_resolution import Resolution
from runtime.errors import SymbiontError, UsageError
from runtime.memory import folder_of, identity_of, open_store
from runtime.memory.indexing.index_file import open_indexer
from runtime.memory.indexing.indexer import Indexer
from runtime.memory.open_memory import OpenMemory, no_embedding, no_model
from runtime.memory.secret_options import secrets_in, with_secrets
from runtime.memory.store import Store
from runtime.models import open_model
from runtime.models.model import Model
from runtime.search.embedding import default_embedding, open_embedding
from runtime.search.embedding.embedder import Embedder
from runtime.search.index import DEFAULT as INDEX
from runtime.secrets.backend import SecretContext
from runtime.secrets.secret import Secret


@dataclass(frozen=True, slots=True)
class ResourcePools:
    """Open resources of memories, by their identity."""

    stores: Pool[Store] = field(default_factory=Pool)
    indexers: Pool[Indexer] = field(default_factory=Pool)
    embedders: Pool[Embedder] = field(default_factory=Pool)
    models: Pool[Model] = field(default_factory=Pool)


@dataclass(frozen=True, slots=True)
class MemoryOpener:
    """Opens memories from pooled resources."""

    root: Path
    index_folder: Path | None
    """None: the process does not search; indexes are empty and in memory, and nothing is embedded."""
    context: SecretContext
    pools: ResourcePools
    environment: Environment = field(default_factory=Environment)
    """Settings that blocks leave open."""

    async def memory(self, block: Memory, resolution: Resolution, held: Lease) -> OpenMemory:
        """Open the memory that `block` declares; its resources are added to `held`. A part that is unavailable is
        disabled and added to the problems; the other parts work. Raises SymbiontError if the store cannot be opened."""
        block = self.environment.filled(block)
        values, clock = resolution.values, self.context.clock
        options = with_secrets(block.store, "store", values)
        store = await self._store(block, options, held)
        missing = resolution.missing(secrets_in(block.index, "index"))
        index = None if missing else block.index
        index_options = with_secrets(index, "index", values)
        indexer = await held.take(
            self.pools.indexers,
            (store.identity, INDEX if index is None else index.name, _key(index_options)),
            lambda: open_indexer(store, index, self.index_folder, clock, index_options, database=self.context.database),
        )
        embedder, why = await self._embedder(block, resolution, held)
        model, no_model = await self._model(block, resolution, held)
        return OpenMemory(
            block,
            indexer,
            embedder,
            folder=folder_of(block, self.root),
            clock=clock,
            store_options=options,
            index_problem=f"the index is the default one: {missing[0]}" if missing else None,
            embedding_problem=why,
            summarizer=model,
            summarizer_problem=no_model,
        )

    async def _store(self, block: Memory, options: Mapping[str, object], held: Lease) -> Store:
        if folder_of(block, self.root) is not None and not await self.context.database.claim_alone():
            raise UsageError(
                f"another daemon uses this database, and the memory {block.name} consists of files on this machine",
                hint="only one daemon at a time can use them: stop the other one, or name another --database",
            )

        database = self.context.database

        async def opening() -> Store:
            return await open_store(block, self.root, clock=self.context.clock, options=options, database=database)

        return await held.take(self.pools.stores, identity_of(block, self.root, database), opening)

    async def _embedder(self, block: Memory, resolution: Resolution, held: Lease) -> tuple[Embedder | None, str | None]:
        if self.index_folder is None:
            return None, None
        choice = block.embedding
        missing = resolution.missing(secrets_in(choice, "embedding"))
        if choice is not None and missing:
            return None, f"the embedding {choice.name} is off, so searches use keywords only: {missing[0]}"
        name = default_embedding() if choice is None else choice.name
        if name is None or name == NONE:
            return None, None
        options = with_secrets(choice, "embedding", resolution.values)

        async def opening() -> Embedder:
            embedder = await open_embedding(choice, options)
            assert embedder is not None  # a real embedding, not the row without vectors.
            return embedder

        try:
            return await held.take(self.pools.embedders, (name, _key(options)), opening), None
        except SymbiontError as error:
            return None, no_embedding(name, error)

    async def _model(self, block: Memory, resolution: Resolution, held: Lease) -> tuple[Model | None, str | None]:
        """Return the model that summarizes the memory, or the reason why a declared one is missing."""
        choice = block.summarize.model or DEFAULT_MODEL
        missing = resolution.missing(secrets_in(block.summarize.model, "model"))
        if choice.name == NONE and not choice.options:
            return None, None
        if missing:
            return None, f"the model {choice.name} is off, so summaries are written without a model: {missing[0]}"
        options = with_secrets(choice, "model", resolution.values)

        async def opening() -> Model:
            model = await open_model(choice, options)
            assert model is not None  # a real model, not the row without one.
            return model

        try:
            return await held.take(self.pools.models, (choice.name, _key(options)), opening), None
        except SymbiontError as error:
            return None, no_model(choice.name, error)


def _key(value: Any) -> Hashable:
    """Return a hashable form of `value`; for a secret its hash, because the secret may have changed."""
    match value:
        case Secret():
            return "secret", hashlib.sha256(value.reveal()).digest()
        case Variant():
            return value.name, _key(value.options)
        case Mapping():
            return frozenset((key, _key(item)) for key, item in value.items())
        case tuple() | list():
            return tuple(map(_key, value))
    assert isinstance(value, Hashable)
    return value
