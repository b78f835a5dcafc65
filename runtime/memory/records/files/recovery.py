"""Finishes what a killed writer left: evidence of existing records, and notes of records that do not exist."""

from __future__ import annotations

from runtime.memory.files.folder import Folder
from runtime.memory.records.files import evidence, outbox
from runtime.memory.records.files.name_index import RecordNameIndex


def recover(folder: Folder, agent_id: str, name_index: RecordNameIndex) -> None:
    """Recover one folder. The caller holds its lock and has refreshed `name_index`."""
    folder.sweep()
    proofs, waiting = folder.child(evidence.FOLDER), folder.child(outbox.FOLDER)
    if proofs is not None:
        with proofs:
            _finish_evidence(proofs, name_index)
    if waiting is not None:
        with waiting:
            waiting.sweep()
            for note in outbox.notes(waiting, agent_id):
                if note.record not in name_index.sizes:
                    waiting.discard(note.file)


def _finish_evidence(proofs: Folder, name_index: RecordNameIndex) -> None:
    left = proofs.staged_files()
    for partial, name in left.items():
        if evidence.local_id(name) in name_index.ids:
            proofs.publish(partial, name)
        else:
            proofs.discard(partial)
    if left:
        proofs.flush()
