"""Reference pages of the kinds of blocks."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from dslc.blocks import TABLE
from dslc.reference.markdown import code, page
from dslc.reference.settings import overview, sections
from dslc.vocabulary import Vocabulary


def blocks(vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    """Yield file name and text of each kind's page."""
    for kind, known in vocabulary.kinds.items():
        settings = tuple(known.values())
        shape = f"Syntax: {code(f'{kind} NAME {{ … }}')}. A name has 1 to 64 letters, digits, `_`, `-` or `.`."
        yield (
            f"{kind}.md",
            page(kind, about(kind), shape, "## Settings", overview(settings), *sections(settings, vocabulary, 3)),
        )


def about(kind: str) -> str:
    """Documentation of a kind, with its example."""
    return inspect.getdoc(TABLE[kind]) or ""
