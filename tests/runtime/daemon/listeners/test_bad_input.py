"""Bad input: one clear line that says what, where and what to do; the documented exit code; no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.daemon.running import Daemon, running, symbi, write_program


def refused(done: subprocess.CompletedProcess[str], code: int, *said: str) -> None:
    output = done.stdout + done.stderr
    assert done.returncode == code, output
    assert "Traceback" not in output
    for text in said:
        assert text in output, output
    assert len([line for line in output.splitlines() if line.strip()]) <= 4, output


def up(root: Path, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    listeners = ("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
    return symbi("up", *listeners, *arguments, root=root, **extra)


def test_a_parser_of_http_in_python_is_refused(tmp_path: Path) -> None:
    write_program(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "runtime", "up", "program", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"],
        cwd=tmp_path,
        env={**os.environ, "AIOHTTP_NO_EXTENSIONS": "1", "PYTHONPATH": str(Path(__file__).parents[4])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    refused(done, 2, "lacks its parser in C", "help: unset")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("root")
    write_program(root)
    with running(root, "program") as started:
        yield started


def test_a_root_that_a_daemon_owns_is_refused(daemon: Daemon) -> None:
    refused(up(daemon.root, "program"), 2, f"is in use by a daemon (process {daemon.process.pid})")
    assert daemon.readyz().status == 200


def test_an_unknown_webhook_is_answered_with_the_nearest(daemon: Daemon) -> None:
    done = daemon.symbi("webhook", "test", "github-event", "--payload", "{}")
    refused(done, 2, "no webhook is called 'github-event'", "did you mean github-events?")
    refused(daemon.symbi("webhook", "logs", "--name", "githb-events"), 2, "did you mean github-events?")
    refused(daemon.symbi("memory", "inspect", "revewer"), 2, "did you mean reviewer?")
    refused(daemon.symbi("secret", "show", "nothing"), 2, "no generated secret is called 'nothing'")


def test_a_payload_that_is_not_json_says_where(daemon: Daemon) -> None:
    for payload, said in (
        ("{action: opened}", "--payload is not JSON"),
        ("", "--payload is not JSON"),
        ("@nowhere.json", "no such file"),
        ('{"a": "\udcff"}', "--payload is not UTF-8"),
    ):
        refused(daemon.symbi("webhook", "test", "github-events", "--payload", payload), 2, said)


def test_a_root_without_its_daemon_or_its_master_key_says_what_is_missing(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        daemon.kill()
    done = symbi("webhook", "test", "github-events", "--payload", "{}", root=tmp_path)
    refused(done, 1, "no daemon is running", "help: start it with `symbi up`")
    assert symbi("webhook", "list", root=tmp_path).returncode == 0
    with running(tmp_path, "program") as daemon:
        assert daemon.readyz().status == 200
    done = up(tmp_path, "program", SYMBIONT_MASTER_KEY="secret://env/KEY", KEY="ab" * 32)
    refused(done, 2, "key")
    assert "ab" * 8 not in done.stderr
    refused(up(tmp_path, "program", SYMBIONT_MASTER_KEY="secret://env/NOT_THERE"), 2, "SYMBIONT_MASTER_KEY")
    (tmp_path / ".symbi/master.key").chmod(0o644)
    refused(up(tmp_path, "program"), 2, "can be read by others", "chmod 600")


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="needs a file system that takes no files")
def test_a_root_that_is_not_writable_is_refused(tmp_path: Path) -> None:
    write_program(tmp_path)
    refused(up(tmp_path, "program", "--root", "/proc"), 2, "the root /proc cannot be used")


def test_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "program").mkdir()
    refused(up(tmp_path, "program"), 2, "no .symbiont files under", "help:")
    refused(up(tmp_path, "nowhere"), 2, "nowhere: no such file or folder")


def test_a_wrong_program_is_shown_as_the_compiler_shows_it(tmp_path: Path) -> None:
    write_program(tmp_path, 'webhook x {\n    path "/x"\n    provider gihub\n    secret "secret://env/A"\n}\n')
    done = up(tmp_path, "program")
    assert done.returncode == 2
    assert "T403" in done.stderr
    assert "hooks.symbiont:3:14" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_database_that_does_not_answer_is_refused_without_its_password(tmp_path: Path) -> None:
    write_program(tmp_path)
    done = up(tmp_path, "program", "--database", "postgresql://me:hunter22@127.0.0.1:9/none")
    refused(done, 1)
    assert "hunter22" not in done.stderr


def test_a_command_outside_any_root_says_so(tmp_path: Path) -> None:
    done = symbi("webhook", "list", root=tmp_path, HOME=str(tmp_path))
    refused(done, 2, "no root here", "symbi up")


def test_a_wrong_flag_is_refused(tmp_path: Path) -> None:
    write_program(tmp_path)
    refused(symbi("up", "program", "--listen", "8080", root=tmp_path), 2, "--listen: write HOST:PORT")
