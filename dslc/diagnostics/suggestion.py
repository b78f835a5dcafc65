"""Suggestions for misspelt names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

_LONGEST = 64
_MOST = 500  # maximum number of comparisons for a hint


class KnownNames:
    """Names to compare words with, prepared once for many words."""

    def __init__(self, names: Iterable[str]) -> None:
        self.all = list(names)
        self._folded = {_fold(name): name for name in self.all}

    @property
    def comparisons(self) -> int:
        """Maximum number of names that a word is compared with."""
        return min(len(self._folded), _MOST)

    def nearest(self, word: str) -> str | None:
        """The name most similar to `word`, or None if none is similar."""
        asked = _fold(word)
        same = self._folded.get(asked)
        if same is not None or len(word) > _LONGEST:
            return same
        from difflib import get_close_matches

        close = get_close_matches(asked, self._alike(asked), n=1, cutoff=0.66)
        return self._folded[close[0]] if close else None

    def _alike(self, asked: str) -> list[str]:
        """The names to compare with; if there are many, only those with the same first or last letter."""
        if len(self._folded) <= _MOST:
            return list(self._folded)
        ends = self._by_end[0, asked[:1]], self._by_end[-1, asked[-1:]]
        return list(dict.fromkeys([name for some in ends for name in some]))[:_MOST]

    @cached_property
    def _by_end(self) -> defaultdict[tuple[int, str], list[str]]:
        """Names by their first letter (0) and by their last letter (-1), at most `_MOST` each."""
        found: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
        for name in self._folded:
            for end in ((0, name[:1]), (-1, name[-1:])):
                if len(found[end]) < _MOST:
                    found[end].append(name)
        return found


def _fold(name: str) -> str:
    return name.casefold().replace("-", "_")


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name of `names` that is most similar to `word`, or None if none is similar."""
    return KnownNames(names).nearest(word)


def suggestion(word: str, names: Iterable[str], *, what: str) -> str:
    """Return a hint: the nearest name, else all names. `what`: plural noun for the names."""
    known = list(names)
    near = nearest(word, known) if word else None
    if near is not None:
        return f"did you mean `{near}`?"
    return f"{what} are {listing(known)}" if known else f"there are no {what}"


def listing(names: Iterable[str], most: int = 12) -> str:
    """Names in backticks: all of them, or the first `most` if there are more than twice as many."""
    known = list(names)
    if len(known) <= 2 * most:
        return ", ".join(f"`{name}`" for name in known)
    return f"{', '.join(f'`{name}`' for name in known[:most])} and {len(known) - most} more"
