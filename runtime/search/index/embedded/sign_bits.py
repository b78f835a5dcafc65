"""The signs of the vectors of one store: a thirty-second of their size, which finds the entries that may be nearest.

The exact cosines of those few are computed from the vectors in the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runtime.search.index.embedded.matrix import Vector

    Keys = NDArray[np.int64]
    Words = NDArray[np.uint64]

CHOSEN: Final = 1_000
"""Minimum number of rows whose vectors are read: about 6 ms, and 20 ms from a sealed file."""
_EQUAL_SIGNS: Final = 16
"""The signs of the question choose this many times as many rows; its numbers choose among these. The first takes 6 ms
for a million rows but is coarse; the second alone would take twenty times as long."""
_AT_ONCE: Final = 1024
"""Number of rows whose bits are multiplied together: as numbers they fit into a processor's cache."""
_DENSE: Final = 0.1
"""The share of wanted rows in a range above which comparing all rows is faster than gathering the wanted ones."""


class SignBits:
    """A bit for each number of a vector, set above zero, by key; rows of keys without a vector are undefined."""

    def __init__(self, dimension: int, room: int) -> None:
        self.dimension = dimension
        # One row for each 64 numbers: numpy operates on long rows much faster than on many short ones.
        self._words: Words = np.zeros((-(-dimension // 64), room), np.uint64)

    def put(self, keys: Keys, vectors: Vector) -> None:
        """Set the vectors of these keys. Capacity grows geometrically; unused rows take no memory."""
        if not len(keys):
            return
        last, room = int(keys.max()), self._words.shape[1]
        if last >= room:
            grown = np.zeros((len(self._words), max(2 * room, last + 1)), np.uint64)
            grown[:, :room] = self._words
            self._words = grown
        self._words[:, keys] = self._bits_of(vectors)

    def nearest(self, vector: Vector, keys: Keys, count: int) -> Keys:
        """Return about the nearest `count` rows of these keys to `vector`, in any order; keys are ascending."""
        if len(keys) > _EQUAL_SIGNS * count:
            differences = self._differences(vector, keys)
            most = np.searchsorted(np.cumsum(np.bincount(differences)), _EQUAL_SIGNS * count)
            keys = keys[differences <= most]
        if len(keys) > count:
            keys = keys[np.argpartition(-self._products(vector, keys), count)[:count]]
        return keys

    def _differences(self, vector: Vector, keys: Keys) -> NDArray[np.uint16]:
        """Return for each row the number of signs that differ from the vector's."""
        first, end = int(keys[0]), int(keys[-1]) + 1
        dense = len(keys) >= _DENSE * (end - first)
        differences = np.zeros(end - first if dense else len(keys), np.uint16)
        for words, (signs,) in zip(self._words, self._bits_of(vector[None]), strict=True):
            differences += np.bitwise_count((words[first:end] if dense else words[keys]) ^ signs)
        return differences[keys - first] if dense else differences

    def _products(self, vector: Vector, keys: Keys) -> Vector:
        """Return the sum of the vector's numbers at the set bits of each row: it orders rows as the product with their
        signs does."""
        rows = np.ascontiguousarray(self._words[:, keys].T).view(np.uint8)
        products = np.empty(len(keys), np.float32)
        for begin in range(0, len(keys), _AT_ONCE):
            bits = np.unpackbits(rows[begin : begin + _AT_ONCE], axis=1, count=self.dimension)
            products[begin : begin + _AT_ONCE] = bits.astype(np.float32) @ vector
        return products

    def _bits_of(self, vectors: Vector) -> Words:
        """Return the bits of these vectors, a column for each."""
        packed = np.zeros((len(vectors), 8 * len(self._words)), np.uint8)
        packed[:, : -(-self.dimension // 8)] = np.packbits(vectors > 0, axis=1)
        return packed.view(np.uint64).T
