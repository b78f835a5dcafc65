"""First parameter of every tool: the caller, and the state that the tool acts on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, Self

from dslc.program import Program
from runtime.clock import Clock
from runtime.database.connection import Database
from runtime.identity.caller import Caller
from runtime.memory.core.block import DeclaredBlock
from runtime.memory.indexing.progress import Progress
from runtime.memory.memories import Memories
from runtime.memory.open_memory import OpenMemory
from runtime.models.calls.call import CallOwner
from runtime.switches import ALL_ON, Switches
from runtime.tables.sql_database import SqlDatabase
from runtime.tasks.store import TaskStore
from runtime.threads.thread import Thread
from runtime.tools.daemon_hooks import DaemonHooks
from runtime.tools.user_limits import UserLimits
from runtime.webhooks.routing.dynamic_routes import DynamicRoutes
from runtime.webhooks.routing.dynamic_webhooks import DynamicWebhooks


def no_progress(_what: str, _done: int, _total: int) -> None:
    """Ignore progress, for callers that report none."""


class VisibleContext(NamedTuple):
    """The part of a thread in the agent's context: the messages from the position `first` on, those of at most `tokens`
    tokens whole, and the summary with the id `summary`."""

    first: int
    tokens: int
    summary: str | None = None


@dataclass(frozen=True, slots=True)
class ActingAgent:
    """The agent that calls a tool, with its run and thread. Set by the agent's turn, never by the model.

    `subject`: of a keyed thread with a memory of its own. `attempt`: of the run, the fence of what the call writes.
    `hides_subjects`: the agent has a memory for each subject, and this run belongs to none: it reads no subject's
    threads, tasks and entries of the key-value store. `block_rooms`: for how many characters of each block of core
    memory its context has room, as far as that is known. `key`: identifies the call within the run, the same on
    every attempt; None: the call is not one of its steps. `webhook`: whose delivery woke the run; None: a person
    did. `seen`: None if it is not known.
    """

    agent: str
    run_id: str
    thread_id: str | None
    subject: str | None = None
    hides_subjects: bool = False
    attempt: int | None = None
    key: str | None = None
    webhook: str | None = None
    seen: VisibleContext | None = None
    block_rooms: Mapping[str, int] = field(default_factory=dict)


class PromptRequest(NamedTuple):
    """Sources of a context for a prompt of another program. `thread`: whose messages it has; None without any.
    `subject`: whose memory; None for the agent's own. `query`: what memory is searched for; None: it is not. `tokens`:
    that the context may have."""

    agent: str
    user_id: str
    thread: Thread | None
    subject: str | None
    query: str | None
    tokens: int


class PromptPart(NamedTuple):
    """A part of a context. `note`: why it is missing or shorter; empty if it is whole."""

    name: str
    tokens: int
    note: str


class BuiltPrompt(NamedTuple):
    """A context for a prompt. `messages`: role and text of each. `tokens`: of all. `notes`: what gave way."""

    messages: Sequence[tuple[str, str]]
    tokens: int
    parts: Sequence[PromptPart]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """State that a tool acts on. It is not part of a tool's schema. Valid while its generation is pinned."""

    caller: Caller
    clock: Clock
    database: Database
    agents: Collection[str]
    """Names of the agents that a webhook may run."""
    memories: Memories
    webhooks: DynamicWebhooks
    routes: DynamicRoutes
    """Routes of `webhooks`; `refresh` after a change."""
    daemon: DaemonHooks = field(default_factory=DaemonHooks)
    acting: ActingAgent | None = None
    """The calling agent; None for a person or a client."""
    progress: Progress = no_progress
    """Called with the progress of long work."""
    declared_blocks: Callable[[str], Sequence[DeclaredBlock]] = lambda agent: ()
    """Returns the blocks of core memory that the program declares for an agent."""
    limits: UserLimits = field(default_factory=UserLimits)
    sql: SqlDatabase | None = None
    """The SQL tables of users; None where there are none."""
    recall: OpenMemory | None = None
    """Searches what was said in threads; None if no agent has a model."""
    tasks: TaskStore | None = None
    """The tasks of users; None for the default limit."""
    task_search: OpenMemory | None = None
    """Searches the tasks of users; None where no program is loaded."""
    program: Program = field(default_factory=Program)
    """The running program."""
    on_called: Callable[[str, BaseException | None], None] = lambda tool, error: None
    """Called after each call of a tool with its name, and with the exception that ended the call, if any."""
    on_thread_change: Callable[[Thread], None] = lambda thread: None
    """Call it after a change of a thread, or of its messages."""
    build_prompt: Callable[[Context, PromptRequest], Awaitable[BuiltPrompt]] | None = None
    """Builds a context for a prompt of another program; None where there are no agents."""
    switches: Switches = ALL_ON

    def of_call(
        self, key: str, seen: VisibleContext | None = None, block_rooms: Mapping[str, int] = MappingProxyType({})
    ) -> Self:
        """Return the context of one call of the acting agent, see `ActingAgent`. ValueError without an agent."""
        if self.acting is None:
            raise ValueError("no agent acts in this context")
        return replace(self, acting=replace(self.acting, key=key, seen=seen, block_rooms=block_rooms))

    @property
    def no_tables(self) -> str | None:
        """The reason why users have no SQL tables here, in one line; None if they have."""
        if self.sql is None or self.limits.storage is None:
            return "there is no database for SQL tables here"
        return self.sql.problem

    @property
    def call_owner(self) -> CallOwner:
        """Return whose the calls of models are that a tool makes."""
        user_id, acting = self.caller.user_id, self.acting
        if acting is None:
            return CallOwner(user_id)
        return CallOwner(user_id, acting.agent, acting.thread_id, acting.run_id)


OpenContext = Callable[[Caller, Progress], AbstractAsyncContextManager[Context]]
"""Pins the running generation and yields a context of it for this caller."""
