"""Compilation without IO: from sources to a program and diagnostics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from dslc.catalog import Catalog
from dslc.diagnostics.collector import DiagnosticCollector, relocate
from dslc.diagnostics.diagnostic import Diagnostic
from dslc.program import BLOCK_FIELDS, Program
from dslc.source import Source
from dslc.syntax.tree import BlockNode
from dslc.vocabulary import Vocabulary
from dslc.workspace import Workspace


class Compilation(NamedTuple):
    """The result of a compilation. `blocks`: number of blocks of this language in the files."""

    program: Program
    diagnostics: tuple[Diagnostic, ...]
    sources: tuple[Source, ...]
    blocks: int


def analyse(sources: Iterable[Source], catalog: Catalog, *, build: bool = True) -> Compilation:
    """Compile all sources as one program.

    Returns the program with all valid blocks, and the diagnostics of all files: files in the given order, each in
    source order. Invalid input raises nothing; the caller decides whether to use a program with errors. Without `build`
    the program is empty, and no model is built.
    """
    workspace = Workspace(Vocabulary(catalog))
    for source in sources:
        workspace.put(source)
    return result(workspace, build=build)


def result(workspace: Workspace, *, build: bool = True) -> Compilation:
    """The compilation of all files of a workspace. Without `build` its program is empty, and no model is built."""
    files = [workspace.checked_file(name) for name in workspace.names]
    diagnostics = [found for name in workspace.names for found in workspace.diagnostics(name)]
    program = _program(workspace, diagnostics) if build else Program()
    nodes = (node for file in files for section in file.file.sections for node in section.blocks)
    blocks = sum(isinstance(node, BlockNode) for node in nodes)
    return Compilation(program, tuple(diagnostics), tuple(file.file.source for file in files), blocks)


def _program(workspace: Workspace, diagnostics: list[Diagnostic]) -> Program:
    """Build all valid blocks; errors of model validators are appended to `diagnostics`."""
    from dslc.check.model import model_of  # imports pydantic, which checks do not need

    parts: dict[str, dict[str, Any]] = {field: {} for field in BLOCK_FIELDS}
    fields = {kind: field for field, kind in BLOCK_FIELDS.items()}
    taken, origins = set(), {}
    for name in workspace.names:
        file = workspace.checked_file(name)
        source = file.file.source
        for section, checked in zip(file.file.sections, file.sections, strict=True):
            for block in checked.blocks:
                key = (block.kind, block.name)
                outcome = model_of(block)
                if outcome.model is not None and key not in taken:
                    parts[fields[block.kind]][block.name] = outcome.model
                    line = source.position(source.offset(section.start + block.node.start_pos)).line
                    origins[key] = f"{name}:{line}"
                taken.add(key)
                for message, place in outcome.problems:
                    collector = DiagnosticCollector(checked.parsed.text)
                    collector.add("T401", message, place)
                    diagnostics.append(relocate(collector.found[0], name, section.offset))
    return Program(**parts, origins=origins)
