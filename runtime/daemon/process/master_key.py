"""The master key: a 0600 file in `.symbi/`, created at the first start, or the target of SYMBIONT_MASTER_KEY."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from runtime.crypto import KEY_BYTES, MasterKey, new_key
from runtime.daemon.process.atomic_file import sync_folder, write_atomically
from runtime.daemon.process.root import DATABASE_FILE, PROGRAM_FILE, Root
from runtime.daemon.process.root_owner import as_invoker
from runtime.errors import UsageError
from runtime.private_file import require_private
from runtime.secrets.backend import Unresolved
from runtime.secrets.file import read_file

FILE = "master.key"
NEXT = "master.key.next"
"""The new key during a rotation."""


def load(root: Root, reference: str | None, environ: Mapping[str, str], *, replaces: bool = False) -> MasterKey:
    """Return the master key of `root`; create it if there is none and no `reference`, for a root without data.
    `replaces`: also for one whose data was lost.

    `reference` is `secret://env/NAME`, `secret://file/PATH` or `secret://credential/NAME` of 64 hexadecimal digits,
    base64, or 32 raw bytes. Raises UsageError; the message never contains any of it.
    """
    if reference:
        return _parse(_read_reference(reference, root, environ), reference)
    file = root.state / FILE
    try:
        if not file.exists():
            _refuse_orphans(root, file, replaces=replaces)
            _create(file)
        require_private(file)
        return _parse(read_file(file), str(file))
    except OSError as error:
        raise UsageError(f"{file}: {(error.strerror or 'cannot be read').lower()}") from None


def prepare(root: Root) -> MasterKey:
    """Write a new key beside the present one, durably, before anything is wrapped with it; return it."""
    value = new_key()
    write_atomically(root.state / NEXT, value.hex().encode() + b"\n")
    return MasterKey(value)


def pending(root: Root) -> MasterKey | None:
    """Return the key of a rotation that was interrupted, or None."""
    file = root.state / NEXT
    try:
        return _parse(file.read_bytes(), str(file))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{file}: {(error.strerror or 'cannot be read').lower()}") from None


def adopt(root: Root) -> None:
    """Replace the key of the root by the pending one, with which the keys of users are wrapped now."""
    (root.state / NEXT).replace(root.state / FILE)
    sync_folder(root.state)


def discard(root: Root, *, current: bool = False) -> None:
    """Delete a pending key, with which nothing is wrapped. `current`: also the key of the root, for the same reason."""
    for name in (NEXT, FILE) if current else (NEXT,):
        (root.state / name).unlink(missing_ok=True)
    sync_folder(root.state)


def place(root: Root, reference: str | None) -> str:
    """Return the place that `load` reads the key from, for messages."""
    return reference or f"{root.state / FILE}, beside the database"


def _refuse_orphans(root: Root, file: Path, *, replaces: bool) -> None:
    """Raise UsageError if the root has, or had, a database but no key: a new key could not decrypt its data."""
    before = root.read(PROGRAM_FILE).get("master_key")
    if isinstance(before, str) and before.isprintable():
        raise UsageError(
            f"the daemon of {root.folder} read its master key from {before}",
            hint=f"set SYMBIONT_MASTER_KEY to {before}, or to secret://file//PATH with the path of that file",
        )
    database = root.state / DATABASE_FILE
    if database.exists() or (root.traces() and not replaces):
        raise UsageError(
            f"the master key {file} is missing, and the database of {root.folder} cannot be read without it",
            hint="put it back, or name it in SYMBIONT_MASTER_KEY",
        )


def _read_reference(reference: str, root: Root, environ: Mapping[str, str]) -> bytes:
    # The database is opened with this key, so only backends that need no database can hold it.
    kind, _, path = reference.removeprefix("secret://").partition("/")
    try:
        match kind if reference.startswith("secret://") else "":
            case "env" if path in environ:
                return os.fsencode(environ[path])
            case "file":
                # The user who started the process named the file, and may be allowed to read more than the root's user.
                with as_invoker():
                    return read_file(root.folder / path)
            case "credential" if environ.get("CREDENTIALS_DIRECTORY"):
                return read_file(Path(environ["CREDENTIALS_DIRECTORY"]) / Path(path).name)
    except Unresolved as error:
        raise UsageError(f"the master key cannot be read: {error}") from None
    raise UsageError(
        "the reference of the master key (SYMBIONT_MASTER_KEY, or --to) does not refer to an existing key",
        hint="write secret://env/NAME, secret://file/PATH or secret://credential/NAME",
    )


def _parse(value: bytes, place: str) -> MasterKey:
    text = value.strip()
    for decode in (binascii.unhexlify, lambda data: base64.b64decode(data, validate=True)):
        try:
            key = decode(text)
        except (binascii.Error, ValueError):
            continue
        if len(key) == KEY_BYTES:
            return MasterKey(key)
    if len(value) == KEY_BYTES:
        return MasterKey(value)
    raise UsageError(
        f"{place} does not hold a master key", hint="32 bytes in hexadecimal, as `openssl rand -hex 32` prints"
    )


def _create(file: Path) -> None:
    """Write a new key; an existing key is never replaced, even if another process starts at the same time."""
    temporary = file.with_name(f".{FILE}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as handle:  # noqa: PTH123 - it is a descriptor
            handle.write(new_key().hex().encode() + b"\n")
            handle.flush()
            os.fsync(descriptor)
        file.hardlink_to(temporary)
    except FileExistsError:
        return
    finally:
        temporary.unlink()
    sync_folder(file.parent)
