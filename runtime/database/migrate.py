"""Creates or upgrades the schema of a database when it is opened, if the caller expects it.

A new database is created from `runtime.database.schema`. Migrations are only for databases of a released version.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select

from runtime.database.schema import metadata
from runtime.errors import UsageError

if TYPE_CHECKING:
    from alembic.config import Config

HEAD: Final = "0100"
"""The newest revision, repeated here so that alembic is imported only to upgrade."""
FIRST: Final = "0100"
"""The revision of 0.2.0, the first version whose databases are upgraded."""

_LOCK = zlib.crc32(b"symbiont migrations")
_VERSION: Final = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))


@dataclass(frozen=True, slots=True)
class ExpectedDatabase:
    """Expectations of a database that is opened. `id`: the id of the one that was used last; None: any.

    `creates`: a missing or empty one becomes a new one; `replaces`: also if keys are left of the one before, which it
    takes over. `migrates`: an older schema is upgraded.
    """

    id: str | None = None
    creates: bool = True
    replaces: bool = False
    migrates: bool = True


ANY_DATABASE = ExpectedDatabase()


class DatabaseUnexpected(UsageError):  # noqa: N818
    """The database is not the expected one; it was not changed."""

    def __init__(self, what: Literal["empty", "another"], message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.what = what


def empty(label: str) -> DatabaseUnexpected:
    """Return the error for a database that is missing or has no tables."""
    return DatabaseUnexpected("empty", f"{label} is missing or empty", hint="put the database back")


def migrate(connection: Connection, label: str, expected: ExpectedDatabase = ANY_DATABASE) -> str | None:
    """Create the schema, or run the missing migrations, in this connection's transaction. Returns one line about an
    upgrade, or None.

    `label` names the database in errors. Raises UsageError for a database that this program cannot upgrade, and
    DatabaseUnexpected.
    """
    if connection.dialect.name == "postgresql":
        # Daemons that start together migrate one after the other.
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    if not inspect(connection).has_table(_VERSION.name):
        if not expected.creates:
            raise empty(label)
        metadata.create_all(connection, checkfirst=False)
        _VERSION.create(connection)
        connection.execute(_VERSION.insert().values(version_num=HEAD))
        return None
    revision = str(connection.execute(select(_VERSION)).scalar())
    if revision == HEAD:
        return None
    _refuse_unknown(revision, label)
    if not expected.migrates:
        raise UsageError(
            f"{label}: the schema {revision} is older than this program, and this command does not upgrade it",
            hint=f"copy the root, then start `symbi up`, which upgrades it to {HEAD}",
        )
    _upgrade(connection)
    return f"{label}: schema upgraded from {revision} to {HEAD}; an older symbi cannot open it now"


def _upgrade(connection: Connection) -> None:
    from alembic import command

    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)


def _refuse_unknown(revision: str, label: str) -> None:
    """Raise UsageError for a revision from before the first release, or of a newer program."""
    if revision < FIRST:
        raise UsageError(
            f"{label} is of a program before 0.2.0, and was not changed",
            hint="export with that program (`symbi memory export`, `table export`, `kv export`, `thread export`), and "
            "import memories and tables into a new root; deliveries, tasks and secrets stay with that program",
        )
    from alembic.script import ScriptDirectory

    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if revision not in known:
        raise UsageError(
            f"{label}: the schema {revision} is newer than this program, which supports up to {HEAD}",
            hint="upgrade symbi, or restore the backup made before the upgrade",
        )


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "runtime.database:migrations")
    return config
