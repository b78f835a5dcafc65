"""The formula of scores and its constants. Pure functions over arrays with one place for each candidate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from runtime.search.dates import TimeSpan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Numbers = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Shares = NDArray[np.float64]

TOKENS: Final = 0.7
"""The share of the similarity by tokens in the part `vector`; the rest is the cosine."""
NEIGHBOUR_TOKENS: Final = 0.8
"""A token of the question counts that much for an entry if a neighbour has the best match: what a short text is about
is often said before or after it."""
NEIGHBOUR: Final = 0.1
"""The share of each neighbour's score that an entry gets: an entry next to a hit is more likely to be one."""
ANSWER: Final = 0.3
"""The share instead if the entry before it asks: the question's words are in the question, the wanted text is in the
reply."""
AUTHOR: Final = 0.22
"""Added to the entries of the one author that the question asks for."""
DATE: Final = 0.2
"""Added at a time that the question mentions; it fades before and after."""

# The scores to which these are added are at most 1. Recall and nDCG change by less than a point between half and one
# and a half of each; docs/search.md shows the gain of each.

FADING_DAYS: Final = 3.0
FADING_SHARE: Final = 0.25
"""The distance from a time at which its bonus has fallen to 1/e: days, or this share of the time's length if that is
more. Things are reported in the days after they happen, and announced in the days before."""

_DAY: Final = 86_400e6  # microseconds


def union(*keys: Numbers) -> Numbers:
    """Return the union of these keys, ascending: the candidates' places."""
    united: Numbers = np.unique(np.concatenate(keys))
    return united


def places(keys: Numbers, wanted: Numbers) -> Numbers:
    """Return the place of each wanted key among the ascending `keys`; -1 if it is not there."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    at = np.searchsorted(keys, wanted)
    at[at == len(keys)] = 0
    return np.where(keys[at] == wanted, at, -1)


def aligned_scores(keys: Numbers, found: Numbers, scores: Floats) -> Floats:
    """Return the scores of some keys in the order of all; 0 for the others."""
    each = np.zeros(len(keys), np.float32)
    each[places(keys, found)] = scores
    return each


def scaled(scores: Floats) -> Floats:
    """Scale to 0 … 1 by min-max with a minimum of at most zero, which means nothing in common.

    So the lesser of two good hits is not 0, and the number of candidates changes little.
    """
    if not len(scores):
        return scores
    least, most = min(float(scores.min()), 0.0), float(scores.max())
    if most <= least:
        return np.zeros_like(scores)
    return (scores - np.float32(least)) / np.float32(most - least)


def relevance(cosine: NDArray[np.float64], share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the relevance of entries by themselves, 0 to 1, from their cosine (NaN: none) and their share of
    its words.

    The second adds a share of what the first leaves open. With only one of them it is that one, so a threshold has the
    same meaning without vectors. Maximum and mean were measured, too (docs/search.md): they are no better, and a mean
    must know which sides were searched.
    """
    near = np.clip(np.nan_to_num(cosine, nan=0.0), 0, 1)
    fit: NDArray[np.float64] = 1 - (1 - near) * (1 - np.clip(share, 0, 1))
    return fit


def from_neighbours(scores: Floats, before: Numbers, after: Numbers, asks: Flags, depends: Shares) -> Floats:
    """Return the bonus of each candidate from its neighbours' scores, where both are short.

    `before` and `after` are places, -1 for a neighbour that does not exist or is no candidate; `asks` marks candidates
    that ask.
    """
    padded = np.append(scores * depends, 0.0)
    asking = np.append(asks, np.False_)[before]
    share = np.where(asking, ANSWER, NEIGHBOUR)
    given: Floats = (depends * (share * padded[before] + NEIGHBOUR * padded[after])).astype(np.float32)
    return given


def with_neighbours(matches: Floats, before: Numbers, after: Numbers, depends: Shares) -> Floats:
    """Return for each text the best match of each token of the question in the text itself or, for less, in its
    neighbours, at least 0. `matches` has a row for each text; `before` and `after` are rows, -1 for none."""
    padded = np.vstack((matches, np.zeros((1, matches.shape[1]), np.float32)))
    of_neighbours = np.maximum(np.maximum(padded[before], padded[after]), 0)
    share = (NEIGHBOUR_TOKENS * depends).astype(np.float32)[:, None]
    best: Floats = np.maximum(matches, share * of_neighbours)
    return best


def combined(cosines: Floats, similar: Floats) -> Floats:
    """Return one measure of two, each scaled to 0 … 1: the cosine of the text and the similarity of its tokens."""
    both: Floats = np.float32(1 - TOKENS) * cosines + np.float32(TOKENS) * similar
    return both


def closeness(times: Numbers, spans: Sequence[TimeSpan]) -> Floats:
    """Return the closeness of each time (microseconds since 1970, UTC) to the nearest span: 1 inside, 0 far away."""
    nearest = np.zeros(len(times), np.float32)
    for span in spans:
        start, end = span.start.timestamp() * 1e6, span.end.timestamp() * 1e6
        off = np.maximum(np.maximum(start - times, times - end), 0.0)
        fading = max(FADING_DAYS * _DAY, FADING_SHARE * (end - start))
        nearest = np.maximum(nearest, np.exp(-off / fading).astype(np.float32))
    return nearest
