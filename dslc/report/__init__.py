"""Report formats for diagnostics, one file each; `FORMATS` is the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from dslc.compiler import Compilation
    from dslc.editing.fix import AppliedFix


class View(NamedTuple):
    """Options of a report, and data it shows besides the diagnostics. `deny_warnings`: a warning fails the check.
    `applied`: the fixes applied before the compilation; None if fixes were not requested."""

    colour: bool = False
    deny_warnings: bool = False
    applied: Sequence[AppliedFix] | None = None


class Renderer(Protocol):
    """Functions of a format's module."""

    def render(self, compilation: Compilation, view: View) -> str: ...
    def render_failure(self, message: str) -> str: ...


class Format(NamedTuple):
    """A report format. `document`: the report is a single document; nothing else may be written to the same output.

    `module` is imported when it first renders, so unused formats cost no start-up time.
    """

    name: str
    module: str
    document: bool = True

    def render(
        self,
        compilation: Compilation,
        *,
        colour: bool = False,
        deny_warnings: bool = False,
        applied: Sequence[AppliedFix] | None = None,
    ) -> str:
        """Render the whole report, which ends with a line end. `applied`: the fixes applied before this compilation."""
        return self._renderer.render(compilation, View(colour, deny_warnings, applied))

    def render_failure(self, message: str) -> str:
        """Render the report of a check that could not run, for the reason `message`."""
        return self._renderer.render_failure(message)

    @property
    def _renderer(self) -> Renderer:
        return cast("Renderer", import_module(self.module))


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        form.name: form
        for form in (
            Format("text", "dslc.report.text", document=False),
            Format("json", "dslc.report.json"),
            Format("github", "dslc.report.github", document=False),
            Format("gitlab", "dslc.report.gitlab"),
            Format("sarif", "dslc.report.sarif"),
            Format("junit", "dslc.report.junit"),
        )
    }
)
"""Formats by name."""
