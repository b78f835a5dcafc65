"""`symbi table` on PostgreSQL: exports are imported without a difference, and without rights there are no tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lanes import LONG
from tests.runtime.cli.memory.test_commands import good
from tests.runtime.daemon.forked import SYMBI
from tests.runtime.daemon.running import Daemon, on_postgres, running, write_program
from tests.runtime.tables.postgres.opened import Place, owned_database

pytestmark = LONG

COLUMNS = "id BIGINT PRIMARY KEY, name TEXT, amount NUMERIC(10, 2), real DOUBLE PRECISION, raw BYTEA, seen TIMESTAMPTZ"
COLUMNS += ", at DATE, extra JSONB, yes BOOLEAN, tags TEXT[]"
ROWS = [
    [
        1,
        "Ada",
        "4.50",
        0.1,
        {"base64": "AP8K"},
        "2026-11-20T10:00:00Z",
        "2026-11-20",
        {"a": [1, "é"]},
        True,
        ["a", "b"],
    ],
    [2**62, "", None, None, None, None, None, None, None, None],
    [3, 'a "quoted"\nline', "-1", 1e300, {"base64": ""}, None, None, "text", False, []],
]


@pytest.fixture(scope="module")
def place(postgres: str) -> Iterator[Place]:
    with owned_database(postgres) as made:
        yield made


@pytest.fixture(scope="module")
def daemon(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("postgres")
    write_program(root, "agent reviewer { }\n")
    with running(
        root, "program", wait=True, command=SYMBI, admin_host="127.0.0.1", **on_postgres(place.url)
    ) as started:
        yield started


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_an_export_is_imported_without_a_difference(daemon: Daemon, place: Place, form: str) -> None:
    given = on_postgres(place.url)

    def table(*arguments: str) -> str:
        return good(daemon.symbi("table", *arguments, **given))

    for name in (f"things_{form}", f"copied_{form}"):
        table("sql", f"CREATE TABLE {name} ({COLUMNS})")
    for row in ROWS:
        places = ", ".join("?" * len(row))
        table("sql", f"INSERT INTO things_{form} VALUES ({places})", "--params", json.dumps(row))
    table("export", f"things_{form}", f"one.{form}")
    assert table("import", f"one.{form}", f"copied_{form}") == f"inserted 3 rows into copied_{form}\n"
    compared = f"SELECT count(*) AS same FROM things_{form} t JOIN copied_{form} c ON t.id = c.id"
    names = [each.split()[0] for each in COLUMNS.replace("(10, 2)", "").split(", ")]
    compared += "".join(f" AND t.{name} IS NOT DISTINCT FROM c.{name}" for name in names)
    assert json.loads(table("sql", compared, "--json"))["rows"] == [{"same": 3}]
    table("import", f"one.{form}", f"made_{form}", "--create")
    assert json.loads(table("sql", f"SELECT count(*) AS n FROM made_{form}", "--json"))["rows"] == [{"n": 3}]
    for name in ("things", "copied", "made"):
        table("sql", f"DROP TABLE {name}_{form}")


def test_without_rights_the_tools_are_absent_and_readiness_says_why(postgres: str, tmp_path: Path) -> None:
    with owned_database(postgres, "NOCREATEROLE") as place:
        given = on_postgres(place.url)
        write_program(tmp_path, "agent reviewer { }\n")
        with running(tmp_path, "program", wait=True, command=SYMBI, admin_host="127.0.0.1", **given) as daemon:
            checks = json.loads(daemon.symbi("readiness", "--json", **given).stdout)["checks"]
            (check,) = [each for each in checks if each["check"] == "tables"]
            assert check["status"] == "YELLOW"
            assert "may not create roles" in check["text"]
            done = daemon.symbi("table", "sql", "SELECT 1", **given)
            assert done.returncode == 1
            assert "symbi readiness" in done.stderr
