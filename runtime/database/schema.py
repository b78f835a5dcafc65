"""Every table. Times are Unix milliseconds unless noted otherwise, ids are UUID version 7 as text, and every row of a
user has a `user_id`: the id of a user, which is never reused, not the name.

A new database gets exactly these tables. A change of them needs a migration for the databases of released versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)
from sqlalchemy.schema import SchemaItem

from runtime.database.sealed import Sealed

OWNER = "owner"
"""The id and the name of the default user, who always exists."""

metadata = MetaData()


def _table(name: str, *parts: SchemaItem, rowid: bool = True) -> Table:
    """Make a table. `rowid`: False for one that SQLite keeps in the order of its primary key, without row numbers."""
    return Table(name, metadata, *parts, sqlite_with_rowid=rowid)


def _id() -> Column[str]:
    return Column("id", String(36), primary_key=True)


def _user() -> Column[str]:
    return Column("user_id", String(64), nullable=False, server_default=OWNER)


def turn_columns() -> list[Column[Any]]:
    """Return the columns of a table whose rows are turns, by which `runtime.threads.turns` claims them.

    The table also has `id` (UUID version 7), `user_id` and `agent`.
    """
    return [
        Column("state", String(16), nullable=False),
        Column("attempt", Integer, nullable=False),  # number of the claim; the fence of its writes
        Column("tries", Integer, nullable=False),  # claims that count towards a dead letter
        Column("next_attempt_at", BigInteger, nullable=False),
        Column("lease_until", BigInteger),  # by PostgreSQL's clock; NULL on SQLite
        Column("run_id", String(36)),
        Column("finished_at", BigInteger),
        Column("last_error", Text),
        Column("lane", String(64)),  # the group whose concurrency queue it waits in; NULL: in none
        # True: the daemon was killed while it ran; it runs alone next. Always false on PostgreSQL.
        Column("suspect", Boolean, nullable=False, server_default=false()),
    ]


def index_turns(table: Table) -> None:
    """Give a table of turns its indexes, each over the rows in one state."""
    for name, columns, where in (
        ("due", ("next_attempt_at", "id"), "state = 'queued' AND lane IS NULL"),
        ("lane", ("lane", "id", "next_attempt_at"), "state = 'queued' AND lane IS NOT NULL"),
        ("dead", ("id",), "state = 'dead'"),
        ("agent_gone", ("id",), "state = 'agent_gone'"),
        ("running", ("lease_until",), "state = 'running'"),
        ("suspect", ("id",), "state = 'queued' AND suspect"),
        ("waiting", ("id",), "state = 'waiting'"),
    ):
        _where(table, f"ix_{table.name}_{name}", where, *columns)


def _where(table: Table, name: str, where: str, *columns: str, unique: bool = False) -> None:
    """Give a table an index over some of its rows."""
    given = [table.c[each] for each in columns]
    Index(name, *given, unique=unique, sqlite_where=text(where), postgresql_where=text(where))


meta = _table("meta", Column("name", String(64), primary_key=True), Column("value", Text, nullable=False))
"""Facts about the database itself, such as the id of the key that seals it."""

deliveries = _table(
    "deliveries",
    _id(),
    _user(),
    Column("webhook", String(64), nullable=False),
    Column("agent", String(64), nullable=False),  # empty: none, the delivery is only stored
    Column("provider", String(64), nullable=False),
    Column("provider_delivery_id", Text),
    Column("event", Text),
    Column("received_at", BigInteger, nullable=False),
    Column("source", Text),
    Column("size", BigInteger, nullable=False),
    Column("body_sha256", String(64)),
    Column("content_type", Text),
    Column("headers", Text, nullable=False),  # JSON: [[name, value], …], selected headers
    Column("verified", Boolean, nullable=False),
    Column("secret_index", Integer),
    Column("keep_body", Boolean, nullable=False),
    *turn_columns(),
    UniqueConstraint("user_id", "webhook", "provider_delivery_id", name="uq_deliveries_provider_delivery_id"),
)
"""Accepted deliveries: the inbox, and their audit."""

index_turns(deliveries)

bodies = _table(
    "bodies",
    # No foreign key: PostgreSQL would check it for each row, on the hot path.
    Column("delivery_id", String(36), primary_key=True),
    _user(),
    Column("body", Sealed, nullable=False),
    Column("headers_size", Integer, nullable=False, server_default="0"),
)
"""The received request, sealed as one value: the headers as JSON (`headers_size` bytes), then the raw body.

