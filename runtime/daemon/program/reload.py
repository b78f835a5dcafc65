"""Loading a new generation from sources: read, compare contents, compile, build beside the running one, swap one
reference."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dslc import files
from dslc.catalog import Catalog
from dslc.compiler import Compilation, result
from dslc.diagnostics.diagnostic import Diagnostic, Severity, is_error
from dslc.program import BLOCK_FIELDS, Program
from dslc.source import Source
from dslc.vocabulary import Vocabulary
from dslc.workspace import Workspace
from runtime.errors import SymbiontError, UsageError


@dataclass(frozen=True, slots=True)
class ReloadError:
    """The reason why the last reload changed nothing: one line, with its place if it has one."""

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    code: str | None = None

    def text(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.file and self.line else ""
        return f"{place}{self.code + ' ' if self.code else ''}{self.message}"


@dataclass(frozen=True, slots=True)
class CompiledSources:
    """A compilation, and a digest that changes if and only if the name or content of a file changes."""

    compilation: Compilation
    digest: bytes
    left_out: tuple[Path, ...] = ()
    """Links below a program's folder to targets outside of it, or to hidden files; they were not read."""

    @property
    def program(self) -> Program | None:
        """The compiled program; None if it has errors."""
        return None if any(map(is_error, self.compilation.diagnostics)) else self.compilation.program

    @property
    def blank(self) -> set[str]:
        """Names of the files that contain only white space."""
        return {source.name for source in self.compilation.sources if not source.data.strip()}

    @property
    def nonblank(self) -> set[str]:
        """Names of the files that contain something else."""
        return {source.name for source in self.compilation.sources} - self.blank

    @property
    def problems(self) -> list[ReloadError]:
        """Errors, in the compiler's order."""
        sources = self.compilation.sources
        return [_problem(item, sources) for item in self.compilation.diagnostics if is_error(item)]

    def must_be_right(self) -> None:
        """Raise SymbiontError with the first error unless there is a program."""
        if self.program is None:
            raise SymbiontError(f"the program has errors: {self.problems[0].text()}", hint="dslc check shows them all")

    @property
    def warnings(self) -> list[str]:
        """Warnings of the compiler, and links that were not read, one line each with its place."""
        sources = self.compilation.sources
        found = [item for item in self.compilation.diagnostics if item.severity is Severity.WARNING]
        links = [
            f"{link}: the link leads out of its folder, or to a hidden file, and is ignored" for link in self.left_out
        ]
        return [*(_problem(item, sources).text() for item in found), *links]


def _problem(item: Diagnostic, sources: Sequence[Source]) -> ReloadError:
    source = next(source for source in sources if source.name == item.file)
    place = source.position(item.span.start)
    return ReloadError(item.message, item.file, place.line, place.column, item.code)


def _compile(paths: Sequence[Path], known: CompiledSources | None) -> CompiledSources:
    left_out: list[Path] = []
    sources = [Source(str(file), files.read(file)) for file in files.find(paths, left_out=left_out)]
    if known is not None and known.digest == _digest(sources) and known.left_out == tuple(left_out):
        return known
    return compile_sources(sources, left_out)


def compile_sources(sources: Sequence[Source], left_out: Sequence[Path] = ()) -> CompiledSources:
    """Compile sources that were read before."""
    workspace = Workspace(Vocabulary(Catalog.installed()))
    for source in sources:
        workspace.put(source)
    compilation = result(workspace)
    # Freed one by one: all threads wait while many objects are freed at once.
    for name in workspace.names:
        workspace.drop(name)
    return CompiledSources(compilation, _digest(sources), tuple(left_out))


async def compile_paths(paths: Sequence[Path], known: CompiledSources | None = None) -> CompiledSources:
    """Read and compile everything under `paths`, off the event loop; return `known` if the files are unchanged.

    Raises UsageError if a path is missing or cannot be read, or if nothing is declared at all: an empty tree, or one
    with empty files, is a mistake or an unfinished checkout, and never means "delete everything".
    """
    try:
        compiled = await asyncio.to_thread(_compile, paths, known)
    except OSError as error:
        what = (error.strerror or "cannot be read").lower()
        raise UsageError(
            f"{error.filename or paths[0]}: {what}", hint="name a file or folder of .symbiont programs"
        ) from None
    if not compiled.compilation.sources:
        where = ", ".join(str(path) for path in paths)
        raise UsageError(f"no .symbiont files under {where}", hint="name a file or folder of .symbiont programs")
    if compiled.program is not None and not any(getattr(compiled.program, field) for field in BLOCK_FIELDS):
        where = ", ".join(str(path) for path in paths)
        raise UsageError(f"no block is declared under {where}", hint="declare a webhook, a memory or an agent")
    return compiled


def empty_program() -> CompiledSources:
    """Return the program without declarations, for a root without a program."""
    return compile_sources([])


def _digest(sources: Sequence[Source]) -> bytes:
    digest = hashlib.sha256()
    for source in sources:
        digest.update(os.fsencode(f"{len(source.name)}:{source.name}:{len(source.data)}:"))
        digest.update(source.data)
    return digest.digest()
