"""An app with agents that have models, which are never called, and threads with messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from runtime.database.connection import Database
from runtime.threads.content import (
    DataPart,
    EventPart,
    MessageKind,
    Part,
    Role,
    TextPart,
    ToolCallPart,
    ToolOutputPart,
)
from runtime.threads.messages import Message, Messages, NewMessage
from runtime.threads.thread import Thread, Threads
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.api.app import App, program_of

PROGRAM = """
model fast { service ollama offered true }
model strong { service ollama window 4096 offered true }
model hidden { service ollama }
agent assistant { model fast main true instruction "You help." context { max_tokens 9000 reply_tokens 1500 }
    block team { value "Ada, Bob" } }
agent researcher { model strong }
agent recorder {}
"""


@asynccontextmanager
async def with_agents(folder: Path, program: str = PROGRAM) -> AsyncIterator[App]:
    """Yield an app with this program, and one memory in Markdown files."""
    database = await Database.open(with_keys(folder / "symbiont.db", KEY), KEY)
    async with App(database, ManualClock()).remembering(folder) as app:
        app.program = program_of(program)
        yield app
    await database.close()


def said(role: Role, *parts: Part, kind: MessageKind = "message") -> NewMessage:
    return NewMessage(role=role, kind=kind, parts=parts, tokens=10)


CONVERSATION: Sequence[NewMessage] = (
    said("user", TextPart("Where does Ada live?"), DataPart("Payload", "application/json", '{"a":1}')),
    said("assistant", TextPart("I have to look."), kind="reasoning"),
    said("assistant", TextPart("One moment."), TextPart("I look.")),
    said(
        "assistant",
        ToolCallPart("c1", "archival_search", '{"query":"Ada"}'),
        ToolCallPart("c2", "memory_list", "{}"),
        kind="tool_call",
    ),
    said("tool", ToolOutputPart("c1", "archival_search", "Ada lives in Lyon."), kind="tool_output"),
    said("tool", ToolOutputPart("c2", "memory_list", "?", "unknown"), kind="tool_output"),
    said("assistant", TextPart("In Lyon.")),
    said("system", EventPart("run_max_steps", "The turn ended."), kind="event"),
)
"""One message of each kind."""


async def talked(
    app: App, user_id: str, agent: str = "assistant", *, new: Sequence[NewMessage] = CONVERSATION, subject: str = ""
) -> tuple[Thread, list[Message]]:
    """Append messages to the main thread of a user and an agent, or that of a subject; return both."""
    threads = Threads(app.database, app.clock)
    thread = await (threads.for_subject(user_id, agent, subject) if subject else threads.main(user_id, agent))
    return thread, await Messages(app.database, app.clock).append(thread, new)
