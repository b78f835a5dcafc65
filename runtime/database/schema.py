"""Every table. Times are Unix milliseconds unless said otherwise, ids UUID version 7 as text, and every row has a
`user_id`: the id of a user, which no other user ever has, and not the name.

The migrations spell the same schema out; a test compares the two on both databases.
"""

from __future__ import annotations

from typing import Any

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
    text,
)

from runtime.database.sealed import Sealed

OWNER = "owner"
"""The id, and the name, of the one user of an installation that has made no others."""

metadata = MetaData()


def _id() -> Column[str]:
    return Column("id", String(36), primary_key=True)


def _user() -> Column[str]:
    return Column("user_id", String(64), nullable=False, server_default=OWNER)


def turn_columns() -> list[Column[Any]]:
    """Return the columns of a table whose rows are turns: what `runtime.threads.turns` claims them by.

    The table also has `id` (UUID version 7), `user_id` and `agent`.
    """
    return [
        Column("state", String(16), nullable=False),
        Column("attempt", Integer, nullable=False),  # number of the claim; the fence of its writes
        Column("tries", Integer, nullable=False),  # claims that count towards the dead letter
        Column("next_attempt_at", BigInteger, nullable=False),
        Column("lease_until", BigInteger),  # by PostgreSQL's clock; NULL on SQLite
        Column("run_id", String(36)),
        Column("finished_at", BigInteger),
        Column("last_error", Text),
        Column("lane", String(64)),  # the group whose concurrency queue it waits in; NULL: in none
    ]


def index_turns(table: Table) -> None:
    """Give a table of turns its indexes, each over the rows in one state."""
    for name, columns, where in (
        ("due", ("next_attempt_at",), "state = 'queued' AND lane IS NULL"),
        ("lane", ("lane", "id", "next_attempt_at"), "state = 'queued' AND lane IS NOT NULL"),
        ("dead", ("id",), "state = 'dead'"),
        ("agent_gone", ("id",), "state = 'agent_gone'"),
        ("running", ("lease_until",), "state = 'running'"),
    ):
        given = [table.c[each] for each in columns]
        Index(f"ix_{table.name}_{name}", *given, sqlite_where=text(where), postgresql_where=text(where))


