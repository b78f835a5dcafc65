"""Statements that try to leave the user's own tables, or to stop the server.

`{ada}` is the schema of the other user, `{eve}` that of the one who tries; `notes` is a table that both have. `⏎` is a
new line.
"""

from __future__ import annotations

from typing import Final

_LINES: Final = tuple(
    line
    for line in r"""
SELECT * FROM {ada}.notes
SELECT * FROM "{ada}".notes
SELECT * FROM {ada} . notes
SELECT * FROM {ada}/**/./**/notes
SELECT * FROM {ada}.{ada}.notes
SELECT {ada}.notes.body FROM notes
SELECT (SELECT body FROM {ada}.notes LIMIT 1)
WITH x AS (SELECT * FROM {ada}.notes) SELECT * FROM x
INSERT INTO {ada}.notes (body) VALUES ('x')
UPDATE {ada}.notes SET body = 'x'
DELETE FROM {ada}.notes
DROP TABLE {ada}.notes
DROP TABLE notes, {ada}.notes
ALTER TABLE {ada}.notes ADD COLUMN x int
ALTER TABLE {ada}.notes RENAME TO y
ALTER TABLE notes SET SCHEMA {ada}
CREATE TABLE {ada}.x (a int)
CREATE TABLE public.x (a int)
CREATE INDEX ON {ada}.notes (body)
CREATE TABLE x (a int REFERENCES {ada}.notes (id))
CREATE TABLE x (LIKE {ada}.notes)
CREATE TABLE x () INHERITS ({ada}.notes)
CREATE TABLE x (LIKE notes INCLUDING ALL)
CREATE TABLE x PARTITION OF notes DEFAULT
CREATE TABLE x (a int) PARTITION BY RANGE (a)
CREATE TABLE x OF {ada}.notes
CREATE TABLE x AS SELECT 1
CREATE TABLE x AS TABLE {ada}.notes
CREATE TEMP TABLE x (a int)
CREATE TEMPORARY TABLE notes (a int)
CREATE UNLOGGED TABLE x (a int)
CREATE TABLE x (a int) TABLESPACE pg_default
CREATE TABLE x (a int) WITH (fillfactor = 10)
CREATE TABLE x (a int) USING heap
CREATE TABLE x (a text COLLATE "C")
CREATE TABLE x (a text STORAGE EXTERNAL)
CREATE TABLE x (a text COMPRESSION pglz)
CREATE TABLE x (a int DEFAULT pg_backend_pid())
CREATE TABLE x (a text DEFAULT current_user)
CREATE TABLE x (a text DEFAULT current_setting('data_directory'))
CREATE TABLE x (a int CHECK (pg_sleep(1) IS NULL))
CREATE TABLE x (a int, EXCLUDE USING btree (a WITH =))
CREATE TABLE x (a text, b text GENERATED ALWAYS AS (repeat(a, 1000)) STORED)
CREATE TABLE x (a regclass)
CREATE TABLE x (a oid)
CREATE TABLE x (a xml)
CREATE TABLE x (a bit(1000000))
CREATE TABLE x (a char(10000000))
CREATE TABLE x (a int[][][])
CREATE TABLE x (a polygon)
CREATE TABLE x (a tsvector)
CREATE TABLE x (a notes)
CREATE TABLE x (a pg_catalog.pg_class)
CREATE TABLE x (a notes.body%TYPE)
CREATE TABLE pg_class (a int)
CREATE TABLE "pg_shadow" (a int)
CREATE INDEX x ON notes USING gist (body)
CREATE INDEX x ON notes (body text_pattern_ops)
CREATE INDEX x ON notes (body COLLATE "C")
CREATE INDEX CONCURRENTLY x ON notes (body)
CREATE INDEX x ON notes (pg_sleep(1))
CREATE INDEX x ON notes (body) WITH (fillfactor = 10)
CREATE VIEW v AS SELECT 1
CREATE MATERIALIZED VIEW v AS SELECT 1
CREATE RULE r AS ON INSERT TO notes DO NOTHING
CREATE TRIGGER t AFTER INSERT ON notes EXECUTE FUNCTION f()
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'
CREATE OR REPLACE FUNCTION lower(text) RETURNS text LANGUAGE sql AS 'SELECT 1'
CREATE PROCEDURE p() LANGUAGE sql AS 'SELECT 1'
CREATE AGGREGATE a (int) (SFUNC = int4pl, STYPE = int)
CREATE OPERATOR + (LEFTARG = int, FUNCTION = int4um)
CREATE CAST (text AS int) WITH INOUT
CREATE TYPE t AS (a int)
CREATE TYPE t AS ENUM ('a')
CREATE DOMAIN d AS text
CREATE SEQUENCE s
CREATE SCHEMA x
CREATE ROLE x
CREATE USER x SUPERUSER
CREATE DATABASE x
CREATE EXTENSION dblink
CREATE EXTENSION IF NOT EXISTS plpgsql
CREATE FOREIGN TABLE x (a int) SERVER s
CREATE SERVER s FOREIGN DATA WRAPPER w
CREATE PUBLICATION p FOR ALL TABLES
CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p
CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION f()
CREATE POLICY p ON notes
CREATE STATISTICS s ON id, body FROM notes
CREATE COLLATION c (locale = 'C')
CREATE LANGUAGE plperlu
DO $$ BEGIN PERFORM pg_sleep(10); END $$
DO 'BEGIN END'
CALL p()
COPY notes TO '/tmp/x'
COPY notes TO PROGRAM 'id'
COPY notes FROM '/etc/passwd'
COPY (SELECT 1) TO STDOUT
SET role = postgres
SET ROLE {ada}
SET SESSION AUTHORIZATION {ada}
SET search_path = {ada}
SET statement_timeout = 0
SET LOCAL statement_timeout = 0
RESET ALL
RESET statement_timeout
SHOW ALL
SHOW data_directory
DISCARD ALL
BEGIN
COMMIT
ROLLBACK
SAVEPOINT s
START TRANSACTION
PREPARE TRANSACTION 'x'
PREPARE p AS SELECT 1
EXECUTE p
DEALLOCATE ALL
DECLARE c CURSOR FOR SELECT 1
FETCH ALL FROM c
MOVE c
CLOSE ALL
LOCK TABLE notes
LISTEN x
NOTIFY x, 'y'
UNLISTEN *
LOAD 'x'
CHECKPOINT
VACUUM
VACUUM FULL notes
ANALYZE
ANALYZE notes
CLUSTER notes
REINDEX TABLE notes
REFRESH MATERIALIZED VIEW v
TRUNCATE notes
EXPLAIN SELECT 1
EXPLAIN ANALYZE SELECT 1
GRANT ALL ON notes TO PUBLIC
GRANT {eve} TO {ada}
REVOKE ALL ON notes FROM PUBLIC
REASSIGN OWNED BY {eve} TO {ada}
DROP OWNED BY {eve}
DROP OWNED BY {ada}
DROP SCHEMA {eve} CASCADE
DROP SCHEMA {ada} CASCADE
DROP ROLE {ada}
DROP DATABASE postgres
DROP FUNCTION lower(text)
DROP VIEW v
DROP SEQUENCE s
DROP TYPE t
ALTER ROLE {eve} PASSWORD 'x'
ALTER ROLE {eve} SUPERUSER
ALTER ROLE {eve} SET statement_timeout = 0
ALTER USER {eve} WITH CREATEROLE
ALTER SCHEMA {eve} RENAME TO x
ALTER DATABASE postgres SET x.y = 1
ALTER SYSTEM SET fsync = off
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC
ALTER TABLE notes OWNER TO {ada}
ALTER TABLE notes ENABLE ROW LEVEL SECURITY
ALTER TABLE notes DISABLE TRIGGER ALL
ALTER TABLE notes SET TABLESPACE pg_default
ALTER TABLE notes SET UNLOGGED
ALTER TABLE notes SET (fillfactor = 10)
ALTER TABLE notes INHERIT notes
ALTER TABLE notes ATTACH PARTITION notes DEFAULT
ALTER TABLE notes REPLICA IDENTITY FULL
ALTER TABLE notes CLUSTER ON notes_pkey
ALTER TABLE notes ALTER body SET STORAGE EXTERNAL
ALTER TABLE notes ALTER body SET STATISTICS 10000
ALTER TABLE notes ALTER body TYPE text USING pg_sleep(1)::text
ALTER TABLE notes ALTER body SET DEFAULT current_setting('x')
ALTER TABLE notes ADD COLUMN x text DEFAULT pg_read_file('/etc/passwd')
ALTER TABLE notes ADD COLUMN x text DEFAULT repeat('x', 10000)
ALTER TABLE ALL IN TABLESPACE pg_default SET TABLESPACE x
ALTER INDEX notes_pkey SET (fillfactor = 10)
COMMENT ON TABLE notes IS 'x'
SECURITY LABEL ON TABLE notes IS 'x'
IMPORT FOREIGN SCHEMA x FROM SERVER s INTO y
MERGE INTO notes USING notes AS n ON true WHEN MATCHED THEN DELETE
SELECT 1; SELECT 2
SELECT 1; DROP TABLE notes
SELECT 1;;SELECT 2
SELECT 1 /* ; */; DELETE FROM notes
SELECT 1 --⏎; DELETE FROM notes
SELECT * INTO x FROM notes
SELECT 1 INTO TEMP x
SELECT * FROM notes FOR UPDATE
SELECT * FROM notes FOR SHARE NOWAIT
SELECT * FROM notes FOR KEY SHARE SKIP LOCKED
SELECT body COLLATE "C" FROM notes
SELECT 'a' < 'b' COLLATE "C"
SELECT pg_sleep(10)
SELECT pg_sleep_for('10 s')
SELECT PG_SLEEP(10)
SELECT "pg_sleep"(10)
SELECT pg_catalog.pg_sleep(10)
SELECT pg_catalog . "pg_sleep"(10)
SELECT U&"pg\005Fsleep"(10)
SELECT set_config('role', '{ada}', false)
SELECT set_config('search_path', '{ada}', true)
SELECT current_setting('is_superuser')
SELECT query_to_xml('SELECT * FROM {ada}.notes', true, true, '')
SELECT table_to_xml('notes', true, true, '')
SELECT database_to_xml(true, true, '')
SELECT schema_to_xml('{ada}', true, true, '')
SELECT cursor_to_xml('c', 1, true, true, '')
SELECT xmlparse(DOCUMENT '<a/>')
SELECT xmlelement(name a)
SELECT xpath('/a', '<a/>')
SELECT ts_stat('SELECT body FROM {ada}.notes')
SELECT ts_rewrite('a', 'SELECT 1')
SELECT * FROM dblink('', 'SELECT 1') AS t(a int)
SELECT lo_import('/etc/passwd')
SELECT lo_create(0)
SELECT lo_from_bytea(0, 'x')
SELECT lo_export(1, '/tmp/x')
SELECT lo_get(1)
SELECT lo_unlink(1)
SELECT loread(1, 1)
SELECT pg_read_file('/etc/passwd')
SELECT pg_read_binary_file('/etc/passwd')
SELECT pg_ls_dir('/')
SELECT pg_stat_file('/etc/passwd')
SELECT pg_notify('a', 'b')
SELECT pg_advisory_lock(1)
SELECT pg_try_advisory_lock(1)
SELECT pg_advisory_xact_lock(1)
SELECT pg_cancel_backend(1)
SELECT pg_terminate_backend(1)
SELECT pg_backend_pid()
SELECT pg_reload_conf()
SELECT pg_rotate_logfile()
SELECT pg_switch_wal()
SELECT pg_export_snapshot()
SELECT pg_logical_emit_message(false, 'a', 'b')
SELECT pg_stat_get_activity(NULL)
SELECT pg_get_viewdef('x')
SELECT pg_get_functiondef(1)
SELECT pg_total_relation_size('notes')
SELECT pg_relation_filepath('notes')
SELECT pg_typeof(body) FROM notes
SELECT pg_column_size(body) FROM notes
SELECT pg_current_xact_id()
SELECT txid_current()
SELECT has_table_privilege('{ada}.notes', 'SELECT')
SELECT has_schema_privilege('{ada}', 'USAGE')
SELECT to_regclass('{ada}.notes')
SELECT obj_description(1)
SELECT inet_server_addr()
SELECT inet_client_addr()
SELECT version()
SELECT current_database()
SELECT current_schema()
SELECT current_schemas(true)
SELECT current_user
SELECT session_user
SELECT user
SELECT current_role
SELECT current_catalog
SELECT current_schema
SELECT currval('s')
SELECT nextval('notes_id_seq')
SELECT setval('notes_id_seq', 1)
SELECT lastval()
SELECT row_to_json(notes) FROM notes
SELECT record_out(notes) FROM notes
SELECT format('%1000000000s', 'x')
SELECT format('%s', 'x')
SELECT repeat('x', 1000000000)
SELECT repeat(repeat(repeat('x', 10000), 10000), 10000)
SELECT repeat(body, id::int) FROM notes
SELECT lpad('x', 1000000000)
SELECT rpad('x', 1000000000, 'y')
SELECT rpad('x', id::int) FROM notes
SELECT array_fill(1, ARRAY[100000000])
SELECT string_agg(body, '') OVER () FROM (SELECT body FROM notes LIMIT 10) AS few
WITH RECURSIVE x(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM x) SELECT array_agg(a) FROM x
SELECT replace(body, 'a', body) FROM notes
SELECT translate(body, body, body) FROM notes
SELECT to_char(1, repeat('9', 10000))
SELECT to_char(id, body) FROM notes
SELECT array_to_string(ARRAY['a', 'b'], body) FROM notes
SELECT generate_series(1, 1000000000)
SELECT * FROM generate_series(1, 1e9)
SELECT * FROM generate_series(1, (SELECT 1000000000))
SELECT * FROM generate_series('2000-01-01'::timestamp, '2100-01-01', '1 microsecond')
SELECT generate_subscripts(ARRAY[1], 1)
SELECT polygon(60000000, '<(0,0),1>')
SELECT '((0,0),(1,1))'::path
SELECT point(1, 2)
SELECT circle '<(0,0),1>'
SELECT '1'::bit(1000000000)
SELECT B'1'::bit(1000000)
SELECT X'FF'
SELECT 10.0 ^ 100000
SELECT 2 ^ 3
SELECT power(10, 100000)
SELECT power(10::numeric, 100000)
SELECT exp(100000::numeric)
SELECT factorial(100000)
SELECT gcd(1, 2)
SELECT sqrt(2.0)
SELECT 1e100000
SELECT 0x10
SELECT 1_000
SELECT |/ 4
SELECT 5 !
SELECT body ~ '(a*)*b' FROM notes
SELECT body ~* '(a|a)*' FROM notes
SELECT body !~ 'x' FROM notes
SELECT body SIMILAR TO '(a*)*' FROM notes
SELECT substring(body, '(a*)*b') FROM notes
SELECT substring(body FROM '(a*)*b') FROM notes
SELECT substring(body, body) FROM notes
SELECT substring(body SIMILAR 'a' ESCAPE '#') FROM notes
SELECT regexp_replace(body, '(a*)*b', '') FROM notes
SELECT regexp_matches(body, '.') FROM notes
SELECT regexp_split_to_table(body, '') FROM notes
SELECT body LIKE body FROM notes
SELECT jsonb_path_query('[1]', '$[*] ? (@ like_regex "(a*)*b")')
SELECT jsonb_path_exists('[1]', '$')
SELECT '[1]'::jsonb @? '$'
SELECT '[1]'::jsonb @@ '$'
SELECT jsonb_pretty('[[[[]]]]')
SELECT to_tsvector(body) FROM notes
SELECT similarity('a', 'b')
SELECT unistr('\0041')
SELECT normalize('a')
SELECT 'notes'::regclass
SELECT 'pg_sleep'::regproc
SELECT CAST('notes' AS regclass)
SELECT regclass 'notes'
SELECT 1::oid
SELECT 'a'::name
SELECT '1'::pg_catalog.oid
SELECT '(1)'::notes
SELECT NULL::pg_class
SELECT '{1}'::int[][]
SELECT ctid FROM notes
SELECT xmin FROM notes
SELECT notes.tableoid FROM notes
SELECT tableoid::text FROM notes
SELECT (notes).body FROM notes
SELECT (notes).pg_sleep FROM notes
SELECT (notes.*).body FROM notes
SELECT notes.pg_column_size FROM notes
SELECT (ROW(1)).f1
SELECT 1 OPERATOR(pg_catalog.+) 1
SELECT 1 OPERATOR({ada}.+) 1
SELECT * FROM notes ORDER BY body USING OPERATOR(pg_catalog.<)
SELECT * FROM notes ORDER BY id USING >
SELECT * FROM pg_class
SELECT * FROM pg_shadow
SELECT * FROM pg_authid
SELECT * FROM "pg_user"
SELECT * FROM pg_stat_activity
SELECT * FROM pg_settings
SELECT * FROM pg_roles
SELECT * FROM pg_tables
SELECT * FROM pg_stats
SELECT * FROM pg_largeobject
SELECT * FROM pg_catalog.pg_class
SELECT * FROM information_schema.tables
SELECT * FROM public.users
SELECT * FROM pg_ls_dir('/')
SELECT * FROM pg_timezone_names()
SELECT * FROM current_schema
SELECT * FROM lower('x')
SELECT * FROM ROWS FROM (pg_sleep(1))
SELECT * FROM json_to_record('{}') AS x(a int)
SELECT * FROM jsonb_to_recordset('[]') AS x(a int)
SELECT * FROM jsonb_populate_recordset(NULL::notes, '[]')
SELECT * FROM XMLTABLE('/a' PASSING '<a/>' COLUMNS b int)
SELECT * FROM JSON_TABLE('[]', '$' COLUMNS (a int))
SELECT JSON_VALUE('1', '$')
SELECT JSON_QUERY('1', '$')
SELECT * FROM notes TABLESAMPLE SYSTEM (100)
SELECT GROUPING(body) FROM notes GROUP BY CUBE (body)
SELECT 1 FROM notes GROUP BY GROUPING SETS (body, id)
SELECT * FROM notes WHERE CURRENT OF c
DELETE FROM notes WHERE CURRENT OF c
WITH x AS (DELETE FROM notes RETURNING *) SELECT * FROM x
WITH x AS (INSERT INTO notes (body) VALUES ('x') RETURNING *) SELECT * FROM x
WITH x AS (UPDATE notes SET body = 'x' RETURNING *) SELECT * FROM x
WITH RECURSIVE x(a) AS (SELECT 'a' UNION ALL SELECT a || a FROM x) SELECT length(a) FROM x
WITH RECURSIVE x(a, b) AS (SELECT 'a', 'b' UNION ALL SELECT a || b, b || a FROM x) SELECT 1 FROM x
WITH RECURSIVE x(a) AS (SELECT ARRAY[1] UNION ALL SELECT a || a FROM x) SELECT 1 FROM x
WITH RECURSIVE x(a) AS (SELECT 'a' UNION ALL SELECT replace(a, 'a', 'aa') FROM x) SELECT 1 FROM x
WITH RECURSIVE x(a) AS (SELECT body FROM notes AS t UNION ALL SELECT t.a || t.a FROM x AS t) SELECT 1 FROM x
WITH RECURSIVE x(a) AS (SELECT 'a' UNION ALL SELECT y.b || y.b FROM (SELECT a AS b FROM x) AS y) SELECT 1 FROM x
WITH RECURSIVE x(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM x) SEARCH DEPTH FIRST BY a SET b SELECT 1 FROM x
WITH RECURSIVE x(a) AS (SELECT 1 UNION ALL SELECT a FROM x) CYCLE a SET b USING c SELECT 1 FROM x
SELECT xmlserialize(CONTENT '<a/>' AS text)
SELECT * FROM notes; --⏎DROP TABLE notes
INSERT INTO notes SELECT * FROM {ada}.notes
INSERT INTO pg_class DEFAULT VALUES
UPDATE pg_settings SET setting = 'x'
INSERT INTO notes (body) VALUES (current_setting('x'))
INSERT INTO notes (body) VALUES (pg_read_file('x')) RETURNING body
INSERT INTO notes (body) SELECT rolname FROM pg_authid
INSERT INTO notes (body) VALUES ('x') ON CONFLICT (id) DO UPDATE SET body = current_user
UPDATE notes SET ctid = '(0,1)'
UPDATE notes SET body = 'x' RETURNING xmin
DELETE FROM notes USING {ada}.notes AS n
DELETE FROM notes RETURNING ctid
SELECT count(*) FILTER (WHERE pg_sleep(1) IS NULL) FROM notes
SELECT sum(pg_sleep(1)::text::int) OVER (ORDER BY pg_sleep(1)) FROM notes
SELECT percentile_cont(pg_sleep(1)::text::float) WITHIN GROUP (ORDER BY id) FROM notes
SELECT CASE WHEN pg_sleep(1) IS NULL THEN 1 END
SELECT COALESCE(pg_sleep(1)::text, '')
SELECT 1 LIMIT (SELECT pg_sleep(1)::text::int)
SELECT 1 ORDER BY pg_sleep(1)
SELECT DISTINCT ON (pg_sleep(1)) 1
SELECT 1 WHERE EXISTS (SELECT pg_sleep(1))
VALUES (pg_sleep(1))
TABLE pg_class
SELECT * FROM LATERAL (SELECT pg_sleep(1)) AS x
SELECT 'x' LIKE ANY (SELECT body FROM notes)
SELECT variadic_function(VARIADIC ARRAY[1])
SELECT concat(VARIADIC ARRAY['a'])
SELECT make_interval(days => 1)
SELECT lower(notes => 'x')
SELECT notes.to_json FROM notes
SELECT notes.row_to_json FROM notes
SELECT a.json_agg FROM notes a, notes b, notes c
SELECT length(a.array_agg::text) AS n FROM notes a, notes b, notes c
SELECT a.jsonb_agg FROM (SELECT * FROM notes) AS a
SELECT a."array_agg" FROM notes a
SELECT body::jsonb FROM notes
SELECT CAST(body AS jsonb) ->> 'a' AS a FROM notes
SELECT string_to_array(body, ',')::numeric[] AS a FROM notes
SELECT to_jsonb(body::json)::text AS a FROM notes
SELECT jsonb_build_array(x.j)::text AS a FROM (SELECT body::json AS j FROM notes) AS x
SELECT array_to_string(string_to_array(body, 'x', 'x'), ',', body) AS a FROM notes
SELECT percentile_disc(string_to_array(body, ',')::float8[]) WITHIN GROUP (ORDER BY body) AS a FROM notes
WITH RECURSIVE x(n, a) AS (SELECT 1, 'x' UNION SELECT n + 1, repeat('x', 10000) FROM x) SELECT count(*) AS c FROM x
WITH RECURSIVE x(n, a) AS (SELECT 1, 'x' UNION SELECT n + 1, a || n FROM x) SELECT count(*) AS c FROM x
CREATE TABLE x (a text DEFAULT array_to_string(string_to_array('aaaaaaaa', NULL), 'bbbbbbbb'))
SELECT (a % b) AS x, mod(a, b) AS y, a % (b + 1) AS z FROM (SELECT '1e131000'::numeric AS a, '1e65000' AS b) AS n
SELECT '(1)'::serial
SELECT body::json FROM notes
INSERT INTO j (doc) SELECT body::json FROM notes
SELECT string_agg((SELECT string_agg(body, '') FROM notes), '') FROM notes
SELECT ARRAY(SELECT body FROM notes)
WITH RECURSIVE x(a) AS (SELECT 1 UNION SELECT a + 1 FROM x) SELECT count(*) FROM x
WITH RECURSIVE x AS (SELECT a || a AS a FROM y), y AS (SELECT body || body AS a FROM notes) SELECT length(a) FROM x
WITH RECURSIVE x(a) AS (SELECT 'a' UNION ALL SELECT a || 'b' FROM x) SELECT length(a) FROM x
SELECT set_config('symbi.collected', '0', true)
UPDATE notes SET body = repeat(body, 40)
SELECT percentile_disc() WITHIN GROUP (ORDER BY body) FROM notes
""".strip().splitlines()
)
REFUSED: Final = (
    *_LINES,
    # Each doubles a text so many times.
    f"SELECT length({'to_json(' * 25}'x'::text{')::text' * 25}) AS a",
    f"SELECT length({'ARRAY[' * 25}'x'{']::text' * 25}) AS a",
    f"SELECT length({'ROW(' * 30}'x'{')::text' * 30}) AS a",
    f"SELECT length(a::text) AS b FROM {'(SELECT a::text AS b FROM ' * 24}notes AS a{') AS a' * 24}",
    f"CREATE TABLE x (a text, b text GENERATED ALWAYS AS ({'(a || a) || ' * 10}a) STORED)",
    # Short texts of long values.
    f"SELECT ('[{'1e131071,' * 1000}1]'::jsonb)::text AS a",
    f"SELECT '{{{'1e131071,' * 1000}1}}'::numeric[] AS a",
    f"SELECT jsonb_array_length('[{'1e131071,' * 1000}1]') AS a",
    # Many long values at once.
    f"SELECT {', '.join(f'repeat(md5(?), 10000) AS a{at}'.replace('?', repr(str(at))) for at in range(450))}",
    # What each later query is compared with.
    f"CREATE INDEX x ON notes (id) WHERE {' OR '.join(f'id = {at}' for at in range(100))}",
)
"""Each is refused before PostgreSQL sees it, or by the rights of the role."""

