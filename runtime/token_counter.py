"""Counting tokens: by the model's own tokenizer where it has one, else by an estimate that learns from its usage."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

FIRST_RATIO: Final = 1.05
"""Tokens per estimated token before anything was learnt."""
LARGEST_RATIO: Final = 6.0
SMALLEST_RATIO: Final = 0.6
_MARGIN: Final = 1.03
_FALL: Final = 0.1  # share of the way down that one call moves the ratio; up it moves at once
_EXCEEDED: Final = 1.25
_KEPT: Final = 32_768
"""Texts whose counts are kept: those of some threads that fill a large window. They take some 10 MB."""

# About one token each for the tokenizers of today: a word or a part of one that begins with a capital, two digits, some
# punctuation, the end of a line with the indentation after it. The blank before a word belongs to its token.
_PIECES: Final = re.compile(
    r"[A-Z]?[a-z]{1,10}|[A-Z]{1,5}(?![a-z])|[0-9]{1,2}|[^\sA-Za-z0-9\x80-\U0010ffff]{1,4}"
    r"|[ \t]{0,15}[\r\n][\r\n \t]{0,15}|[ \t]{3,16}"
)
_WEIGHTS: Final = (
    # Letters with accents: the words around them are split into more tokens than English ones.
    (re.compile(r"[\x80-\u024f]"), 1.8),
    (re.compile(r"[\u0370-\u1fff]"), 0.45),
    # Kana; Hangul; punctuation and symbols; emoji.
    (re.compile(r"[\u3040-\u30ff]"), 0.62),
    (re.compile(r"[\uac00-\ud7af]"), 0.78),
    (re.compile(r"[\u2000-\u303f\u3100-\u33ff\ue000-\uffff]"), 0.8),
    (re.compile(r"[\U00010000-\U0010ffff]"), 2.5),
)
"""Tokens of a character in each of these ranges."""
_IDEOGRAPHS: Final = re.compile(r"[\u3400-\u9fff]")
_IDEOGRAPH: Final = 0.86
_CHINESE_IDEOGRAPH: Final = 0.64
"""The same for a tokenizer that was made for Chinese."""
_CHINESE: Final = re.compile(
    r"qwen|qwq|deepseek|glm|kimi|moonshot|minimax|\byi-|ernie|hunyuan|baichuan|internlm|doubao"
)


def estimate(text: str, *, chinese: bool = False) -> int:
    """Return roughly how many tokens a text has: for English prose, code, JSON and Chinese within a tenth of what the
    tokenizers of OpenAI (o200k), Llama 3 and Qwen count. `chinese`: by one that was made for Chinese. 1 MB takes some
    100 ms."""
    pieces = len(_PIECES.findall(text))
    if text.isascii():
        return pieces
    others = sum(len(pattern.findall(text)) * weight for pattern, weight in _WEIGHTS)
    ideographs = len(_IDEOGRAPHS.findall(text)) * (_CHINESE_IDEOGRAPH if chinese else _IDEOGRAPH)
    return pieces + round(others + ideographs)


class Tokenizer(Protocol):
    """An exact counter of tokens: a model."""

    async def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        """Return the number of tokens of each text; None if there is no tokenizer, or if it cannot be asked now."""


class TokenCounter:
    """Counts the tokens of texts for one model.

    `measure` asks the model's own tokenizer and keeps its answers, so that `count` can be called without waiting.
    Without a tokenizer, `count` is the estimate times a ratio, which `learn` adjusts: up at once, down slowly.
    """

    def __init__(self, ratio: float = FIRST_RATIO, model: str = "") -> None:
        """`ratio`: tokens per estimated token. `model`: by its name at the service."""
        self._chinese = _CHINESE.search(model.lower()) is not None
        self.ratio = self.first_ratio = ratio
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
            size = self._estimates[key] = estimate(text, chinese=self._chinese)
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
        self._set_ratio(seen if seen > self.ratio else self.ratio + (seen - self.ratio) * _FALL)

    def raise_ratio(self, counted: int, allowed: int) -> None:
        """Count more from now on: the service said that a request, which has `counted` tokens as counted, does not fit
        into its window, although `allowed` tokens should. The same request counts a quarter more than is allowed."""
        factor = _EXCEEDED * max(1.0, allowed / max(counted, 1))
        if self._exact:
            self._exact_ratio = min(self._exact_ratio * factor, LARGEST_RATIO)
        else:
            self._set_ratio(self.ratio * factor)

    def _set_ratio(self, ratio: float) -> None:
        self.ratio = min(max(ratio, SMALLEST_RATIO), LARGEST_RATIO)


def _shorten(counts: OrderedDict[int, int]) -> None:
    while len(counts) > _KEPT:
        counts.popitem(last=False)
