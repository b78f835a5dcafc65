"""The report: Markdown tables, and everything as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from bench.harness.dialogues import ADVERSARIAL, TOGETHER
from bench.recall.constants import UNCHANGED, Choice, Setting, constants
from bench.recall.measure import Measured, Run
from bench.recall.scores import (
    GROUPS,
    Difference,
    Outcome,
    Score,
    adversarial,
    by_category,
    difference,
    together,
)

MEASURES: Final = {"recall_5": "recall@5", "recall_10": "recall@10", "ndcg_10": "nDCG@10"}
_CATEGORIES: Final = (*TOGETHER, ADVERSARIAL)


def overview(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield a table with a row for each corpus and way of searching."""
    yield from _head(2, "corpus", "search", *MEASURES.values(), *(name.replace("_", " ") for name in _CATEGORIES))
    for each in measured:
        for number, run in enumerate(each.runs):
            every, by = together(run.outcomes), by_category(run.outcomes)
            columns = [
                *((every, measure) for measure in MEASURES),
                *((by.get(name), "recall_10") for name in _CATEGORIES),
            ]
            if number == 0:
                counts = (str(score.queries) if score else "" for score, _ in columns)
                yield _row(each.corpus.source, "questions", *counts)
            yield _row(each.corpus.source, _name(run), *(_value(score, measure) for score, measure in columns))
    yield ""
    yield "recall@5, recall@10 and nDCG@10: four categories together; then recall@10 of each, adversarial separately."
    yield from (f"{each.corpus.described}." for each in measured)


