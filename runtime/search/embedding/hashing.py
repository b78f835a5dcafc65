"""`embedding hashing`: vectors computed from words. For tests: they have no meaning."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from pydantic import Field

from dslc.blocks.block import GroupModel
from runtime.search.embedding.embedder import Embedder
from runtime.search.embedding.text import readable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WORD = re.compile(r"\w+")
_ASCII = bytes(ord(chr(code).lower()) if _WORD.match(chr(code)) else 0 for code in range(128)) + bytes(range(128, 256))
"""The replacement of every byte: lower case for letters, 0 outside words."""
_WORDS = 512
"""Maximum number of words that are read from a text."""
_LONGEST = 16 * 1024
"""Maximum characters that are read from a text, and bytes of texts that are processed together."""
_FACTOR = 0x9E3779B1
"""Odd, so that it has an inverse modulo 2^32."""


class HashingOptions(GroupModel):
    """Options of the embedding for tests: the size of its vectors."""

    dimension: int = Field(default=256, ge=8, le=4096, description="The dimension of vectors.")


class HashingEmbedder(Embedder):
    """The hashing trick: every word, and every two consecutive words, add 1 or -1 at a place given by their hash.
    Texts with words in common are near to each other; the same text has the same vector on every machine."""

    name = "hashing"
    for_tests = True
    at_once = 512

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self.model = f"hashing-for-tests-3@{dimension}"

    @property
    def dimension(self) -> int:
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if len(texts) == 1 and len(texts[0]) <= _LONGEST:
            return self._rows(texts)  # Using another thread would take longer.
        return await asyncio.to_thread(self._rows, texts)

    def _rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        rows = np.zeros((len(texts), self._dimension), dtype=np.float32)
        some: list[bytes] = []
        size = 0
        for number, text in enumerate(texts, 1):
            some.append(_word_bytes(text))
            size += len(some[-1]) + 1
            if size >= _LONGEST or number == len(texts):
                rows[number - len(some) : number] = _feature_sums(some, self._dimension)
                some, size = [], 0
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.where(lengths > 0, lengths, 1.0)
        return rows


def _word_bytes(text: str) -> bytes:
    """Return the words of a text, runs of letters, digits and underscores, with zero bytes between them; empty for a
    blank text."""
    text = text.strip()[:_LONGEST]
    if text.isascii():
        return text.encode().translate(_ASCII)
    words = "\0".join(_WORD.findall(readable(text).casefold()))
    return words.encode()[: 2 * _LONGEST] or b"\0"  # Text without words is not blank either.


def _feature_sums(texts: Sequence[bytes], dimension: int) -> NDArray[np.float64]:
    """Return the sums of the words of each text, and of its consecutive words."""
    import numpy as np

    second, half, one = map(np.uint64, (0xC2B2AE3D27D4EB4F, 32, 1))
    singles, of = _words(texts)
    together = of[:-1] == of[1:]
    # The factors are odd, so no bit is lost, and different, so the order matters; the high bits are well mixed.
    features = np.concatenate((singles, ((singles[:-1] ^ (singles[1:] >> half)) * second)[together])) >> half
    places = ((features >> one) % np.uint64(dimension)).astype(np.int64)
    places += np.concatenate((of, of[:-1][together])) * dimension
    signs = np.where(features & one, 1.0, -1.0)
    added: NDArray[np.float64] = np.bincount(places, signs, len(texts) * dimension).astype(np.float64)
    added = added.reshape(len(texts), dimension)
    # Features that cancel each other out must not leave a zero vector for a text with content.
    cancelled = ~added.any(axis=1) & np.array([each != b"" for each in texts])
    added[cancelled, 0] = 1.0
    return added


def _words(texts: Sequence[bytes]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the hash of each word, and the number of its text.

    A word is a polynomial of its bytes modulo 2^32, independent of its position: a few operations on whole texts.
    """
    import numpy as np

    joined = np.frombuffer(b"\0".join((b"", *texts, b"")), np.uint8)
    inside = joined != 0
    begins = np.flatnonzero(inside[1:] > inside[:-1]) + 1
    limits = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)
    of = np.searchsorted(limits, begins)
    first = np.searchsorted(of, np.arange(len(texts)))
    read = np.arange(len(of)) - first[of] < _WORDS
    powers, inverses = _powers()
    sums = np.add.reduceat(joined * powers[: len(joined)], begins, dtype=np.uint32) * inverses[begins]
    return sums[read] * np.uint64(0x9E3779B97F4A7C15), of[read]


@lru_cache(maxsize=1)
def _powers() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the powers of the factor from 0 on, and their inverses."""
    import numpy as np

    factors = (np.full(4 * _LONGEST, factor, np.uint32) for factor in (_FACTOR, pow(_FACTOR, -1, 2**32)))
    powers, inverses = (np.cumprod(each, dtype=np.uint32) for each in factors)
    return powers, inverses


async def open_hashing(options: Mapping[str, object]) -> HashingEmbedder:
    return HashingEmbedder(HashingOptions.model_validate(options).dimension)