In a table of its own, so that a change of a delivery's state does not rewrite it.
"""

replay_keys = _table(
    "replay_keys",
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("webhook", String(64), primary_key=True),
    Column("mac", LargeBinary, primary_key=True),
    Column("expires_at", BigInteger, nullable=False),
    Column("delivery_id", String(36), nullable=False),
    Index("ix_replay_keys_expires_at", "expires_at"),
    rowid=False,
)
"""The matched signatures of accepted deliveries, kept until a copy would be rejected for its age."""

attempts = _table(
    "attempts",
    _id(),
    _user(),
    Column("webhook", String(64)),
    Column("verdict", String(16), nullable=False),
    Column("reason", String(64), nullable=False),
    Column("status", Integer, nullable=False),
    Column("source", Text),
    Column("event", Text),
    Column("provider_delivery_id", Text),
    Column("delivery_id", String(36)),
    Column("size", BigInteger, nullable=False),
    Column("body_sha256", String(64)),
    Column("headers", Text, nullable=False),
    Column("verified", Boolean, nullable=False),
    Column("received_at", BigInteger, nullable=False),  # of the newest request, if the row counts several
    Column("count", Integer, nullable=False),
    Column("secret_index", Integer),
    Index("ix_attempts_received_at", "received_at"),
    Index("ix_attempts_group", "user_id", "webhook", "verdict", "reason", "id"),
)
"""The audit of requests that were not accepted; bounded, without bodies."""

threads = _table(
    "threads",
    _id(),
    _user(),
    Column("agent", String(64), nullable=False),
    # main, delivery, keyed, conversation; deleted: what is left of it is being deleted, and it is never read again
    Column("kind", String(16), nullable=False, server_default="conversation"),
    Column("subject", Text),  # of a keyed thread: the value in the payload
    Column("subject_key", String(32)),  # the first half of its SHA-256: it may be too long for a key of an index
    Column("title", Sealed(version="title_version")),
    Column("title_version", BigInteger, nullable=False, server_default="0"),
    Column("length", Integer, nullable=False, server_default="0"),  # the next position: messages ever appended
    Column("deletions", Integer, nullable=False, server_default="0"),  # messages deleted from it, one by one
    Column("summary_count", Integer, nullable=False, server_default="0"),
    # Threads of an agent with the same number are read together: see `runtime.memory.recall.message_parts`.
    Column("part", Integer, nullable=False, server_default="0"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),  # of the last message
    Index("ix_threads_agent_newest", "user_id", "agent", "kind", "updated_at", "id"),
    Index("ix_threads_newest", "user_id", "kind", "updated_at", "id"),
    Index("ix_threads_kind", "agent", "kind", "updated_at"),  # for retention
    Index("ix_threads_part", "agent", "part"),
)
"""Conversations, which several runs continue: each is one agent's and one user's. The thread of a delivery has the
delivery's id."""

_where(threads, "uq_threads_main", "kind = 'main'", "user_id", "agent", unique=True)
_where(threads, "uq_threads_keyed", "kind = 'keyed'", "user_id", "agent", "subject_key", unique=True)
_where(threads, "ix_threads_deleted", "kind = 'deleted'", "id")

thread_changes = _table(
    "thread_changes",
    # On SQLite counted; on PostgreSQL the id of the transaction: see `runtime.threads.change_log`.
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("thread_id", String(36), primary_key=True),
    Column("agent", String(64), nullable=False),
    Column("part", Integer, nullable=False),
    Column("length", Integer, nullable=False),
    Column("summary_count", Integer, nullable=False),
    rowid=False,
)
"""The newest changes of threads, as they were then: an index over messages reads again what changed, and drops what it
has of deleted threads. Without a `user_id`, because the rows of a removed user are still needed for that."""

