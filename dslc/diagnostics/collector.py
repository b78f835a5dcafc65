"""Collects the diagnostics of one section while it is parsed and checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from dslc.diagnostics.diagnostic import CODES, Diagnostic, Edit, Fix, Label, Severity
from dslc.diagnostics.invisible import Places
from dslc.diagnostics.passwords import without_passwords
from dslc.source import Span

_MAX_SHOWN = 200


class HasPosition(Protocol):
    """Anything with a position in the text: tokens and nodes of the tree."""

    @property
    def start_pos(self) -> int | None: ...
    @property
    def end_pos(self) -> int | None: ...


class Place:
    """A range of the text, as indexes into it."""

    __slots__ = ("end_pos", "start_pos")

    def __init__(self, start: int, end: int) -> None:
        self.start_pos = start
        self.end_pos = end


class DiagnosticCollector:
    """The diagnostics of one section. Spans are relative to the section and the file is "" until they are relocated."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[Diagnostic] = []
        self._offsets = Places(text)

    @property
    def full(self) -> bool:
        """True if there are more diagnostics than a report shows; then similar names are no longer searched for."""
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
        """Add a diagnostic at `place`, with the usual severity of its code unless `severity` is given.

        Passwords of URLs are removed from the message and the hint; a fix that contains one is dropped.
        """
        span = self._offsets.span(place.start_pos or 0, place.end_pos or 0)
        severity, message = severity or CODES[code][0], without_passwords(message)
        hint = without_passwords(hint) if hint else hint
        if fix is not None and any(without_passwords(edit.text) != edit.text for edit in fix.edits):
            fix = None
        self.found.append(Diagnostic(code, severity, message, "", span, tuple(labels), hint, fix))

    def label(self, message: str, place: HasPosition) -> Label:
        """A label at a place in this section."""
        return Label(message, "", self._offsets.span(place.start_pos or 0, place.end_pos or 0))

    def label_after(self, message: str, head: str) -> list[Label]:
        """A label at the first word of the head that directly follows this section; none if the text ends there."""
        end = len(self.text.encode())
        return [Label(message, "", Span(end, end + len(word))) for word in head.split()[:1]]

    def fix(self, message: str, *edits: tuple[int, int, str], safe: bool = False) -> Fix:
        """A fix from edits (start, end, new text), as indexes into the text. `safe`: see `Fix`."""
        return Fix(message, tuple(Edit(self._offsets.span(start, end), text) for start, end, text in edits), safe)


def relocate(diagnostic: Diagnostic, file: str, offset: int) -> Diagnostic:
    """Return a section's diagnostic relative to its file, in which the section begins at byte `offset`."""

    def shift(span: Span) -> Span:
        return Span(span.start + offset, span.end + offset)

    fix = diagnostic.fix
    return Diagnostic(
        diagnostic.code,
        diagnostic.severity,
        diagnostic.message,
        file,
        shift(diagnostic.span),
        tuple(Label(label.message, file, shift(label.span)) for label in diagnostic.labels),
        diagnostic.hint,
        fix and fix._replace(edits=tuple(Edit(shift(edit.span), edit.text) for edit in fix.edits)),
    )
