"""A new database has the schema of the code, and so has one of a released version after its upgrade.

`tests/golden/schema` has the statements that create each released schema, by its revision. They never change after the
release; UPDATE_GOLDEN=1 writes those of HEAD.
"""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_mock_engine, inspect, text

from runtime.crypto import MasterKey
from runtime.database import migrate
from runtime.database.connection import Database
from runtime.database.migrate import ExpectedDatabase
from runtime.database.schema import metadata
from runtime.database.sealed import Sealed
from runtime.errors import UsageError

RELEASED = Path(__file__).parents[2] / "golden/schema"
MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision = "9998"
down_revision = {head!r}


def upgrade():
    op.add_column("users", sa.Column("mood", sa.Text()))
"""


def differences(connection: Connection) -> list[object]:
    context = MigrationContext.configure(connection, opts={"compare_server_default": True})
    return list(compare_metadata(context, metadata))


def replace(connection: Connection, statements: list[str], revision: str) -> None:
    """Replace the schema by another one."""
    metadata.drop_all(connection)
    for statement in statements:
        connection.execute(text(statement))
    connection.execute(text(f"UPDATE alembic_version SET version_num = '{revision}'"))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_schema_changes_only_with_a_migration(kind: str) -> None:
    found: list[str] = []

    def note(statement: Any, *_: object) -> None:
        found.append(re.sub(r"\s+", " ", str(statement.compile(dialect=engine.dialect))).strip())

    engine = create_mock_engine(f"{kind}://" if kind == "sqlite" else "postgresql+asyncpg://", note)
    metadata.create_all(engine, checkfirst=False)
    # Tables come in the order of their foreign keys, indexes in none.
    found = [*(each for each in found if " TABLE " in each), *sorted(each for each in found if " INDEX " in each)]
    file = RELEASED / f"{migrate.HEAD}.{kind}.sql"
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"{each};\n" for each in found))
    assert file.read_text().removesuffix(";\n").split(";\n") == found


async def test_a_new_database_and_each_released_one_have_the_schema_of_the_code(
    database_url: str, master_key: MasterKey
) -> None:
    database = await Database.open(database_url, master_key)
    assert await database.transact(differences) == []
    for file in sorted(RELEASED.glob(f"*.{database.kind}.sql")):
        statements = file.read_text().removesuffix(";\n").split(";\n")
        await database.transact(partial(replace, statements=statements, revision=file.name[:4]))
        await database.close()
        database = await Database.open(database_url, master_key)
        assert await database.transact(differences) == []
    await database.close()


async def test_an_older_schema_is_upgraded_once_and_not_by_what_only_reads(
    database_url: str, master_key: MasterKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, head = migrate._config, migrate.HEAD
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions/9998_mood.py").write_text(MIGRATION.format(head=head))

    def extended() -> Config:
        made = config()
        released = Path(migrate.__file__).parent / "migrations/versions"
        made.set_main_option("version_locations", f"{released};{tmp_path / 'versions'}")
        made.set_main_option("path_separator", ";")
        return made

    await (await Database.open(database_url, master_key)).close()
    monkeypatch.setattr(migrate, "_config", extended)
    monkeypatch.setattr(migrate, "HEAD", "9998")
    with pytest.raises(UsageError, match=f"the schema {head} is older than this program"):
        await Database.open(database_url, master_key, ExpectedDatabase(migrates=False))
    database = await Database.open(database_url, master_key)
    columns = await database.transact(lambda connection: inspect(connection).get_columns("users"))
    assert "mood" in {column["name"] for column in columns}
    assert database.upgraded is not None
    assert f"schema upgraded from {head} to 9998" in database.upgraded
    await database.close()
    database = await Database.open(database_url, master_key)
    assert database.upgraded is None
    await database.close()


@pytest.mark.parametrize(
    ("revision", "said"),
    [
        ("0001", "is of a program before 0.2.0, and was not changed (export with that program (`symbi memory export`"),
        ("0024", "is of a program before 0.2.0, and was not changed (export with that program (`symbi memory export`"),
        ("9999", "the schema 9999 is newer than this program, which supports up to 0100 (upgrade symbi"),
    ],
)
async def test_a_database_of_before_the_first_release_or_of_a_newer_program_is_refused(
    database_url: str, master_key: MasterKey, revision: str, said: str
) -> None:
    database = await Database.open(database_url, master_key)
    change = text(f"UPDATE alembic_version SET version_num = '{revision}'")
    await database.transact(lambda connection: connection.execute(change))
    await database.close()
    with pytest.raises(UsageError) as refused:
        await Database.open(database_url, master_key)
    assert (refused.value.exit_code, said in refused.value.line()) == (2, True)
    assert "\n" not in refused.value.line()


def test_the_known_head_is_the_newest_revision() -> None:
    folder = Path(migrate.__file__).parent / "migrations"
    assert ScriptDirectory(str(folder)).get_heads() == [migrate.HEAD]


def test_every_row_says_whose_it_is() -> None:
    assert [table.name for table in metadata.sorted_tables if "user_id" not in table.c] == ["meta", "thread_changes"]


def test_content_is_sealed() -> None:
    sealed = {str(column) for table in metadata.sorted_tables for column in table.c if isinstance(column.type, Sealed)}
    assert sealed == {
        *("items.content", "bodies.body", "secrets.previous", "secrets.value", "steps.intent", "steps.result"),
        *("webhooks.previous_secret", "webhooks.secret", "threads.title", "messages.content", "inputs.content"),
        *("user_storage.secret", "user_storage.kv_key", "kv.content", "tasks.content", "task_changes.content"),
        "task_feeds.token",
        *("summaries.content", "summaries.embedding", "blocks.value", "block_versions.value"),
        *("agent_settings.settings", "run_events.content", "mcp_logins.content"),
        *("approvals.content", "approvals.decision", "approvals.reason", "standing_approvals.content"),
    }
