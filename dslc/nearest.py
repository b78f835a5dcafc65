"""The name a mistyped word was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 64
_MOST = 500  # comparisons that are worth a hint


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is most like `word`, or None when none is like it."""
    known = list(names)
    folded = {name.casefold().replace("-", "_"): name for name in known}
    same = folded.get(word.casefold().replace("-", "_"))
    if same is not None or len(word) > _LONGEST:
        return same
    from difflib import get_close_matches

    asked = word.casefold().replace("-", "_")
    alike = (
        [name for name in folded if name[:1] == asked[:1] or name[-1:] == asked[-1:]] if len(folded) > _MOST else folded
    )
    close = get_close_matches(asked, list(alike)[:_MOST], n=1, cutoff=0.66)
    return folded[close[0]] if close else None


def suggestion(word: str, names: Iterable[str], *, what: str) -> str:
    """A hint: the nearest name, else all of them (`what` says what they are, in the plural)."""
    known = list(names)
    near = nearest(word, known) if word else None
    if near is not None:
        return f"did you mean `{near}`?"
    return f"{what} are {listing(known)}" if known else f"there are no {what}"


def listing(names: Iterable[str], most: int = 12) -> str:
    """Names in backticks, at most `most` of them."""
    known = list(names)
    shown = ", ".join(f"`{name}`" for name in known[:most])
    return shown if len(known) <= most else f"{shown} and {len(known) - most} more"
