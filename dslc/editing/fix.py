"""Application of the fixes of diagnostics, except those that would cause new errors."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dslc.compiler import Compilation
from dslc.diagnostics.diagnostic import Diagnostic, Edit
from dslc.editing.edit import apply
from dslc.source import Position, Source, Span

_TRIES = 200  # compilations; reached only if many fixes are refused one by one
_AGAINST = ("S", "N203")
Analyse = Callable[[Sequence[Source]], Compilation]


@dataclass(frozen=True, slots=True)
class AppliedFix:
    """An applied fix. `position`: that of its diagnostic in the text before the fix."""

    code: str
    message: str
    file: str
    position: Position


@dataclass(frozen=True, slots=True)
class RefusedFix:
    """A fix that was not applied, because it would have caused `error`."""

    message: str
    file: str
    position: Position
    error: Diagnostic


@dataclass
class FixResult:
    """Result of fixing: the compilation of the fixed sources, the applied and the refused fixes."""

    compilation: Compilation
    applied: list[AppliedFix] = field(default_factory=list)
    refused: list[RefusedFix] = field(default_factory=list)


def fix(compilation: Compilation, analyse: Analyse, *, unsafe: bool = False) -> FixResult:
    """Apply the safe fixes of a compilation repeatedly until none is left. `unsafe`: apply all fixes.

    A fix is refused if the text it inserts causes a syntax error or repeats a setting that is already there: then the
    fixed word was spelt correctly, and the mistake is elsewhere. Other new errors do not count against the fix.
    Overlapping fixes are applied one after the other. `analyse` compiles sources; it is called once if no fix is
    refused and none overlap.
    """
    state = _FixState(compilation, analyse, unsafe=unsafe)
    while state.tries < _TRIES and (batch := state.batch()):
        state.settle(batch)
    return state.result


def non_overlapping(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Diagnostics of one file whose fixes can be applied together, in source order.

    No edit overlaps or touches one of an earlier fix: two fixes that touch might use the same blank.
    """
    taken: list[tuple[int, int]] = []
    kept = []
    for diagnostic in sorted(found, key=lambda each: min((edit.span.start for edit in _edits(each)), default=0)):
        spans = [(edit.span.start, edit.span.end) for edit in _edits(diagnostic)]
        if spans and all(_is_free(taken, start, end) for start, end in spans):
            kept.append(diagnostic)
            for span in spans:
                insort(taken, span)
    return kept


