"""`STATE.json`: the result of the last write of a memory (second design, step 6). Other fields in it stay."""

from __future__ import annotations

import json
from typing import Any

from runtime.memory.files.folder import Folder

NAME = "STATE.json"


def read_state(folder: Folder) -> dict[str, Any]:
    """Read the file; empty if it is absent or not JSON."""
    try:
        found = json.loads(folder.read(NAME) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def last_write(folder: Folder) -> dict[str, Any]:
    """Return the `memory_write` of the last session."""
    session = read_state(folder).get("last_session")
    write = session.get("memory_write") if isinstance(session, dict) else None
    return write if isinstance(write, dict) else {}


def write_state(folder: Folder, session_id: str | None, write: dict[str, Any]) -> None:
    """Write the result of the last write. The caller holds the folder's lock."""
    state = read_state(folder)
    session = state.get("last_session")
    same = isinstance(session, dict) and session.get("session_id") == session_id
    kept = dict(session) if same and isinstance(session, dict) else {}
    state["last_session"] = {**kept, "session_id": session_id, "memory_write": write}
    data = (json.dumps(state, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")
    folder.write(NAME, data)
