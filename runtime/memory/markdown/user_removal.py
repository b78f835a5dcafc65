"""Deletes one user's items from an agent's Markdown files. Other users' lines stay unchanged, byte for byte.

Each file is replaced as a whole; an interrupted deletion has finished some of the files and is repeated.
"""

from __future__ import annotations

import contextlib
from datetime import datetime

from runtime.memory.errors import StoreBusy, StoreError
from runtime.memory.files.folder import Folder
from runtime.memory.item import OWNER
from runtime.memory.markdown.agent_memory import LOGS, MEMORY, AgentMemory, collecting, naming_item
from runtime.memory.markdown.text.annotation import Annotation
from runtime.memory.markdown.text.daily_log import DailyLog, days
from runtime.memory.markdown.text.document import MarkdownDocument

_TRIES = 50  # attempts of a replacement; each failed one met a concurrent edit by a person


def forget_user(agent_memory: AgentMemory, user_id: str) -> int:
    """Delete every item of the user; return how many. Raises StoreError if a file could not be changed, after changing
    the others."""
    count = 0
    failures: list[StoreError] = []
    with agent_memory.held(create=False) as folder:
        if folder is None:
            return 0
        with collecting(failures):
            count += _from_memory(agent_memory, folder, user_id)
        with collecting(failures), contextlib.ExitStack() as stack:
            logs = folder.child(LOGS)
            if logs is not None:
                stack.enter_context(logs)
                with collecting(failures):
                    logs.sweep()
                for day in days(logs.names()):
                    with collecting(failures):
                        count += _from_log(logs, f"{day.isoformat()}.md", user_id)
    if failures:
        raise failures[0]
    return count


def _from_memory(agent_memory: AgentMemory, folder: Folder, user_id: str) -> int:
    count = 0

    def without(document: MarkdownDocument, otherwise: datetime) -> MarkdownDocument:
        nonlocal count
        theirs = [bullet for _, bullet in document.items if _is_of(bullet.annotation, user_id)]
        count = len(theirs)
        if not theirs:
            return document
        with naming_item(folder, MEMORY):
            document = document.without(*theirs)
        return document.stamped(agent_memory.agent_id, agent_memory.now(), otherwise)

    agent_memory.rewrite(folder, without)
    return count


def _from_log(logs: Folder, name: str, user_id: str) -> int:
    for _ in range(_TRIES):
        before = logs.read(name)
        (day,) = days([name])
        log = DailyLog.parse(day, before or b"")
        theirs = [entry for entry in log.entries if _is_of(entry.annotation, user_id)]
        if not theirs:
            return 0
        with naming_item(logs, name):
            log = log.without(*theirs)
        if logs.replace(name, log.data, before):
            return len(theirs)
    raise StoreBusy(f"{logs.path / name} keeps changing", hint="close the program that writes to it")


def _is_of(note: Annotation, user_id: str) -> bool:
    return (OWNER if note.user is None else note.user) == user_id
