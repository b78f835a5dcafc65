"""Reference page of all diagnostic codes."""

from __future__ import annotations

from collections.abc import Iterator

from dslc.diagnostics.diagnostic import CODES
from dslc.explain.page import page as explanation
from dslc.reference.markdown import page, program, table

_GROUPS = {"S": "Syntax", "N": "Names", "R": "References", "T": "Values", "P": "Secrets and signatures"}

_INTRO = """
Each diagnostic has a code, whose meaning never changes. A program with an error is not loaded. A warning does not
prevent loading, but `--deny-warnings` turns it into an error for the exit code. A note is only information. The comment
`# dslc: allow CODE` on the line, or on the line above, silences a warning or note.
"""


def diagnostics() -> str:
    """Return the text of the page."""
    return page("Diagnostics", _INTRO, _table(), *_sections())


def _table() -> str:
    rows = [(f"[{code}](#{code.lower()})", severity.value, title) for code, (severity, title) in CODES.items()]
    return table(("code", "severity", "meaning"), rows)


def _sections() -> Iterator[str]:
    letter = ""
    for code in CODES:
        if code[0] != letter:
            letter = code[0]
            yield f"## {_GROUPS.get(letter, letter)}"
        about = explanation(code)
        yield f"### {code}"
        yield f"{about.severity.value.capitalize()}: {about.title}."
        yield about.what
        yield about.why
        yield "Wrong:"
        yield program(about.wrong, "wrong")
        yield "Right:"
        yield program(about.right, "right")
