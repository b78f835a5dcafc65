"""Counting tokens: by the model's own tokenizer where it has one, else by an estimate that learns from its usage."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

FIRST_RATIO: Final = 1.15
"""Tokens per estimated token before anything was learnt: above most tokenizers for English text and JSON."""
LARGEST_RATIO: Final = 6.0
SMALLEST_RATIO: Final = 0.6
_MARGIN: Final = 1.03
_FALL: Final = 0.1  # share of the way down that one call moves the ratio; up it moves at once
_EXCEEDED: Final = 1.25
_KEPT: Final = 32_768
"""Texts whose counts are kept: those of some threads that fill a large window. They take some 10 MB."""

# Words and numbers are split into pieces of about four letters or three digits; a character beyond ASCII is about one
# token, and so are four characters of white space.
_PIECES: Final = re.compile(r"[A-Za-z]{1,4}|[0-9]{1,3}|\s{1,4}|[^\sA-Za-z0-9]")


def estimate(text: str) -> int:
    """Return roughly how many tokens a text has, for any tokenizer. 1 MB takes some 50 ms."""
    return sum(1 for _ in _PIECES.finditer(text))


class Tokenizer(Protocol):
    """What counts tokens exactly: a model."""

    async def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        """Return the number of tokens of each text; None if there is no tokenizer, or if it cannot be asked now."""


class TokenCounter:
    """Counts the tokens of texts for one model.

    `measure` asks the model's own tokenizer and keeps its answers, so that `count` can be called without waiting.
    Without a tokenizer, `count` is the estimate times a ratio, which `learn` adjusts: up at once, down slowly.
    """

    def __init__(self, ratio: float = FIRST_RATIO) -> None:
        self.ratio = ratio
        self.has_tokenizer = True
        """False once the model said that it has none."""
        # By the hash that Python keeps in each text, so that counting it again costs little. A collision, at odds of
        # one in 2**64, would only give another count.
        self._exact: OrderedDict[int, int] = OrderedDict()
        self._exact_ratio = 1.0
        """Above 1 for a service that refused a request that should have fit, as its tokenizer counts."""
        self._estimates: OrderedDict[int, int] = OrderedDict()

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, rather too many than too few."""
        if not text:
            return 0
        key = hash(text)
        found = self._exact.get(key)
        if found is not None:
            return int(found * self._exact_ratio)
        size = self._estimates.get(key)
        if size is None:
            size = self._estimates[key] = estimate(text)
            _shorten(self._estimates)
        return int(size * self.ratio) + 1

    async def measure(self, tokenizer: Tokenizer, texts: Iterable[str]) -> bool:
        """Count these texts by the model's own tokenizer, if it has one. True if texts have other counts now. Raises
        nothing."""
        unknown = {key: text for text in texts if text and (key := hash(text)) not in self._exact}
        if not unknown:
            return False
        counts = await tokenizer.count_tokens(list(unknown.values()))
        if counts is None:
            # One that has counted before is only away.
            self.has_tokenizer = bool(self._exact)
            return False
        self._exact.update(zip(unknown, counts, strict=True))
        _shorten(self._exact)
        return True

    def learn(self, counted: int, used: int) -> None:
        """Adjust the ratio: a request that `count` said has `counted` tokens had `used` by the service's usage.

        Nothing is learnt about the estimate from a request that a tokenizer counted.
        """
        if counted <= 0 or used <= 0 or self._exact:
            return
        seen = self.ratio * used / counted * _MARGIN
        self._set(seen if seen > self.ratio else self.ratio + (seen - self.ratio) * _FALL)

    def exceeded(self, counted: int, allowed: int) -> None:
        """Count more from now on: the service said that a request, which has `counted` tokens as counted, does not fit
        into its window, although `allowed` tokens should. The same request counts a quarter more than is allowed."""
        factor = _EXCEEDED * max(1.0, allowed / max(counted, 1))
        if self._exact:
            self._exact_ratio = min(self._exact_ratio * factor, LARGEST_RATIO)
        else:
            self._set(self.ratio * factor)

    def _set(self, ratio: float) -> None:
        self.ratio = min(max(ratio, SMALLEST_RATIO), LARGEST_RATIO)


def _shorten(counts: OrderedDict[int, int]) -> None:
    while len(counts) > _KEPT:
        counts.popitem(last=False)
