"""Each part of a root that is lost, by a running daemon and by a stopped one: what the table in docs/operating.md says
happens."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path

import pytest

from runtime.daemon.listeners.sockets import LOOK_SECONDS
from tests.lanes import LONG
from tests.runtime.daemon.process.lost.test_database import GENERATED, PORTS, _run
from tests.runtime.daemon.running import Daemon, running, symbi, until, write_program

pytestmark = LONG

PROGRAM = GENERATED.replace('"Remember."', '"Remember."\n    memory notes') + (
    'memory notes {\n    path "data"\n    embedding hashing\n}\n'
    "memory docs {\n    store collection\n    embedding hashing\n}\n"
    "agent second {\n    memory docs\n}\n"
)
RECORDS = ("root.json", "daemon.json", "program.json", "memories.json")


def filled(daemon: Daemon, **environ: str) -> str:
    """Store something in every part of the root; return the generated secret."""
    for command in (
        ("memory", "write", "reviewer", "in a file"),
        ("push", "-"),
        ("user", "add", "ada"),
        ("webhook", "test", "hooks", "--payload", "{}"),
        ("table", "sql", "CREATE TABLE notes (note TEXT)"),
        ("table", "sql", "INSERT INTO notes VALUES ('in a table')"),
    ):
        done = daemon.symbi(*command, input="in a collection", **environ)
        assert done.returncode == 0, (command, done.stderr)
    until((daemon.root / ".symbi/memories.json").exists)
    time.sleep(2 * LOOK_SECONDS)  # until the daemon has read it once
    return daemon.symbi("secret", "show", "hooks", **environ).stdout


def holds(root: Path, secret: str, **environ: str) -> None:
    """Fail if something that was stored cannot be read."""
    assert symbi("secret", "show", "hooks", root=root, **environ).stdout == secret != ""
    assert "in a file" in symbi("memory", "list", "--agent", "reviewer", root=root, **environ).stdout
    assert "in a collection" in symbi("collection", "search", "collection", root=root, **environ).stdout
    assert "in a table" in symbi("table", "sql", "SELECT note FROM notes", root=root, **environ).stdout


def red(root: Path, **environ: str) -> dict[str, str]:
    """Return the checks that are RED, by name."""
    checks = json.loads(symbi("readiness", "--json", root=root, **environ).stdout)["checks"]
    return {each["check"]: each["text"] for each in checks if each["status"] == "RED"}


def removed(state: Path, *patterns: str) -> None:
    for path in [path for pattern in patterns for path in state.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_what_a_running_daemon_loses_is_restored_or_can_be_saved_while_it_runs(tmp_path: Path) -> None:
    state = tmp_path / ".symbi"
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as daemon:
        secret = filled(daemon)
        # Two rounds, because each may lose what the one before has restored.
        for _ in range(2):
            before = {name: (state / name).read_bytes() for name in RECORDS}
            removed(state, *RECORDS)
            until(lambda: all((state / name).exists() for name in RECORDS))
            assert {name: (state / name).read_bytes() for name in RECORDS} == before
            removed(state, "tables")
            holds(tmp_path, secret)
            assert list((state / "tables").glob("*.db"))
            removed(state, "index")
            holds(tmp_path, secret)
            assert red(tmp_path) == {}
        removed(state, "tables/*")
        assert red(tmp_path) == {}  # which has looked, and stored them again

        removed(state, "master.key", "keys.db*")
        daemon.until_logged('"check": "keys"')
        found = red(tmp_path)
        assert "`symbi key export FILE` before the daemon stops" in found["keys"]
        assert "master.key is missing" in found["master key"]
        assert "`symbi key rotate --master`" in found["master key"]
        assert daemon.symbi("user", "add", "bea").returncode == 0
        assert daemon.symbi("table", "sql", "CREATE TABLE b (b TEXT)", "--user", "bea").returncode == 0
        assert daemon.symbi("key", "rotate", "--master", "--yes").returncode == 0
        saved = daemon.symbi("key", "export", "saved.keys")
        assert saved.returncode == 0, saved.stderr
        assert red(tmp_path).keys() == {"keys"}
        holds(tmp_path, secret)
        removed(state, "tables/*")  # a stop stores them again
    done = symbi("up", "program", *PORTS, root=tmp_path)
    assert done.returncode == 2
    assert "symbi key import FILE" in done.stderr
    assert symbi("key", "import", "saved.keys", root=tmp_path).returncode == 0
    with running(tmp_path, "program") as daemon:
        holds(tmp_path, secret)
        assert daemon.symbi("table", "sql", "SELECT * FROM b", "--user", "bea").returncode == 0
        assert red(tmp_path) == {}
        (state / "symbiont.db-shm").unlink()
        until(lambda: daemon.process.poll() is not None)
        assert "symbiont.db was removed or replaced" in daemon.log.read_text()
    holds(tmp_path, secret)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_every_part_that_a_stopped_root_lost_is_refused_or_restored(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    environ: dict[str, str] = {}
    if kind == "postgresql":
        url = request.getfixturevalue("postgres_url")
        environ = {"SYMBIONT_DATABASE": url}
        # The fixture's database has been opened, with another master key than the one that the root makes.
        for schema in ("public", "symbiont_keys"):
            asyncio.run(_run(url, f"DROP SCHEMA {schema} CASCADE"))
        asyncio.run(_run(url, "CREATE SCHEMA public"))
    root, kept = tmp_path / "root", tmp_path / "kept"
    root.mkdir()
    state = root / ".symbi"
    write_program(root, PROGRAM)
    with running(root, "program", wait=True, **environ) as daemon:
        secret = filled(daemon, **environ)
        assert daemon.symbi("key", "export", "saved.keys", **environ).returncode == 0
    shutil.copytree(root, kept)

    def refused(*said: str) -> None:
        for command in (("up", "program", *PORTS), ("webhook", "logs")):
            done = symbi(*command, "--root", str(root), root=root, **environ)
            assert done.returncode == 2, done.stdout
            for each in said:
                assert each in done.stderr
            assert "root_adopted" not in done.stderr
            assert "Traceback" not in done.stderr

    # The keys; the root is foreign too, and what completes it adopts it.
    removed(state, "root.json")
    if kind == "sqlite":
        removed(state, "keys.db")
    else:
        asyncio.run(_run(environ["SYMBIONT_DATABASE"], "DROP SCHEMA symbiont_keys CASCADE"))
    done = symbi("up", "program", *PORTS, "--root", str(root), root=root, **environ)
    assert done.returncode == 2
    assert "the keys of its users are missing" in done.stderr
    assert "`symbi key import FILE`" in done.stderr
    assert "was not created there by this user" in symbi("user", "list", root=root, **environ).stderr
    done = symbi("key", "import", "saved.keys", "--root", str(root), root=root, **environ)
    assert done.returncode == 0, done.stderr
    assert symbi("secret", "show", "hooks", root=root, **environ).stdout == secret

    removed(state, "master.key")
    refused("master.key is missing", "put it back, or name it in SYMBIONT_MASTER_KEY")
    assert not (state / "master.key").exists()
    shutil.copy2(kept / ".symbi/master.key", state)

    if kind == "postgresql":
        own, environ = environ, {"SYMBIONT_DATABASE": f"{tmp_path}/other.db"}
        refused("other.db is missing or empty", "had a database (postgresql://")
        environ = own

    removed(state, "root.json")
    done = symbi("readiness", root=root, **environ)
    assert f"symbi up --root {root}" in done.stderr
    removed(state, "last-program.sealed", "compacted.json", "daemon.json", "lock", "index")
    shutil.rmtree(root / "data")
    with running(root, "program", "--root", str(root), wait=True, **environ) as daemon:
        daemon.until_logged("index_built")
        assert (state / "last-program.sealed").exists()
        assert list(red(root, **environ)) == ["memory notes"]
        assert daemon.symbi("memory", "write", "reviewer", "more", **environ).returncode != 0
        assert not (root / "data").exists()
        shutil.copytree(kept / "data", root / "data")
        assert red(root, **environ) == {}
        holds(root, secret, **environ)
        daemon.kill()
    removed(state, "symbiont.db-wal", "program.json")
    if kind == "sqlite":
        removed(state, "tables/*")
        assert list(red(root)) == ["tables"]
        lost = symbi("table", "sql", "INSERT INTO notes VALUES ('more')", root=root)
        assert "the file of your tables is missing" in lost.stderr
        other = symbi("table", "sql", "CREATE TABLE a (a TEXT)", "--user", "ada", root=root)
        assert other.returncode == 0, other.stderr
        for file in (kept / ".symbi/tables").iterdir():
            shutil.copy2(file, state / "tables")
    assert red(root, **environ) == {}
    holds(root, secret, **environ)
