"""The files of the program that a command edits, and their changes."""

from __future__ import annotations

import fcntl
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.cli.client import call_daemon
from runtime.daemon.process.root import DAEMON_FILE, PROGRAM_FILE, Root, locate, named_folder
from runtime.errors import SymbiontError, UsageError

if TYPE_CHECKING:
    from dslc.compiler import Compilation
    from dslc.diagnostics.diagnostic import Diagnostic, Edit
    from dslc.parse import File
    from dslc.source import Source


@dataclass(frozen=True, slots=True)
class EditResult:
    """The result of an edit: new warnings, and the number of errors of the program, all of which it had before."""

    warnings: tuple[str, ...]
    errors: int


@dataclass(frozen=True)
class ProgramFiles:
    """The files of one program, as they are on disk. `root`: the root that runs it, if any."""

    paths: tuple[Path, ...]
    sources: dict[Path, Source]
    root: Root | None

    @cached_property
    def files(self) -> dict[Path, File]:
        """Every file, parsed."""
        from dslc.catalog import Catalog
        from dslc.parse import parse
        from dslc.vocabulary import Vocabulary

        vocabulary = Vocabulary(Catalog.installed())
        return {path: parse(source, vocabulary) for path, source in self.sources.items()}

    def file(self, path: Path) -> File:
        """Return a file to edit; an empty one if it does not exist. Raises SymbiontError if it has a syntax error."""
        from dslc.parse import File
        from dslc.source import Source

        file = self.files.get(path) or File(Source(display_path(path), b""))
        if not file.readable:
            _report(self._compilation._replace(diagnostics=file.diagnostics))
            raise SymbiontError(
                f"{display_path(path)} has a syntax error and cannot be edited",
                hint="correct it first; `dslc check` shows it",
            )
        return file

    @cached_property
    def _compilation(self) -> Compilation:
        return _compile(self.sources)

    def change(self, path: Path, edit: Edit) -> EditResult:
        """Write an edit of a file, unless it causes a new error; a file that becomes empty is removed.

        Raises SymbiontError, after a report of the errors, if nothing was written.
        """
        from dslc import files
        from dslc.diagnostics.diagnostic import Severity, is_error
        from dslc.editing.edit import apply
        from dslc.source import Source

        old = self.sources.get(path)
        data = apply(old.data if old else b"", [edit])
        after = _compile({**self.sources, path: Source(display_path(path), data)})
        new = _new_diagnostics(self._compilation, after)
        errors = tuple(
            found._replace(fix=None) for found in new if is_error(found)
        )  # the edit is not written, so there is nothing to fix
        if errors:
            _report(after._replace(diagnostics=errors))
            raise SymbiontError("nothing was written: the program would have a new error")
        self._refuse_empty(path, data, after)
        if old and not data.strip():
            files.remove(path, was=old.data)
        else:
            files.replace(path, data, was=old.data if old else None)
        warnings = tuple(found.message for found in new if found.severity is Severity.WARNING)
        return EditResult(warnings, sum(map(is_error, after.diagnostics)))

    def _refuse_empty(self, path: Path, data: bytes, after: Compilation) -> None:
        """Raise SymbiontError for a change that empties the program, which a daemon would not load."""
        from dslc.diagnostics.diagnostic import is_error
        from dslc.program import BLOCK_FIELDS

        if self.root is None:
            return
        right = not any(map(is_error, after.diagnostics))
        if right and not any(getattr(after.program, field) for field in BLOCK_FIELDS):
            raise SymbiontError(
                "nothing was written: the program would be empty, and daemons do not load an empty program",
                hint="stop the daemon instead, or add another block first",
            )
        if not data.strip() and any(path == named.resolve() for named in self.paths):
            raise SymbiontError(
                f"nothing was written: {display_path(path)} would be empty, and the daemon was started on that file",
                hint="start it without the file instead, or add another block to it first",
            )

    def webhooks(self) -> list[dict[str, Any]]:
        """Return every declared webhook, in the form in which `webhooks.list` returns an unmounted one.

        Raises SymbiontError, after a report, if the program has errors.
        """
        from dslc.diagnostics.diagnostic import is_error
        from runtime.database.schema import OWNER
        from runtime.secrets import origin_of
        from runtime.webhooks.routing.route import secret_from

        program, diagnostics = self._compilation.program, self._compilation.diagnostics
        if any(map(is_error, diagnostics)):
            _report(self._compilation._replace(diagnostics=tuple(filter(is_error, diagnostics))))
            raise SymbiontError("the program has errors, so its webhooks are not listed")
        return [
            {
                "name": name,
                "title": None,
                "user": OWNER,
                "path": webhook.path,
                "provider": webhook.provider.name,
                "agent": webhook.wakes,
                "declared": program.origins[("webhook", name)],
                "mounted": False,
                "problem": None,
                "secret": secret_from(map(origin_of, webhook.secret), verified=not webhook.insecure_allow_unverified),
                "url": None,
            }
            for name, webhook in sorted(program.webhooks.items())
        ]

    def has_daemon(self) -> bool:
        """True if a daemon runs this program now. `symbi mcp` also owns its root, but accepts no deliveries."""
        if self.root is not None:
            with suppress(SymbiontError):
                call_daemon(self.root, "webhook_mounts")
                return "public" in self.root.read(DAEMON_FILE)
        return False