meta = Table(
    "meta",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
"""What the database knows about itself, such as the id of the key it is sealed with."""

deliveries = Table(
    "deliveries",
    metadata,
    _id(),
    _user(),
    Column("webhook", String(64), nullable=False),
    Column("agent", String(64), nullable=False),  # empty: it is for none, and only kept
    Column("provider", String(64), nullable=False),
    Column("provider_delivery_id", Text),
    Column("event", Text),
    Column("received_at", BigInteger, nullable=False),
    Column("source", Text),
    Column("size", BigInteger, nullable=False),
    Column("body_sha256", String(64)),
    Column("content_type", Text),
    Column("headers", Text, nullable=False),  # JSON: [[name, value], …], the chosen ones
    Column("verified", Boolean, nullable=False),
    Column("secret_index", Integer),
    Column("keep_body", Boolean, nullable=False),
    *turn_columns(),
    UniqueConstraint("user_id", "webhook", "provider_delivery_id", name="uq_deliveries_provider_delivery_id"),
)
"""What was accepted: the inbox, and its own audit."""

index_turns(deliveries)

bodies = Table(
    "bodies",
    metadata,
    # No foreign key: this is the hot path, and PostgreSQL checks one per row.
    Column("delivery_id", String(36), primary_key=True),
    _user(),
    Column("body", Sealed, nullable=False),
    Column("headers_size", Integer, nullable=False, server_default="0"),
)
"""What was received, sealed in one piece: the headers as JSON, `headers_size` bytes of it, and then the raw body.

It stands apart, so that a change of a delivery's state does not write it again.
"""

replay_keys = Table(
    "replay_keys",
    metadata,
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("webhook", String(64), primary_key=True),
    Column("mac", LargeBinary, primary_key=True),
    Column("expires_at", BigInteger, nullable=False),
    Column("delivery_id", String(36), nullable=False),
    Index("ix_replay_keys_expires_at", "expires_at"),
    sqlite_with_rowid=False,
)
"""The matched signatures of accepted deliveries, kept until a copy would be too old anyway."""

attempts = Table(
    "attempts",
    metadata,
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
    Column("received_at", BigInteger, nullable=False),  # the newest one, where several are rolled up
    Column("count", Integer, nullable=False),
    Column("secret_index", Integer),
    Index("ix_attempts_received_at", "received_at"),
    Index("ix_attempts_group", "user_id", "webhook", "verdict", "reason", "id"),
)
"""The audit of what was not accepted; bounded, and never a body."""

threads = Table(
    "threads",
    metadata,
    _id(),
    _user(),
    Column("agent", String(64), nullable=False),
    Column("title", Sealed),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("ix_threads_agent", "user_id", "agent", "updated_at"),
)
"""Conversations, each continued by several runs."""

runs = Table(
    "runs",
    metadata,
    _id(),
    _user(),
    Column("thread_id", String(36), ForeignKey("threads.id", name="fk_runs_thread_id", ondelete="SET NULL")),
    Column("trigger", String(16), nullable=False, server_default="delivery"),
    Column("delivery_id", String(36)),
    Column("agent", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("error", Text),
    Index("ix_runs_delivery_id", "delivery_id"),
    Index("ix_runs_thread_id", "thread_id"),
)
"""What an agent did in one turn: all attempts at one delivery are one run, unless a person asks for a new one.
`trigger`: the kind of turn, such as `delivery`."""

steps = Table(
    "steps",
    metadata,
    # No foreign key: steps are written for every run, and pruned with it.
    Column("run_id", String(36), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("key", Text),
    _user(),
    Column("kind", String(64), nullable=False),
    Column("repeatable", Boolean, nullable=False),
    Column("state", String(16), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("intent", Sealed, nullable=False),
    Column("result", Sealed),
    sqlite_with_rowid=False,
)
"""The acts of a run: the intent is stored before the act, the result after it. A step is identified by its `key`."""

secrets = Table(
    "secrets",
    metadata,
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("name", String(128), primary_key=True),
    Column("value", Sealed, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("previous", Sealed),
    Column("previous_until", BigInteger),  # Unix milliseconds; until then the one before is good too
)
"""Secrets that Symbiont made itself."""

users = Table(
    "users",
    metadata,
    # Random; of users from before there were ids, their name.
    Column("user_id", String(64), primary_key=True),
    Column("name", String(64)),  # NULL: removed, so that the name is free
    Column("created_at", BigInteger, nullable=False),
    Column("removed_at", BigInteger),  # until everything of theirs is deleted: see `runtime.api.admin.user_removal`
    Index("ix_users_name", "name", unique=True),
)
"""Who may ask for something. `OWNER` is there without a row."""

tokens = Table(
    "tokens",
    metadata,
    _id(),
    _user(),
    Column("label", String(64), nullable=False),
    Column("hash", LargeBinary, nullable=False),  # SHA-256 of the whole token
    Column("scopes", String(64), nullable=False),  # words with spaces between them
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("used_at", BigInteger),
    UniqueConstraint("hash", name="uq_tokens_hash"),
)
"""Bearer tokens, of which only hashes are kept."""

webhooks = Table(
    "webhooks",
    metadata,
    _id(),
    _user(),
    Column("title", Text, nullable=False),
    Column("agent", String(64), nullable=False),  # empty: none, deliveries are only kept
    Column("secret", Sealed),  # or, sealed, that unverified requests are accepted; NULL: it accepts nothing
    Column("previous_secret", Sealed),
    Column("previous_until", BigInteger),  # Unix milliseconds; until then the secret before is good too
    Column("is_active", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("ix_webhooks_user_id", "user_id", "created_at"),
)
"""Webhooks made while the daemon runs, by users and their agents."""

rates = Table(
    "rates",
    metadata,
    Column("user_id", String(64), primary_key=True, server_default=OWNER),
    Column("scope", String(16), primary_key=True),  # `webhook`, or `user` for all of a user's together
    Column("name", String(64), primary_key=True),
    Column("newest", BigInteger, nullable=False),  # Unix seconds
    Column("counts", Text, nullable=False),  # JSON: [5, 0, 2], the last one is that of the second `newest`
    sqlite_with_rowid=False,
)
"""How many deliveries were accepted in each of the last seconds, where a limit asks for it."""

items = Table(
    "items",
    metadata,
    Column("memory", String(64), primary_key=True),
    Column("id", String(36), primary_key=True),
    # The payload's texts have no length of their own: what may not be too long for an index's key, the store refuses.
    Column("user_id", Text, nullable=False, server_default=OWNER),
    Column("agent_id", String(64), nullable=False),  # the collection's name
    Column("project_id", Text),
    Column("memory_type", String(16), nullable=False),
    Column("timestamp", BigInteger, nullable=False),  # Unix microseconds: an item comes back with the time it was given
    Column("source_uri", Text),
    Column("source_key", String(32)),  # the first half of its SHA-256: an address may be too long for an index's key
    Column("chunk_hash", String(64), nullable=False),
    Column("tags", Text, nullable=False),  # JSON: a sorted list
    Column("part", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("content", Sealed, nullable=False),
    # Of an entry: 1, what it holds for the long term was put where it stays; 2, it holds something that cannot be.
    Column("compacted", Integer),
    Index("ix_items_chunk", "memory", "agent_id", "user_id", "chunk_hash"),
    Index("ix_items_part", "memory", "part", "position"),
    Index("ix_items_time", "memory", "agent_id", "timestamp", "id"),
)
"""What collections hold: the payload in the clear, so that it can be filtered by, and in `content`, sealed, the text,
where it comes from and what it was made of, as JSON."""

Index(
    "ix_items_source",
    items.c.memory,
    items.c.agent_id,
    items.c.user_id,
    items.c.source_key,
    sqlite_where=text("source_key IS NOT NULL"),
    postgresql_where=text("source_key IS NOT NULL"),
)

item_sources = Table(
    "item_sources",
    metadata,
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
"""Where else items are from: sources that say the same, besides the `source_uri` of the item. None is in both."""

item_parts = Table(
    "item_parts",
    metadata,
    Column("memory", String(64), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("user_id", Text, nullable=False, server_default=OWNER),
    Column("agent_id", String(64), nullable=False),
    Column("revision", String(36), nullable=False),  # random, and never the same again
    Column("used", Integer, nullable=False),  # positions that were ever given away
    Column("episodic", Integer, nullable=False),
    Column("semantic", Integer, nullable=False),
    Column("procedural", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),  # of the sealed contents
    Index("ix_item_parts_agent", "memory", "agent_id", "user_id", "part"),
)
"""Items as they are read at once: some of one agent and one user, how many there are of each type, and what changes
whenever they do. A collection that was made and holds nothing is a part that does."""