def _is_free(taken: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    at = bisect_right(taken, (start, -1))
    return (at == 0 or taken[at - 1][1] < start) and (at == len(taken) or end < taken[at][0])


class _FixState:
    def __init__(self, compilation: Compilation, analyse: Analyse, *, unsafe: bool) -> None:
        self.result = FixResult(compilation)
        self.analyse = analyse
        self.unsafe = unsafe
        self.tries = 0
        self._refused: set[tuple[str, str, str]] = set()

    def batch(self) -> list[Diagnostic]:
        """Diagnostics whose fixes can be applied together, ordered by file and offset."""
        found: dict[str, list[Diagnostic]] = defaultdict(list)
        for diagnostic in self.result.compilation.diagnostics:
            if self._is_open(diagnostic):
                found[diagnostic.file].append(diagnostic)
        return [diagnostic for file in sorted(found) for diagnostic in non_overlapping(found[file])]

    def _is_open(self, diagnostic: Diagnostic) -> bool:
        wanted = diagnostic.fix is not None and (diagnostic.fix.safe or self.unsafe)
        return wanted and _identity(diagnostic) not in self._refused

    def settle(self, batch: Sequence[Diagnostic]) -> None:
        """Apply these fixes except those that cause errors. If all do, try only the first; refuse it if it fails."""
        sources = {source.name: source for source in self.result.compilation.sources}
        while True:
            self.tries += 1
            after = self.analyse(_edited_sources(sources.values(), batch))
            wrong = _refusals(batch, self.result.compilation, after)
            if not wrong:
                self.result.applied += [_applied_fix(diagnostic, sources[diagnostic.file]) for diagnostic in batch]
                self.result.compilation = after
                return
            if len(batch) == 1:
                self._refuse(_applied_fix(batch[0], sources[batch[0].file]), _identity(batch[0]), wrong[batch[0]])
                return
            batch = [diagnostic for diagnostic in batch if diagnostic not in wrong] or batch[:1]

    def _refuse(self, fix: AppliedFix, identity: tuple[str, str, str], error: Diagnostic) -> None:
        self._refused.add(identity)
        self.result.refused.append(RefusedFix(fix.message, fix.file, fix.position, error))


def _identity(diagnostic: Diagnostic) -> tuple[str, str, str]:
    """Identity of a diagnostic that does not depend on its position."""
    return diagnostic.file, diagnostic.code, diagnostic.message


def _edits(diagnostic: Diagnostic) -> tuple[Edit, ...]:
    return diagnostic.fix.edits if diagnostic.fix is not None else ()


def _applied_fix(diagnostic: Diagnostic, source: Source) -> AppliedFix:
    message = diagnostic.fix.message if diagnostic.fix is not None else ""
    return AppliedFix(diagnostic.code, message, diagnostic.file, source.position(diagnostic.span.start))


def _edited_sources(sources: Iterable[Source], batch: Iterable[Diagnostic]) -> list[Source]:
    edits: dict[str, list[Edit]] = defaultdict(list)
    for diagnostic in batch:
        edits[diagnostic.file] += _edits(diagnostic)
    return [
        Source(source.name, apply(source.data, edits[source.name])) if source.name in edits else source
        for source in sources
    ]


def _inserted_spans(batch: Iterable[Diagnostic]) -> dict[str, list[tuple[Span, Diagnostic]]]:
    """Spans of the inserted texts in the edited files, by file, each with its diagnostic."""
    places: dict[str, list[tuple[Span, Diagnostic]]] = defaultdict(list)
    moved: Counter[str] = Counter()
    for diagnostic in batch:
        for edit in sorted(_edits(diagnostic), key=lambda edit: edit.span.start):
            start, size = edit.span.start + moved[diagnostic.file], len(edit.text.encode())
            places[diagnostic.file].append((Span(start, start + size), diagnostic))
            moved[diagnostic.file] += size - (edit.span.end - edit.span.start)
    return places


def _refusals(batch: Sequence[Diagnostic], before: Compilation, after: Compilation) -> dict[Diagnostic, Diagnostic]:
    """Fixes that must be refused, each with the error it causes.

    The error is new and its span, or else the span of one of its labels, touches text that the fix inserted. Errors
    are compared by position and code: their messages may contain text that a fix inserted.
    """
    made, inserted, offset_after = set(batch), _inserted_spans(batch), _offset_mapper(batch)
    known = Counter((each.file, each.code, offset_after(each)) for each in before.diagnostics if each not in made)
    found: dict[Diagnostic, Diagnostic] = {}
    for error in after.diagnostics:
        place = (error.file, error.code, error.span.start)
        known[place] -= 1
        if known[place] < 0 and error.code.startswith(_AGAINST):
            labels = ((label.file, label.span) for label in error.labels)
            for file, span in ((error.file, error.span), *labels):
                guilty = [fixed for other, fixed in inserted.get(file, ()) if _touch(span, other)]
                if guilty:
                    found |= dict.fromkeys(guilty, error)
                    break
    return found


def _offset_mapper(batch: Iterable[Diagnostic]) -> Callable[[Diagnostic], int]:
    """Return a function that maps the start of a diagnostic to its offset after these fixes."""
    edits: dict[str, list[Edit]] = defaultdict(list)
    for diagnostic in batch:
        edits[diagnostic.file] += _edits(diagnostic)
    ends: dict[str, list[tuple[int, int]]] = {}  # of each edit, before and after
    for file, some in edits.items():
        by, ends[file] = 0, []
        for edit in sorted(some, key=lambda edit: edit.span.start):
            by += len(edit.text.encode()) - (edit.span.end - edit.span.start)
            ends[file].append((edit.span.end, edit.span.end + by))

    def offset_after(diagnostic: Diagnostic) -> int:
        start, passed = diagnostic.span.start, ends.get(diagnostic.file, ())
        number = bisect_right(passed, start, key=lambda end: end[0])
        return start + (passed[number - 1][1] - passed[number - 1][0] if number else 0)

    return offset_after


def _touch(one: Span, other: Span) -> bool:
    return one.start <= other.end and other.start <= one.end
