"""Finishes what a killed writer left: evidence of existing records, and notes of records that do not exist."""

from __future__ import annotations

from runtime.memory.files.folder import Folder
from runtime.memory.records.files import evidence, outbox
from runtime.memory.records.files.atomic_files import discard, flush, publish, staged
from runtime.memory.records.files.name_index import RecordNameIndex


def recover(folder: Folder, agent_id: str, name_index: RecordNameIndex) -> None:
    """Recover one folder. The caller holds its lock and has refreshed `name_index`."""
    for name in staged(folder):
        discard(folder, name)
    proofs, waiting = folder.child(evidence.FOLDER), folder.child(outbox.FOLDER)
    if proofs is not None:
        with proofs:
            _finish_evidence(proofs, name_index)
    if waiting is not None:
        with waiting:
            for name in staged(waiting):
                discard(waiting, name)
            for note in outbox.notes(waiting, agent_id):
                if note.record not in name_index.sizes:
                    discard(waiting, note.file)


def _finish_evidence(proofs: Folder, name_index: RecordNameIndex) -> None:
    left = staged(proofs)
    for partial, name in left.items():
        if evidence.local_id(name) in name_index.ids:
            publish(proofs, partial, name)
        else:
            discard(proofs, partial)
    if left:
        flush(proofs)