@contextmanager
def program_files(explicit_root: Path | None, file: Path | None) -> Iterator[ProgramFiles]:
    """Open the program of a command, locked against other commands that edit it.

    That is the program of the root's last daemon, or without a root the current folder; if `file` is not part of it,
    the folder of `file`. Raises UsageError if a file cannot be read.
    """
    root = locate(Path.cwd(), os.environ, explicit_root)
    if root is None and (missing := named_folder(os.environ, explicit_root)) is not None:
        raise UsageError(f"no root here: {missing} contains no .symbi folder")
    folder = root.folder if root else Path.cwd()
    recorded = root.read(PROGRAM_FILE).get("paths") if root else None
    paths = tuple(Path(path) for path in recorded or [folder])
    if file is not None and not any(_includes(path, file) for path in paths):
        paths, root = (file.absolute().parent, file.absolute()), None
    with _lock_folder(paths[0]):
        yield ProgramFiles(paths, _read_sources(paths), root)


def _includes(path: Path, file: Path) -> bool:
    """True if the program under `path` includes, or would include, that file."""
    from dslc.files import SUFFIX

    for folder, inner in ((path.absolute(), file.absolute()), (path.resolve(), file.resolve())):
        if folder == inner:
            return True
        if folder.is_dir() and inner.is_relative_to(folder) and inner.suffix == SUFFIX:
            return not any(part.startswith(".") for part in inner.relative_to(folder).parts)
    return False


def _read_sources(paths: Sequence[Path]) -> dict[Path, Source]:
    from dslc import files
    from dslc.source import Source

    try:
        found = files.find(path for path in paths if path.exists())
        return {path.resolve(): Source(display_path(path), files.read(path)) for path in found}
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise UsageError(f"{error.filename or paths[0]}: {what}") from None


@contextmanager
def _lock_folder(path: Path) -> Iterator[None]:
    """Wait for other commands that edit this program. Folders that cannot be locked are not."""
    folder = path if path.is_dir() else path.parent
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{folder}: {(error.strerror or 'cannot be read').lower()}") from None
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def display_path(path: Path) -> str:
    """Return a path relative to the current folder if it is below it."""
    here, whole = Path.cwd(), path.absolute()
    return str(whole.relative_to(here)) if whole.is_relative_to(here) else str(whole)


def _compile(sources: dict[Path, Source]) -> Compilation:
    from dslc.catalog import Catalog
    from dslc.compiler import analyse

    return analyse(sources.values(), Catalog.installed())


def _new_diagnostics(before: Compilation, after: Compilation) -> list[Diagnostic]:
    """Return the diagnostics of `after` that `before` does not have, regardless of their position."""
    known = Counter((found.file, found.code, found.message) for found in before.diagnostics)
    new = []
    for found in after.diagnostics:
        key = (found.file, found.code, found.message)
        if known[key]:
            known[key] -= 1
        else:
            new.append(found)
    return new


def _report(compilation: Compilation) -> None:
    from dslc.cli.terminal import put
    from dslc.report import FORMATS

    put(FORMATS["text"].render(compilation, colour=sys.stderr.isatty()), to_stderr=True)
