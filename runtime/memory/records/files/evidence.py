"""Evidence: a write-once file for each event of a record (second design, step 5)."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final, Literal

from runtime.memory.item import rfc3339
from runtime.memory.records.files.record import stamp

FOLDER = "evidence"
Event = Literal["memory_store_local", "memory_store_remote", "memory_store_error", "memory_user_forgotten"]
LOCAL: Final = "memory_store_local"
REMOTE: Final = "memory_store_remote"
ERROR: Final = "memory_store_error"
FORGOTTEN: Final = "memory_user_forgotten"


def event_name(event: Event, record_id: str, at: datetime) -> str:
    """Return the file name of an event: `YYYYMMDD_HHMMSS_<id>_<event>.json`."""
    return f"{stamp(at)}_{record_id}_{event}.json"


def event_data(event: Event, record_id: str, at: datetime, **facts: Any) -> bytes:
    """Return the content of the file. `facts` contain no text of the record."""
    return (json.dumps({"event": event, "id": record_id, "date": rfc3339(at), **facts}, indent=2) + "\n").encode()


def id_in(name: str) -> str | None:
    """Return the id of the record that an event's file is about; None for any other file."""
    parts = name.split("_", 3)
    return parts[2] if len(parts) == 4 and name.endswith(".json") else None


def local_id(name: str) -> str | None:
    """Return the id of the record that a file proves to be stored here; None for any other file."""
    parts = name.removesuffix(".json").split("_", 3)
    return parts[2] if len(parts) == 4 and parts[3] == LOCAL and name.endswith(".json") else None
