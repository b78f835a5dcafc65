"""Diagnostics as data; reports format them as text."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from dslc.source import Span


class Severity(StrEnum):
    """Severity of a diagnostic. A program with an error is not accepted."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

CODES: dict[str, tuple[Severity, str]] = {
    "S101": (_ERROR, "setting has no value"),
    "S102": (_ERROR, "string is not closed"),
    "S103": (_ERROR, "block is not closed"),
    "S104": (_ERROR, "unmatched `}`"),
    "S105": (_ERROR, "sign between key and value"),
    "S106": (_ERROR, 'quotes other than `"`'),
    "S107": (_ERROR, "unknown escape"),
    "S108": (_ERROR, "not UTF-8, too large or nested too deep"),
    "S109": (_ERROR, "invalid syntax"),
    "S110": (_ERROR, "text without quotes"),
    "S111": (_ERROR, "head of a block or `{` missing"),
    "S112": (_ERROR, "unexpected character"),
    "S113": (_ERROR, "invalid list"),
    "S114": (_ERROR, "syntax of another language"),
    "S115": (_ERROR, "invisible character"),
    "S116": (_ERROR, "quote inside a text"),
    "N201": (_ERROR, "unknown block"),
    "N202": (_ERROR, "unknown setting or nested block"),
    "N203": (_ERROR, "setting given twice"),
    "N204": (_ERROR, "two blocks with the same kind and name"),
    "N205": (_ERROR, "two webhooks on the same path"),
    "N206": (_ERROR, "invalid name"),
    "N207": (_NOTE, "block is not compiled"),
    "N208": (_ERROR, "two memories on the same or nested paths"),
    "N209": (_ERROR, "no such tool"),
    "R301": (_ERROR, "no such block"),
    "R302": (_NOTE, "declared but never used"),
    "R303": (_WARNING, "setting without effect"),
    "R304": (_WARNING, "no main agent"),
    "T401": (_ERROR, "wrong type"),
    "T402": (_ERROR, "out of bounds"),
    "T403": (_ERROR, "not one of the choices"),
    "T404": (_ERROR, "required setting missing"),
    "T405": (_ERROR, "settings exclude or require each other"),
    "T406": (_ERROR, "not a valid path, URL or JSONPath"),
    "P501": (_WARNING, "secret written in the file"),
    "P502": (_WARNING, "webhook accepts unverified requests"),
    "P503": (_ERROR, "no such secret backend"),
    "P504": (_WARNING, "filter uses unsigned data"),
    "P505": (_WARNING, "allow comment suppresses nothing"),
    "P506": (_WARNING, "token in the URL"),
}
"""All codes with their usual severity and their title. A code never changes its meaning."""


class Label(NamedTuple):
    """A second location that explains the first. `file`: name of its source."""

    message: str
    file: str
    span: Span


class Edit(NamedTuple):
    """Replace the bytes of `span` by `text`."""

    span: Span
    text: str


class Fix(NamedTuple):
    """Edits of the diagnostic's own file. Their texts never contain a secret.

    `safe`: the edits preserve the meaning of the program, or produce the only meaning that was possible; such a fix may
    be applied without confirmation. Any other fix is a guess that a person must confirm: a similar name may be that of
    another block.
    """

    message: str
    edits: tuple[Edit, ...]
    safe: bool = False


class Diagnostic(NamedTuple):
    """One problem at one location. Its texts never contain the value of a secret."""

    code: str
    severity: Severity
    message: str
    file: str
    span: Span
    labels: tuple[Label, ...] = ()
    hint: str | None = None
    fix: Fix | None = None


def is_error(diagnostic: Diagnostic) -> bool:
    """True if the diagnostic is an error, so that the program is not accepted."""
    return diagnostic.severity is Severity.ERROR