def differences(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield a table of what the search gains over the better of FTS5 and the cosine; a loss is bold."""
    yield from _head(3, "corpus", "measure", "better of the two", "search, difference", "standard error")
    for each in measured:
        for measure, apart in compared(each).items():
            error = "" if apart.error is None else f"{apart.error:.3f}"
            yield _row(each.corpus.source, MEASURES[measure], apart.best, _gain(apart.mean), error)


def groups(measured: Sequence[Measured], by: str) -> Iterator[str]:
    """Yield a table with a row for each group of questions; where the search is below the better of FTS5 and the
    cosine, the difference is bold."""
    ways = list(dict.fromkeys(run.name for each in measured for run in each.runs))
    columns = [f"{measure} {way}" for measure in MEASURES.values() for way in (*ways, "difference")]
    yield from _head(2, "corpus", by, "questions", *columns)
    for each in measured:
        found = {run.name: GROUPS[by](run.outcomes) for run in each.runs}
        for group, score in next(iter(found.values())).items():
            cells = []
            for measure in MEASURES:
                values = {way: getattr(scores[group], measure) for way, scores in found.items()}
                cells += [f"{values[way]:.3f}" if way in values else "" for way in ways]
                plain = [values[way] for way in each.plain]
                cells.append(_gain(values[each.search.name] - max(plain)) if each.search else "")
            yield _row(each.corpus.source, group, str(score.queries), *cells)


def changes(measured: Sequence[Measured], settings: Sequence[Setting], weights: tuple[float, float]) -> Iterator[str]:
    """Yield a table with the effect of each of these settings, which change one constant."""
    known = constants(weights)
    yield from _head(1, "constant", "from", "to", "corpus", "recall@10", "nDCG@10", "adversarial recall@10")
    for [(name, value)] in settings:
        for each in measured:
            before, after = each.settings[UNCHANGED], each.settings[((name, value),)]
            cells = (
                _change(together(before), together(after), "recall_10"),
                _change(together(before), together(after), "ndcg_10"),
                _change(adversarial(before), adversarial(after), "recall_10"),
            )
            yield _row(name, f"{known[name]:g}", f"{value:g}", each.corpus.source, *cells)


def left_out(measured: Sequence[Measured], choice: Choice) -> Iterator[str]:
    """Yield a table of what the settings reach that were chosen without the measured conversation."""
    yield from _head(2, "corpus", "setting", "recall@10", "nDCG@10", "adversarial recall@10")
    for each, outcomes in zip(measured, choice.outcomes, strict=True):
        for name, rows in (("as it is", each.settings[UNCHANGED]), ("chosen on all other conversations", outcomes)):
            yield _row(each.corpus.source, name, *_three(rows))
    yield ""
    chosen = sorted(choice.chosen.items(), key=lambda each: -each[1])
    yield f"Chosen (times): {'; '.join(f'{_shown(setting)} ({times})' for setting, times in chosen)}."


def duration(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield how long the searches in other settings took."""
    seconds, searches = sum(each.seconds for each in measured), sum(each.searches for each in measured)
    yield f"{searches:,} searches in other settings took {seconds:.0f} s, {1000 * seconds / searches:.1f} ms each."


def compared(measured: Measured) -> Mapping[str, Difference]:
    """Return the search's difference to the better of FTS5 and the cosine, by measure."""
    if measured.search is None or together(measured.search.outcomes) is None:
        return {}
    rows = measured.search.outcomes
    return {measure: difference(rows, measured.plain, measure) for measure in MEASURES}


def as_json(
    embedding: str | None,
    measured: Sequence[Measured],
    weights: tuple[float, float],
    moved: Sequence[Setting],
    choice: Choice | None,
) -> dict[str, Any]:
    """Return all measurements."""
    report: dict[str, Any] = {"embedding": embedding, "corpora": [_corpus(each, moved) for each in measured]}
    if moved:
        report["constants"] = constants(weights)
    if choice is not None:
        report["leave_one_out"] = {
            "chosen": [{"setting": dict(setting), "times": times} for setting, times in choice.chosen.items()],
            "corpora": [
                {"source": each.corpus.source, "scores": _scores(outcomes)}
                for each, outcomes in zip(measured, choice.outcomes, strict=True)
            ],
        }
    return report


def _corpus(measured: Measured, moved: Sequence[Setting]) -> dict[str, Any]:
    return {
        "source": measured.corpus.source,
        "licences": measured.corpus.licences,
        "conversations": len(measured.corpus.conversations),
        "items": sum(len(conversation.items) for conversation in measured.corpus.conversations),
        "runs": [
            {
                "name": run.name,
                "vector_weight": run.weights and run.weights[0],
                "keyword_weight": run.weights and run.weights[1],
                "scores": _scores(run.outcomes),
                **{
                    f"by_{name}": {group: asdict(score) for group, score in by(run.outcomes).items()}
                    for name, by in GROUPS.items()
                    if name != "category"
                },
            }
            for run in measured.runs
        ],
        "differences": {measure: apart._asdict() for measure, apart in compared(measured).items()},
        "moved": [{"setting": dict(each), "scores": _scores(measured.settings[each])} for each in moved],
        "searches_in_settings": {"number": measured.searches, "seconds": measured.seconds},
    }


def _scores(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    every = together(outcomes)
    found = {category: asdict(score) for category, score in by_category(outcomes).items()}
    return found | ({"together": asdict(every)} if every else {})


def _three(outcomes: Sequence[Outcome]) -> tuple[str, str, str]:
    every = together(outcomes)
    return _value(every, "recall_10"), _value(every, "ndcg_10"), _value(adversarial(outcomes), "recall_10")


def _name(run: Run) -> str:
    return run.name if run.weights is None else f"{run.name} {run.weights[0]:g}/{run.weights[1]:g}"


def _shown(setting: Setting) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in setting) or "as it is"


def _value(score: Score | None, measure: str) -> str:
    return "" if score is None else f"{getattr(score, measure):.3f}"


def _change(before: Score | None, after: Score | None, measure: str) -> str:
    return "" if before is None or after is None else _signed(getattr(after, measure) - getattr(before, measure))


def _gain(value: float) -> str:
    shown = _signed(value)
    return f"**{shown}**" if shown.startswith("-") else shown


def _signed(value: float) -> str:
    shown = f"{value:+.3f}"
    return shown if float(shown) else "0"


def _head(left: int, *columns: str) -> Iterator[str]:
    """Yield the head of a table; `left`: how many columns are text."""
    yield _row(*columns)
    yield "|" + "---|" * left + "---:|" * (len(columns) - left)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
