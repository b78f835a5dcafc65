"""The whole compilation, without any IO: sources to program and diagnostics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dslc.catalog import Catalog
from dslc.diagnostic import Diagnostic
from dslc.program import Program
from dslc.source import Source
from dslc.tree import BlockNode
from dslc.vocabulary import Vocabulary
from dslc.workspace import Workspace

_HOMES = {"memory": "memories", "webhook": "webhooks", "agent": "agents"}


@dataclass(frozen=True)
class Compilation:
    """What came of a compilation. `blocks`: how many blocks of ours the files hold."""

    program: Program
    diagnostics: tuple[Diagnostic, ...]
    sources: tuple[Source, ...]
    blocks: int


def compile(sources: Iterable[Source], catalog: Catalog) -> tuple[Program, list[Diagnostic]]:  # noqa: A001
    """Compile all sources as one program.

    Returns the program of every block that is right and the diagnostics of all files, files in the given order and
    each in source order. Nothing is raised for wrong input; whether to take a program with errors is the caller's
    decision.
    """
    done = analyse(sources, catalog)
    return done.program, list(done.diagnostics)


def analyse(sources: Iterable[Source], catalog: Catalog) -> Compilation:
    """`compile`, with what reports want to know beside it."""
    workspace = Workspace(Vocabulary(catalog))
    for source in sources:
        workspace.put(source)
    return result(workspace)


def result(workspace: Workspace) -> Compilation:
    """The compilation of all files of a workspace."""
    files = [workspace.checked(name) for name in workspace.names]
    diagnostics = tuple(found for name in workspace.names for found in workspace.diagnostics(name))
    nodes = (node for file in files for piece in file.file.pieces for node in piece.blocks)
    blocks = sum(isinstance(node, BlockNode) for node in nodes)
    return Compilation(_program(workspace), diagnostics, tuple(file.file.source for file in files), blocks)


def _program(workspace: Workspace) -> Program:
    parts: dict[str, dict[str, Any]] = {home: {} for home in _HOMES.values()}
    taken, origins = set(), {}
    for name in workspace.names:
        file = workspace.checked(name)
        source = file.file.source
        for piece, checked in zip(file.file.pieces, file.pieces, strict=True):
            for block in checked.blocks:
                key = (block.kind, block.name)
                if block.model is not None and key not in taken:
                    parts[_HOMES[block.kind]][block.name] = block.model
                    line = source.position(source.offset(piece.start + block.node.start_pos)).line
                    origins[key] = f"{name}:{line}"
                taken.add(key)
    return Program(**parts, origins=origins)
