"""Opening of a program's memories: the pool holds stores, indexes and embeddings; the generation holds policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dslc.blocks.memory import Memory, Summarize
from dslc.blocks.variant import Variant
from dslc.program import Program
from runtime.daemon.opening.models import ModelOpener
from runtime.daemon.opening.resource_pool import Lease, Pool
from runtime.daemon.opening.secrets import Resolution
from runtime.daemon.process.embedding_environment import DEFAULT_MODEL, NONE, Environment
from runtime.errors import SymbiontError, UsageError
from runtime.memory import folder_of, identity_of, open_store
from runtime.memory.files.store import FileStore
from runtime.memory.indexing.index_file import open_indexer
from runtime.memory.indexing.indexer import Indexer
from runtime.memory.open_memory import OpenMemory, no_embedding, no_model
from runtime.memory.recall.store import RecallStore
from runtime.memory.store import Store
from runtime.models.calls.counted_calls import CallContext
from runtime.models.calls.option_key import option_key
from runtime.models.model import Model
from runtime.search.embedding import default_embedding, open_embedding
from runtime.search.embedding.embedder import Embedder
from runtime.search.index import DEFAULT as INDEX
from runtime.secrets.backend import SecretContext
from runtime.switches import AGENTS, ALL_ON, EMBEDDING, Switches
from runtime.tasks.index import TaskItems
from runtime.tool_servers.connection import ServerConnection
from runtime.tools.model.agent_toolset import QUOTING

_NO_SUMMARIES: Final = Summarize(model=Variant(name=NONE))
RECALL: Final = Memory(name="recall", store=Variant(name="recall"), summarize=_NO_SUMMARIES)
"""The search of what was said in threads. No program can name it."""
TASKS: Final = Memory(name="tasks", store=Variant(name="tasks"), summarize=_NO_SUMMARIES)
"""The search of the tasks of users. No program can name it."""


@dataclass(frozen=True, slots=True)
class ResourcePools:
    """Open resources of a program, by their identity."""

    stores: Pool[Store] = field(default_factory=Pool)
    indexers: Pool[Indexer] = field(default_factory=Pool)
    embedders: Pool[Embedder] = field(default_factory=Pool)
    models: Pool[Model] = field(default_factory=Pool)
    servers: Pool[ServerConnection] = field(default_factory=Pool)
    calls: CallContext = field(default_factory=CallContext)
    """The shared context of all calls of models and embeddings."""


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
    switches: Switches = ALL_ON
    stores_with_items: frozenset[str] = frozenset()
    """The identities of the stores whose folders had items."""

    @property
    def models(self) -> ModelOpener:
        """Return the opener of the language models."""
        return ModelOpener(self.pools.models, self.pools.calls, self.environment, self.root)

    async def memory(
        self, block: Memory, program: Program, resolution: Resolution, lease: Lease, *, of_agents: bool = False
    ) -> OpenMemory:
        """Open the memory that `block` declares in `program`; its resources are added to `lease`. A part that is
        unavailable is disabled and added to the problems; the other parts work. Raises SymbiontError if the store
        cannot be opened. `of_agents`: an agent remembers in it."""
        block = self.environment.with_defaults(block)
        options, _ = resolution.choice_options(block.store, "store")
        store = await self._store(block, options, lease)
        stopped_by = (EMBEDDING,) if of_agents else ()
        folder = folder_of(block, self.root)
        return await self._open_memory(store, block, program, resolution, lease, options, folder, stopped_by)

    async def recall(self, program: Program, resolution: Resolution, lease: Lease) -> OpenMemory | None:
        """Open the search of what was said in threads, with the default index and embedding; None if no agent of the
        program has a model. It is not a memory of the program."""
        if all(agent.model is None for agent in program.agents.values()):
            return None
        opened = RecallStore(self.context.database, self.context.clock, QUOTING)
        return await self._open_rows(RECALL, opened, program, resolution, lease, (AGENTS, EMBEDDING))

    async def tasks(self, program: Program, resolution: Resolution, lease: Lease) -> OpenMemory:
        """Open the search of the tasks of users, with the default index and embedding. It is not a memory of the
        program."""
        opened = TaskItems(self.context.database, self.context.clock)
        return await self._open_rows(TASKS, opened, program, resolution, lease, ())

    async def _open_rows(
        self,
        block: Memory,
        opened: Store,
        program: Program,
        resolution: Resolution,
        lease: Lease,
        stopped_by: tuple[str, ...],
    ) -> OpenMemory:
        """Open the memory of a store of rows that no program names."""

        async def opening() -> Store:
            return opened

        store = await lease.take(self.pools.stores, opened.identity, opening)
        block = self.environment.with_defaults(block)
        return await self._open_memory(store, block, program, resolution, lease, {}, None, stopped_by)

    async def _open_memory(
        self,
        store: Store,
        block: Memory,
        program: Program,
        resolution: Resolution,
        lease: Lease,
        options: Mapping[str, object],
        folder: Path | None,
        stopped_by: tuple[str, ...],
    ) -> OpenMemory:
        """Open the memory of an open store. `stopped_by`: the switches that stop its embedding."""
        clock = self.context.clock
        index, (index_options, missing) = block.index, resolution.choice_options(block.index, "index")
        if missing:
            index, index_options = None, {}
        indexer = await lease.take(
            self.pools.indexers,
            (store.identity, INDEX if index is None else index.name, option_key(index_options)),
            lambda: open_indexer(store, index, self.index_folder, clock, index_options, database=self.context.database),
        )
        embedder, why = await self._embedder(block, resolution, lease)
        choice = block.summarize.model or DEFAULT_MODEL
        model = await self.models.client(program, choice, resolution, lease)
        return OpenMemory(
            block,
            indexer,
            embedder,
            folder=folder,
            clock=clock,
            store_options=options,
            index_problem=f"the index is the default one: {missing[0]}" if missing else None,
            embedding_problem=why,
            summarizer=model.client,
            summarizer_problem=None if model.problem is None else no_model(choice.name, model.problem),
            not_embedded=self.switches.reason(*stopped_by),
        )

    async def _store(self, block: Memory, options: Mapping[str, object], lease: Lease) -> Store:
        if folder_of(block, self.root) is not None and not await self.context.database.claim():
            used = UsageError(
                f"another daemon uses this database, and the memory {block.name} consists of files on this machine",
                hint="only one daemon at a time can use them: stop the other one, or name another --database",
            )
            used.may_pass = True
            raise used

        database = self.context.database

        async def opening() -> Store:
            store = await open_store(block, self.root, clock=self.context.clock, options=options, database=database)
            if isinstance(store, FileStore):
                store.had_items = store.identity in self.stores_with_items or store.root.exists()
            return store

        return await lease.take(self.pools.stores, identity_of(block, self.root, database), opening)

    async def _embedder(
        self, block: Memory, resolution: Resolution, lease: Lease
    ) -> tuple[Embedder | None, str | None]:
        if self.index_folder is None:
            return None, None
        choice = block.embedding
        options, missing = resolution.choice_options(choice, "embedding")
        if choice is not None and missing:
            return None, f"the embedding {choice.name} is off, so searches use keywords only: {missing[0]}"
        name = default_embedding() if choice is None else choice.name
        if name is None or name == NONE:
            return None, None

        async def opening() -> Embedder:
            embedder = await open_embedding(choice, options)
            assert embedder is not None  # a real embedding, not the row without vectors.
            embedder.count_with(self.pools.calls)
            return embedder

        try:
            return await lease.take(self.pools.embedders, (name, option_key(options)), opening), None
        except SymbiontError as error:
            return None, no_embedding(name, error)
