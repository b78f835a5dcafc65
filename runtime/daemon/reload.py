"""Sources to a new generation: read, compare contents, compile, build beside the running one, swap one reference."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import dslc
from dslc.diagnostic import Diagnostic
from dslc.program import Program
from runtime.errors import SymbiontError, UsageError


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the last reload changed nothing: one line, and its place where it has one."""

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    code: str | None = None

    def text(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.file and self.line else ""
        return f"{place}{self.code + ' ' if self.code else ''}{self.message}"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program with what the compiler said of it. `program` is None when there is an error."""

    program: Program | None
    diagnostics: tuple[Diagnostic, ...]
    sources: tuple[dslc.Source, ...]
    digest: bytes
    """Changes when, and only when, a file's name or content does."""

    @property
    def problems(self) -> list[Problem]:
        return [_problem(item, self.sources) for item in self.diagnostics if item.severity == "error"]


def _problem(item: Diagnostic, sources: Sequence[dslc.Source]) -> Problem:
    source = next(source for source in sources if source.name == item.file)
    line, column = source.position(item.span.start)
    return Problem(item.message, item.file, line, column, item.code)


def _compile(paths: Sequence[Path]) -> Compiled:
    files = dslc.files.find(paths)
    sources = tuple(dslc.Source(str(file), file.read_bytes()) for file in files)
    program, diagnostics = dslc.compile(sources, dslc.load_catalog())
    wrong = any(item.severity == "error" for item in diagnostics)
    return Compiled(None if wrong else program, tuple(diagnostics), sources, _digest(sources))


async def compile_paths(paths: Sequence[Path]) -> Compiled:
    """Read and compile everything under `paths`, off the event loop.

    Raises UsageError when a path is missing or cannot be read, or when there is no program at all: an empty tree is a
    mistake or a moment in somebody's checkout, and never means "delete everything".
    """
    try:
        compiled = await asyncio.to_thread(_compile, paths)
    except OSError as error:
        what = (error.strerror or "cannot be read").lower()
        raise UsageError(f"{error.filename or paths[0]}: {what}", hint="name a file or folder of .symbiont programs") from None
    if not compiled.sources:
        where = ", ".join(str(path) for path in paths)
        raise UsageError(f"no .symbiont files under {where}", hint="name a file or folder of .symbiont programs")
    return compiled


def _digest(sources: Sequence[dslc.Source]) -> bytes:
    digest = hashlib.sha256()
    for source in sources:
        digest.update(f"{len(source.name)}:{source.name}:{len(source.data)}:".encode())
        digest.update(source.data)
    return digest.digest()
