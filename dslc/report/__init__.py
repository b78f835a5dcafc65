"""Diagnostics as people and programs read them. One file a format; `FORMATS` is the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dslc.compiler import Compilation


def _text(compilation: Compilation, *, colour: bool) -> str:
    from dslc.report.text import render

    return render(compilation, colour=colour)


def _json(compilation: Compilation, *, colour: bool) -> str:
    from dslc.report.json import render

    return render(compilation)


FORMATS: Mapping[str, Callable[..., str]] = {"text": _text, "json": _json}
"""Every format by its name: takes a compilation and `colour`, gives the whole report, which ends in a line end."""
