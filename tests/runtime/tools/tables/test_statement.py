"""What a statement looks like. A wrong guess is harmless: what seems to read is run so that it changes nothing."""

from __future__ import annotations

import pytest

from runtime.tables.statement import seems_to_read
from runtime.tools import TOOLS


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "  select 1;",
        "-- a comment\n/* another\none */ SELECT 1",
        "(SELECT 1) UNION (SELECT 2)",
        "VALUES (1)",
        "WITH n AS (SELECT 1) SELECT * FROM n",
    ],
)
def test_what_only_reads_can_be_repeated(statement: str) -> None:
    assert seems_to_read(statement)
    assert TOOLS["agent_memory_sql"].repeatable({"query": statement})


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t SELECT 1",
        "-- SELECT\nDELETE FROM t",
        "/* SELECT 1 */ DROP TABLE t",
        "/* SELECT 1",
        "WITH n AS (SELECT 1) INSERT INTO t SELECT * FROM n",
        "WITH n AS (DELETE FROM t RETURNING *) SELECT * FROM n",
        "SELECTED",
        "",
        "\N{KELVIN SIGN}",
    ],
)
def test_what_may_change_something_is_not_repeated(statement: str) -> None:
    assert not seems_to_read(statement)
    assert not TOOLS["agent_memory_sql"].repeatable({"query": statement})


def test_a_long_beginning_is_read_in_no_time() -> None:
    for beginning in ("/*" * 10_000, "(" * 20_000, "--" * 10_000, "/**/" * 5_000, " " * 20_000):
        assert not seems_to_read(beginning)
