"""The table of embeddings, and the function that opens an embedding.

To add one: one file with an `Embedder`, its options model and an opening function, and one row in `EMBEDDINGS`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from pydantic import ValidationError

from dslc.blocks.variant import Variant
from runtime.errors import UsageError
from runtime.extension_table import LazyRow, table_of
from runtime.search.embedding.embedder import Embedder

Open = Callable[[Mapping[str, object]], Awaitable[Embedder]]


class EmbeddingRow(LazyRow):
    """An embedding; `opener_path` names an `Open`. The module of its options imports nothing that the extra brings."""


EMBEDDINGS = table_of(
    "embedding",
    [
        EmbeddingRow(
            name="local",
            title="A model in this process",
            doc="all-MiniLM-L6-v2 with int8 weights, dimension 384, up to 256 tokens. English. It is part "
            "of a package, runs on the processor and needs no network. A memory without `embedding` "
            "uses it if it is installed.",
            options_path="runtime.search.embedding.local:LocalOptions",
            opener_path="runtime.search.embedding.local:open_local",
            doc_url="https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
            extra="local",
        ),
        EmbeddingRow(
            name="ollama",
            title="Ollama",
            doc="A model that Ollama runs, on this machine or another; its languages depend on the model.",
            options_path="runtime.search.embedding.ollama:OllamaOptions",
            opener_path="runtime.search.embedding.ollama:open_ollama",
            doc_url="https://docs.ollama.com/api/embed",
        ),
        EmbeddingRow(
            name="openai",
            title="OpenAI, or a service with its API",
            doc="A model of OpenAI or of any service with the same API, such as vLLM, llama.cpp or LM "
            "Studio. The redacted items are sent to it.",
            options_path="runtime.search.embedding.openai:OpenAIOptions",
            opener_path="runtime.search.embedding.openai:open_openai",
            doc_url="https://platform.openai.com/docs/api-reference/embeddings/create",
        ),
        EmbeddingRow(
            name="hashing",
            title="For tests: hashed words",
            doc="For tests only: vectors computed from the words of a text, without meaning.",
            options_path="runtime.search.embedding.hashing:HashingOptions",
            opener_path="runtime.search.embedding.hashing:open_hashing",
        ),
    ],
)
"""Every embedding, by its name in a program."""


def default_embedding() -> str | None:
    """Return the row for a memory without `embedding`: `local` if its packages are installed, else None (searches go
    by keyword only). Loads none of them."""
    from runtime.search.embedding.minilm.model import missing_package

    return "local" if missing_package() is None else None


async def open_embedding(choice: Variant | None, options: Mapping[str, object]) -> Embedder | None:
    """Open the embedding that a memory declares, or the default one (`default_embedding`). The caller closes it. Makes
    no call.

    `options`: of the choice, with every secret a `Secret`. Raises UsageError for an unknown embedding, for invalid
    options, and for one that cannot work here because its extra is missing or its files are wrong.
    """
    name = default_embedding() if choice is None else choice.name
    if name is None:
        return None
    row = EMBEDDINGS.get(name)
    if row is None:
        raise UsageError(f"there is no embedding {name}", hint=f"there are {', '.join(sorted(EMBEDDINGS))}")
    try:
        return await cast("Open", row.opener)(options)
    except ValidationError as error:
        raise UsageError(
            f"the embedding {row.name} has invalid options",
            hint="; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in _problems(error)),
        ) from None


def _problems(error: ValidationError) -> list[Any]:
    return list(error.errors(include_input=False, include_url=False, include_context=False))
