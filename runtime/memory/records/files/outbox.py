"""The outbox: a note for every record that is still to be sent, on disk before the record is published."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime
from typing import NamedTuple

from runtime.clock import Clock
from runtime.memory.files.folder import Folder
from runtime.memory.item import rfc3339
from runtime.memory.records.files.record import read_name

FOLDER = "outbox"
_last = [0]


class Note(NamedTuple):
    """A record that is still to be sent. `file`: of the note; its name begins with the time of creation, which is the
    order of sending."""

    file: str
    agent_id: str
    record: str


def note_of(clock: Clock, agent_id: str, record: str) -> Note:
    """Return a note for a record, after all earlier ones of this process."""
    _last[0] = max(_last[0] + 1, int(clock.now() * 1e9))
    return Note(f"{_last[0]:020d}_{record}", agent_id, record)


def note_data(note: Note, now: datetime) -> bytes:
    """Return the content of the note's file, for people."""
    return (json.dumps({"record": note.record, "since": rfc3339(now)}) + "\n").encode()


def notes(folder: Folder, agent_id: str) -> list[Note]:
    """Return the notes in an outbox, in order."""
    found = []
    for file in folder.names():
        turn, _, record = file.partition("_")
        if turn.isdigit() and read_name(record) is not None:
            found.append(Note(file, agent_id, record))
    return found


def id_of(note: Note) -> str:
    """Return the id of the note's record."""
    known = read_name(note.record)
    assert known is not None
    return known.id


def forget(agent: Folder, note: Note) -> None:
    """Delete a note."""
    with contextlib.ExitStack() as held:
        folder = agent.child(FOLDER)
        if folder is not None:
            held.enter_context(folder)
            folder.unlink(note.file)
            folder.flush()
