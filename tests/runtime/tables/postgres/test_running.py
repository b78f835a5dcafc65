"""Statements on PostgreSQL: values, results, errors and limits."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from runtime.identity import users
from runtime.tables.errors import QuotaExceeded, ReadOnlyStatement, StatementError
from runtime.tables.quota import TIERS, Quota
from tests.lanes import LONG
from tests.runtime.tables.postgres.opened import FREE, Opened, Place, fetch


async def refusal(opened: Opened, sql: str, values: Any = (), quota: Quota = FREE) -> str:
    with pytest.raises((StatementError, QuotaExceeded)) as caught:
        await opened.run(opened.eve, sql, values, quota)
    return caught.value.line()


ENDLESS = "INSERT INTO n SELECT md5(b::text) FROM generate_series(1, 10000) a, generate_series(1, 10000) b"
"""Inserts more rows than a statement has time for."""
VALUES: list[tuple[str, Any, Any]] = [
    ("smallint", 5, 5),
    ("integer", True, 1),
    ("bigint", 9223372036854775807, 9223372036854775807),
    ("bigint", "12", 12),
    ("real", 1.5, 1.5),
    ("double precision", 0.1, 0.1),
    ("numeric", 12.5, "12.5"),
    ("numeric(10, 2)", "12.5", "12.50"),
    ("numeric", 10**50, str(10**50)),
    ("text", "it's ; -- näme 🙂", "it's ; -- näme 🙂"),
    ("text", 5, "5"),
    ("varchar(3)", "abc", "abc"),
    ("boolean", 1, True),
    ("boolean", False, False),
    ("date", "2026-01-31", "2026-01-31"),
    ("date", "infinity", "infinity"),
    ("time", "10:30", "10:30:00"),
    ("timestamp", "2026-01-31T10:30:00", "2026-01-31T10:30:00"),
    ("timestamptz", "2026-01-31T10:30:00+02:00", "2026-01-31T08:30:00+00:00"),
    ("datetime", "2026-01-31 10:30", "2026-01-31T10:30:00"),
    ("interval", "1 day 2 hours", "P1DT2H"),
    ("uuid", "0e5bc9f2-6a9a-4f6e-8f0e-2ad4c1e0ab01", "0e5bc9f2-6a9a-4f6e-8f0e-2ad4c1e0ab01"),
    ("jsonb", {"a": [1, None, "x"]}, {"a": [1, None, "x"]}),
    ("jsonb", '{"a": 1}', {"a": 1}),
    ("jsonb", "x", "x"),
    ("json", [1, 2], [1, 2]),
    ("bytea", {"base64": "AAEC"}, "AAEC"),
    ("blob", "AAEC", "AAEC"),
    ("text[]", ["a", "b"], ["a", "b"]),
    ("integer[]", [1, None], [1, None]),
    ("text", None, None),
]


async def test_values_come_back_as_they_were_given(opened: Opened) -> None:
    for kind, given, expected in VALUES:
        await opened.run(opened.eve, f"CREATE TABLE one (value {kind})")
        await opened.run(opened.eve, "INSERT INTO one VALUES (?)", [given])
        assert (await opened.run(opened.eve, "SELECT value FROM one")).rows == [[expected]], (kind, given)
        page = await opened.tables.page(opened.eve, "one")
        assert page.rows == [[{"base64": expected} if kind in ("bytea", "blob") else expected]]
        await opened.run(opened.eve, "DROP TABLE one")


WRONG = [
    ("integer", "x"),
    ("integer", 2**40),
    ("integer", 1.5),
    ("bigint", 2**63),
    ("numeric", "1e99999"),
    ("numeric", "x"),
    ("boolean", "perhaps"),
    ("date", 5),
    ("date", "2026-02-30"),
    ("timestamp", "yesterday at noon"),
    ("uuid", "x"),
    ("bytea", "not base64"),
    ("text", "zero \0 byte"),
    ("text", "\ud800"),
    ("text[]", "x"),
    ("varchar(3)", "abcd"),
]


async def test_a_value_that_does_not_fit_is_one_clear_error_and_changes_nothing(opened: Opened) -> None:
    for kind, given in WRONG:
        await opened.run(opened.eve, f"CREATE TABLE one (value {kind})")
        line = await refusal(opened, "INSERT INTO one VALUES (?)", [given])
        assert len(line) < 300
        assert "Traceback" not in line
        assert (await opened.run(opened.eve, "SELECT count(*) AS n FROM one")).rows == [[0]]
        await opened.run(opened.eve, "DROP TABLE one")


async def test_errors_name_the_nearest_names_and_what_to_write(opened: Opened) -> None:
    await opened.run(opened.eve, "CREATE TABLE expenses (id INTEGER PRIMARY KEY, amount NUMERIC, note TEXT NOT NULL)")
    for sql, expected in [
        ("SELECT * FROM expences", "no table is called 'expences' (did you mean expenses?)"),
        ("DROP TABLE expences", "no table is called 'expences' (did you mean expenses?)"),
        ("SELECT amonut FROM expenses", "no column is called 'amonut' (did you mean amount?)"),
        ('INSERT INTO expenses (note) VALUES ("x")', 'there is no column "x" (put values into parameters instead'),
        ("INSERT INTO expenses (nota) VALUES ('x')", "no column is called 'nota' (did you mean note?)"),
        ("UPDATE expenses AS e SET note = e.amonut", "no column is called 'amonut' (did you mean amount?)"),
        ("SELECT id, id FROM expenses", "two columns of the result are called id (name them: id AS other_name)"),
        ("INSERT INTO expenses (note) VALUES ('it's')", "put values into parameters"),
        ("INSERT OR REPLACE INTO expenses VALUES (1)", "ON CONFLICT"),
        ("SELECT datetime('now')", "there is no function datetime (write now()"),
        ("SELECT group_concat(note) FROM expenses", "string_agg"),
        ("SELECT ifnull(note, '') FROM expenses", "coalesce"),
        ("SELECT loer(note) FROM expenses", "did you mean lower"),
        ("SELECT note FROM expenses GROUP BY id HAVING note", "boolean"),
        ("INSERT INTO expenses (amount) VALUES (1)", "null value in column"),
        ("PRAGMA table_info(expenses)", "PostgreSQL"),
        ("SELECT * FROM expenses LIMIT 5, 10", "LIMIT count OFFSET start"),
        ("SELECT `note` FROM expenses", 'quoted as "name"'),
        ("", "the statement is empty"),
        ("SELECT 1; SELECT 2", "one call runs one statement"),
        ("BEGIN", "TRANSACTION is not possible"),
        ("SELECT '" + "x" * 20_000 + "'", "at most 20,000 characters"),
        ("SELECT expenses FROM expenses", "name its columns"),
    ]:
        assert expected in await refusal(opened, sql), sql


async def test_parameters_are_given_by_position_or_by_name_and_read_by_the_scanner(opened: Opened) -> None:
    run, eve = opened.run, opened.eve
    assert (await run(eve, "SELECT ?::int+?::int AS a", [1, 2])).rows == [[3]]
    assert (await run(eve, "SELECT 1 AS a WHERE 1=? AND '?'='?' -- ?", [1])).rows == [[1]]
    assert (await run(eve, "SELECT :a::text AS \":b\", :a || ':c' AS d", {"a": "x"})).rows == [["x", "x:c"]]
    assert (await run(eve, "SELECT $1::int AS a /* $2 :x ? */", [4])).rows == [[4]]
    assert (await run(eve, "SELECT (ARRAY[1,2,3])[1:2] AS a")).rows == [[[1, 2]]]
    for sql, values, expected in [
        ("SELECT ?", [], "1 parameters, and params has 0"),
        ("SELECT ?, :a", [1], "one form only"),
        ("SELECT :a", [1], "params is a list"),
        ("SELECT ?", {"a": 1}, "params is an object"),
        ("SELECT :a", {}, "no value for :a"),
        ("SELECT :a", {"a": 1, "b": 2}, "no parameter :b"),
        ("SELECT $3", [1], "3 parameters"),
        ("SELECT $99999999999999999999", [1], ""),
    ]:
        assert expected in await refusal(opened, sql, values), sql


async def test_a_result_is_cut_at_1000_rows_and_1_mb_and_a_statement_that_only_reads_is_told_apart(
    opened: Opened,
) -> None:
    run, eve = opened.run, opened.eve
    await run(eve, "CREATE TABLE many (n int)")
    done = await run(eve, "INSERT INTO many SELECT generate_series(1, 3000)")
    assert (done.affected_rows, done.rows) == (3000, [])
    read = await run(eve, "SELECT n FROM many ORDER BY n")
    assert (len(read.rows), read.rows[-1], read.truncated) == (1000, [1000], True)
    assert not (await run(eve, "SELECT n FROM many LIMIT 1000")).truncated
    wide = await run(eve, "SELECT n, repeat('x', 9000) AS x FROM many LIMIT 200")
    assert (len(wide.rows), wide.truncated) == (111, True)
    changed = await run(eve, "UPDATE many SET n = n + 1 RETURNING n")
    assert (changed.affected_rows, len(changed.rows), changed.truncated) == (3000, 1000, True)
    assert (await run(eve, "DELETE FROM many WHERE n > 10")).affected_rows == 2991
    with pytest.raises(ReadOnlyStatement):
        await opened.tables.run(eve, "DELETE FROM many", (), FREE, read_only=True)
    assert (await opened.tables.run(eve, "SELECT count(*) AS n FROM many", (), FREE, read_only=True)).rows == [[9]]


async def test_usual_expressions_work(opened: Opened) -> None:
    await opened.run(opened.eve, "CREATE TABLE sales (n int CHECK (n BETWEEN 0 AND 9), shop text, day date)")
    await opened.run(
        opened.eve,
        "INSERT INTO sales VALUES (1, 'a', '2026-01-01'), (2, 'b', '2026-01-02'), (3, 'a', '2026-01-03'),"
        " (4, 'b', '2026-01-04')",
    )
    assert "check constraint" in await refusal(opened, "INSERT INTO sales (n) VALUES (10)")
    for expression, expected in (
        ("count(*) FILTER (WHERE n BETWEEN 2 AND 3)", 2),
        ("count(*) FILTER (WHERE n NOT BETWEEN 2 AND 3)", 2),
        ("count(*) FILTER (WHERE n BETWEEN SYMMETRIC 3 AND 2)", 2),
        ("count(*) FILTER (WHERE n NOT BETWEEN SYMMETRIC 3 AND 2)", 2),
        ("count(*) FILTER (WHERE day BETWEEN '2026-01-02' AND '2026-01-03')", 2),
        ("count(DISTINCT shop)", 2),
        ("sum(n) FILTER (WHERE shop IS DISTINCT FROM 'a')", 6),
        ("max(CASE WHEN n > 2 THEN 'many' ELSE 'few' END)", "many"),
        ("sum(coalesce(nullif(n, 4), 0))", 6),
        ("max(greatest(n, 3)) - min(least(n, 2))", 3),
        ("max(extract(day FROM day))::int", 4),
        ("min(date_trunc('month', day::timestamp))", "2026-01-01T00:00:00"),
        ("max(date_bin('2 days', day::timestamp, '2026-01-01'))", "2026-01-03T00:00:00"),
        ("bit_or(n) & 6 | 8 << 1 >> 1", 14),
        ("max(width_bucket(n::float8, 1::float8, 5::float8, 4))", 4),
        ("regr_slope(n::float8, n::float8)", 1.0),
        ("max(overlay(shop PLACING 'x' FROM 1 FOR 1))", "x"),
        ("num_nulls(max(n), NULL)", 1),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY n)", 2),
    ):
        found = (await opened.run(opened.eve, f"SELECT {expression} AS x FROM sales")).rows
        assert found == [[expected]], expression


async def test_aggregates_collect_the_values_of_whole_tables(opened: Opened) -> None:
    run, eve = opened.run, opened.eve
    await run(eve, "CREATE TABLE orders (id int, customer text)")
    await run(eve, "CREATE TABLE items (orders_id int, name text)")
    await run(eve, "INSERT INTO orders VALUES (1, 'Ada'), (2, 'Eve')")
    await run(eve, "INSERT INTO items VALUES (1, 'tea'), (1, 'milk'), (2, 'tea')")
    joined = "FROM orders o LEFT JOIN items i ON i.orders_id = o.id"
    for sql, expected in (
        ("SELECT string_agg(DISTINCT name, ',' ORDER BY name) AS x FROM items", "milk,tea"),
        ("SELECT string_agg(name, ',') FILTER (WHERE name LIKE 't%') AS x FROM items", "tea,tea"),
        (
            f"SELECT string_agg(i.name, ',' ORDER BY i.name) AS x {joined} GROUP BY o.id ORDER BY o.id LIMIT 1",
            "milk,tea",
        ),
        ("SELECT array_agg(name ORDER BY name) AS x FROM items", ["milk", "tea", "tea"]),
        ("SELECT json_agg(o ORDER BY id) AS x FROM orders o WHERE id = 1", [{"id": 1, "customer": "Ada"}]),
        ("SELECT jsonb_object_agg(customer, id) AS x FROM orders", {"Ada": 1, "Eve": 2}),
        ("SELECT jsonb_agg(jsonb_build_object('a', id) ORDER BY id) AS x FROM orders", [{"a": 1}, {"a": 2}]),
        (
            "SELECT array_agg(DISTINCT name /* ( */ ORDER BY name DESC) FILTER (WHERE name <> ')') AS x FROM items",
            ["tea", "milk"],
        ),
        (
            "SELECT (SELECT string_agg(name, '+') FROM items WHERE orders_id = o.id) AS x FROM orders o WHERE id = 2",
            "tea",
        ),
        ("WITH few AS (SELECT name FROM items WHERE orders_id = 2) SELECT string_agg(name, '') AS x FROM few", "tea"),
        ("SELECT string_agg(x, '') AS x FROM (SELECT name AS x FROM items UNION SELECT 'tea') AS few", "milktea"),
    ):
        found = (await run(eve, sql)).rows
        assert found in ([[expected]], [["teamilk"]]), sql
    await run(eve, "INSERT INTO items SELECT 3, string_agg(name, ',') FROM items")
    assert (await run(eve, "SELECT max(length(name)) AS n FROM items")).rows == [[12]]


async def test_aggregates_collect_at_most_1_mb_in_a_statement(opened: Opened) -> None:
    run, eve = opened.run, opened.eve
    await run(eve, "CREATE TABLE n (id int, body text)")
    await run(eve, "INSERT INTO n SELECT a, repeat('x', 8000) FROM generate_series(1, 5000) a")
    for sql in (
        "SELECT string_agg(body, '') AS x FROM n",
        "SELECT json_agg(n) AS x FROM n",
        "SELECT array_agg(a.id) AS x FROM n a, n b",
        "SELECT (SELECT array_agg(a.id) FROM n b) AS x FROM n a, n c LIMIT 1",
        "WITH few AS (SELECT body FROM n) SELECT string_agg(body, '') AS x FROM few",
        "SELECT string_agg(body, '') AS x FROM (SELECT body FROM n UNION ALL SELECT body FROM n) AS few",
        "INSERT INTO n SELECT 1, left(string_agg(body, ''), 10) FROM n",
        "SELECT array_agg(x) AS x FROM (SELECT unnest(string_to_array(body, 'x')) AS x FROM n) AS few",
        "WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM r) SELECT array_agg(a) AS x FROM r",
        "SELECT (SELECT string_agg(b.body, '') FROM n b WHERE b.id = a.id) AS x FROM n a",
        "SELECT string_agg(body, '' ORDER BY id) FILTER (WHERE id > 0 OR true) AS x FROM n",
    ):
        assert "collect at most 1 MB in a statement" in await refusal(opened, sql), sql
    for sql, expected in (
        ("SELECT string_agg(body, '') OVER () AS x FROM n", "GROUP BY"),
        ("SELECT ARRAY(SELECT body FROM n) AS x", "array_agg"),
        ("SELECT string_agg((SELECT max(b.body) FROM n b), '') AS x FROM n", "into FROM"),
    ):
        assert expected in await refusal(opened, sql), sql
    short = (await run(eve, "SELECT length(string_agg(left(body, 5), '')) AS x FROM n")).rows
    assert short == [[25_000]]
    whole = (await run(eve, "SELECT length(string_agg(body, '')) AS x, count(*) AS n FROM n WHERE id <= 125")).rows
    assert whole == [[1_000_000, 125]]


async def test_a_recursive_query_adds_to_texts_that_it_cuts(opened: Opened) -> None:
    await opened.run(opened.eve, "CREATE TABLE parts (id int, parent int, name text)")
    await opened.run(opened.eve, "INSERT INTO parts VALUES (1, NULL, 'car'), (2, 1, 'wheel'), (3, 2, 'tyre')")
    sql = (
        "WITH RECURSIVE tree AS (SELECT id, name AS path, 1 AS depth FROM parts WHERE parent IS NULL UNION ALL SELECT"
        " parts.id, {}, depth + 1 FROM parts JOIN tree ON parent = tree.id) SELECT path, depth FROM tree WHERE id = 3"
    )
    cut = "left(path || '/' || name, 1000)"
    assert (await opened.run(opened.eve, sql.format(cut))).rows == [["car/wheel/tyre", 3]]
    assert cut.replace("path", "tree.path").replace("name", "items.name") in await refusal(
        opened, sql.format("path || '/' || name")
    )
    assert "UNION ALL" in await refusal(opened, sql.format(cut).replace("UNION ALL", "UNION"))


async def test_what_models_write_for_sqlite_works(opened: Opened) -> None:
    run, eve = opened.run, opened.eve
    await run(
        eve,
        "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, at DATETIME DEFAULT"
        " CURRENT_TIMESTAMP, price DOUBLE, picture BLOB, done BOOLEAN DEFAULT false, UNIQUE (name))",
    )
    await run(eve, "INSERT INTO orders (name, price) VALUES ('a', 1.5), ('b', 2)")
    await run(eve, "INSERT INTO orders (name) VALUES ('a') ON CONFLICT (name) DO UPDATE SET price = excluded.price")
    assert (await run(eve, "SELECT id, name FROM orders ORDER BY id")).rows == [[1, "a"], [2, "b"]]
    await run(eve, "CREATE TABLE lines (id integer primary key, orders_id INTEGER REFERENCES orders (id))")
    assert (await run(eve, "INSERT INTO lines (orders_id) VALUES (1) RETURNING id")).rows == [[1]]


async def test_a_deferred_check_that_fails_at_the_end_changes_nothing(opened: Opened) -> None:
    run, eve = opened.run, opened.eve
    await run(eve, "CREATE TABLE a (id int PRIMARY KEY)")
    await run(eve, "CREATE TABLE b (id int REFERENCES a (id) DEFERRABLE INITIALLY DEFERRED, body text)")
    assert "foreign key" in await refusal(opened, "INSERT INTO b VALUES (1, ?)", ["x" * 20_000])
    assert (await run(eve, "SELECT count(*) AS n FROM b WHERE body LIKE 'x#%' ESCAPE '#'")).rows == [[0]]
    await run(eve, "INSERT INTO a VALUES (1)")
    stored = await opened.storage.usage(eve)
    size = "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class WHERE relnamespace = $1::regnamespace"
    found = await fetch(opened.database.location.dsn, f"{size} AND relkind IN ('r', 'S')", f'"{stored.name}"')
    assert stored.table_bytes == found[0][0]


async def test_an_import_is_all_or_nothing_and_names_the_row(opened: Opened) -> None:
    await opened.run(opened.eve, "CREATE TABLE items (id int PRIMARY KEY, name text)")
    sql = "INSERT INTO items VALUES (?, ?)"
    rows: list[list[Any]] = [[number, f"item {number}"] for number in range(50)]
    wrong: list[tuple[list[Any], int]] = [([7, "again"], 30), (["x", "no number"], 12), ([1], 3)]
    for bad, row in wrong:
        with pytest.raises(StatementError) as caught:
            await opened.tables.run_for_each(opened.eve, sql, [*rows[:row], bad, *rows[row:]], FREE)
        assert caught.value.row == row
        assert (await opened.run(opened.eve, "SELECT count(*) AS n FROM items")).rows == [[0]]
    done = await opened.tables.run_for_each(opened.eve, sql, rows, FREE)
    assert done.affected_rows == 50
    named: list[dict[str, Any]] = [{"id": 100, "name": "a"}, {"id": 101, "name": "b"}]
    await opened.tables.run_for_each(opened.eve, "INSERT INTO items VALUES (:id, :name)", named, FREE)
    assert (await opened.run(opened.eve, "SELECT count(*) AS n FROM items")).rows == [[52]]


async def test_pages_contain_each_row_once(opened: Opened) -> None:
    await opened.run(opened.eve, 'CREATE TABLE "odd ""name" ("a b" int, c text)')
    await opened.run(opened.eve, 'INSERT INTO "odd ""name" SELECT g, repeat(\'x\', 100) FROM generate_series(1, 250) g')
    seen: list[Any] = []
    after = None
    while True:
        page = await opened.tables.page(opened.eve, 'odd "name', after=after, limit=100)
        assert page.columns == ["a b", "c"]
        seen += [row[0] for row in page.rows]
        after = page.after
        if after is None:
            break
    assert sorted(seen) == list(range(1, 251))
    for table, place, expected in [("nothing", None, "no table is called"), ("odd", "x'; --", "not the place")]:
        with pytest.raises(StatementError, match=expected):
            await opened.tables.page(opened.eve, table, after=place)
    with pytest.raises(StatementError, match="no table is called"):
        await opened.tables.page(opened.ada, "anything")


async def test_the_tables_are_described(opened: Opened) -> None:
    assert await opened.tables.tables(opened.eve) == ()
    await opened.run(opened.eve, "CREATE TABLE b (id int PRIMARY KEY, n numeric(5, 1), at timestamptz, tags text[])")
    await opened.run(opened.eve, "CREATE TABLE a (x text)")
    await opened.run(opened.eve, "INSERT INTO a VALUES ('1'), ('2')")
    a, b = await opened.tables.tables(opened.eve)
    assert (a.name, a.row_count, b.name, b.row_count) == ("a", 2, "b", 0)
    assert [tuple(column) for column in b.columns] == [
        ("id", "integer", False),
        ("n", "numeric(5,1)", True),
        ("at", "timestamp with time zone", True),
        ("tags", "text[]", True),
    ]


async def test_a_row_of_64_kib_is_the_largest_and_nothing_of_a_larger_one_is_kept(opened: Opened) -> None:
    run, eve = opened.run, opened.eve
    await run(eve, "CREATE TABLE notes (id int, body text)")
    await run(eve, "INSERT INTO notes VALUES (1, ?)", ["x" * 65_000])
    assert "65,536" in await refusal(opened, "UPDATE notes SET body = body || body")
    assert "a value has at most" in await refusal(opened, "INSERT INTO notes VALUES (2, ?)", ["x" * 70_000])
    assert "row" in await refusal(opened, "INSERT INTO notes SELECT 1, body || body FROM notes")
    assert (await run(eve, "SELECT count(*) AS n, max(length(body)) AS most FROM notes")).rows == [[1, 65_000]]


async def test_a_full_quota_keeps_nothing_of_a_change_and_says_how_much_was_free(opened: Opened) -> None:
    run, eve = opened.run, opened.eve
    small = Quota(tables=2, rows=1000, storage=1_000_000)
    await run(eve, "CREATE TABLE notes (id INTEGER PRIMARY KEY, body text)", quota=small)
    await run(eve, "INSERT INTO notes (body) SELECT 'x' FROM generate_series(1, 900)", quota=small)
    line = await refusal(opened, "INSERT INTO notes (body) SELECT 'x' FROM generate_series(1, 101)", quota=small)
    assert "1,000 rows may be in a table, 900 are in notes, 100 are free" in line
    long = " || ".join(f"md5((id + {number})::text)" for number in range(40))
    line = await refusal(opened, f"UPDATE notes SET body = {long}", quota=small)
    assert "1 MB may be stored" in line
    assert "are free" in line
    assert (await run(eve, "SELECT count(*) AS n, max(length(body)) AS most FROM notes")).rows == [[900, 1]]
    stored = await opened.storage.usage(eve)
    assert 0 < stored.table_bytes <= 1_000_000
    await run(eve, "CREATE TABLE two (id int)", quota=small)
    assert "2 tables may exist, 2 are used" in await refusal(opened, "CREATE TABLE three (id int)", quota=small)
    assert (await opened.storage.usage(eve)).tables == 2
    await run(eve, "DROP TABLE two", quota=small)
    await run(eve, "CREATE TABLE three (id int)", quota=small)
    # What was deleted is free again.
    await run(eve, "UPDATE notes SET body = repeat(md5(id::text), 10)", quota=small)
    assert "1 MB may be" in await refusal(opened, "UPDATE notes SET body = repeat(body, 3)", quota=small)
    await run(eve, "DELETE FROM notes", quota=small)
    await run(eve, "INSERT INTO notes (body) SELECT repeat('y', 300) FROM generate_series(1, 900)", quota=small)


async def test_after_a_move_to_a_smaller_tier_only_growth_is_refused(opened: Opened) -> None:
    run, eve = opened.run, opened.eve
    await run(eve, "CREATE TABLE notes (id INTEGER PRIMARY KEY, body text)")
    await run(eve, "CREATE TABLE more (id int)")
    await run(eve, "INSERT INTO notes (body) SELECT repeat('x', 1000) FROM generate_series(1, 2000)")
    smaller = Quota(tables=1, rows=100, storage=1_000_000)
    await refusal(opened, "INSERT INTO notes (body) VALUES ('x')", quota=smaller)
    await refusal(opened, "CREATE TABLE third (id int)", quota=smaller)
    assert len((await run(eve, "SELECT body FROM notes LIMIT 5", quota=smaller)).rows) == 5
    assert (await run(eve, "DELETE FROM notes WHERE id > 1000", quota=smaller)).affected_rows == 1000
    await run(eve, "DROP TABLE more", quota=smaller)
    await run(eve, "ALTER TABLE notes RENAME COLUMN body TO content", quota=smaller)


async def test_the_keys_of_a_user_count_towards_the_same_storage(opened: Opened) -> None:
    quota = Quota(tables=5, rows=None, storage=1_000_000)
    await opened.run(opened.eve, "CREATE TABLE notes (body text)", quota=quota)
    await opened.database.transact(lambda connection: opened.storage.add_kv(connection, opened.eve, 900_000, quota))
    await refusal(
        opened, "INSERT INTO notes SELECT repeat(md5(g::text), 30) FROM generate_series(1, 300) g", quota=quota
    )
    assert (await opened.storage.usage(opened.eve)).bytes <= 1_000_000
    await opened.database.transact(lambda connection: opened.storage.free_kv(connection, opened.eve, 900_000))
    await opened.run(opened.eve, "INSERT INTO notes SELECT md5(g::text) FROM generate_series(1, 300) g", quota=quota)


async def test_changes_of_one_user_at_once_are_counted_exactly(opened: Opened) -> None:
    quota = Quota(tables=5, rows=300, storage=5_000_000)
    await opened.run(opened.eve, "CREATE TABLE notes (body text)", quota=quota)
    sql = "INSERT INTO notes SELECT repeat('x', 200) FROM generate_series(1, 40)"
    tried = await asyncio.gather(*(opened.run(opened.eve, sql, quota=quota) for _ in range(12)), return_exceptions=True)
    refused = [each for each in tried if isinstance(each, BaseException)]
    assert all(isinstance(each, QuotaExceeded) for each in refused), refused
    assert (await opened.run(opened.eve, "SELECT count(*) AS n FROM notes")).rows == [[280]]


async def test_many_new_users_at_once_all_get_answers(opened: Opened) -> None:
    """Their roles do not wait for one another, nor for another daemon that changes rights on the database."""
    await opened.run(opened.ada, "CREATE TABLE first (a int)")
    prefix = (await opened.name(opened.ada)).rpartition("_")[0] + "_"
    ids = [await users.add(opened.database, uuid4().hex, 0) for _ in range(22)]
    other = await asyncpg.connect(opened.database.location.dsn)
    try:
        await other.fetchval("SELECT pg_advisory_lock(hashtextextended($1, 0))", prefix)

        async def work(user_id: str) -> Any:
            await opened.run(user_id, "CREATE TABLE n (a int)")
            await asyncio.gather(*(opened.run(user_id, f"INSERT INTO n VALUES ({number})") for number in range(10)))
            return (await opened.run(user_id, "SELECT sum(a) AS sum FROM n")).rows

        assert await asyncio.gather(*map(work, ids)) == [[[45]]] * 22
    finally:
        await other.close()


async def test_a_change_of_a_table_makes_no_row_longer_than_64_kib(opened: Opened) -> None:
    run, eve = opened.run, opened.eve
    await run(eve, "CREATE TABLE notes (id int, body text)")
    await run(eve, "INSERT INTO notes VALUES (1, ?)", ["x" * 40_000])
    for sql in (
        "ALTER TABLE notes ALTER body TYPE text USING body || body",
        "ALTER TABLE notes ADD COLUMN more text GENERATED ALWAYS AS (body || body) STORED",
    ):
        assert "a row would take" in await refusal(opened, sql)
    await run(eve, "ALTER TABLE notes ALTER body TYPE text USING left(body, 10) || '!'")
    assert (await run(eve, "SELECT body FROM notes")).rows == [["xxxxxxxxxx!"]]


async def test_more_than_64_mib_of_a_result_never_reach_the_daemon(opened: Opened) -> None:
    wide = ", ".join(f"repeat(repeat('{letter}', 5000), 5000) AS {letter}" for letter in "abc")
    assert "the rows of the result are too large" in await refusal(opened, f"SELECT {wide}")
    assert (await opened.run(opened.eve, "SELECT 1 AS one")).rows == [[1]]


async def test_numbers_with_large_exponents_are_as_long_as_they_get(opened: Opened) -> None:
    many = f"[{'1e131071, ' * 50}1]"
    assert "has 6,55" in await refusal(opened, "SELECT ?::jsonb AS a", [many])
    await opened.run(opened.eve, "CREATE TABLE notes (a json, b jsonb)")
    assert "6,55" in await refusal(opened, "INSERT INTO notes (a) VALUES (?)", [many])
    await opened.run(opened.eve, "INSERT INTO notes VALUES (?, ?)", [[1e20], {"a": "1e5"}])
    assert (await opened.run(opened.eve, "SELECT a, b FROM notes")).rows == [[[10**20], {"a": "1e5"}]]
    assert "80,0" in await refusal(opened, "SELECT ?::text[] AS a", [["x" * 40_000, "y" * 40_000]])


async def test_a_table_with_the_name_of_a_type_is_no_value(opened: Opened) -> None:
    await opened.run(opened.eve, "CREATE TABLE serial (a int)")
    assert "columns only" in await refusal(opened, "SELECT '(1)'::serial")
    await opened.run(opened.eve, "INSERT INTO serial VALUES (1)")
    assert "name its columns" in await refusal(opened, "SELECT serial FROM serial")


async def test_a_table_has_a_bounded_number_of_checks_and_indexes(opened: Opened) -> None:
    await opened.run(opened.eve, "CREATE TABLE notes (a int)")
    for number in range(20):
        await opened.run(opened.eve, f"CREATE INDEX i{number} ON notes (a)")
    assert "more than 20 indexes" in await refusal(opened, "CREATE INDEX one_more ON notes (a)")
    checks = ", ".join(f"CHECK (a > {number})" for number in range(31))
    assert "more than 30 checks" in await refusal(opened, f"CREATE TABLE other (a int, {checks})")
    await opened.run(opened.eve, "CREATE TABLE ids (id int PRIMARY KEY)")
    keys = ", ".join(["ADD FOREIGN KEY (a) REFERENCES ids (id)"] * 19)
    await opened.run(opened.eve, f"ALTER TABLE notes {keys}")
    assert "more than 30 references" in await refusal(opened, f"ALTER TABLE notes {keys}")


async def test_the_session_of_a_user_is_bounded_by_the_server(opened: Opened, place: Place) -> None:
    await opened.run(opened.eve, "CREATE TABLE notes (a int)")
    name = await opened.name(opened.eve)
    settings = await fetch(
        place.server, "SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND state = 'idle'", name
    )
    assert settings[0][0] == 1
    assert (await fetch(place.server, "SELECT rolconnlimit FROM pg_roles WHERE rolname = $1", name))[0][0] == 6


@LONG
async def test_a_cartesian_join_and_endless_recursion_end_and_the_next_statement_works(opened: Opened) -> None:
    await opened.run(opened.eve, "CREATE TABLE n (a int)")
    await opened.run(opened.eve, "INSERT INTO n SELECT generate_series(1, 2000)")
    for sql in (
        "SELECT count(*) AS c FROM n a, n b, n c, n d",
        "WITH RECURSIVE x(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM x) SELECT max(a) AS m FROM x",
        "INSERT INTO n SELECT a.a FROM n a, n b, n c WHERE a.a + b.a + c.a < 0",
    ):
        assert "cancelled after 5 s" in await refusal(opened, sql)
    assert (await opened.run(opened.eve, "SELECT count(*) AS c FROM n")).rows == [[2000]]


async def test_a_change_that_outgrows_the_quota_is_cancelled_while_it_runs(opened: Opened) -> None:
    await opened.run(opened.eve, "CREATE TABLE n (body text)")
    assert "25 MB may be stored, 8 KiB are used" in await refusal(opened, ENDLESS)
    assert (await opened.run(opened.eve, "SELECT count(*) AS n FROM n")).rows == [[0]]
    assert (await opened.run(opened.eve, "INSERT INTO n VALUES ('x')")).affected_rows == 1
    assert (await opened.storage.usage(opened.eve)).table_bytes < 1_000_000


@LONG
async def test_the_space_of_a_change_that_was_cancelled_is_free_again(opened: Opened) -> None:
    await opened.run(opened.eve, "CREATE TABLE n (body text)")
    assert "cancelled after 5 s" in await refusal(opened, ENDLESS, quota=TIERS["enterprise"])
    assert (await opened.run(opened.eve, "INSERT INTO n VALUES ('x')")).affected_rows == 1
    assert (await opened.storage.usage(opened.eve)).table_bytes < 1_000_000
