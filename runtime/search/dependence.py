"""Dependence of a text on its neighbours, the texts before and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHORT: Final = 75
"""Number of words up to which a text depends wholly on its neighbours. A short remark is understood by what is around
it; a page says itself what it is about, and what it says is not about a remark beside it."""


def dependence(words: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the dependence of texts of so many words on their neighbours, 0 to 1: 0 from twice SHORT words."""
    share: NDArray[np.float64] = np.clip(2 - words / SHORT, 0, 1)
    return share


def size_with_context(
    text: NDArray[np.int64], others: NDArray[np.int64], before: NDArray[Any], after: NDArray[Any]
) -> NDArray[np.int64]:
    """Return the words of texts with their context: those of the text, `others`, and the share of those of the texts
    `before` and `after` (places of them, of a text without words for none) that belongs to the context."""
    depends = dependence(text)
    given = depends * text
    size: NDArray[np.int64] = text + others + np.floor(depends * (given[before] + given[after]) + 0.5).astype(np.int64)
    return size
