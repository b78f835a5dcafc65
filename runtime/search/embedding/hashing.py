"""`embedding hashing`: vectors made of words by arithmetic alone. For tests: they carry no meaning."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING
from zlib import crc32

from pydantic import Field

from dslc.blocks.block import Group
from runtime.search.embedding.embedder import Embedder
from runtime.search.embedding.text import readable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WORD = re.compile(r"\w+")
_BETWEEN_WORDS = {code: " " for code in range(128) if not _WORD.match(chr(code))}
_WORDS = 512
"""Words that are read of a text."""
_AT_ONCE = 4
"""Texts that are read before others have their turn."""


class HashingOptions(Group):
    """How large the vectors of the embedding for tests are."""

    dimension: int = Field(default=256, ge=8, le=4096, description="Numbers in a vector.")


class HashingEmbedder(Embedder):
    """The hashing trick: every word, and every two that follow one another, adds 1 or -1 at a place that its hash
    names. Texts with words in common are near to each other; the same text has the same vector on every machine."""

    name = "hashing"
    for_tests = True
    at_once = 512

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self.model = f"hashing-for-tests-2@{dimension}"

    @property
    def dimension(self) -> int:
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        rows = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for begin in range(0, len(texts), _AT_ONCE):
            some = texts[begin : begin + _AT_ONCE]
            rows[begin : begin + len(some)] = _added(some, self._dimension)
            await asyncio.sleep(0)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.where(lengths > 0, lengths, 1.0)
        return rows


def _added(texts: Sequence[str], dimension: int) -> NDArray[np.float64]:
    """What the words of each text, and those that follow one another, add up to."""
    import numpy as np

    first, second, half, one = map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 32, 1))
    words = [_words(readable(text).casefold())[:_WORDS] for text in texts]
    counts = [len(each) for each in words]
    singles = np.fromiter(map(crc32, map(str.encode, chain.from_iterable(words))), np.uint64, sum(counts))
    singles *= first
    of = np.repeat(np.arange(len(texts), dtype=np.int64), counts)
    together = of[:-1] == of[1:]
    # The factors are odd, so no bit is lost, and not the same, so the order counts; high bits are the well mixed ones.
    features = np.concatenate((singles, ((singles[:-1] ^ (singles[1:] >> half)) * second)[together])) >> half
    places = ((features >> one) % np.uint64(dimension)).astype(np.int64)
    places += np.concatenate((of, of[:-1][together])) * dimension
    signs = np.where(features & one, 1.0, -1.0)
    added: NDArray[np.float64] = np.bincount(places, signs, len(texts) * dimension).astype(np.float64)
    added = added.reshape(len(texts), dimension)
    for row, text in zip(added, texts, strict=True):
        # Features that cancel each other out leave nothing of a text that says something.
        if not row.any() and text.strip():
            row[0] = 1.0
    return added


def _words(text: str) -> list[str]:
    """Runs of letters, digits and underscores; of plain ASCII they are found much faster than by a pattern."""
    return text.translate(_BETWEEN_WORDS).split() if text.isascii() else _WORD.findall(text)


async def open_hashing(options: Mapping[str, object]) -> HashingEmbedder:
    return HashingEmbedder(HashingOptions.model_validate(options).dimension)
