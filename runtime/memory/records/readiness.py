"""Reports what prevents the next record, and what a person should know (second design, step 4)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from runtime.memory.files.writable import unwritable
from runtime.memory.records.files.evidence import FOLDER as EVIDENCE
from runtime.memory.records.files.outbox import FOLDER as OUTBOX
from runtime.memory.records.reader import RecordReader
from runtime.memory.records.remotes.sync import RemoteSync
from runtime.memory.store_types import StoreProblem


def problems_of(reader: RecordReader, sync: RemoteSync, remote_off: str | None) -> tuple[StoreProblem, ...]:
    """Return errors for folders that cannot be written to, and warnings. Writes nothing."""
    root = reader.root
    fault, sending = unwritable(root), tuple(_sending_problems(root, sync, remote_off))
    if fault is not None:
        return (StoreProblem(str(root), f"records cannot be written: {fault}"), *sending)
    return (*_folder_problems(root, reader.agents()), *_damage_problems(reader), *sending)


def _damage_problems(reader: RecordReader) -> Iterator[StoreProblem]:
    """Yield the records that could not be read."""
    damaged = reader.stats(None).problems
    if damaged:
        said = "1 record is damaged" if len(damaged) == 1 else f"{len(damaged)} records are damaged"
        yield StoreProblem(damaged[0].file, f"{said} and ignored: `symbi memory verify` shows why", "warning")


def _folder_problems(root: Path, agents: Sequence[str]) -> Iterator[StoreProblem]:
    for agent in agents:
        for folder in (root / agent, root / agent / EVIDENCE, root / agent / OUTBOX):
            if not os.path.lexists(folder):
                continue
            fault = unwritable(folder)
            if fault is not None:
                yield StoreProblem(str(folder), f"records cannot be written: {fault}")
            elif stat.S_IMODE(folder.stat().st_mode) & 0o077:
                yield StoreProblem(str(folder), "other users of this machine can read it: chmod 0700", "warning")


def _sending_problems(root: Path, sync: RemoteSync, remote_off: str | None) -> Iterator[StoreProblem]:
    if remote_off is not None:
        yield StoreProblem(str(root), remote_off, "warning")
    if not sync.waiting:
        return
    waiting = "1 record waits" if sync.waiting == 1 else f"{sync.waiting} records wait"
    if sync.remote is None:
        if remote_off is None:
            yield StoreProblem(str(root), f"{waiting} to be sent, and no remote is declared", "warning")
    elif sync.fault is not None:
        until = "; nothing is sent until its options are changed" if sync.stopped else ""
        said = f"{waiting} to be sent to {sync.remote.name}: {sync.fault}{until}"
        yield StoreProblem(str(root), said, "warning")
