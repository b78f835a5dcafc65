"""Code actions for diagnostics: their fixes, all safe fixes of a file at once, and `allow` comments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dslc.check.allow import ALLOW_COMMENT
from dslc.diagnostics.diagnostic import Diagnostic, Edit, Severity
from dslc.editing.fix import non_overlapping
from dslc.source import Source, Span

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Action:
    """Edits of one file, offered to the user. `about`: the diagnostic that the action resolves."""

    title: str
    sort: Literal["fix", "allow", "all"]
    edits: tuple[Edit, ...]
    about: Diagnostic | None = None

    @property
    def is_safe(self) -> bool:
        """True if it is a fix that may be applied without asking."""
        return self.sort == "fix" and self.about is not None and self.about.fix is not None and self.about.fix.safe


def actions(diagnostics: Sequence[Diagnostic], source: Source, asked: Span) -> Iterator[Action]:
    """Actions for the diagnostics that touch the span `asked`; the action for all fixes of the file is last."""
    for found in diagnostics:
        if found.span.end < asked.start or asked.end < found.span.start:
            continue
        if found.fix is not None:
            yield Action(_sentence(found.fix.message), "fix", found.fix.edits, found)
        if found.severity is not Severity.ERROR and found.code != "P505":
            yield Action(f"Allow {found.code} here", "allow", (_allow(found, source),), found)
    every = fix_all(diagnostics)
    if every:
        yield Action("Fix everything that can be fixed safely", "all", tuple(every))


def fix_all(diagnostics: Iterable[Diagnostic]) -> list[Edit]:
    """Edits of all safe fixes of a file that can be applied together."""
    safe = (found for found in diagnostics if found.fix and found.fix.safe)
    return [edit for found in non_overlapping(safe) if found.fix for edit in found.fix.edits]


def _allow(found: Diagnostic, source: Source) -> Edit:
    """Edit that adds an `allow` comment on the line above, or the code to an `allow` comment already there."""
    data, start = source.data, found.span.start
    line = max(data.rfind(b"\n", 0, start) + 1, len(_BOM) if data.startswith(_BOM) else 0)
    begin = data.rfind(b"\n", 0, max(line - 1, 0)) + 1
    above = data[begin:line].decode()
    comment = ALLOW_COMMENT.search(above)
    if comment is not None and not above[: comment.start()].strip():
        at = begin + len(above[: comment.end()].encode())
        return Edit(Span(at, at), f" {found.code}")
    rest = data[line:start]
    indent = rest[: len(rest) - len(rest.lstrip(b" \t"))].decode()
    end = "\r\n" if data[:line].endswith(b"\r\n") else "\n"
    return Edit(Span(line, line), f"{indent}# dslc: allow {found.code}{end}")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
