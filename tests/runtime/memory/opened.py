"""Opens a memory without a daemon."""

from __future__ import annotations

from pathlib import Path

from dslc.blocks.memory import Memory
from runtime.clock import SYSTEM, Clock
from runtime.database.connection import Database
from runtime.errors import SymbiontError
from runtime.memory import folder_of, open_store
from runtime.memory.indexing.index_file import open_indexer
from runtime.memory.open_memory import OpenMemory, no_embedding, no_model
from runtime.models.client import open_client
from runtime.search.embedding import default_embedding, open_embedding


async def open_memory(
    block: Memory, root: Path, *, index_folder: Path | None, clock: Clock = SYSTEM, database: Database | None = None
) -> OpenMemory:
    """Open what `block` declares, as written; relative paths are under `root`. The caller closes it.

    `index_folder`: of the index file; None keeps the index in memory. `database`: the root's, for a store of rows.
    """
    store = await open_store(block, root, clock=clock, database=database)
    indexer = await open_indexer(store, block.index, index_folder, clock, database=database)
    embedder, problem, summarizer, no_summarizer = None, None, None, None
    try:
        embedder = await open_embedding(block.embedding, {} if block.embedding is None else block.embedding.options)
    except SymbiontError as error:
        problem = no_embedding(default_embedding() if block.embedding is None else block.embedding.name, error)
    service = block.summarize.model
    if service is not None:
        try:
            summarizer = await open_client(service, service.options, clock=clock, root=root)
        except SymbiontError as error:
            no_summarizer = no_model(service.name, error.line())
    memory = OpenMemory(
        block,
        indexer,
        embedder,
        folder=folder_of(block, root),
        clock=clock,
        embedding_problem=problem,
        summarizer=summarizer,
        summarizer_problem=no_summarizer,
    )
    await memory.activate()
    return memory
