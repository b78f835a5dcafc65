"""Diagnostics as people and programs read them. One file a format; `FORMATS` is the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from dslc.report.view import View

if TYPE_CHECKING:
    from dslc.compiler import Compilation
    from dslc.editing.fix import Applied


class Renderer(Protocol):
    """What the module of a format has."""

    def render(self, compilation: Compilation, view: View) -> str: ...
    def render_failure(self, message: str) -> str: ...


class Format(NamedTuple):
    """One way to report. `document`: the report is one document, and nothing else may stand beside it.

    `module` is loaded when it is first asked to render: a check does not pay for formats it does not write.
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
        applied: Sequence[Applied] | None = None,
    ) -> str:
        """The whole report, which ends in a line end. `applied`: what fixes were made before this compilation."""
        return self._renderer.render(compilation, View(colour, deny_warnings, applied))

    def render_failure(self, message: str) -> str:
        """What stands in the report's place when nothing could be checked, for the reason `message`."""
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
"""Every format by its name."""
