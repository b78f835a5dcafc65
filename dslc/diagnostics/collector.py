"""Collects the diagnostics of one piece of a text while it is read and checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from dslc.diagnostics.diagnostic import CODES, Diagnostic, Edit, Fix, Label, Severity
from dslc.diagnostics.invisible import Places
from dslc.diagnostics.passwords import without_passwords
from dslc.source import Span

_MAX_SHOWN = 200


class HasPosition(Protocol):
    """Anything that knows where in the text it stands: tokens and nodes of the tree."""

    @property
    def start_pos(self) -> int | None: ...
    @property
    def end_pos(self) -> int | None: ...


class Place:
    """A stretch of the text, by indexes into it."""

    __slots__ = ("end_pos", "start_pos")

    def __init__(self, start: int, end: int) -> None:
        self.start_pos = start
        self.end_pos = end


class DiagnosticCollector:
    """The diagnostics of one piece. Until they are placed, spans are relative to the piece and the file is ""."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[Diagnostic] = []
        self._offsets = Places(text)

    @property
    def full(self) -> bool:
        """Whether there are more than any report shows: then no more time goes into looking for the nearest name."""
        return len(self.found) > _MAX_SHOWN

    def add(
        self,
        code: str,
        message: str,
        place: HasPosition,
        *,
        hint: str | None = None,
        labels: Iterable[Label] = (),
        fix: Fix | None = None,
        severity: Severity | None = None,
    ) -> None:
        """Note a problem at `place`, with its code's usual severity unless another is given.

        What it quotes of the text loses the passwords of URLs, and a fix that would write one is left out.
        """
        span = self._offsets.span(place.start_pos or 0, place.end_pos or 0)
        severity, message = severity or CODES[code][0], without_passwords(message)
        hint = without_passwords(hint) if hint else hint
        if fix is not None and any(without_passwords(edit.text) != edit.text for edit in fix.edits):
            fix = None
        self.found.append(Diagnostic(code, severity, message, "", span, tuple(labels), hint, fix))

    def label(self, message: str, place: HasPosition) -> Label:
        """A label on a place in this piece."""
        return Label(message, "", self._offsets.span(place.start_pos or 0, place.end_pos or 0))

    def label_after(self, message: str, head: str) -> list[Label]:
        """A label on the first word of the head that stands right behind this piece; none when the text ends there."""
        end = len(self.text.encode())
        return [Label(message, "", Span(end, end + len(word))) for word in head.split()[:1]]

    def fix(self, message: str, *edits: tuple[int, int, str], safe: bool = False) -> Fix:
        """A fix out of edits (start, end, new text), by indexes into the text. `safe`: see `Fix`."""
        return Fix(message, tuple(Edit(self._offsets.span(start, end), text) for start, end, text in edits), safe)


def relocated(diagnostic: Diagnostic, file: str, offset: int) -> Diagnostic:
    """A piece's diagnostic in its file, where the piece begins `offset` bytes after the beginning."""

    def moved(span: Span) -> Span:
        return Span(span.start + offset, span.end + offset)

    fix = diagnostic.fix
    return Diagnostic(
        diagnostic.code,
        diagnostic.severity,
        diagnostic.message,
        file,
        moved(diagnostic.span),
        tuple(Label(label.message, file, moved(label.span)) for label in diagnostic.labels),
        diagnostic.hint,
        fix and fix._replace(edits=tuple(Edit(moved(edit.span), edit.text) for edit in fix.edits)),
    )
