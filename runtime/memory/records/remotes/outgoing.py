"""Prepares a record for sending: read from its file, redacted again, and never by two processes at once."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from runtime.memory.errors import StoreBusy
from runtime.memory.files import lock
from runtime.memory.records.files import outbox
from runtime.memory.records.files.record import DamagedRecord
from runtime.memory.records.reader import RecordReader, load
from runtime.memory.records.remotes.sync import OutgoingRecord
from runtime.memory.redaction.redact import redact

_HASHES = frozenset({"id", "checksum", "chunk_hash"})


def hold(reader: RecordReader, held: contextlib.ExitStack, agent_id: str) -> None:
    """Keep other processes from sending this agent's records until `held` is closed. Raises StoreBusy."""
    folder = held.enter_context(reader.open_folder(agent_id))
    waiting = folder.child(outbox.FOLDER) if folder is not None else None
    if waiting is not None:
        try:
            held.enter_context(lock.writing(held.enter_context(waiting), patience=0))
        except StoreBusy as error:
            raise StoreBusy(f"another process sends from {waiting.path}", hint="it will be tried again") from error


def read_outgoing(reader: RecordReader, note: outbox.Note) -> OutgoingRecord | None:
    """Return the record of a note; None if the note is gone."""
    with reader.open_folder(note.agent_id) as folder, contextlib.ExitStack() as held:
        waiting = folder.child(outbox.FOLDER) if folder is not None else None
        if folder is None or waiting is None or held.enter_context(waiting).status(note.file) is None:
            return None
        try:
            fields = load(folder, note.agent_id, note.record).fields
        except DamagedRecord as error:
            return OutgoingRecord(None, str(error))
    sent = fields.get("remote_store_attempted") is True and fields.get("remote_store_error") is None
    return OutgoingRecord(None if sent else redact_fields(fields))


def redact_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without any secret that is known now, whenever it was written. Fields that are only hashes
    stay."""
    return {key: value if key in _HASHES else _redact_value(value) for key, value in fields.items()}


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_redact_value(each) for each in value]
    return {key: _redact_value(each) for key, each in value.items()} if isinstance(value, dict) else value
