"""`embedding hashing`: vectors made of words by arithmetic alone. For tests: they carry no meaning."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from pydantic import Field

from dslc.blocks.block import Group
from runtime.search.embedding.embedder import Embedder
from runtime.search.embedding.text import readable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WORD = re.compile(r"\w+")
_WORDS = 512
"""Words that are read of a text."""


class HashingOptions(Group):
    """How large the vectors of the embedding for tests are."""

    dimension: int = Field(default=256, ge=8, le=4096, description="Numbers in a vector.")


class HashingEmbedder(Embedder):
    """The hashing trick: every word, and every two that follow one another, adds 1 or -1 at a place that its hash
    names. Texts with words in common are near to each other; the same text has the same vector on every machine."""

    name = "hashing"
    for_tests = True

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self.model = f"hashing-for-tests@{dimension}"

    @property
    def dimension(self) -> int:
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        rows = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for feature in _features(text):
                digest = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "big")
                row[(digest >> 1) % self._dimension] += 1.0 if digest & 1 else -1.0
            # Features that cancel each other out leave nothing of a text that says something.
            if not row.any() and text.strip():
                row[0] = 1.0
            await asyncio.sleep(0)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.where(lengths > 0, lengths, 1.0)
        return rows


def _features(text: str) -> Iterator[str]:
    words = [found[0].casefold() for found in islice(_WORD.finditer(readable(text)), _WORDS)]
    yield from words
    yield from (f"{one} {other}" for one, other in pairwise(words))


async def open_hashing(options: Mapping[str, object]) -> HashingEmbedder:
    return HashingEmbedder(HashingOptions.model_validate(options).dimension)