thread_turns = _table(
    "thread_turns",
    # No foreign keys: turns are in several tables, and a turn's row is deleted when its run ends.
    Column("turn_id", String(36), primary_key=True),
    _user(),
    Column("thread_id", String(36), nullable=False),
    Column("kind", String(16), nullable=False),  # of the turn: delivery, message
    Column("arrived_at", BigInteger, nullable=False),
    Column("active", Boolean, nullable=False),  # True: it holds the thread, also between its attempts
    # True: it waits for something else, and neither has the thread nor is the next to have it.
    Column("parked", Boolean, nullable=False, server_default=false()),
    # The active turn is found by it, and the first that waits, however many wait.
    Index("ix_thread_turns_thread", "thread_id", "active", "arrived_at", "turn_id"),
    rowid=False,
)
"""Turns that hold a thread or wait for it, in order of arrival. A thread has at most one active turn."""

messages = _table(
    "messages",
    _id(),
    _user(),
    Column("thread_id", String(36), nullable=False),
    Column("position", Integer, nullable=False),
    Column("role", String(16), nullable=False),  # user, assistant, tool, system
    Column("kind", String(16), nullable=False),  # message, tool_call, tool_output, reasoning, event
    Column("tokens", Integer, nullable=False),
    Column("run_id", String(36)),
    Column("key", String(80)),  # of the message within its run, the same in every attempt
    Column("created_at", BigInteger, nullable=False),
    Column("content", Sealed(counted=True), nullable=False),  # last, so that SQLite reads the others without it
    UniqueConstraint("thread_id", "position", name="uq_messages_position"),
    UniqueConstraint("run_id", "key", "thread_id", name="uq_messages_key"),
)
"""Messages of threads, their content sealed as JSON. Positions have no gaps, except after a deletion."""

