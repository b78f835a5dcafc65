"""The migrations create exactly the schema of the code."""

from __future__ import annotations

from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from runtime.database import migrate
from runtime.database.connection import Database
from runtime.database.schema import metadata
from runtime.database.sealed import Sealed


async def test_migrations_make_the_schema_of_the_code(database: Database) -> None:
    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        return list(compare_metadata(context, metadata))

    assert await database.transact(differences) == []


async def test_partial_indexes_are_partial_in_the_database_too(database: Database) -> None:
    def partial(connection: Connection) -> set[str | None]:
        key = f"{connection.dialect.name}_where"
        indexes = inspect(connection).get_indexes("deliveries")
        return {index["name"] for index in indexes if key in index.get("dialect_options", {})}

    assert await database.transact(partial) == {
        "ix_deliveries_agent_gone",
        "ix_deliveries_dead",
        "ix_deliveries_due",
        "ix_deliveries_lane",
        "ix_deliveries_running",
        "ix_deliveries_suspect",
        "ix_deliveries_waiting",
    }


def test_the_known_head_is_the_newest_revision() -> None:
    folder = Path(migrate.__file__).parent / "migrations"
    assert ScriptDirectory(str(folder)).get_heads() == [migrate.HEAD]


def test_every_row_says_whose_it_is() -> None:
    assert [table.name for table in metadata.sorted_tables if "user_id" not in table.c] == [
        "meta",
        "thread_changes",
    ]


def test_content_is_sealed() -> None:
    sealed = {str(column) for table in metadata.sorted_tables for column in table.c if isinstance(column.type, Sealed)}
    assert sealed == {
        *("items.content", "bodies.body", "secrets.previous", "secrets.value", "steps.intent", "steps.result"),
        *("webhooks.previous_secret", "webhooks.secret", "threads.title", "messages.content", "inputs.content"),
        *("user_storage.secret", "user_storage.kv_key", "kv.content", "tasks.content", "task_changes.content"),
        "task_feeds.token",
        *("summaries.content", "summaries.embedding", "blocks.value", "block_versions.value"),
        *("agent_settings.settings", "run_events.content", "mcp_logins.content"),
        *("approvals.content", "approvals.reason"),
    }
