"""Detection of changes in a program's folders. Whole folders are watched, so that every way of saving a file is
seen."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence, Set
from pathlib import Path

import structlog
from watchfiles import Change, awatch

log = structlog.get_logger("symbiont.watch")

# Two quiet steps end a burst of changes (about 300 ms); a burst that does not end is read after a second.
STEP_MS = 150
DEBOUNCE_MS = 1000
# Interval of checks of the folders themselves: one that was replaced or came back raises no event.
TICK_MS = 500


def watched_folders(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders to watch for `paths`: the folder itself, or a file's folder, because a rename over a file
    happens there."""
    return tuple(dict.fromkeys(path if path.is_dir() else path.parent for path in paths))


async def changes(paths: Sequence[Path], ignored: Callable[[], Sequence[Path]]) -> AsyncIterator[None]:
    """Yield after each burst of changes under `paths`, until closed. Changes under `ignored()` do not count.

    A yield only means that files may have changed. A folder that vanishes and comes back is watched again.
    """
    folders = watched_folders(paths)
    whole = {path for path in paths if path.is_dir()}
    polling = False
    while True:
        seen = _identities(folders)
        present = [folder for folder in folders if folder.is_dir()]
        if not present:
            await asyncio.sleep(TICK_MS / 1000)
            continue
        try:
            async with contextlib.aclosing(_bursts(present, whole, ignored, polling=polling)) as bursts:
                async for burst in bursts:
                    if burst:
                        yield
                    if _identities(folders) != seen:
                        break
        except FileNotFoundError:
            pass
        except (OSError, RuntimeError) as error:  # watchfiles raises a private subclass of RuntimeError
            if polling:
                raise
            # Usually the system's limit of inotify watches (inotify(7), max_user_watches).
            log.warning("folders_polled", reason=str(error))
            polling = True
        if _identities(folders) != seen:
            yield


async def _bursts(
    folders: Sequence[Path], whole: Set[Path], ignored: Callable[[], Sequence[Path]], *, polling: bool
) -> AsyncGenerator[bool, None]:
    """Yield True for a burst of changes, False for a tick without one. Ends when there is a new folder to watch."""

    def is_relevant(_change: Change, path: str) -> bool:
        return not any(Path(path).is_relative_to(folder) for folder in ignored())

    listened = await asyncio.to_thread(_open_folders, folders, whole, ignored())
    # Changes before the watch began are in no burst, so the first tick counts as one.
    first = True
    with _in_unicode(listened) as names:
        async for burst in awatch(
            *names,
            recursive=False,
            force_polling=polling or None,
            watch_filter=is_relevant,
            step=STEP_MS,
            debounce=DEBOUNCE_MS,
            rust_timeout=TICK_MS,
            yield_on_timeout=True,
        ):
            yield first or bool(burst)
            # A folder that was created in between is not watched yet either.
            missed = first and set(await asyncio.to_thread(_open_folders, folders, whole, ignored())) - set(listened)
            first = False
            if missed or _folders_changed(burst, listened):
                return


@contextlib.contextmanager
def _in_unicode(folders: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield the folders by names that the library takes. Where a path may be no UTF-8, there is `/proc`."""
    with contextlib.ExitStack() as opened:
        names: list[Path] = []
        for folder in folders:
            try:
                str(folder).encode()
            except UnicodeEncodeError:
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                opened.callback(os.close, descriptor)
                names.append(Path(f"/proc/self/fd/{descriptor}"))
            else:
                names.append(folder)
        yield names


def _folders_changed(burst: set[tuple[Change, str]], listened: Sequence[Path]) -> bool:
    """Return True if there is a new folder, or a watched one was removed: its place may have been taken at once by
    another one, which may even have its inode."""
    return any(
        (change is Change.added and Path(path).is_dir()) or (change is Change.deleted and Path(path) in listened)
        for change, path in burst
    )


def _open_folders(folders: Sequence[Path], whole: Set[Path], ignored: Sequence[Path]) -> list[Path]:
    """Return `folders`, and below those in `whole` every folder that may contain programs. Others are not searched,
    because the folder of a single file may be a home folder. Hidden and ignored folders are not watched: a busy
    database or memory below a program's folder would cause an event for each write."""
    found: list[Path] = [folder for folder in folders if folder not in whole]
    for folder in (folder for folder in folders if folder in whole):
        for here, names, _ in os.walk(folder):
            names[:] = [name for name in names if not name.startswith(".") and Path(here, name) not in ignored]
            found.append(Path(here))
    return found


def _identities(folders: Sequence[Path]) -> tuple[tuple[int, int] | None, ...]:
    """Return device and inode of each folder, None for a missing one."""

    def identity(folder: Path) -> tuple[int, int] | None:
        try:
            status = os.stat(folder)  # noqa: PTH116 - both are the same call
        except OSError:
            return None
        return status.st_dev, status.st_ino

    return tuple(identity(folder) for folder in folders)
