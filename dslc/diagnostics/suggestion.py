"""The name a mistyped word was probably meant to be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

_LONGEST = 64
_MOST = 500  # comparisons that are worth a hint


class KnownNames:
    """Names that words are compared with, prepared once for many words."""

    def __init__(self, names: Iterable[str]) -> None:
        self.all = list(names)
        self._folded = {_fold(name): name for name in self.all}

    @property
    def comparisons(self) -> int:
        """How many names a word is compared with at most."""
        return min(len(self._folded), _MOST)

    def nearest(self, word: str) -> str | None:
        """The one that is most like `word`, or None when none is like it."""
        asked = _fold(word)
        same = self._folded.get(asked)
        if same is not None or len(word) > _LONGEST:
            return same
        from difflib import get_close_matches

        close = get_close_matches(asked, self._alike(asked), n=1, cutoff=0.66)
        return self._folded[close[0]] if close else None

    def _alike(self, asked: str) -> list[str]:
        """The names that are worth a comparison: of many, those that begin or end like the word."""
        if len(self._folded) <= _MOST:
            return list(self._folded)
        ends = self._by_end[0, asked[:1]], self._by_end[-1, asked[-1:]]
        return list(dict.fromkeys([name for some in ends for name in some]))[:_MOST]

    @cached_property
    def _by_end(self) -> defaultdict[tuple[int, str], list[str]]:
        """At most so many names by their first letter, and by their last."""
        found: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
        for name in self._folded:
            for end in ((0, name[:1]), (-1, name[-1:])):
                if len(found[end]) < _MOST:
                    found[end].append(name)
        return found


def _fold(name: str) -> str:
    return name.casefold().replace("-", "_")


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is most like `word`, or None when none is like it."""
    return KnownNames(names).nearest(word)


def suggestion(word: str, names: Iterable[str], *, what: str) -> str:
    """A hint: the nearest name, else all of them (`what` says what they are, in the plural)."""
    known = list(names)
    near = nearest(word, known) if word else None
    if near is not None:
        return f"did you mean `{near}`?"
    return f"{what} are {listing(known)}" if known else f"there are no {what}"


def listing(names: Iterable[str], most: int = 12) -> str:
    """Names in backticks: all of them, unless they are more than twice as many as `most`."""
    known = list(names)
    if len(known) <= 2 * most:
        return ", ".join(f"`{name}`" for name in known)
    return f"{', '.join(f'`{name}`' for name in known[:most])} and {len(known) - most} more"
