"""How a score comes about, and what everything in it counts. Pure functions over arrays with a place each candidate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from runtime.search.dates import Span

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Numbers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

NEIGHBOUR: Final = 0.1
"""What an entry is given of the score of each neighbour: what stands beside a find is likelier to be one."""
ANSWER: Final = 0.3
"""What it is given instead of the entry before it where that one asks: the words of a question are in the question,
and what is looked for is in the reply."""
AUTHOR: Final = 0.2
"""What is added where the question names exactly one author and the entry is theirs."""
DATE: Final = 0.2
"""What is added at a time that the question speaks of; less and less of it before and after."""

# The scores that these are measured against are at most 1. Recall and nDCG change by less than a point between half
# and one and a half of each; what each gains is in docs/search.md.

FADING_DAYS: Final = 3.0
FADING_SHARE: Final = 0.25
"""How far from a time its preference has fallen to 1/e: days, or the share of the time's own length if that is more.
Things are told the days after they happen, and announced the days before."""

_DAY: Final = 86_400e6  # microseconds


def union(*keys: Numbers) -> Numbers:
    """All of these keys, each once, ascending: the candidates' places."""
    united: Numbers = np.unique(np.concatenate(keys))
    return united


def places(keys: Numbers, wanted: Numbers) -> Numbers:
    """Where each wanted key stands among the ascending `keys`; -1 where it does not."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    at = np.searchsorted(keys, wanted)
    at[at == len(keys)] = 0
    return np.where(keys[at] == wanted, at, -1)


def spread(keys: Numbers, found: Numbers, scores: Floats) -> Floats:
    """Scores of some of the keys as a score for each; 0 for the others."""
    each = np.zeros(len(keys), np.float32)
    each[places(keys, found)] = scores
    return each


def scaled(scores: Floats) -> Floats:
    """From 0 to 1: min-max, the least being never above zero, which says that nothing is shared.

    So the lesser of two good finds is not 0, and how far down the candidates go changes little.
    """
    if not len(scores):
        return scores
    least, most = min(float(scores.min()), 0.0), float(scores.max())
    if most <= least:
        return np.zeros_like(scores)
    return (scores - np.float32(least)) / np.float32(most - least)


def relevance(cosine: NDArray[np.float64], share: NDArray[np.float64]) -> NDArray[np.float64]:
    """How well entries fit a question by themselves, 0 to 1, of their cosine (NaN: none) and their share of its words.

    What one of them leaves open the other adds a share of. Of one alone it is that one, so a threshold means as much
    where nothing makes vectors. Maximum and mean were measured too (docs/search.md): no better, and a mean has to know
    which of the two were searched.
    """
    near = np.clip(np.nan_to_num(cosine, nan=0.0), 0, 1)
    fit: NDArray[np.float64] = 1 - (1 - near) * (1 - np.clip(share, 0, 1))
    return fit


def from_neighbours(scores: Floats, before: Numbers, after: Numbers, asks: Flags) -> Floats:
    """What each candidate is given of its neighbours' scores.

    `before` and `after` are places, -1 for a neighbour that is none or no candidate; `asks` says which candidates ask.
    """
    padded = np.append(scores, np.float32(0))
    asking = np.append(asks, np.False_)[before]
    share = np.where(asking, np.float32(ANSWER), np.float32(NEIGHBOUR))
    given: Floats = share * padded[before] + np.float32(NEIGHBOUR) * padded[after]
    return given


def closeness(times: Numbers, spans: Sequence[Span]) -> Floats:
    """How near each time (microseconds since 1970, UTC) is to the nearest of the spans: 1 in it, towards 0 far off."""
    nearest = np.zeros(len(times), np.float32)
    for span in spans:
        start, end = span.start.timestamp() * 1e6, span.end.timestamp() * 1e6
        off = np.maximum(np.maximum(start - times, times - end), 0.0)
        fading = max(FADING_DAYS * _DAY, FADING_SHARE * (end - start))
        nearest = np.maximum(nearest, np.exp(-off / fading).astype(np.float32))
    return nearest
