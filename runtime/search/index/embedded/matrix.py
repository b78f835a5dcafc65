"""The vectors of one store: a float32 matrix with a row for each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from runtime.search.errors import EmbeddingMismatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

_DENSE = 0.4
"""The share of wanted rows in a range above which multiplying all rows is faster than gathering the wanted ones."""


class Matrix:
    """Rows of `dimension` numbers, each of length 1, by key; rows of keys without a vector are undefined."""

    def __init__(self, dimension: int, room: int = 1024) -> None:
        self.dimension = dimension
        self._rows = np.zeros((room, dimension), np.float32)

    def put(self, keys: NDArray[np.int64], vectors: Vector) -> None:
        """Set the vectors of these keys. Capacity grows geometrically; unused rows take no memory."""
        if not len(keys):
            return
        last = int(keys.max())
        if last >= len(self._rows):
            grown = np.zeros((max(2 * len(self._rows), last + 1), self.dimension), np.float32)
            grown[: len(self._rows)] = self._rows
            self._rows = grown
        self._rows[keys] = vectors

    def rows(self, keys: NDArray[np.int64]) -> Vector:
        """Return the vectors of these keys."""
        chosen: Vector = self._rows[keys]
        return chosen

    def similarities(self, vector: Vector, keys: NDArray[np.int64]) -> Vector:
        """Return the cosine of `vector`, of length 1, with each of these rows; keys are ascending."""
        if not len(keys):
            return np.zeros(0, np.float32)
        first, end = int(keys[0]), int(keys[-1]) + 1
        if len(keys) >= _DENSE * (end - first):
            products: Vector = (self._rows[first:end] @ vector)[keys - first]
            return products
        gathered: Vector = self.rows(keys) @ vector
        return gathered


def unit(vectors: Sequence[NDArray[np.float32]] | NDArray[np.float32], dimension: int | None) -> Vector:
    """Return vectors as rows of length 1; zeros stay zeros.

    Raises EmbeddingMismatch if they are not of `dimension` (None: of the same one), or not finite.
    """
    found = {vector.shape for vector in vectors}
    if len(found) > 1 or any(shape != ((dimension,) if dimension else shape[:1]) or shape == (0,) for shape in found):
        sizes = ", ".join(sorted("x".join(map(str, shape)) for shape in found))
        expected = f"{dimension} numbers each" if dimension else "as many numbers each"
        raise EmbeddingMismatch(
            f"the embedding returned vectors of {sizes} numbers, but {expected} were expected",
            hint="if its model was changed, name another one, or rebuild the index: symbi memory reindex",
        )
    rows = np.asarray(vectors, np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    if not np.isfinite(lengths).all():
        raise EmbeddingMismatch("the embedding returned vectors with invalid numbers", hint="check its log")
    lengths[lengths == 0] = 1
    normed: Vector = (rows / lengths[:, None]).astype(np.float32)
    return normed


def best(
    keys: NDArray[np.int64], scores: NDArray[np.float32], limit: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the `limit` keys with the highest scores, best first; among equals the lower key first."""
    if limit < len(keys):
        chosen = np.argpartition(-scores, max(limit - 1, 0))[: max(limit, 0)]
        keys, scores = keys[chosen], scores[chosen]
    ranked = np.lexsort((keys, -scores))
    return keys[ranked], scores[ranked]
