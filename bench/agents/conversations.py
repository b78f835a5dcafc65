"""Dialogues as threads, which are searched by the tool `conversation_search`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Final

from bench.harness.dialogues import Conversation, Query, Turn
from runtime.clock import SYSTEM
from runtime.crypto import MasterKey
from runtime.daemon.opening.memories import RECALL
from runtime.database.connection import Database
from runtime.errors import UsageError
from runtime.identity.caller import Caller
from runtime.memory.indexing.index_file import open_indexer
from runtime.memory.open_memory import OpenMemory
from runtime.memory.recall.store import RecallStore
from runtime.search.embedding.embedder import Embedder
from runtime.threads.content import Role, TextPart
from runtime.threads.messages import Messages, NewMessage
from runtime.threads.thread import Threads
from runtime.token_counter import estimate
from runtime.tools.core_memory.recall import ConversationHits
from runtime.tools.toolset import ALL_TOOLS
from tests.runtime.api.app import App

AGENT: Final = "assistant"

Progress = Callable[[str, int, int], None]
TurnPlace = tuple[str, int]
"""The thread and the position of a turn."""


class DialogueClock:
    """A clock that is set to the time of what is said or asked."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        """Return the time that was set."""
        return self.time

    def monotonic(self) -> float:
        """Return the machine's."""
        return SYSTEM.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep by the machine's clock."""
        await SYSTEM.sleep(seconds)


class SpokenDialogues:
    """Dialogues in the threads of a database: each is a user's, each of its sessions a thread, each turn a message.

    What the speakers `user` and `assistant` say is stored as in a chat. With other speakers a message is "Speaker:
    text", of the user if the first speaker of the dialogue said it, else of the agent.
    """

    def __init__(self, database: Database, memory: OpenMemory, clock: DialogueClock) -> None:
        self._app = App(database, clock)
        self._database = database
        self._memory = memory
        self._clock = clock
        self._turns: dict[TurnPlace, str] = {}

    async def say(self, conversation: Conversation) -> None:
        """Store a dialogue."""
        of_threads, messages = Threads(self._database, self._clock), Messages(self._database, self._clock)
        first = conversation.items[0].speaker
        for _, session in groupby(conversation.items, key=lambda turn: turn.session):
            turns = list(session)
            self._clock.time = turns[0].time.timestamp()
            thread = await of_threads.conversation(_user(conversation), AGENT)
            stored = []
            for turn in turns:
                self._clock.time = turn.time.timestamp()
                stored.append(messages.put(thread, [message_of(turn, first)]))
            for turn, [message] in zip(turns, await asyncio.gather(*stored), strict=True):
                self._turns[thread.id, message.position] = turn.id

    async def ask(self, conversation: Conversation, query: Query, limit: int) -> list[str]:
        """Return the ids of the turns that the tool finds for a question, best first."""
        self._clock.time = conversation.now.timestamp()
        context = self._app.context(Caller(_user(conversation), frozenset({"read"})))
        context = replace(context, recall=self._memory)
        found = await ALL_TOOLS.call("conversation_search", context, {"query": query.q, "limit": limit})
        assert isinstance(found, ConversationHits)
        places = [(hit.conversation_id, hit.position) for hit in found.hits if hit.position is not None]
        # A long message is several items.
        return list(dict.fromkeys(self._turns[place] for place in places))


@asynccontextmanager
async def spoken(
    conversations: Sequence[Conversation], embedder: Embedder | None, root: Path, progress: Progress
) -> AsyncIterator[SpokenDialogues]:
    """Yield these dialogues in threads, indexed and embedded. Raises UsageError if something is missing."""
    clock = DialogueClock()
    database = await Database.open(root / "symbiont.db", MasterKey(b"b" * 32))
    try:
        store = RecallStore(database, clock)
        indexer = await open_indexer(store, None, root / "index", clock, database=database)
        memory = OpenMemory(RECALL, indexer, embedder, folder=None, clock=clock)
        try:
            await memory.activate()
            dialogues = SpokenDialogues(database, memory, clock)
            for done, conversation in enumerate(conversations):
                progress("writing", done, len(conversations))
                await dialogues.say(conversation)
            report = await memory.sync(progress=progress)
            await memory.embed(progress=progress)
            if report.problems:
                raise UsageError(f"not everything was indexed: {report.problems[0]}")
            yield dialogues
        finally:
            await memory.close()
    finally:
        await database.close()


def message_of(turn: Turn, first: str) -> NewMessage:
    """Return what was said; `first`: who speaks first in the dialogue."""
    speaker: Role
    if turn.speaker in {"user", "assistant"}:
        text, speaker = turn.said, "user" if turn.speaker == "user" else "assistant"
    else:
        text, speaker = turn.script, "user" if turn.speaker == first else "assistant"
    return NewMessage(role=speaker, parts=(TextPart(text),), tokens=estimate(text))


def _user(conversation: Conversation) -> str:
    return f"bench-{conversation.conv}".lower()
