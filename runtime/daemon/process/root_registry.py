"""Registry of the roots that this user created on this machine.

A root contains its identity, and the user's own state folder an entry of the same identity for the path of that root. A
clone, an archive or a copy may contain any identity and any path; entries do not come with it.

Device and inode numbers are not compared: a remount changes them, and a backup that is restored in place is the same
root. For the same reason no entry is ever removed: a missing folder may be on a disk that is not mounted now, and the
entry of a deleted root is harmless, because its successor has another identity.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pwd
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from runtime.daemon.process.atomic_file import write_atomically
from runtime.errors import UsageError

IDENTITY_FILE: Final = "root.json"
_LOCK: Final = "lock"
_LARGEST: Final = 64 * 1024
_ID = re.compile("[0-9a-f]{32}")


class RootIdentity(NamedTuple):
    """Content of `.symbi/root.json`: an `id` of 32 hexadecimal digits, and the resolved `path` of the root's folder."""

    id: str
    path: str


def identity(state: Path) -> RootIdentity | None:
    """Return the record in this `.symbi`, which may be false; None if there is none."""
    content = _read_json(state / IDENTITY_FILE)
    given, path = content.get("id"), content.get("path")
    if isinstance(given, str) and _ID.fullmatch(given) and isinstance(path, str):
        return RootIdentity(given, path)
    return None


def knows(folder: Path, state: Path, environ: Mapping[str, str]) -> bool:
    """Return True if the user's registry has an entry for the root with that state at that folder."""
    found = identity(state)
    try:
        entry = _read_json(_entry(_entries(environ), folder), owner=os.geteuid())
    except UsageError:
        return False
    return found is not None and entry.get("id") == found.id


def identify(folder: Path, state: Path, environ: Mapping[str, str], *, entered: bool = True) -> None:
    """Give the root at `folder` a new identity, written to `state`.

    `entered`: the registry entry is required; otherwise it is written if possible. Raises UsageError if it cannot be
    written, OSError if the identity cannot.
    """
    new = RootIdentity(secrets.token_hex(16), str(folder.resolve()))
    try:
        entry = _entry(_make_folder(_entries(environ)), folder)
        try:
            # The entry is written first: an identity without an entry is not a root, and an entry without an identity
            # has no effect.
            write_atomically(entry, _json(new))
        except OSError as error:
            raise _unwritable(entry.parent, error) from None
    except UsageError:
        if entered:
            raise
    write_atomically(state / IDENTITY_FILE, _json(new))


@contextmanager
def lock(environ: Mapping[str, str]) -> Iterator[None]:
    """Hold the registry's lock while inside: no other process of this user creates a root. Raises UsageError if the
    registry cannot be written."""
    entries = _make_folder(_entries(environ))
    try:
        descriptor = os.open(entries / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unwritable(entries, error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _entries(environ: Mapping[str, str]) -> Path:
    """Return `$XDG_STATE_HOME/symbiont/roots`. A relative XDG_STATE_HOME is ignored, as its specification requires."""
    named = environ.get("XDG_STATE_HOME", "")
    base = Path(named) if named.startswith("/") else _home(environ) / ".local/state"
    return base / "symbiont" / "roots"


def _home(environ: Mapping[str, str]) -> Path:
    """Return $HOME if it belongs to this user, who may have changed since it was set (sudo); otherwise the account's
    home."""
    named = environ.get("HOME", "")
    try:
        if named.startswith("/") and Path(named).stat().st_uid == os.geteuid():
            return Path(named)
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except (OSError, KeyError):
        raise UsageError(
            "this user has no home folder for the registry of its roots",
            hint="name a folder of its own in XDG_STATE_HOME",
        ) from None


def _make_folder(entries: Path) -> Path:
    try:
        entries.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(entries, error) from None
    return entries


def _unwritable(entries: Path, error: OSError) -> UsageError:
    what = (error.strerror or "cannot be written").lower()
    return UsageError(
        f"the registry of this user's roots is {entries}: {what}", hint="name a folder of its own in XDG_STATE_HOME"
    )


def _entry(entries: Path, folder: Path) -> Path:
    """Return the file of the registry entry: one for each path, so that a root created again at a path replaces the old
    entry."""
    return entries / f"{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]}.json"


def _json(content: RootIdentity) -> bytes:
    return json.dumps(content._asdict(), indent=2).encode() + b"\n"


def _read_json(file: Path, *, owner: int | None = None) -> dict[str, Any]:
    """Return the JSON object in a small regular file of that owner; empty if there is none."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if owner is not None and os.fstat(descriptor).st_uid != owner:
                return {}
            content = json.loads(os.read(descriptor, _LARGEST))
        finally:
            os.close(descriptor)
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
