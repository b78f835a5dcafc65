"""`symbi readiness` prints a line for each check, and its exit code reports whether any is RED."""

from __future__ import annotations

import json
import os
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from runtime.daemon.process.root import make
from tests.runtime.daemon.running import GITHUB, SECRET, running, symbi, until, write_program

PROGRAM = "memory notes {\n    embedding hashing\n}\n" + GITHUB
CHECKS = [
    "daemon", "state folder", "disk", "database", "master key", "keys", "tables", "program", "secrets", "webhooks",
    "deliveries",
    "memory notes", "index of notes", "embedding of notes",
]  # fmt: skip


def checks(done: CompletedProcess[str]) -> dict[str, dict[str, str]]:
    """Return the checks of `--json` by name; the exit code must agree."""
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stdout + done.stderr
    answer = json.loads(done.stdout)
    statuses = [row["status"] for row in answer["checks"]]
    assert answer["ready"] == ("RED" not in statuses) == (done.returncode == 0)
    worst = next(level for level in ("RED", "YELLOW", "GREEN") if level in statuses)
    assert answer["status"] == worst
    return {row["check"]: row for row in answer["checks"]}


def status(root: Path, name: str, **environment: str) -> tuple[str, str]:
    row = checks(symbi("readiness", "--json", root=root, **environment))[name]
    return row["status"], row["text"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a root with a program, without a daemon."""
    write_program(tmp_path, PROGRAM)
    make(tmp_path, os.environ, tmp_path)
    assert symbi("memory", "stats", root=tmp_path).returncode == 0
    return tmp_path


def test_a_running_daemon_is_asked_and_all_is_well(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as daemon:
        found = checks(daemon.symbi("readiness", "--json"))
        assert list(found) == CHECKS
        assert daemon.addresses["public"] in found["daemon"]["text"]
        assert [name for name, row in found.items() if row["status"] != "GREEN"] == ["embedding of notes"]
        assert found["embedding of notes"]["text"] == "hashing, which is for tests: its vectors have no meaning"
        said = daemon.symbi("readiness")
        assert said.returncode == 0
        assert [line.split()[0] for line in said.stdout.splitlines()[2:]] == ["GREEN"] * 13 + ["YELLOW"]


def test_without_a_daemon_it_is_looked_at_all_the_same(root: Path) -> None:
    found = checks(symbi("readiness", "--json", root=root))
    assert list(found) == CHECKS
    assert found["daemon"]["status"] == "YELLOW"
    assert "symbi up" in found["daemon"]["text"]
    assert {name for name, row in found.items() if row["status"] == "GREEN"} == {*CHECKS} - {
        "daemon",
        "embedding of notes",
    }


def test_a_webhook_without_its_secret_is_red(root: Path) -> None:
    assert status(root, "secrets", GITHUB_SECRET="")[0] == "RED"
    level, text = status(root, "webhooks", GITHUB_SECRET="")
    assert level == "RED"
    assert "github-events" in text
    assert "GITHUB_SECRET" in text
    assert symbi("readiness", root=root, GITHUB_SECRET="").returncode == 1


def test_a_secret_that_keeps_its_last_value_is_yellow(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET)
    write_program(tmp_path, PROGRAM.replace("secret://env/GITHUB_SECRET", "file://secret.txt"))
    with running(tmp_path, "program") as daemon:
        secret.unlink()
        daemon.load('memory more {\n    path "more"\n}\n', "more.symbiont")
        row = checks(daemon.symbi("readiness", "--json"))["secrets"]
        assert row["status"] == "YELLOW"
        assert "secret.txt" in row["text"]


def test_a_memory_that_cannot_be_written_to_is_red(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    folder = tmp_path / "data/agents"
    with running(tmp_path, "program") as daemon:
        folder.parent.mkdir()
        folder.write_text("in the way")
        row = checks(daemon.symbi("readiness", "--json"))["memory notes"]
        assert row["status"] == "RED"
        assert str(folder) in row["text"]
        folder.unlink()
    folder.write_text("in the way")
    level, text = status(tmp_path, "state")
    assert level == "RED"
    assert str(folder) in text


@pytest.mark.parametrize("store", ["markdown", "records"])
def test_every_store_says_where_it_is_and_how_much_it_holds(root: Path, store: str) -> None:
    write_program(root, PROGRAM.replace("embedding", f"store {store}\n    embedding"))
    assert symbi("memory", "write", "reviewer", "The walnut", root=root).returncode == 0
    level, text = status(root, "memory notes")
    assert level == "GREEN"
    assert text.startswith(f"{store} in {root / 'data/agents'}: 1 agent, ")
    assert status(root, "index of notes")[0] == "GREEN"


def test_a_file_that_is_no_text_is_yellow_and_named(root: Path) -> None:
    memory = root / "data/agents/reviewer/memory.md"
    memory.parent.mkdir(parents=True)
    memory.write_bytes(b"## Facts\n- caf\xe9\n")
    level, text = status(root, "memory notes")
    assert level == "YELLOW"
    assert str(memory) in text


def test_a_memory_whose_embedding_has_no_secret_is_yellow_and_searched_by_keyword(root: Path) -> None:
    options = 'openai { api_key "secret://env/NO_SUCH_KEY" }'
    write_program(root, PROGRAM.replace("hashing", options))
    for name in ("secrets", "embedding of notes"):
        level, text = status(root, name)
        assert level == "YELLOW"
        assert "NO_SUCH_KEY" in text


def test_a_remote_that_is_not_configured_is_fine(root: Path) -> None:
    remote = 'remote contextstream { url "secret://env/NO_URL" api_key "secret://env/NO_KEY" project "neuronx" }'
    write_program(root, PROGRAM.replace("embedding", f"store records {{ {remote} }}\n    embedding"))
    done = symbi("readiness", "--json", root=root)
    assert done.returncode == 0
    row = checks(done)["memory notes"]
    assert row["status"] == "YELLOW"
    assert "contextstream" in row["text"]


def test_a_reload_that_failed_is_yellow_and_says_why(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as daemon:
        write_program(tmp_path, PROGRAM.replace("hashing", "hashin"))
        until(lambda: daemon.readyz().json()["last_error"])
        row = checks(daemon.symbi("readiness", "--json"))["program"]
        assert row["status"] == "YELLOW"
        assert "hashin" in row["text"]


AGENT = """
model away { service ollama { url "http://localhost:1" } }
agent helper { model away }
"""


def test_an_agent_without_its_model_is_red_and_only_a_warning_for_readyz(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM + AGENT)
    with running(tmp_path, "program") as daemon:
        row = checks(daemon.symbi("readiness", "--json"))["model away"]
        assert row["status"] == "RED"
        assert "localhost:1 cannot be reached" in row["text"]
        assert row["text"].endswith("; agents without a model: helper")
        answer = daemon.readyz()
        assert (answer.status, answer.json()["ready"]) == (200, True)
        (warning,) = [each for each in answer.json()["warnings"] if each.startswith("model away: ")]
        assert warning == f"model away: {row['text']}"


def test_an_agent_whose_model_has_no_key_is_red_and_only_a_warning_for_readyz(tmp_path: Path) -> None:
    keyless = AGENT.replace('ollama { url "http://localhost:1" }', 'openai { api_key "secret://env/NO_KEY" }')
    write_program(tmp_path, PROGRAM + keyless)
    with running(tmp_path, "program") as daemon:
        row = checks(daemon.symbi("readiness", "--json"))["model away"]
        assert (row["status"], "NO_KEY" in row["text"]) == ("RED", True)
        answer = daemon.readyz()
        (warning,) = [each for each in answer.json()["warnings"] if each.startswith("model away: ")]
        assert (answer.status, "NO_KEY" in warning) == (200, True)


def test_a_model_that_no_enabled_agent_uses_is_not_checked(root: Path) -> None:
    unused = AGENT.replace("model away }", "model away enabled false }")
    write_program(root, PROGRAM + unused)
    assert status(root, "model away") == ("GREEN", "not checked: no enabled agent uses it")


def test_what_cannot_be_looked_at_at_all_is_red(root: Path) -> None:
    def state() -> str:
        found = checks(symbi("readiness", "--json", root=root))
        assert list(found) == ["state"]
        assert found["state"]["status"] == "RED"
        return found["state"]["text"]

    write_program(root, "memory {")
    assert "the program has errors" in state()
    write_program(root, PROGRAM)
    key = root / ".symbi/master.key"
    key.rename(root / "master.key")
    assert "master key" in state()
    (root / "master.key").rename(key)
    key.chmod(0o644)
    assert "chmod 600" in state()
    key.chmod(0o600)
    (root / ".symbi/symbiont.db").write_bytes(b"no database" * 1000)
    assert "symbiont.db" in state()


def test_where_there_is_no_root_nothing_is_said_of_one(tmp_path: Path) -> None:
    done = symbi("readiness", root=tmp_path)
    assert done.returncode == 2
    assert "no root here" in done.stderr


def test_help_says_what_the_exit_code_means() -> None:
    done = symbi("readiness", "--help", root=Path.cwd())
    assert "Exit code 0 if nothing is RED, else 1." in " ".join(done.stdout.split())
