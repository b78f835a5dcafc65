"""Statements on the file of one user: what they return, what is refused, and in which words."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from runtime.tables.sqlite.connection import CommitUnknown, SealedConnection
from runtime.tables.sqlite.messages import Limits, ReadPage, Run
from runtime.tables.sqlite.statement import Refusal
from runtime.tables.sqlite.user_file import UserFile
from tests.cases import each_case
from tests.runtime.tables.sqlite.opened import KEY, OpenFile


@pytest.fixture
def file(tmp_path: Path) -> Iterator[OpenFile]:
    opened = OpenFile(tmp_path)
    opened.run("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, price NUMERIC, note BLOB)")
    yield opened
    opened.file.close()


def rows_of(file: OpenFile, number: int) -> None:
    file.run(
        "INSERT INTO orders (item) "
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?) SELECT i FROM n",
        [number],
    )


# Results


def test_a_statement_returns_columns_rows_and_what_it_changed(file: OpenFile) -> None:
    inserted = file.run("INSERT INTO orders (item, price) VALUES ('tea', 3), ('milk', 1.5)")
    assert (inserted.columns, inserted.rows, inserted.affected_rows) == ([], [], 2)
    selected = file.run("SELECT item, price FROM orders ORDER BY id")
    assert (selected.columns, selected.rows) == (["item", "price"], [["tea", 3], ["milk", 1.5]])
    assert (selected.affected_rows, selected.truncated) == (0, False)
    assert file.run("UPDATE orders SET price = price + 1 WHERE item = 'tea' RETURNING price").rows == [[4]]
    assert file.run("DELETE FROM orders").affected_rows == 2
    assert file.run("SELECT item FROM orders").columns == ["item"]


@each_case("value", [2**53 + 1, -(2**63), 1.5, "it's; --", "naïve 🙂 日本", "a\x00b", None])
def test_values_are_returned_as_they_were_given(file: OpenFile, value: Any) -> None:
    file.run("REPLACE INTO orders (id, item, note) VALUES (1, 'x', ?)", [value])
    assert file.value("SELECT note FROM orders") == value
    assert file.value("SELECT :v AS v", {"v": value}) == value


def test_blobs_are_base64_and_infinities_text(file: OpenFile) -> None:
    assert file.value("SELECT x'00ff' AS b") == "AP8="
    assert file.value("SELECT decode('AP8=', 'base64') AS b") == "AP8="
    assert file.value("SELECT hex(decode('00FF', 'hex')) AS b") == "00FF"
    assert file.value("SELECT encode(x'00ff', 'base64') AS b") == "AP8="
    assert [file.value(f"SELECT {each} AS f") for each in ("9e999", "-9e999")] == ["Infinity", "-Infinity"]


def test_a_result_has_a_thousand_rows_and_a_megabyte_at_most(file: OpenFile) -> None:
    rows_of(file, 1001)
    result = file.run("SELECT id FROM orders")
    assert (len(result.rows), result.truncated) == (1000, True)
    file.run("DELETE FROM orders WHERE id = 1")
    result = file.run("SELECT id FROM orders")
    assert (len(result.rows), result.truncated) == (1000, False)
    result = file.run("SELECT id, hex(zeroblob(30000)) AS x FROM orders")
    assert (len(result.rows), result.truncated) == (16, True)
    # A change is made to its end, whatever is returned of it.
    changed = file.run("UPDATE orders SET note = hex(zeroblob(3000)) RETURNING id, note")
    assert (changed.affected_rows, changed.truncated) == (1000, True)
    assert file.value("SELECT count(*) AS n FROM orders WHERE note IS NOT NULL") == 1000


def test_a_row_of_more_than_a_megabyte_is_refused(file: OpenFile) -> None:
    columns = ", ".join(f"hex(zeroblob(32000)) AS c{number}" for number in range(20))
    assert "one row has more than 1,000,000 bytes" in file.refused(f"SELECT {columns}").message


def test_two_columns_of_one_name_are_refused_before_anything_changes(file: OpenFile) -> None:
    failed = file.refused("INSERT INTO orders (item) VALUES ('tea') RETURNING id, id")
    assert "two columns of the result are called 'id'" in failed.message
    assert "use AS" in (failed.hint or "")
    assert file.value("SELECT count(*) AS n FROM orders") == 0


# Parameters


def test_parameters_that_do_not_fit_are_one_clear_error(file: OpenFile) -> None:
    given: Any
    for statement, given, message in (
        ("SELECT ? AS a", [], "the statement has 1 ?, but params has 0 values"),
        ("SELECT ? AS a", [1, 2], "the statement has 1 ?, but params has 2 values"),
        ("SELECT ?2 AS a", [1], "the statement has 2 ?, but params has 1 value"),
        ("SELECT 1 AS a", [1], "the statement has 0 ?, but params has 1 value"),
        ("SELECT ? AS a", {"a": 1}, "the statement has ?, but params is an object with a"),
        ("SELECT :a AS a", [1], "the statement has :name, but params is a list"),
        ("SELECT :a AS a", [], "params lacks a value for :a"),
        ("SELECT :a AS a", {}, "params lacks a value for :a"),
        ("SELECT :a AS a", {"a": 1, "b": 2}, "the statement has no :b, which params contains"),
        ("SELECT 1 AS a", {"b": 2}, "the statement has no :b, which params contains"),
        ("SELECT :a + ? AS a", [1], "the statement has both ? and :name"),
        ("SELECT ?1001 AS a", [1], "at most 1,000 parameters"),
    ):
        assert message in file.refused(statement, given).message, statement


def test_parameters_in_texts_and_comments_are_none(file: OpenFile) -> None:
    assert file.value("SELECT '?:a' AS a -- :b ?\n /* ? */") == "?:a"
    assert file.run('SELECT 1 AS ":b", 2 AS [?], 3 AS `@c`').columns == [":b", "?", "@c"]
    assert file.value("SELECT @a || $b AS x", {"a": "1", "b": "2"}) == "12"


# What is refused, and the words for it


def test_an_error_says_what_to_change(file: OpenFile) -> None:
    for statement, message, hint in (
        ("SELECT 1; SELECT 2", "only one statement", "once for each"),
        ("", "the statement is empty", "use SELECT"),
        ("-- nothing", "the statement is empty", "use SELECT"),
        ("EXPLAIN SELECT 1", "EXPLAIN is not allowed", "run the statement itself"),
        ("PRAGMA table_info(orders)", "PRAGMA is not allowed", "agent_memory_schema"),
        ("BEGIN", "BEGIN is not allowed", "a transaction of its own"),
        ("CREATE VIEW v AS SELECT 1", "CREATE VIEW is not allowed", "use SELECT"),
        ("CREATE TABLE q AS SELECT 1 AS a", "CREATE TABLE … AS is not allowed", ""),
        ("SELECT load_extension('x')", "the function load_extension() is not allowed", ""),
        ("SELECT item::text FROM orders", "SQLite has no casts with ::", "CAST"),
        ("INSERT INTO orders (item) VALUES ('it's')", "the quote ' is never closed", 'params ["it\'s"]'),
        ("INSERT INTO orders (item) VALUES ('tea", "the quote ' is never closed", 'params ["it\'s"]'),
        ('INSERT INTO orders (item) VALUES ("tea")', 'there is no column "tea"', 'params ["it\'s"]'),
        ("INSERT INTO orders (item) VALUES (NULL)", "NOT NULL constraint failed: orders.item", ""),
        (
            "INSERT INTO orders (id, item) VALUES (1, 'a'), (1, 'b')",
            "UNIQUE constraint failed",
            "ON CONFLICT",
        ),
        ("SELECT replace(hex(zeroblob(16000)), '0', hex(zeroblob(16000))) AS x", "more than 65,536 bytes", "smaller"),
        ("INSERT INTO orders (item, note) VALUES (hex(zeroblob(20000)), zeroblob(40000))", "65,536 bytes", "smaller"),
        ("SELECT CAST(x'ff' AS TEXT) AS x", "not valid UTF-8", "hex(column)"),
    ):
        failed = file.refused(statement)
        assert failed.reason == "statement"
        assert message in failed.message, statement
        assert hint in (failed.hint or ""), statement


def test_a_wrong_name_is_told_with_those_that_exist(file: OpenFile) -> None:
    failed = file.refused("SELECT * FROM order_s")
    assert (failed.reason, failed.message, failed.known) == ("table", "order_s", ["orders"])
    failed = file.refused("SELECT prize FROM orders")
    assert (failed.reason, failed.message, failed.known) == ("column", "prize", ["id", "item", "note", "price"])
    assert file.refused("INSERT INTO orders (itm) VALUES (1)").reason == "column"


def test_texts_and_comments_may_contain_semicolons(file: OpenFile) -> None:
    assert file.value("SELECT ';' AS a; -- ; more") == ";"
    assert file.value("/* ; */ SELECT 'DROP TABLE orders; --' AS a;;") == "DROP TABLE orders; --"


@each_case("name", ["_x", "sqlite_x", "pragma_x", "json_each", "FTS5", '"_x"', "[sqlite_x]"])
def test_no_table_or_index_gets_a_reserved_name(file: OpenFile, name: str) -> None:
    for statement in (
        f"CREATE TABLE {name} (a)",
        f"CREATE INDEX {name} ON orders (item)",
        f"ALTER TABLE orders RENAME TO {name}",
    ):
        assert "reserved" in file.refused(statement).message
    assert [table.name for table in file.file.describe().tables] == ["orders"]


def test_a_common_table_expression_is_read_also_without_its_columns(file: OpenFile) -> None:
    """The authorizer sees such a read without a database, as it sees one of a table or a virtual table."""
    assert file.value("WITH c AS (SELECT 1 AS a UNION SELECT 2) SELECT count(*) AS n FROM c") == 2
    assert file.value("WITH c(a) AS (VALUES (1)) SELECT a FROM c") == 1
    assert file.value("WITH _c AS (SELECT count(*) AS n FROM orders) SELECT n FROM _c") == 0
    for name in ("pragma_table_list", "json_each", "sqlite_stmt", "dbstat", "carray"):
        assert file.refused(f"SELECT count(*) AS n FROM {name}").reason in ("statement", "table")


def test_tables_are_changed_and_foreign_keys_hold(file: OpenFile) -> None:
    for statement in (
        "CREATE TABLE lines (n INTEGER PRIMARY KEY AUTOINCREMENT, o INTEGER REFERENCES orders (id) ON DELETE CASCADE)",
        "CREATE UNIQUE INDEX one ON lines (o) WHERE o > 0",
        "ALTER TABLE lines RENAME COLUMN o TO of_order",
        "ALTER TABLE lines ADD COLUMN amount INTEGER NOT NULL DEFAULT 1 CHECK (amount > 0)",
        "INSERT INTO orders (id, item) VALUES (1, 'tea')",
        "INSERT INTO lines (of_order) VALUES (1)",
        "INSERT INTO lines (of_order) VALUES (1) ON CONFLICT DO UPDATE SET amount = amount + 1",
        "ALTER TABLE lines DROP COLUMN amount",
        "ALTER TABLE lines RENAME TO parts",
    ):
        file.run(statement)
    failed = file.refused("INSERT INTO parts (of_order) VALUES (9)")
    assert "FOREIGN KEY" in failed.message
    assert "the row that is referred to must exist" in (failed.hint or "")
    assert file.run("DELETE FROM orders WHERE id = 1").affected_rows == 1
    assert file.value("SELECT count(*) AS n FROM parts") == 0
    file.run("DROP INDEX one")
    file.run("DROP TABLE parts")
    assert [table.name for table in file.file.describe().tables] == ["orders"]


def test_an_error_in_the_middle_leaves_nothing(file: OpenFile) -> None:
    rows_of(file, 5)
    failed = file.refused("UPDATE orders SET item = CASE id WHEN 4 THEN NULL ELSE 'x' END")
    assert "NOT NULL" in failed.message
    assert file.value("SELECT count(*) AS n FROM orders WHERE item = 'x'") == 0
    assert file.refused("INSERT INTO orders (id, item) VALUES (77, 'a'), (1, 'b')").reason == "statement"
    assert file.value("SELECT count(*) AS n FROM orders") == 5


def test_a_file_that_another_process_is_about_to_close_is_waited_for(file: OpenFile) -> None:
    closing = threading.Timer(0.05, file.file.close)
    closing.start()
    other = UserFile(file.path, KEY, known=True)
    closing.join()
    assert [table.name for table in other.describe().tables] == ["orders"]
    other.close()


def test_a_commit_that_the_disk_failed_is_neither_made_nor_unmade(
    file: OpenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_trusted = SealedConnection.run_trusted

    def failing(self: SealedConnection, text: str, *values: Any) -> Any:
        if text == "COMMIT":
            raise apsw.IOError
        return run_trusted(self, text, *values)

    monkeypatch.setattr(SealedConnection, "run_trusted", failing)
    with pytest.raises(CommitUnknown):
        file.run("INSERT INTO orders (item) VALUES ('x')")


# Limits of the user


def test_a_table_beyond_the_limit_is_refused(file: OpenFile) -> None:
    file.run("CREATE TABLE b (a INTEGER PRIMARY KEY AUTOINCREMENT)", tables=2)
    failed = file.refused("CREATE TABLE c (a)", tables=2)
    assert (failed.reason, failed.count) == ("tables", 2)
    # After a move to a smaller tier only growth is refused.
    file.run("ALTER TABLE b ADD COLUMN x", tables=1)
    file.run("DROP TABLE b", tables=1)
    assert [table.name for table in file.file.describe().tables] == ["orders"]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO orders (item) SELECT item FROM orders",
        "INSERT INTO orders (id, item) SELECT id + 4, 'y' FROM orders WHERE true ON CONFLICT DO UPDATE SET item = 'x'",
        "REPLACE INTO orders (id, item) SELECT id + 4, item FROM orders",
        "WITH c AS (SELECT * FROM orders) INSERT INTO orders (item) SELECT item FROM c RETURNING id",
    ],
)
def test_rows_beyond_the_limit_are_refused_and_none_is_kept(file: OpenFile, statement: str) -> None:
    rows_of(file, 8)
    failed = file.refused(statement, rows=10)
    assert (failed.reason, failed.message, failed.count) == ("rows", "orders", 8)
    assert file.value("SELECT count(*) AS n FROM orders") == 8
    file.run("INSERT INTO orders (item) VALUES ('a'), ('b')", rows=10)
    assert file.refused("INSERT INTO orders (item) VALUES ('c')", rows=10).count == 10
    file.run("DELETE FROM orders WHERE id < 3")
    file.run("INSERT INTO orders (item) VALUES ('c')", rows=10)


def test_rows_are_counted_also_after_tables_were_exchanged_and_without_a_limit(file: OpenFile) -> None:
    file.run("CREATE TABLE b (n)")
    file.run("INSERT INTO b VALUES (1)", rows=10)
    rows_of(file, 10)
    file.run("DROP TABLE b", rows=10)
    file.run("ALTER TABLE orders RENAME TO b", rows=10)
    assert file.refused("INSERT INTO b (item) VALUES ('x')", rows=10).count == 10
    file.run("DELETE FROM b WHERE id > 5", rows=10)
    file.run("INSERT INTO b (item) VALUES ('x')", rows=10)
    file.run("INSERT INTO b (item) SELECT item FROM b", rows=None)
    assert file.refused("INSERT INTO b (item) VALUES ('x')", rows=10).count == 12


def test_what_may_only_read_is_refused_before_it_changes_anything(file: OpenFile) -> None:
    assert file.run("WITH c AS (SELECT ? AS a) SELECT a FROM c", [7], read_only=True).rows == [[7]]
    for statement in (
        "INSERT INTO orders (item) VALUES ('x')",
        "WITH c AS (SELECT 'x' AS a) INSERT INTO orders (item) SELECT a FROM c",
        "WITH c AS (SELECT 1) DELETE FROM orders RETURNING id",
        "CREATE TABLE IF NOT EXISTS orders2 (a)",
        "DROP TABLE orders",
    ):
        assert file.refused(statement, read_only=True).reason == "changes"
    assert file.value("SELECT count(*) AS n FROM orders") == 0


def test_beyond_the_limit_of_rows_what_adds_none_is_allowed(file: OpenFile) -> None:
    rows_of(file, 20)
    file.run("INSERT INTO orders (id, item) VALUES (1, 'x') ON CONFLICT DO UPDATE SET item = excluded.item", rows=10)
    file.run("REPLACE INTO orders (id, item) VALUES (1, 'y')", rows=10)
    assert file.refused("INSERT INTO orders (item) VALUES ('x')", rows=10).count == 20
    file.run("UPDATE orders SET item = 'z'", rows=10)
    file.run("DELETE FROM orders WHERE id = 1", rows=10)
    assert file.value("SELECT count(*) AS n FROM orders") == 19


def test_a_full_file_keeps_what_it_has_and_can_be_emptied(file: OpenFile) -> None:
    file.run("INSERT INTO orders (item, note) VALUES ('keep', zeroblob(50000))", bytes=200_000)
    many = "INSERT INTO orders (item, note) SELECT 'more', zeroblob(50000) FROM orders a, (VALUES (1), (2), (3), (4))"
    assert file.refused(many, bytes=200_000).reason == "bytes"
    assert file.value("SELECT group_concat(item) AS i FROM orders") == "keep"
    file.run("DELETE FROM orders", bytes=200_000)
    file.run("INSERT INTO orders (item, note) VALUES ('again', zeroblob(50000))", bytes=200_000)
    # A smaller limit than what there is: it can be read and deleted, and takes no more than before.
    assert file.refused("INSERT INTO orders (item, note) VALUES ('x', zeroblob(9000))", bytes=20_000).reason == "bytes"
    file.run("UPDATE orders SET item = 'same'", bytes=20_000)
    file.run("DELETE FROM orders", bytes=20_000)


def test_a_change_of_size_waits_for_permission_and_one_that_is_refused_is_taken_back(file: OpenFile) -> None:
    def refuse(*_: object) -> None:
        raise Refusal(file.refused("EXPLAIN"))

    file.run("INSERT INTO orders (item) VALUES ('a')")
    assert file.sizes[-1][1] is False
    file.run("INSERT INTO orders (item, note) VALUES ('a', zeroblob(50000))")
    assert file.sizes[-1][1] is True
    before = file.file.size
    with pytest.raises(Refusal):
        file.file.run(Run("DELETE FROM orders", [[]], Limits(5, 10, 10_000_000), 5.0), refuse)
    assert file.file.size == before
    assert file.value("SELECT count(*) AS n FROM orders") == 2


# Reading tables


def test_tables_are_described_with_their_columns_and_rows(file: OpenFile) -> None:
    rows_of(file, 3)
    file.run("CREATE TABLE keyed (k TEXT, n INTEGER, twice AS (n * 2), PRIMARY KEY (k, n)) WITHOUT ROWID")
    found = {table.name: table for table in file.file.describe().tables}
    assert [(each.name, each.type, each.nullable) for each in found["orders"].columns] == [
        ("id", "INTEGER", False),
        ("item", "TEXT", False),
        ("price", "NUMERIC", True),
        ("note", "BLOB", True),
    ]
    assert [(each.name, each.nullable) for each in found["keyed"].columns] == [
        ("k", False),
        ("n", False),
        ("twice", True),
    ]
    assert (found["orders"].row_count, found["keyed"].row_count) == (3, 0)


def all_pages(file: OpenFile, table: str, limit: int) -> list[list[Any]]:
    rows: list[list[Any]] = []
    after = None
    while True:
        page = file.file.page(ReadPage(table, after, limit))
        rows += page.rows
        after = page.after
        if after is None:
            return rows


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 1000])
def test_pages_have_each_row_once(file: OpenFile, limit: int) -> None:
    rows_of(file, 7)
    file.run("CREATE TABLE keyed (k BLOB, n, rowid TEXT, PRIMARY KEY (k, n)) WITHOUT ROWID")
    file.run("INSERT INTO keyed SELECT zeroblob(id % 3), item, item FROM orders")
    file.run("CREATE TABLE shadow (rowid TEXT, _rowid_ TEXT)")
    file.run("INSERT INTO shadow SELECT item, 'x' FROM orders")
    assert [row[1] for row in all_pages(file, "ORDERS", limit)] == [str(number) for number in range(1, 8)]
    assert sorted(row[1] for row in all_pages(file, "keyed", limit)) == [str(number) for number in range(1, 8)]
    assert [row[0] for row in all_pages(file, "shadow", limit)] == [str(number) for number in range(1, 8)]


def test_a_page_of_an_unknown_table_or_place_is_refused(file: OpenFile) -> None:
    for asked, message in (
        (ReadPage("nothing", None, 10), "nothing"),
        (ReadPage("sqlite_schema", None, 10), "sqlite_schema"),
        (ReadPage('orders" --', None, 10), 'orders" --'),
        (ReadPage("orders", "x", 10), "`after` is not from a page of this table"),
        (ReadPage("orders", "kpMBAg==", 10), "`after` is not from a page of this table"),
    ):
        with pytest.raises(Refusal) as refusal:
            file.file.page(asked)
        assert refusal.value.failure.message == message


# Letters and numbers


def test_lower_upper_and_like_know_the_letters_of_unicode(file: OpenFile) -> None:
    file.run("INSERT INTO orders (item) VALUES ('Çelik'), ('ΟΔΟΣ'), ('straße'), ('100%'), ('a' || char(10) || 'B')")
    found = {
        "item LIKE 'ç%'": ["Çelik"],
        "item LIKE '%ELİK' OR item LIKE '%elik'": ["Çelik"],
        "lower(item) = 'çelik'": ["Çelik"],
        "upper(item) = 'ÇELIK'": ["Çelik"],
        "item LIKE '_δο_'": ["ΟΔΟΣ"],
        "item LIKE 'οδος'": ["ΟΔΟΣ"],
        "item LIKE 'STRA_E'": ["straße"],
        "item LIKE '%!%' ESCAPE '!'": ["100%"],
        "item LIKE 'a_b'": ["a\nB"],
        "item LIKE '%l%e%'": [],
        "item LIKE '%s%s%'": [],
        "item NOT LIKE '%'": [],
    }
    for condition, expected in found.items():
        assert [row[0] for row in file.run(f"SELECT item FROM orders WHERE {condition}").rows] == expected, condition
    assert file.value("SELECT (NULL LIKE 'a') IS NULL AND ('a' LIKE NULL) IS NULL AND lower(NULL) IS NULL AS a") == 1
    assert (
        file.refused("SELECT 'a' LIKE 'b' ESCAPE 'xx' AS a").message == "ESCAPE expression must be a single character"
    )


def test_lower_writes_numbers_as_a_cast_to_text_does(file: OpenFile) -> None:
    for number in ("1.5", "3.0", "1e20", "0.1 + 0.2", "-1e-7", "9e999", "-9e999", "7", "x'4142'"):
        assert file.value(f"SELECT lower({number}) = lower(CAST({number} AS TEXT)) AS same") == 1, number


def test_like_is_what_sqlite_says_for_ascii(file: OpenFile) -> None:
    plain = apsw.Connection(":memory:")
    for pattern in ("", "%", "_", "a%", "%a", "%a%", "a%a", "_%_", "%ab%ab%", "a_%", "%_b", "A.B", "a%%b", "%b_", "%%"):
        for text in ("", "a", "ab", "aba", "abab", "AbAb", "a.b", "aXb", "b", "aab"):
            ((expected,),) = plain.execute("SELECT ? LIKE ?", (text, pattern)).fetchall()
            assert file.value("SELECT ? LIKE ? AS a", [text, pattern]) == expected, (text, pattern)


def test_indexes_checks_and_generated_columns_know_the_letters_of_unicode(file: OpenFile) -> None:
    file.run(
        "CREATE TABLE people (name TEXT CHECK (lower(name) <> 'ö'), key TEXT GENERATED ALWAYS AS (upper(name)) STORED)"
    )
    file.run("CREATE UNIQUE INDEX people_name ON people (lower(name))")
    file.run("INSERT INTO people (name) VALUES ('Çelik')")
    assert file.value("SELECT key FROM people WHERE lower(name) = 'çelik'") == "ÇELIK"
    assert file.refused("INSERT INTO people (name) VALUES ('ÇELIK')").message.startswith("UNIQUE")
    assert file.refused("INSERT INTO people (name) VALUES ('Ö')").message.startswith("CHECK")


def test_long_texts_end_a_comparison_in_time(file: OpenFile) -> None:
    rows_of(file, 2000)
    slow = "SELECT count(*) AS n FROM orders WHERE 'é' || hex(zeroblob(32000)) LIKE ?"
    file.file._file.raw.set_progress_handler(None, 1)
    ran = Run(slow + " || substr(item, 1, 0)", [["%" + "_" * 400 + "1"]], file.limits, 0.3)
    with pytest.raises(Refusal) as caught:
        file.file.run(ran, lambda *_: None)
    assert caught.value.failure.reason == "time"


def test_an_integer_literal_beyond_64_bits_is_refused(file: OpenFile) -> None:
    for sql in (
        "SELECT 9223372036854775808 AS a",
        "INSERT INTO orders (item) VALUES (9223372036854775808)",
        "SELECT 1 AS a WHERE 1 < 9_223_372_036_854_775_808",
        "SELECT -9223372036854775809 AS a",
        "SELECT " + "9" * 5000 + " AS a",
    ):
        assert "has more than 64 bits" in file.refused(sql).message, sql


def test_numbers_that_are_exact_or_written_as_floats_are_taken(file: OpenFile) -> None:
    assert file.value("SELECT 9223372036854775807 AS a") == 2**63 - 1
    assert file.value("SELECT -9223372036854775808 AS a") == -(2**63)
    assert file.value("SELECT 9223372036854775808.0 AS a") == 2.0**63
    assert file.value("SELECT .9223372036854775808 AS a") == 0.9223372036854775808
    assert file.value("SELECT 0009223372036854775807 AS a") == 2**63 - 1
    assert file.value("SELECT '9223372036854775808' AS a") == "9223372036854775808"
