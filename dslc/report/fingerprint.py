"""Fingerprints of diagnostics that stay the same when lines above them move."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping

from dslc.diagnostics.diagnostic import Diagnostic
from dslc.report.mask import masked
from dslc.report.project import path_in_project
from dslc.source import Source


def fingerprints(diagnostics: Iterable[Diagnostic], sources: Mapping[str, Source]) -> list[str]:
    """Return a unique fingerprint, 32 hexadecimal digits, for each diagnostic.

    It is a hash of code, file, message, the words of the line without secrets, and a counter for otherwise equal
    diagnostics of a file. So it does not change if the line moves or is indented.
    """
    lines: dict[str, list[str]] = {}
    seen: Counter[str] = Counter()
    found = []
    for diagnostic in diagnostics:
        source = sources[diagnostic.file]
        if source.name not in lines:
            lines[source.name] = masked(source.text or "").split("\n")
        number = source.position(diagnostic.span.start).line
        line = lines[source.name][number - 1] if number <= len(lines[source.name]) else ""
        parts = (diagnostic.code, path_in_project(diagnostic.file), diagnostic.message, " ".join(line.split()))
        problem = "\0".join(parts)
        seen[problem] += 1
        text = f"{problem}\0{seen[problem]}"
        found.append(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32])
    return found
