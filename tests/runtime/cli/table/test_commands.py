"""`symbi table`: real commands on the tables of users, with a daemon and without one."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runtime.daemon.process.root import make
from tests.runtime.cli.memory.test_commands import good, refused
from tests.runtime.daemon.running import BIN, Daemon, environment, running, symbi, write_program
from tests.runtime.daemon.terminal import terminal

PROGRAM = "agent reviewer { }\n"
ROWS = [
    {"id": 1, "name": "Ada", "amount": 4.5, "raw": {"base64": "AP8K"}},
    {"id": 2**63 - 1, "name": "", "amount": None, "raw": None},
    {"id": 3, "name": 'a "quoted"\nline, é', "amount": 7, "raw": {"base64": ""}},
    {"id": 4, "name": "NULL", "amount": -1, "raw": "X'00'"},
]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("tables")
    write_program(root, PROGRAM)
    with running(root, "program") as started:
        for name in ("ada", "bob"):
            good(started.symbi("user", "add", name))
        yield started


@pytest.fixture
def user(daemon: Daemon, request: pytest.FixtureRequest) -> str:
    """A user of one test, who has nothing."""
    name = f"user{len(str(request.node.name))}-{abs(hash(request.node.nodeid)) % 10**8}"
    good(daemon.symbi("user", "add", name))
    return name


def table(daemon: Daemon, *arguments: str, user: str, input: str | None = None) -> Any:  # noqa: A002
    return daemon.symbi("table", *arguments, "--user", user, input=input)


def sql(daemon: Daemon, query: str, *more: str, user: str) -> Any:
    """Return the answer of a statement."""
    return json.loads(good(table(daemon, "sql", query, *more, "--json", user=user)))


def things(daemon: Daemon, user: str) -> None:
    """Make a table with one row of everything that is difficult."""
    sql(daemon, "CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT, amount NUMERIC, raw BLOB)", user=user)
    for row in ROWS:
        params = json.dumps(row)
        sql(daemon, "INSERT INTO things VALUES (:id, :name, :amount, :raw)", "--params", params, user=user)


def test_a_statement_is_given_as_text_on_standard_input_or_in_a_file(daemon: Daemon, user: str) -> None:
    things(daemon, user)
    query = "SELECT id FROM things WHERE amount > ? AND name = ?"
    found = [{"id": 1}]
    assert sql(daemon, query, "--param", "4", "--param", "Ada", user=user)["rows"] == found
    (daemon.root / "q.sql").write_text(query)
    assert sql(daemon, "@q.sql", "--params", '[4, "Ada"]', user=user)["rows"] == found
    done = table(daemon, "sql", "-", "--params", '[4, "Ada"]', "--json", user=user, input=query)
    assert json.loads(good(done))["rows"] == found


def test_rows_are_shown_so_that_null_a_text_and_a_number_differ(daemon: Daemon, user: str) -> None:
    things(daemon, user)
    done = table(daemon, "sql", "SELECT name, amount FROM things WHERE id <> 3 ORDER BY id", user=user)
    assert good(done).splitlines()[2:] == ["Ada      4.5", "'NULL'   -1", "''       NULL"]
    assert done.stderr == "3 rows\n"
    done = table(daemon, "sql", "SELECT id FROM things WHERE id < 4 ORDER BY id", user=user)
    assert good(done).splitlines() == ["id", "──", " 1", " 3"]
    done = table(daemon, "sql", "UPDATE things SET amount = 1 WHERE id < 4", user=user)
    assert good(done) == "done; 2 rows changed\n"
    shown = terminal(daemon, "table", "sql", "SELECT NULL AS a, 'x\x1b[31my' AS b", "--user", user, NO_COLOR="")
    assert "\x1b[90mNULL" in shown
    assert "\x1b[31m" not in shown


def test_a_cut_result_says_so(daemon: Daemon, user: str) -> None:
    query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1001) SELECT i FROM n"
    done = table(daemon, "sql", query, user=user)
    assert len(good(done).splitlines()) == 1002
    assert done.stderr == "1,000 rows; there are more, which LIMIT and OFFSET select\n"
    assert sql(daemon, query, user=user)["truncated"] is True


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sql", "SELECT * FROM thing"], "no table is called 'thing'"),
        (["sql", "SELECT 1; SELECT 2"], "only one statement"),
        (["sql", "SELECT ?", "--params", "7"], "--params is neither a list nor an object"),
        (["sql", "SELECT ?", "--params", "[NaN]"], "--params is not JSON"),
        (["sql", "SELECT ?", "--params", "[1]", "--param", "1"], "exclude each other"),
        (["sql", "@missing.sql"], "no such file"),
        (["export", "things", "x.csv"], "no table is called 'things'"),
        (["export", "--all"], "Missing argument"),
        (["export", "things"], "give a TABLE and a FILE"),
        (["import", "missing.csv", "things"], "no such file"),
        (["import", "-", "things", "--delimiter", "ab"], "--delimiter"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(daemon: Daemon, arguments: list[str], said: str) -> None:
    done = table(daemon, *arguments, user="ada", input="")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_an_export_is_imported_without_a_difference(daemon: Daemon, user: str, form: str) -> None:
    things(daemon, user)
    file = daemon.root / f"{user}.{form}"
    good(table(daemon, "export", "THINGS", file.name, user=user))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    sql(daemon, "CREATE TABLE copied (id INTEGER PRIMARY KEY, name TEXT, amount NUMERIC, raw BLOB)", user=user)
    assert good(table(daemon, "import", file.name, "copied", user=user)) == "inserted 4 rows into copied\n"
    same = "SELECT count(*) AS same FROM things t JOIN copied c ON t.id = c.id AND t.name IS c.name"
    same += " AND t.amount IS c.amount AND typeof(t.amount) = typeof(c.amount) AND t.raw IS c.raw"
    assert sql(daemon, f"{same} AND typeof(t.raw) = typeof(c.raw)", user=user)["rows"] == [{"same": 4}]
    assert good(table(daemon, "export", "copied", "-", "--format", form, user=user)) == file.read_text()


def test_all_tables_are_exported_and_created_again(daemon: Daemon, user: str) -> None:
    things(daemon, user)
    sql(daemon, 'CREATE TABLE "../x/é" ("a b" TEXT)', user=user)
    good(table(daemon, "export", "--all", f"all-{user}", user=user))
    files = sorted(path.name for path in (daemon.root / f"all-{user}").iterdir())
    assert files == ["..%2Fx%2F%C3%A9.csv", "things.csv"]
    good(table(daemon, "import", f"all-{user}/things.csv", "again", "--create", user=user))
    columns = "SELECT id, name, amount FROM"
    rows = sql(daemon, f"{columns} again ORDER BY id", user=user)["rows"]
    assert rows == sql(daemon, f"{columns} things ORDER BY id", user=user)["rows"]


def test_a_file_is_imported_whole_or_not_at_all(daemon: Daemon, user: str) -> None:
    sql(daemon, "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL)", user=user)
    for text, said in (
        ("id,name\n1,Ada\n2,Bob\n1,Cy\n", "standard input:4: UNIQUE constraint failed: people.id"),
        ("id,name\n1,Ada\n2,\n", "standard input:3: NOT NULL constraint failed: people.name"),
        ('id,name\n1,Ada\n2,"B\nob"\n3,C,D\n', "standard input:5: 3 cells, but there are 2 columns"),
        (f"id,name\n1,Ada\n2,{'x' * 70_000}\n", "standard input:3: a row or a value has more than 65,536 bytes"),
        ("id,nam\n1,Ada\n", "no column is called 'nam'"),
    ):
        done = table(daemon, "import", "-", "people", user=user, input=text)
        assert done.returncode == 2
        assert said in done.stderr, done.stderr
        assert sql(daemon, "SELECT count(*) AS n FROM people", user=user)["rows"] == [{"n": 0}]
        done = table(daemon, "import", "-", "fresh", "--create", user=user, input=text.replace("id,nam\n", "id,id\n"))
        if done.returncode == 0:
            sql(daemon, "DROP TABLE fresh", user=user)
        names = [each["name"] for each in json.loads(good(table(daemon, "schema", "--json", user=user)))["tables"]]
        assert names == ["people"]


def test_a_quota_is_named_and_nothing_is_imported(daemon: Daemon, user: str) -> None:
    text = "n\n" + "".join(f"{number}\n" for number in range(10_001))
    done = table(daemon, "import", "-", "numbers", "--create", user=user, input=text)
    assert done.returncode == 1
    assert "10,000" in done.stderr
    assert json.loads(good(table(daemon, "schema", "--json", user=user)))["tables"] == []


def test_the_shell_takes_statements_in_several_lines_and_stops_at_an_error_in_a_pipe(daemon: Daemon, user: str) -> None:
    things(daemon, user)
    typed = ".tables\nSELECT\n  ';' AS a; SELECT 2\n AS b -- ;\n;\n.schema things\nSELECT 3 AS c"
    done = table(daemon, "shell", user=user, input=typed)
    words = good(done).split()
    assert words[:7] == ["things", "a", "─", ";", "b", "─", "2"]
    assert words[-3:] == ["c", "─", "3"]
    done = table(daemon, "shell", user=user, input="SELECT 1 AS a;\nSELECT * FROM thing;\nSELECT 2 AS b;")
    assert done.returncode == 2
    assert done.stdout.split() == ["a", "─", "1"]
    assert "did you mean things?" in done.stderr
    refused(table(daemon, "shell", user=user, input=".nonsense\n"), 1, "there is no command .nonsense")


def test_no_form_of_an_export_controls_the_terminal(daemon: Daemon, user: str) -> None:
    sql(daemon, "CREATE TABLE notes (note TEXT)", user=user)
    sql(daemon, "INSERT INTO notes VALUES (?)", "--param", "\x1b]0;a title\x07 text", user=user)
    for form in ("csv", "jsonl"):
        shown = terminal(daemon, "table", "export", "notes", "-", "--format", form, "--user", user)
        assert "a title" in shown
        assert "\x1b]" not in shown
        assert "\x07" not in shown


def test_the_shell_goes_on_after_an_error_and_ctrl_c_and_ends_at_ctrl_d(daemon: Daemon, user: str) -> None:
    keys = [("symbi> ", "SELEC;\n"), ("symbi> ", "SELECT 41 AS a,\n"), ("...> ", "\x03"), ("symbi> ", "SELECT 42;\n")]
    shown = dialogue(daemon, [*keys, ("symbi> ", "\x04")], "table", "shell", "--user", user)
    assert "SELEC is not allowed" in shown
    assert "42\r\n" in shown
    assert not list(daemon.root.rglob("*history*"))


def dialogue(daemon: Daemon, keys: Sequence[tuple[str, str]], *arguments: str) -> str:
    """Return what `symbi` shows on a terminal. `keys`: what is typed when something new is shown."""
    process, master = pty.fork()
    if process == 0:
        os.chdir(daemon.root)
        os.execve(BIN / "symbi", ["symbi", *arguments], {**environment(), "TERM": "dumb", "COLUMNS": "200"})
    shown, looked, waiting = "", 0, list(keys)
    with suppress(OSError):
        while select.select([master], [], [], 30)[0]:
            shown += os.read(master, 65_536).decode()
            if waiting and waiting[0][0] in shown[looked:]:
                looked = len(shown)
                os.write(master, waiting.pop(0)[1].encode())
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    os.close(master)
    assert not waiting, shown
    return shown


def test_the_tables_of_another_user_do_not_exist(daemon: Daemon) -> None:
    sql(daemon, "CREATE TABLE notes (note TEXT)", user="ada")
    sql(daemon, "INSERT INTO notes VALUES ('of ada')", user="ada")
    sql(daemon, "CREATE TABLE notes (note INTEGER, more TEXT)", user="bob")
    assert sql(daemon, "SELECT * FROM notes", user="bob")["rows"] == []
    assert sql(daemon, "SELECT * FROM notes", user="ada")["rows"] == [{"note": "of ada"}]
    refused(daemon.symbi("table", "sql", "SELECT * FROM notes"), 2, "no table is called 'notes'")
    refused(table(daemon, "schema", user="eve"), 2, "no user is called 'eve'")


def test_commands_work_without_a_daemon(tmp_path: Path) -> None:
    make(tmp_path, os.environ, tmp_path)
    good(symbi("table", "sql", "CREATE TABLE t (a INTEGER)", root=tmp_path))
    good(symbi("table", "import", "-", "t", root=tmp_path, input="a\n1\n2\n"))
    done = symbi("table", "shell", root=tmp_path, input="SELECT sum(a) AS total FROM t;\nDELETE FROM t;")
    assert good(done).split() == ["total", "─────", "3", "done;", "2", "rows", "changed"]
