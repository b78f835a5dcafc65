"""Applies the fixes that diagnostics carry, as far as they make a program better."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dslc.compiler import Compilation
from dslc.diagnostic import Diagnostic, Edit, is_error
from dslc.edit import apply
from dslc.source import Position, Source, Span

_ROUNDS = 16
_TRIES = 200  # compilations; only programs where fix after fix is refused come near it
_AGAINST = ("S", "N203")
Analyse = Callable[[Sequence[Source]], Compilation]


@dataclass(frozen=True, slots=True)
class Applied:
    """A fix that was made. `position`: where its diagnostic stood in the text it was applied to."""

    code: str
    message: str
    file: str
    position: Position


@dataclass(frozen=True, slots=True)
class Refused:
    """A fix that was not made: `error` would have come up at what it writes."""

    message: str
    file: str
    position: Position
    error: Diagnostic


@dataclass
class Fixed:
    """What came of fixing: the compilation of the fixed sources, and what was and was not done to get there."""

    compilation: Compilation
    applied: list[Applied] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


def fix(compilation: Compilation, analyse: Analyse) -> Fixed:
    """Apply the fixes of a compilation, and those that come up then, until none is left.

    A fix is refused when what it wrote cannot be read, or was given there already: the word is spelt right then, and
    something else was meant. Other errors that it brings to light are none of its doing. Fixes that overlap are made
    one after the other. `analyse` compiles sources; it is called once when no fix is refused and none overlap.
    """
    work = _Work(compilation, analyse)
    for _ in range(_ROUNDS):
        batch = work.batch()
        if not batch:
            break
        earlier = len(work.done.applied)
        work.settle(batch)
        work.done.applied[earlier:] = sorted(
            work.done.applied[earlier:], key=lambda made: (made.file, made.position.offset)
        )
    return work.done


class _Work:
    def __init__(self, compilation: Compilation, analyse: Analyse) -> None:
        self.done = Fixed(compilation)
        self.analyse = analyse
        self.tries = 0
        self._refused: set[tuple[str, str, str]] = set()

    def batch(self) -> list[Diagnostic]:
        """Fixes that can be made together, in the order of files and places."""
        found = [diagnostic for diagnostic in self.done.compilation.diagnostics if self._open(diagnostic)]
        ends: Counter[str] = Counter()
        batch = []
        for diagnostic in sorted(found, key=lambda diagnostic: (diagnostic.file, _hull(diagnostic).start)):
            hull = _hull(diagnostic)
            if hull.start >= ends[diagnostic.file]:
                batch.append(diagnostic)
                ends[diagnostic.file] = hull.end + 1  # two that touch might want one blank
        return batch

    def _open(self, diagnostic: Diagnostic) -> bool:
        return diagnostic.fix is not None and _identity(diagnostic) not in self._refused

    def settle(self, batch: Sequence[Diagnostic]) -> None:
        """Make these fixes; when some of them go wrong, find out which by halves, from the end of the files on."""
        if self.tries >= _TRIES:
            self._refused |= {_identity(diagnostic) for diagnostic in batch}
            return
        self.tries += 1
        after = self.analyse(_edited(self.done.compilation.sources, batch))
        left = [diagnostic for diagnostic in self.done.compilation.diagnostics if diagnostic not in batch]
        wrong = _errors_at(_written(batch), left, after)
        if not wrong:
            sources = {source.name: source for source in self.done.compilation.sources}
            self.done.applied += [_applied(diagnostic, sources[diagnostic.file]) for diagnostic in batch]
            self.done.compilation = after
        elif len(batch) == 1:
            self._refuse(batch[0], wrong[0])
        else:
            half = len(batch) // 2
            self.settle(batch[half:])
            self.settle(batch[:half])

    def _refuse(self, diagnostic: Diagnostic, error: Diagnostic) -> None:
        self._refused.add(_identity(diagnostic))
        source = next(source for source in self.done.compilation.sources if source.name == diagnostic.file)
        made = _applied(diagnostic, source)
        self.done.refused.append(Refused(made.message, made.file, made.position, error))


def _identity(diagnostic: Diagnostic) -> tuple[str, str, str]:
    """What a problem is known by when its place has moved."""
    return diagnostic.file, diagnostic.code, diagnostic.message


def _edits(diagnostic: Diagnostic) -> tuple[Edit, ...]:
    return diagnostic.fix.edits if diagnostic.fix is not None else ()


def _hull(diagnostic: Diagnostic) -> Span:
    edits = _edits(diagnostic)
    return Span(min(edit.span.start for edit in edits), max(edit.span.end for edit in edits))


def _applied(diagnostic: Diagnostic, source: Source) -> Applied:
    message = diagnostic.fix.message if diagnostic.fix is not None else ""
    return Applied(diagnostic.code, message, diagnostic.file, source.position(diagnostic.span.start))


def _edited(sources: Iterable[Source], batch: Iterable[Diagnostic]) -> list[Source]:
    edits: dict[str, list[Edit]] = defaultdict(list)
    for diagnostic in batch:
        edits[diagnostic.file] += _edits(diagnostic)
    return [
        Source(source.name, apply(source.data, edits[source.name])) if source.name in edits else source
        for source in sources
    ]


def _written(batch: Iterable[Diagnostic]) -> dict[str, list[Span]]:
    """Where in the edited files the texts of these fixes stand."""
    spans: dict[str, list[Span]] = defaultdict(list)
    moved: Counter[str] = Counter()
    for diagnostic in batch:
        for edit in sorted(_edits(diagnostic), key=lambda edit: edit.span.start):
            start, size = edit.span.start + moved[diagnostic.file], len(edit.text.encode())
            spans[diagnostic.file].append(Span(start, start + size))
            moved[diagnostic.file] += size - (edit.span.end - edit.span.start)
    return spans


def _errors_at(
    written: Mapping[str, Sequence[Span]], expected: Iterable[Diagnostic], after: Compilation
) -> list[Diagnostic]:
    """The errors of `after` that were not expected and say that something should not have been written so."""
    known = Counter(_identity(diagnostic) for diagnostic in expected if is_error(diagnostic))
    found = []
    for diagnostic in filter(is_error, after.diagnostics):
        if not diagnostic.code.startswith(_AGAINST):
            continue
        known[_identity(diagnostic)] -= 1
        places = [(diagnostic.file, diagnostic.span), *((label.file, label.span) for label in diagnostic.labels)]
        if known[_identity(diagnostic)] < 0 and any(_touches(span, written.get(file, ())) for file, span in places):
            found.append(diagnostic)
    return found


def _touches(span: Span, spans: Iterable[Span]) -> bool:
    return any(span.start <= other.end and other.start <= span.end for other in spans)