HARMLESS: Final = tuple(
    line
    for line in r"""
SELECT notes FROM notes
SELECT notes.* FROM notes
SELECT count(notes) FROM notes
SELECT ROW(1, 2)
SELECT notes.text FROM notes
SELECT "notes" FROM notes
SELECT * FROM "NOTES"
SELECT * FROM users
SELECT * FROM user_storage
SELECT * FROM alembic_version
SELECT * FROM tables
SELECT * FROM "{ada}.notes"
SELECT * FROM ｎotes
SELECT body FROM notes WHERE body = '; DROP TABLE notes; --'
SELECT $$; DROP TABLE notes; $$
SELECT E'\'; DROP TABLE notes; --'
SELECT 'a' 'b'
SELECT 1 /* /* nested */ ; DROP TABLE notes */
SELECT 1 -- ; DROP TABLE notes
SELECT "body"" FROM pg_shadow --" FROM notes
SELECT lower.body FROM notes AS lower
WITH notes AS (SELECT 1 AS id) SELECT * FROM notes
SELECT * FROM notes AS "pg catalog"
SELECT count(*) FROM notes a, notes b, notes c, notes d, notes e, notes f
WITH RECURSIVE x(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM x) SELECT a FROM x LIMIT 10
WITH RECURSIVE x(a) AS (SELECT 2::numeric UNION ALL SELECT a * a FROM x WHERE a < 1000) SELECT a FROM x
SELECT '9'::numeric * 9
SELECT 1/0
SELECT 1 % 0
SELECT 9223372036854775807 + 1
SELECT '99999999999999999999'::int
SELECT 'x'::int
SELECT '[[[[[[[[[[' :: jsonb
SELECT '{"a":1e400}'::jsonb ->> 'a'
SELECT 'infinity'::timestamp
SELECT '0044-03-15 BC'::date
SELECT '294276-12-31'::timestamp + '1 year'
SELECT 'NaN'::numeric, 'NaN'::float8 AS b
SELECT repeat('x', 10000) AS a
SELECT left(repeat('x', 10000), 5) AS a
SELECT string_agg(body, ',') FROM (SELECT body FROM notes LIMIT 10) AS few
SELECT string_agg(a.body, b.body) FROM notes a, notes b
SELECT array_agg(a.body) FROM notes a, notes b
SELECT json_agg(body) FROM notes
SELECT jsonb_object_agg(id, body) FROM notes
SELECT (SELECT string_agg(n.body, '') FROM (SELECT 1 LIMIT 1) AS x) FROM notes n, notes m
UPDATE notes SET body = (SELECT string_agg(a.body, '') FROM notes a)
SELECT body LIKE '%' || left(body, 100) || '%' AS a FROM notes
SELECT sqrt(2::float8) AS a
SELECT now() AT TIME ZONE '../../etc/passwd' AS a
SELECT timezone('Europe/Berlin', now()) AS a
SELECT date '2026-01-31' + 1 AS a
INSERT INTO notes (body) VALUES ('{ada}.notes')
INSERT INTO notes (id, body) VALUES (1, 'x')
INSERT INTO notes (body) SELECT body FROM notes
UPDATE notes SET body = body || body
UPDATE notes SET id = DEFAULT
DELETE FROM notes WHERE body LIKE '%;%'
CREATE TABLE users (id int)
CREATE TABLE "{ada}" (id int)
CREATE TABLE lower (lower text DEFAULT 'lower')
CREATE TABLE "select" ("from" int)
CREATE TABLE x (a int CHECK (a > 0), b int GENERATED ALWAYS AS (a + 1) STORED)
CREATE TABLE y (id int REFERENCES notes (id) ON DELETE CASCADE)
CREATE TABLE z (id int REFERENCES users (id))
DROP TABLE IF EXISTS users, x, y CASCADE
ALTER TABLE notes ADD COLUMN more text DEFAULT 'x'
ALTER TABLE notes RENAME COLUMN more TO less
ALTER TABLE notes RENAME TO remarks
ALTER TABLE remarks RENAME TO notes
CREATE INDEX lower ON notes (lower(body))
DROP INDEX lower
""".strip().splitlines()
)
"""Each is refused, fails, or changes nothing but the user's own tables."""
