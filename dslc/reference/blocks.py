"""The pages of the kinds of blocks."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from dslc.blocks import TABLE
from dslc.reference.markdown import code, page
from dslc.reference.settings import overview, sections
from dslc.vocabulary import Vocabulary


def blocks(vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    """File and text of the page of every kind."""
    for kind, known in vocabulary.kinds.items():
        settings = tuple(known.values())
        shape = f"Written {code(f'{kind} NAME {{ … }}')}; a name has 1 to 64 letters, digits, `_`, `-` or `.`."
        yield (
            f"{kind}.md",
            page(kind, about(kind), shape, "## Settings", overview(settings), *sections(settings, vocabulary, 3)),
        )


def about(kind: str) -> str:
    """The documentation of a kind, its example included."""
    return inspect.getdoc(TABLE[kind]) or ""
