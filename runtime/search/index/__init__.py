"""The table of indexes, and the function that opens an index.

To add an index: one file with an `Index`, its options model and an opening function, and one row in `INDEXES`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import cast

from pydantic import BaseModel, ValidationError

from dslc.blocks.variant import Variant
from runtime.errors import UsageError
from runtime.extension_table import LazyRow, table_of
from runtime.search.index.index import Index, IndexPlace
from runtime.secrets.secret import Secret

Open = Callable[[IndexPlace, BaseModel], Awaitable[Index]]


class IndexRow(LazyRow):
    """A kind of index; `opener_path` names an `Open`, given the index's place and the options. Where an option is a
    secret, it is given a `Secret`, or the text in the program."""


INDEXES = table_of(
    "index",
    [
        IndexRow(
            name="embedded",
            title="In the daemon",
            doc="Vectors and words in one SQLite file of the state folder, encrypted if the store is, "
            "searched in the daemon.",
            options_path="runtime.search.index.embedded.index:EmbeddedOptions",
            opener_path="runtime.search.index.embedded.index:open_embedded",
        ),
        IndexRow(
            name="qdrant",
            title="Qdrant",
            doc="Entries, words and vectors in a collection of a Qdrant server; several daemons may share it. "
            "Items are sent there redacted but not encrypted.",
            options_path="runtime.search.index.qdrant.options:QdrantOptions",
            opener_path="runtime.search.index.qdrant.options:open_qdrant",
            doc_url="https://qdrant.tech/documentation/",
            extra="qdrant",
        ),
        IndexRow(
            name="postgres",
            title="PostgreSQL with pgvector",
            doc="Entries, words and vectors in one schema of a PostgreSQL database; several daemons may "
            "share it. Items are sent there redacted but not encrypted.",
            options_path="runtime.search.index.postgres.options:PostgresOptions",
            opener_path="runtime.search.index.postgres.index:open_postgres",
            doc_url="https://github.com/pgvector/pgvector",
        ),
    ],
)
"""Every kind of index, by its name in a program."""

DEFAULT = "embedded"
"""The index of a memory that does not name one."""

NAMELESS = "memory"
"""The name of an index that is opened without a name."""


async def open_index(
    choice: Variant | None,
    path: Path | None,
    options: Mapping[str, object],
    *,
    name: str = NAMELESS,
    key: bytes | None = None,
) -> Index:
    """Open the index that a memory declares; None: the default one. `options`: with secrets resolved. The caller closes
    it.

    `path`: the index file; None keeps everything in memory. `name`: of the index on a shared server. `key` (32 bytes):
    seals the file. Raises UsageError for an unknown index or invalid options, IndexFailed if the file cannot be
    created. An index on an unreachable server is opened nevertheless.
    """
    kind = DEFAULT if choice is None else choice.name
    row = INDEXES.get(kind)
    if row is None:
        raise UsageError(f"there is no index {kind}", hint=f"there are {', '.join(sorted(INDEXES))}")
    resolved = {name: value for name, value in options.items() if isinstance(value, Secret)}
    try:
        given = row.options.model_validate({**options, **dict.fromkeys(resolved, "a secret")})
    except ValidationError as error:
        raise UsageError(
            f"the index {row.name} has invalid options",
            hint=", ".join(".".join(map(str, problem["loc"])) for problem in error.errors(include_input=False)),
        ) from None
    opening = cast("Open", row.opener)
    return await opening(IndexPlace(path, name, key), given.model_copy(update=resolved))
