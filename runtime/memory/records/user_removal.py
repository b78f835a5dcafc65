"""Deletes the records of one user: the only way in which records are ever deleted.

Notes and evidence are deleted first, then the record. So an interrupted deletion leaves no evidence of a missing
record, and is repeated. Evidence of the number of deleted records stays. A damaged record does not reveal its user, and
stays; so does one that cannot be read at the moment, which is reported.
"""

from __future__ import annotations

import contextlib
from datetime import datetime

from runtime.clock import Clock, uuid7
from runtime.memory.errors import StoreError
from runtime.memory.files.folder import Folder
from runtime.memory.item import rfc3339
from runtime.memory.records.files import evidence, outbox, state
from runtime.memory.records.files.name_index import RecordNameIndex
from runtime.memory.records.files.record import DamagedRecord, decode
from runtime.memory.records.outcome import prove


def names_of(
    folder: Folder, agent_id: str, name_index: RecordNameIndex, user_id: str
) -> tuple[list[str], StoreError | None]:
    """Return the names of a user's records, and the error of the first record that cannot be read."""
    found: list[str] = []
    failure: StoreError | None = None
    with name_index.lock:
        names = sorted(name_index.sizes)
    for name in names:
        try:
            if decode(name, agent_id, folder.read(name)).item.user_id == user_id:
                found.append(name)
        except DamagedRecord:
            continue
        except StoreError as error:
            failure = failure or error
    return found, failure


def forget(folder: Folder, name_index: RecordNameIndex, names: list[str], now: datetime, clock: Clock) -> None:
    """Delete these records. The caller holds the folder's lock, and has made other processes list the folder again."""
    going = set(names)
    ids = {known for known, name in name_index.ids.items() if name in going}
    with contextlib.ExitStack() as held:
        waiting = folder.child(outbox.FOLDER)
        if waiting is not None:
            held.enter_context(waiting)
            _unlink(waiting, [file for file in waiting.names() if file.partition("_")[2] in going])
        proofs = folder.child(evidence.FOLDER)
        if proofs is not None:
            held.enter_context(proofs)
            _unlink(proofs, [file for file in proofs.names() if evidence.id_in(file) in ids])
    if state.last_write(folder).get("id") in ids:
        state.write_state(folder, None, {"status": "forgotten", "id": None, "time": rfc3339(now), "remote": None})
    for name in names:
        folder.unlink(name)
        with name_index.lock:
            name_index.remove(name)
    folder.flush()
    prove(folder, evidence.FORGOTTEN, uuid7(clock), now, records=len(names))


def _unlink(folder: Folder, names: list[str]) -> None:
    for name in names:
        folder.unlink(name)
    if names:
        folder.flush()
