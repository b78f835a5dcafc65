"""Noticing that a program's folders changed: whole folders are watched, so that every way of saving a file is seen."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence, Set
from pathlib import Path

import structlog
from watchfiles import Change, awatch
from watchfiles._rust_notify import WatchfilesRustInternalError

log = structlog.get_logger("symbiont.watch")

# Two quiet steps end a burst of changes (about 300 ms), and a burst that never ends is read after a second.
STEP_MS = 150
DEBOUNCE_MS = 1000
# How often the folders themselves are looked at: one that was replaced or came back raises no event of its own.
TICK_MS = 500


def watched(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The folders to watch for `paths`: a folder itself, a file's folder. Renames over a file happen in its folder."""
    return tuple(dict.fromkeys(path if path.is_dir() else path.parent for path in paths))


async def changes(paths: Sequence[Path], ignored: Callable[[], Sequence[Path]]) -> AsyncIterator[None]:
    """Yield after each burst of changes under `paths`, until closed. Changes under `ignored()` do not count.

    A yield means only "look again": the contents decide. A folder that vanishes and comes back is watched again.
    """
    folders = watched(paths)
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
        except (OSError, WatchfilesRustInternalError) as error:
            if polling:
                raise
            # Most often the system's limit of inotify watches (inotify(7), max_user_watches).
            log.warning("folders_polled", reason=str(error))
            polling = True
        if _identities(folders) != seen:
            yield


async def _bursts(
    folders: Sequence[Path], whole: Set[Path], ignored: Callable[[], Sequence[Path]], *, polling: bool
) -> AsyncGenerator[bool, None]:
    """True for a burst of changes, False for a tick without one. Ends when there is a new folder to listen to."""

    def wanted(_change: Change, path: str) -> bool:
        return not any(Path(path).is_relative_to(folder) for folder in ignored())

    listened = await asyncio.to_thread(_open_folders, folders, whole, ignored())
    # What changed before anybody listened is in no burst, so the first tick counts as one.
    first = True
    async for burst in awatch(
        *listened,
        recursive=False,
        force_polling=polling or None,
        watch_filter=wanted,
        step=STEP_MS,
        debounce=DEBOUNCE_MS,
        rust_timeout=TICK_MS,
        yield_on_timeout=True,
    ):
        yield first or bool(burst)
        # Nor is a folder that was made in between.
        missed = first and set(await asyncio.to_thread(_open_folders, folders, whole, ignored())) - set(listened)
        first = False
        if missed or _new_folder(burst):
            return


def _new_folder(burst: set[tuple[Change, str]]) -> bool:
    return any(change is Change.added and Path(path).is_dir() for change, path in burst)


def _open_folders(folders: Sequence[Path], whole: Set[Path], ignored: Sequence[Path]) -> list[Path]:
    """Return `folders`, and below those in `whole` every folder that may contain programs: the folder of a single
    file may be a home folder. Hidden and ignored folders are not watched: a busy database or memory below a
    program's folder would cause an event for each write."""
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
