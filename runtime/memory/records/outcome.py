"""Records the results of writing and sending a record."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import Any

from runtime.clock import Clock, uuid7
from runtime.memory.errors import StoreError
from runtime.memory.files.folder import Folder
from runtime.memory.item import rfc3339
from runtime.memory.records.files import evidence, outbox, state
from runtime.memory.records.files.name_index import RecordNameIndex, part_of
from runtime.memory.records.files.record import NOT_CONFIGURED, PENDING, DamagedRecord, decode, encode
from runtime.memory.records.operations import Mark, OperationFailure, OperationResults
from runtime.memory.store_types import Append


def write_success(folder: Folder, session_id: str | None, record_id: str, now: datetime, *, remote: bool) -> None:
    """Note a stored record in `STATE.json`."""
    waits = PENDING if remote else NOT_CONFIGURED
    state.write_state(folder, session_id, {"status": "stored", "id": record_id, "time": rfc3339(now), "remote": waits})


def write_failure(folder: Folder, work: OperationFailure, now: datetime, clock: Clock) -> None:
    """Note a failed write in `STATE.json`; an error also as evidence."""
    write = {"status": work.status, "id": None, "time": rfc3339(now), "remote": None}
    reason = {"gates": list(work.gates)} if work.status == "refused" else {"error": work.error}
    state.write_state(folder, work.session_id, write | reason)
    if work.status == "error":
        prove(folder, evidence.ERROR, uuid7(clock), now, error=work.error)


def mark(
    folder: Folder, agent_id: str, name_index: RecordNameIndex, work: Mark, now: datetime, result: OperationResults
) -> None:
    """Write down the result of sending a record, and last of all delete its note if it is final."""
    name = work.note.record
    data = folder.read(name)
    try:
        record = decode(name, agent_id, data)
    except DamagedRecord:
        if work.done:
            _prove_sending(folder, work, now)
    else:
        status = {
            "store_location": "local+remote" if work.sent else "local",
            "remote_store_attempted": True,
            "remote_store_error": work.error,
        }
        if any(record.fields.get(key) != value for key, value in status.items()):
            day = record.item.timestamp.date()
            before, new = name_index.revision(day), encode(record.fields | status)
            if not folder.replace(name, new, data):
                raise StoreError(f"{folder.path / name} was changed by someone else", hint="records are never changed")
            name_index.put(name, len(new))
            after = name_index.revision(day)
            if after is not None:
                result.appends.append(Append(part_of(agent_id, day, after), before, ()))
            _prove_sending(folder, work, now)
            _write_sent_state(folder, work)
    if work.done:
        outbox.forget(folder, work.note)


def _prove_sending(folder: Folder, work: Mark, now: datetime) -> None:
    facts: dict[str, Any] = {"record": work.note.record, **work.facts}
    if work.sent:
        prove(folder, evidence.REMOTE, outbox.id_of(work.note), now, **facts)
    else:
        prove(folder, evidence.ERROR, outbox.id_of(work.note), now, **facts, error=work.error, again=not work.done)


def prove(folder: Folder, event: evidence.Event, known: str, now: datetime, **facts: Any) -> None:
    """Write evidence of an event. The caller holds the folder's lock."""
    with contextlib.ExitStack() as held:
        proofs = folder.child(evidence.FOLDER, create=True)
        assert proofs is not None
        held.enter_context(proofs)
        name = evidence.event_name(event, known, now)
        proofs.write(name, evidence.event_data(event, known, now, **facts))


def _write_sent_state(folder: Folder, work: Mark) -> None:
    last = state.last_write(folder)
    if last.get("id") == outbox.id_of(work.note):
        session = state.read_state(folder)["last_session"].get("session_id")
        state.write_state(folder, session, last | {"remote": "sent" if work.sent else work.error})
