"""The constants of the scoring: each moved, one at a time, and a choice that is measured where it was not made."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

from bench.recall.scores import Outcome
from runtime.errors import UsageError
from runtime.search import fusion, late_interaction
from runtime.search.question import KEYWORD_WEIGHT, VECTOR_WEIGHT

MODULES: Final[tuple[ModuleType, ...]] = (fusion, late_interaction)
"""Their public numbers are the constants of the scoring. They are read at each search, so they can be moved."""
WEIGHT: Final = "VECTOR_WEIGHT"
"""The weight of vectors; that of keywords is the rest to 1. A question has both, so no module is changed for them."""
DEFAULT: Final = (VECTOR_WEIGHT, KEYWORD_WEIGHT)
GRID: Final[Mapping[str, Sequence[float]]] = {
    WEIGHT: (0.65, 0.7, 0.75),
    "TOKENS": (0.5, 0.7),
    "ANSWER": (0.2, 0.3),
    "AUTHOR": (0.15, 0.22),
}
"""The values that are tried without one conversation, in every combination."""
MOST_COMBINATIONS: Final = 24
STEP: Final = 0.1
"""How far constants between this and 1 are moved; others are halved, and increased by half."""

Setting = tuple[tuple[str, float], ...]
"""Values of constants by name; those that are not named keep theirs."""
UNCHANGED: Final[Setting] = ()


class Choice(NamedTuple):
    """The outcomes of each corpus, each conversation with the setting that is best for all others, and how often each
    setting was chosen."""

    outcomes: list[list[Outcome]]
    chosen: Mapping[Setting, int]


def constants(weights: tuple[float, float]) -> Mapping[str, float]:
    """Return the constants of the scoring and their values, with these weights of vectors and keywords."""
    found = {
        name: value
        for module in MODULES
        for name, value in vars(module).items()
        if name.isupper() and not name.startswith("_") and type(value) in {int, float}
    }
    # Without vectors there is nothing to weigh.
    return ({WEIGHT: weights[0] / sum(weights)} if weights[0] else {}) | found


def moved(name: str, value: float) -> list[float]:
    """Return a lower and a higher value of a constant, as far as there are other ones."""
    if isinstance(value, int):
        near: list[float] = [round(value * 0.5), round(value * 1.5)]
    elif STEP <= value <= 1:
        near = [round(value - STEP, 9), round(value + STEP, 9)]
    else:
        near = [value * 0.5, value * 1.5]
    return [each for each in near if each != value and not (name == WEIGHT and each > 1)]


def each_moved(names: Sequence[str], weights: tuple[float, float]) -> list[Setting]:
    """Return the settings with one constant moved: of `names`, or of all if there are none. Raises UsageError."""
    known = constants(weights)
    _check(names, known)
    return [((name, value),) for name in names or known for value in moved(name, known[name])]


def grid(file: Path | None, weights: tuple[float, float]) -> list[Setting]:
    """Return the combinations of a JSON object of lists of values by constant, or of `GRID`; the unchanged setting is
    the first. Raises UsageError."""
    tried, name = (GRID, "the grid") if file is None else (_read(file), str(file))
    known = constants(weights)
    if WEIGHT not in known:
        tried = {name: values for name, values in tried.items() if name != WEIGHT}
    _check(list(tried), known)
    combined = [tuple(zip(tried, values, strict=True)) for values in product(*tried.values())]
    if len(combined) > MOST_COMBINATIONS:
        raise UsageError(
            f"{name} has {len(combined)} combinations", hint=f"try at most {MOST_COMBINATIONS}, each is a search of all"
        )
    return [UNCHANGED, *(each for each in combined if any(known[name] != value for name, value in each))]


@contextmanager
def changed(setting: Setting) -> Iterator[None]:
    """Search with these values inside the block."""
    before = [(_module(name), name, getattr(_module(name), name)) for name, _ in setting if name != WEIGHT]
    try:
        for name, value in setting:
            if name != WEIGHT:
                setattr(_module(name), name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def weights_in(setting: Setting, weights: tuple[float, float]) -> tuple[float, float]:
    """Return the weights of vectors and keywords in a setting."""
    vector = dict(setting).get(WEIGHT)
    return weights if vector is None else (vector, round(1 - vector, 9))


def leave_one_out(corpora: Sequence[Mapping[Setting, Sequence[Outcome]]]) -> Choice:
    """Measure each conversation in the setting that is best for all others, of those that every corpus was measured in.

    Best: the highest mean of recall@10 and nDCG@10 over the questions of the usual categories, each corpus with the
    same weight; the first of equal ones. Raises UsageError if there is only one conversation.
    """
    totals = [_totals(corpus) for corpus in corpora]
    if sum(len(each[UNCHANGED]) for each in totals) < 2:
        raise UsageError("one conversation cannot be left out of one", hint="measure two or more")
    measured: list[list[Outcome]] = []
    chosen: Counter[Setting] = Counter()
    for at, corpus in enumerate(corpora):
        measured.append([])
        for left_out in dict.fromkeys(row.conversation for row in corpus[UNCHANGED]):
            best = max(corpus, key=lambda setting: _fit(totals, setting, (at, left_out)))
            chosen[best] += 1
            measured[-1] += [row for row in corpus[best] if row.conversation == left_out]
    return Choice(measured, chosen)


_Totals = Mapping[Setting, Mapping[str, tuple[float, int]]]


def _totals(corpus: Mapping[Setting, Sequence[Outcome]]) -> _Totals:
    """Return the sum and the number of each conversation's questions, by setting."""
    found: dict[Setting, dict[str, tuple[float, int]]] = {}
    for setting, rows in corpus.items():
        sums = found.setdefault(setting, {})
        for row in rows:
            if row.usual:
                total, count = sums.get(row.conversation, (0.0, 0))
                sums[row.conversation] = total + (row.recall_10 + row.ndcg_10) / 2, count + 1
    return found


def _fit(totals: Sequence[_Totals], setting: Setting, without: tuple[int, str]) -> float:
    means = []
    for at, corpus in enumerate(totals):
        kept = [each for name, each in corpus[setting].items() if (at, name) != without]
        if kept:
            means.append(sum(total for total, _ in kept) / sum(count for _, count in kept))
    return sum(means) / len(means)


def _module(name: str) -> ModuleType:
    return next(module for module in MODULES if hasattr(module, name))


def _check(names: Sequence[str], known: Mapping[str, float]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(f"the scoring has no constant {name}", hint=f"it has {', '.join(known)}")


def _read(file: Path) -> Mapping[str, Sequence[float]]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise UsageError(f"{file} cannot be read: {reason}", hint='give a file as {"ANSWER": [0.1, 0.3]}') from None
    if not isinstance(found, dict) or not all(_are_numbers(values) for values in found.values()):
        raise UsageError(f"{file} is not a grid", hint='give a file as {"ANSWER": [0.1, 0.3]}')
    return found


def _are_numbers(values: object) -> bool:
    return isinstance(values, list) and bool(values) and all(type(value) in {int, float} for value in values)
