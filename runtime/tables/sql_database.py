"""The interface of SQL tables, a database of its own for each user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    # Worker processes load this module, and nothing that they do not need.
    from runtime.tables.quota import Quota

MOST_ROWS: Final = 1000
"""Maximum rows of a result."""
MOST_BYTES: Final = 1_000_000
"""Maximum bytes of a result, as compact JSON."""
MOST_SECONDS: Final = 5.0
"""Maximum duration of a statement."""
MOST_IMPORT_SECONDS: Final = 60.0
"""Maximum duration of a statement that runs for many rows."""
MOST_ROW_BYTES: Final = 64 * 1024
"""Maximum bytes of a row, and of a value."""
LONGEST_STATEMENT: Final = 20_000
"""Maximum characters of a statement."""

Dialect = Literal["sqlite", "postgresql"]

Value: TypeAlias = str | int | float | bool | list["Value"] | dict[str, "Value"] | None
"""A JSON value. In results, a blob is base64, a date or time ISO 8601; integers are exact. In parameters and pages, a
blob is `{"base64": "…"}`; in parameters where the column's type is known, such as bytea, also base64 alone, and a date,
a time or a number can be text."""

Parameters: TypeAlias = Sequence[Value] | Mapping[str, Value]
"""Values for `?` by position, or for `:name` by name, in both dialects."""


class StatementResult(NamedTuple):
    """The result of a statement. `rows`: values in the order of `columns`, whose names differ. `affected_rows`: rows
    that an INSERT, UPDATE or DELETE changed; 0 for others. `truncated`: there are more rows than these."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    affected_rows: int
    truncated: bool


class ColumnInfo(NamedTuple):
    """A column of a table. `type`: as declared, in the words of the dialect."""

    name: str
    type: str
    nullable: bool


class TableInfo(NamedTuple):
    """A table of a user."""

    name: str
    columns: Sequence[ColumnInfo]
    row_count: int


class TablePage(NamedTuple):
    """Some rows of a table in a stable order. `after`: where the next page begins; None: this is the last."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    after: str | None


class SqlDatabase(Protocol):
    """The SQL tables of all users. A user can reach no other user's tables, and nothing else.

    Every method raises `StatementError` for what the caller can correct, `QuotaExceeded` for a limit of the user, and
    `TablesUnavailable` or `Unavailable` for what may work later. A change is complete and on disk, or nothing has
    changed.
    """

    dialect: Dialect

    @property
    def problem(self) -> str | None:
        """The reason why there are no tables here, such as missing rights, in one line; None if there are."""

    @property
    def connections(self) -> int:
        """Number of open files, each with a process, or of connections of users."""

    async def run(
        self, user_id: str, statement: str, parameters: Parameters, quota: Quota, *, read_only: bool = False
    ) -> StatementResult:
        """Run one statement in a transaction of its own. `read_only`: raise `ReadOnlyStatement` for a statement that
        may change something, before it runs."""

    async def run_for_each(
        self, user_id: str, statement: str, rows: Sequence[Parameters], quota: Quota
    ) -> StatementResult:
        """Run one statement with each of these parameters, in one transaction; for imports. An error names the `row`
        that caused it."""

    async def tables(self, user_id: str) -> Sequence[TableInfo]:
        """Return the user's tables by name; none if the user has none."""

    async def page(self, user_id: str, table: str, *, after: str | None = None, limit: int = MOST_ROWS) -> TablePage:
        """Return rows of a table, for exports: a row that does not change meanwhile is on exactly one page. Pages have
        at most `limit` rows, and fewer if these are large."""

    async def missing_files(self) -> Sequence[str]:
        """Return the files with tables of users that are not there."""

    async def drop(self, user_id: str) -> None:
        """Delete all tables of a user, and what belongs to them. Nothing happens if there are none."""

    async def renew_keys(self) -> None:
        """Renew what opens the tables of each user whose key was rotated since it was made. Called often."""

    async def close(self) -> None:
        """Close everything that is open. The last call."""
