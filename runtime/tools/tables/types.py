"""Types of the parameters and results of the tools on SQL tables, from which their schemas are built."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, Field, JsonValue

from runtime.tables.sql_database import LONGEST_STATEMENT, MOST_ROWS, Dialect

MOST_VALUES: Final = 999
"""Maximum number of values for a statement."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")

Query = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_STATEMENT,
        description="One SQL statement.",
        examples=["SELECT shop, amount FROM expenses WHERE amount > ?"],
    ),
]


def _fitting(values: Any) -> Any:
    """Return the values. Raises ValueError: the union below would name its own kinds for each of them."""
    if not isinstance(values, list | dict | None):
        raise ValueError("it is a list for ?, or an object for :name")
    if len(values or ()) > MOST_VALUES:
        raise ValueError(f"there are {len(values or ()):,} values, and at most {MOST_VALUES} may be given")
    if isinstance(values, dict) and not all(map(_NAME.fullmatch, values)):
        raise ValueError("a name has letters, digits and _, and at most 63 of them")
    return values


Values = Annotated[
    Annotated[list[JsonValue], Field(max_length=MOST_VALUES)]
    | Annotated[dict[str, JsonValue], Field(max_length=MOST_VALUES)]
    | None,
    BeforeValidator(_fitting),
    Field(
        description='Values: a list for `?`, an object for `:name`. A blob is `{"base64": "…"}`.',
        examples=[[20], {"least": 20}],
    ),
]


class SqlResult(BaseModel):
    """The result of a statement."""

    ok: Literal[True] = Field(default=True, description="It was executed.")
    columns: list[str] = Field(description="The names of the columns, in order; empty if it returns no rows.")
    rows: list[dict[str, Any]] = Field(
        description=f"At most {MOST_ROWS:,} rows, by column. A blob is base64, a time ISO 8601, NULL null."
    )
    affected_rows: int = Field(description="The rows that an INSERT, UPDATE or DELETE changed.")
    truncated: bool = Field(description="There are more rows than these: use LIMIT and OFFSET, or WHERE.")


class TableColumn(BaseModel):
    """A column of a table."""

    name: str
    type: str = Field(description="As declared.")
    nullable: bool


class UserTable(BaseModel):
    """A table of the user."""

    name: str
    columns: list[TableColumn]
    row_count: int


class SqlSchema(BaseModel):
    """The user's tables, and what they take."""

    dialect: Dialect = Field(description="The language of statements.")
    tables: list[UserTable]
    total_storage_bytes: int = Field(description="Bytes that the tables and the key-value store take.")
    quota_used_percent: float = Field(description="The same in percent of what the user may store.")