output_quotes = _table(
    "output_quotes",
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column(
        "message_id",
        String(36),
        ForeignKey("messages.id", name="fk_output_quotes_message", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("codes", LargeBinary, nullable=False),  # the last 8 bytes of each
    Index("ix_output_quotes_message_id", "message_id"),
    rowid=False,
)
"""The ids in outputs of tools, by which those are found that quote something: see `runtime.threads.removal.quotes`."""

summaries = _table(
    "summaries",
    _id(),
    _user(),
    Column("thread_id", String(36), nullable=False),
    Column("first_position", Integer, nullable=False),
    Column("last_position", Integer, nullable=False),
    Column("message_count", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("embedding_model", Text),
    Column("previous_id", String(36)),  # the summary that this one absorbed
    Column("run_id", String(36)),
    Column("created_at", BigInteger, nullable=False),
    Column("content", Sealed(counted=True), nullable=False),
    Column("embedding", Sealed),  # float32, little-endian
    UniqueConstraint("thread_id", "last_position", name="uq_summaries_last_position"),
)
"""Summaries of the beginnings of threads, a chain for each thread."""

inputs = _table(
    "inputs",
    _id(),
    _user(),
    Column("agent", String(64), nullable=False),
    Column("thread_id", String(36), nullable=False),
    Column("scopes", String(64), nullable=False),  # of the caller, separated by spaces
    Column("content", Sealed(counted=True), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    *turn_columns(),
    Index("ix_inputs_thread", "thread_id"),
)
"""Messages of persons to agents, as turns. When its run begins, a message is added to its thread. Its run has its
id."""

index_turns(inputs)

TURN_TABLES: Final[Mapping[str, Table]] = MappingProxyType({"delivery": deliveries, "message": inputs})
"""The tables of turns, by kind of turn: all that is waiting, running or ended is in one of them."""

blocks = _table(
    "blocks",
    _id(),
    _user(),
    Column("agent", String(64)),  # NULL: of all agents of the user
    Column("subject", Text),  # of a keyed thread's subject; NULL: of the agent
    Column("subject_key", String(32)),
    Column("label", String(64), nullable=False),
    Column("description", Text, nullable=False),
    Column("value", Sealed(version="version", counted=True), nullable=False),
    Column("char_limit", Integer, nullable=False),
    Column("read_only", Boolean, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)
"""Core memory: blocks of text that are in every context of an agent."""

_where(blocks, "uq_blocks_user", "agent IS NULL", "user_id", "label", unique=True)
_where(blocks, "uq_blocks_agent", "agent IS NOT NULL AND subject_key IS NULL", "user_id", "agent", "label", unique=True)
_where(blocks, "uq_blocks_subject", "subject_key IS NOT NULL", "user_id", "agent", "subject_key", "label", unique=True)

block_versions = _table(
    "block_versions",
    Column("block_id", String(36), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    _user(),
    Column("value", Sealed(counted=True), nullable=False),
    Column("changed_by", String(16), nullable=False),  # person, agent, tool, payload, program
    Column("run_id", String(36)),
    Column("key", String(80)),  # of the change within its run, the same in every attempt
    Column("created_at", BigInteger, nullable=False),
    UniqueConstraint("run_id", "key", name="uq_block_versions_key"),
    rowid=False,
)
"""The newest versions of each block, the current one included."""

agent_settings = _table(
    "agent_settings",
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("agent", String(64), primary_key=True),
    Column("settings", Sealed(version="updated_at"), nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)
"""A user's settings of an agent, such as preferences, sealed as JSON."""

usage = _table(
    "usage",
    _id(),
    _user(),
    Column("agent", String(64)),
    Column("thread_id", String(36)),
    Column("run_id", String(36)),
    Column("purpose", String(16), nullable=False),  # chat, summary, embedding
    Column("model", String(64), nullable=False),  # the block's name, or the row's
    Column("service_model", Text, nullable=False),  # by the service's own name
    Column("tokens_in", Integer),  # NULL: the service does not say
    Column("tokens_out", Integer),
    Column("cached", Integer),
    Column("cost", BigInteger),  # in 1e-9 US dollars; NULL: the price is not known
    Column("duration", Integer, nullable=False),  # milliseconds
    Column("outcome", String(16), nullable=False),  # answered, unavailable, refused, cancelled
    Column("created_at", BigInteger, nullable=False),
    Index("ix_usage_created_at", "user_id", "created_at"),
    Index("ix_usage_run_id", "run_id"),
)
"""Calls of language models and embeddings, one row each."""

usage_totals = _table(
    "usage_totals",
    # One of the two is empty: the total is that of a user, over all agents, or of an agent, over all users.
    Column("user_id", String(64), primary_key=True),
    Column("agent", String(64), primary_key=True),
    Column("day", Integer, primary_key=True, autoincrement=False),  # days since 1970-01-01, UTC
    Column("tokens", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),  # in 1e-9 US dollars, by the prices of the program
    rowid=False,
)
"""Totals that count against limits: of the calls of language models that began on a day and have ended."""

reservations = _table(
    "reservations",
    Column("id", String(36), primary_key=True),  # of the call
    # As in `usage_totals`: a row for each of the totals that have a limit.
    Column("user_id", String(64), primary_key=True),
    Column("agent", String(64), primary_key=True),
    Column("day", Integer, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
    Index("ix_reservations_total", "user_id", "agent", "day"),
    rowid=False,
)
"""The maximum use of each call that has begun. It counts against limits like a total, until the end of the call is
stored; that of a daemon that was killed counts until the end of the day."""

user_settings = _table(
    "user_settings",
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    # Limits over all agents. NULL: the default of the process; 0: no limit.
    Column("tokens_per_day", BigInteger),
    Column("cost_per_day", BigInteger),  # in 1e-9 US dollars
    Column("runs_per_hour", BigInteger),
    Column("tier", String(16)),  # NULL: that of the process
    Column("storage", BigInteger),  # bytes; NULL: that of the tier
    Column("time_zone", String(64)),  # of the IANA database; NULL: that of the machine
    Column("updated_at", BigInteger, nullable=False),
)
"""Settings of users, which administrators set."""

user_storage = _table(
    "user_storage",
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("name", String(64)),  # of the file, or of the schema and the role, of the tables; NULL: there are none
    # The key of the file, or the password of the role.
    Column("secret", Sealed(version="secret_version")),
    Column("secret_version", BigInteger, nullable=False, server_default="0"),
    Column("table_count", Integer, nullable=False, server_default="0"),
    Column("table_bytes", BigInteger, nullable=False, server_default="0"),
    Column("kv_key", Sealed),  # with which names, tags and subjects of the key-value store are coded
    Column("kv_bytes", BigInteger, nullable=False, server_default="0"),
    Column("kv_version", BigInteger, nullable=False, server_default="0"),  # the newest version of any entry
    # Of items, conversations and core memory, what was deleted since it was last measured included.
    Column("text_bytes", BigInteger, nullable=False, server_default="0"),
    Column("created_at", BigInteger, nullable=False),
    Column("accessed_at", BigInteger, nullable=False),
)
"""Storage usage of each user: SQL tables and key-value store, which are limited together, and texts."""

kv = _table(
    "kv",
    _id(),
    _user(),
    Column("code", LargeBinary, nullable=False),  # of the subject and the name
    Column("subject_code", LargeBinary),  # of the subject of keyed threads; NULL: of none
    Column("version", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),  # that count towards the storage of the user
    Column("expires_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("content", Sealed(version="version"), nullable=False),  # name, tags, value, and subject if any, as JSON
    UniqueConstraint("user_id", "code", name="uq_kv_code"),
)
"""The key-value store of each user. Names, tags and subjects are looked up by a code (HMAC) with a key of the user."""

_where(kv, "ix_kv_expires_at", "expires_at IS NOT NULL", "expires_at")
_where(kv, "ix_kv_subject", "subject_code IS NOT NULL", "user_id", "subject_code", "id")
Index("ix_kv_user", kv.c.user_id, kv.c.id)

kv_tags = _table(
    "kv_tags",
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("code", LargeBinary, primary_key=True),
    Column("kv_id", String(36), ForeignKey("kv.id", name="fk_kv_tags_kv", ondelete="CASCADE"), primary_key=True),
    Index("ix_kv_tags_kv_id", "kv_id"),
    rowid=False,
)
"""The tags of the key-value store."""

kv_calls = _table(
    "kv_calls",
    Column("run_id", String(36), ForeignKey("runs.id", name="fk_kv_calls_run", ondelete="CASCADE"), primary_key=True),
    Column("key", String(80), primary_key=True),  # of the call within its run, the same in every attempt
    _user(),
    Column("number", BigInteger, nullable=False),  # the version that it stored, or how many entries it deleted
    rowid=False,
)
"""Changes of the key-value store by calls of agents, so that a repeated call changes nothing more."""

tasks = _table(
    "tasks",
    _id(),
    _user(),
    Column("status", String(16), nullable=False),  # pending, in_progress, completed, cancelled
    Column("priority", String(16), nullable=False),  # low, normal, high, urgent
    Column("due_at", BigInteger),
    Column("due_day", Integer),  # days since 1970, of a task that is due at the end of a day; else NULL
    Column("tags", Text, nullable=False),  # JSON: sorted list
    Column("source", String(16), nullable=False),  # agent, user, api
    Column("created_by_agent", String(64)),
    Column("origin_run_id", String(36)),
    Column("updated_source", String(16), nullable=False),
    Column("updated_by_agent", String(64)),
    Column("updated_run_id", String(36)),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("completed_at", BigInteger),
    Column("said_at", BigInteger),  # when it was last in the context of the main agent as urgent or overdue
    Column("part", Integer, nullable=False),  # see `task_parts`
    Column("version", Integer, nullable=False),
    Column("subject_key", String(32)),  # of the subject of keyed threads, as in `threads`; NULL: of none
    Column("content", Sealed(version="version"), nullable=False),  # title, description, subject and webhook as JSON
    Index("ix_tasks_user", "user_id", "id"),
    Index("ix_tasks_status", "user_id", "status", "id"),
    Index("ix_tasks_part", "user_id", "part"),
)
"""The tasks of users."""

TASK_IS_OPEN = "status IN ('pending', 'in_progress')"
"""The condition of the indexes of open tasks, which queries have to repeat in the same words."""

_where(tasks, "ix_tasks_subject", "subject_key IS NOT NULL", "user_id", "subject_key", "id")
_where(tasks, "ix_tasks_due_at", TASK_IS_OPEN, "user_id", "due_at")
_where(tasks, "ix_tasks_urgent", f"{TASK_IS_OPEN} AND priority = 'urgent'", "user_id", "due_at")

task_tags = _table(
    "task_tags",
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("tag", String(64), primary_key=True),
    Column(
        "task_id", String(36), ForeignKey("tasks.id", name="fk_task_tags_task", ondelete="CASCADE"), primary_key=True
    ),
    Column("status", String(16), nullable=False),  # of the task: tasks with a tag and a status are counted here alone
    Index("ix_task_tags_task_id", "task_id"),
    rowid=False,
)
"""The tags of tasks, by which they are found."""

task_changes = _table(
    "task_changes",
    Column(
        "task_id", String(36), ForeignKey("tasks.id", name="fk_task_changes_task", ondelete="CASCADE"), primary_key=True
    ),
    Column("version", Integer, primary_key=True, autoincrement=False),
    _user(),
    Column("source", String(16), nullable=False),
    Column("agent", String(64)),
    Column("run_id", String(36)),
    Column("key", String(64)),  # of the call that made it, within its run
    Column("created_at", BigInteger, nullable=False),
    Column("content", Sealed, nullable=False),  # what changed, as JSON
    UniqueConstraint("run_id", "key", "task_id", name="uq_task_changes_key"),
    rowid=False,
)
"""The history of tasks: who changed what. Version 1 is the creation."""

task_parts = _table(
    "task_parts",
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("revision", String(36), nullable=False),  # never reused
    Column("count", Integer, nullable=False),
    rowid=False,
)
"""Tasks of one user that are read together by the index over them: how many they are, and a revision that changes with
every write."""

task_creations = _table(
    "task_creations",
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("minute", Integer, primary_key=True, autoincrement=False),  # since 1970
    Column("count", Integer, nullable=False),
    rowid=False,
)
"""Number of tasks that each user created in each minute of the last hour, tasks that were deleted since included."""

task_feeds = _table(
    "task_feeds",
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("hash", LargeBinary, nullable=False),  # SHA-256 of the token
    Column("token", Sealed(version="version"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("used_at", BigInteger),
    UniqueConstraint("hash", name="uq_task_feeds_hash"),
)
"""Calendar feeds of tasks: the token in the URL of each user's feed, which opens nothing else."""

runs = _table(
    "runs",
    _id(),
    _user(),
    Column("thread_id", String(36), ForeignKey("threads.id", name="fk_runs_thread_id", ondelete="SET NULL")),
    Column("trigger", String(16), nullable=False, server_default="delivery"),
    Column("delivery_id", String(36)),
    Column("agent", String(64), nullable=False),
    Column("state", String(32), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("error", Text),
    Column("ended", String(16)),  # answered, done, max_steps, repeated, cancelled, failed; NULL: not ended, no model
    Column("cancel", Boolean, nullable=False, server_default=false()),  # a person asked to cancel it
    # True: what a run may wait for was decided since its attempt began.
    Column("woken", Boolean, nullable=False, server_default=false()),
    Column("begun_at", BigInteger),  # when it was counted for a limit of runs; NULL: it was not
    Index("ix_runs_delivery_id", "delivery_id"),
    Index("ix_runs_thread_id", "thread_id"),
    Index("ix_runs_agent", "user_id", "agent", "started_at"),
)
"""Runs of agents: all attempts of one delivery are one run, unless a person starts a new one."""

_where(runs, "ix_runs_begun_agent", "begun_at IS NOT NULL", "agent", "begun_at")
_where(runs, "ix_runs_begun_user", "begun_at IS NOT NULL", "user_id", "begun_at")
_where(runs, "ix_runs_parked", "state IN ('awaiting', 'budget_exceeded', 'switched_off')", "state", "user_id", "agent")

steps = _table(
    "steps",
    # No foreign key: steps are written in every run, and deleted with it.
    Column("run_id", String(36), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("key", Text, nullable=False),
    _user(),
    Column("kind", String(64), nullable=False),
    Column("repeatable", Boolean, nullable=False),
    Column("state", String(16), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("intent", Sealed, nullable=False),
    Column("result", Sealed),
    rowid=False,
)
"""The steps of a run in order: the intent is stored before the step, the result after it."""

run_events = _table(
    "run_events",
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # of the user, in the order of the commits
    Column("agent", String(64), nullable=False),
    Column("thread_id", String(36)),
    Column("run_id", String(36), nullable=False),
    Column("key", String(80)),  # of the event within its run, the same in every attempt
    Column("name", String(16), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("content", Sealed, nullable=False),  # as JSON
    UniqueConstraint("run_id", "key", name="uq_run_events_key"),
    Index("ix_run_events_run", "run_id", "number"),
    Index("ix_run_events_thread", "thread_id"),  # for the deletion of threads
    Index("ix_run_events_created_at", "created_at"),  # for retention
    rowid=False,
)
"""Events in the runs of agents with a model, kept for a day: see `runtime.threads.events.log`."""

run_event_counts = _table(
    "run_event_counts",
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("newest", BigInteger, nullable=False),
    rowid=False,
)
"""The number of each user's newest event."""

approvals = _table(
    "approvals",
    _id(),
    _user(),
    Column("agent", String(64), nullable=False),
    Column("thread_id", String(36), nullable=False),
    Column("run_id", String(36), nullable=False),
    Column("call_id", String(80), nullable=False),  # unique in the run
    Column("tool", Text, nullable=False),
    Column("state", String(16), nullable=False),  # awaiting, approved, denied, expired, cancelled
    Column("deadline", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("decided_at", BigInteger),
    Column("decided_by", String(64)),  # the id of a user
    Column("reason", Sealed),
    Column("content", Sealed, nullable=False),  # JSON: the arguments, the hash of what is to run, where it came from
    Column("decision", Sealed),  # JSON: what a person decided, about which hash, and how
    UniqueConstraint("run_id", "call_id", name="uq_approvals_call"),
    Index("ix_approvals_newest", "user_id", "created_at", "id"),
    Index("ix_approvals_thread", "thread_id"),
)
"""Calls of tools that a person has to confirm, and what was decided."""

# With the state: SQLite could not tell it from `ix_approvals_newest` otherwise, and would take that.
_where(approvals, "ix_approvals_awaiting", "state = 'awaiting'", "state", "user_id", "created_at", "id")

standing_approvals = _table(
    "standing_approvals",
    _id(),
    _user(),
    Column("agent", String(64), nullable=False),
    Column("tool", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("decided_by", String(64), nullable=False),  # the id of a user
    Column("content", Sealed, nullable=False),  # JSON: the agent, the tool and its definition
    UniqueConstraint("user_id", "agent", "tool", name="uq_standing_approvals_tool"),
)
"""Tools that an agent may call for a user without asking again."""

secrets = _table(
    "secrets",
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("name", String(128), primary_key=True),
    Column("value", Sealed(version="version"), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("previous", Sealed(version="version")),
    Column("previous_until", BigInteger),  # Unix milliseconds; until then the previous secret is valid too
    Column("version", Integer, nullable=False, server_default="0"),  # number of rotations
)
"""Secrets generated by Symbiont."""

mcp_logins = _table(
    "mcp_logins",
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("server", String(64), primary_key=True),
    Column("content", Sealed(version="updated_at"), nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)
"""Logins to MCP servers with OAuth: tokens, and what is needed to refresh them."""

users = _table(
    "users",
    Column("user_id", String(64), primary_key=True),  # random
    Column("name", String(64)),  # NULL: removed, the name is free; without `removed_at`, the data is kept
    Column("created_at", BigInteger, nullable=False),
    Column("removed_at", BigInteger),  # set until all data of the user is deleted: see `runtime.api.admin.user_removal`
    Index("ix_users_name", "name", unique=True),
)
"""Users. `OWNER` exists without a row."""

tokens = _table(
    "tokens",
    _id(),
    _user(),
    Column("label", String(64), nullable=False),
    Column("hash", LargeBinary, nullable=False),  # SHA-256 of the whole token
    Column("scopes", String(64), nullable=False),  # separated by spaces
    Column("tools", Text),  # groups of tools, separated by spaces; NULL: all
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("used_at", BigInteger),
    UniqueConstraint("hash", name="uq_tokens_hash"),
)
"""Bearer tokens; only their hashes are stored."""

webhooks = _table(
    "webhooks",
    _id(),
    _user(),
    Column("title", Text, nullable=False),
    Column("agent", String(64), nullable=False),  # empty: none, deliveries are only stored
    # Or, sealed, a mark that unverified requests are accepted; NULL: it accepts nothing.
    Column("secret", Sealed(version="secret_version")),
    Column("previous_secret", Sealed(version="secret_version")),
    Column("secret_version", Integer, nullable=False, server_default="0"),  # number of rotations
    Column("secret_shown", Boolean, nullable=False, server_default=true()),  # false: nobody has seen the newest
    Column("previous_until", BigInteger),  # Unix milliseconds; until then the previous secret is valid too
    Column("is_active", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("ix_webhooks_user_id", "user_id", "created_at"),
)
"""Webhooks created through the API by users and their agents."""

rates = _table(
    "rates",
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("scope", String(16), primary_key=True),  # `webhook`, or `user` for all webhooks of a user together
    Column("name", String(64), primary_key=True),
    Column("newest", BigInteger, nullable=False),  # Unix seconds
    Column("counts", Text, nullable=False),  # JSON: [5, 0, 2], the last count is of the second `newest`
    rowid=False,
)
"""Accepted deliveries per second in the last seconds, for rate limits."""

items = _table(
    "items",
    Column("memory", String(64), primary_key=True),
    Column("id", String(36), primary_key=True),
    # No length limits here: the store refuses values that are too long for a key of an index.
    Column("user_id", Text, nullable=False, server_default=OWNER),
    Column("agent_id", String(64), nullable=False),  # the collection's name
    Column("project_id", Text),
    Column("memory_type", String(16), nullable=False),
    Column("timestamp", BigInteger, nullable=False),  # Unix microseconds, so that an item keeps its exact time
    Column("source_uri", Text),
    Column("source_key", String(32)),  # the first half of its SHA-256: a URI may be too long for a key of an index
    Column("chunk_hash", String(64), nullable=False),
    Column("tags", Text, nullable=False),  # JSON: sorted list
    Column("part", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("content", Sealed(version="version"), nullable=False),
    Column("subject", Text),  # of a keyed thread
    Column("subject_key", String(32)),  # as `source_key`
    Column("replaces", Text),  # the id of an older item
    Column("retracts", Text),  # the id of an item that it withdraws
    Column("run_id", Text),  # of the run that wrote it
    # Of a log entry: 1, its long-term items were promoted; 2, it has some that cannot be promoted.
    Column("compacted", Integer),
    Column("version", Integer, nullable=False, server_default="0"),  # number of changes of the content
    Index("ix_items_chunk", "memory", "agent_id", "user_id", "chunk_hash"),
    Index("ix_items_part", "memory", "part", "position"),
    Index("ix_items_time", "memory", "agent_id", "timestamp", "id"),
)
"""The items of collections: unencrypted fields for filters, and in `content`, sealed, text, source and origin
as JSON."""

_where(items, "ix_items_source", "source_key IS NOT NULL", "memory", "agent_id", "user_id", "source_key")
_where(items, "ix_items_subject", "subject_key IS NOT NULL", "memory", "agent_id", "subject_key", "timestamp", "id")
_where(items, "ix_items_replaces", "replaces IS NOT NULL", "memory", "replaces")
_where(items, "ix_items_retracts", "retracts IS NOT NULL", "memory", "retracts")
_where(items, "ix_items_run", "run_id IS NOT NULL", "memory", "run_id")

item_sources = _table(
    "item_sources",
    Column("memory", String(64), primary_key=True),
    Column("item_id", String(36), primary_key=True),
    Column("source_key", String(32), primary_key=True),
    Column("user_id", Text, nullable=False, server_default=OWNER),
    Column("source_uri", Text, nullable=False),
    ForeignKeyConstraint(
        ["memory", "item_id"], ["items.memory", "items.id"], name="fk_item_sources_item", ondelete="CASCADE"
    ),
    Index("ix_item_sources_source", "memory", "source_key"),
)
"""Further sources of items with the same text, besides the item's `source_uri`. A source is never in both."""

item_parts = _table(
    "item_parts",
    Column("memory", String(64), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("user_id", Text, nullable=False, server_default=OWNER),
    Column("agent_id", String(64), nullable=False),
    Column("revision", String(36), nullable=False),  # random, never reused
    Column("used", Integer, nullable=False),  # number of positions ever assigned
    Column("episodic", Integer, nullable=False),
    Column("semantic", Integer, nullable=False),
    Column("procedural", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),  # of the sealed contents
    Index("ix_item_parts_agent", "memory", "agent_id", "user_id", "part"),
)
"""Groups of items that are read together: items of one agent and one user, their number by type, and a revision that
changes with every write. An empty collection has one part."""

SEALED_TABLES: Final = tuple(
    table for table in metadata.sorted_tables if any(isinstance(column.type, Sealed) for column in table.c)
)
"""The tables with sealed values. Each has a `user_id`."""
