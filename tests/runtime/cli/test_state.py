"""Commands and the state of a root: they wait for one another, read the right database, and leave nothing behind."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.runtime.daemon.running import BIN, environment, running, symbi, write_program


def test_commands_at_the_same_moment_all_answer(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program"):
        pass
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda _: symbi("webhook", "list", root=tmp_path), range(4)))
    assert [done.returncode for done in ended] == [0] * 4, [done.stderr for done in ended]


def test_a_command_never_takes_the_file_for_the_state_that_a_daemon_kept_in_postgresql(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program"):
        pass
    record = tmp_path / ".symbi/program.json"
    record.write_text(json.dumps({**json.loads(record.read_bytes()), "database": "postgresql://db/symbiont"}))
    done = symbi("secret", "show", "github", root=tmp_path)
    assert done.returncode == 2
    assert "is in postgresql://db/symbiont" in done.stderr
    assert "SYMBIONT_DATABASE" in done.stderr


def test_a_folder_without_programs_does_not_become_a_root(tmp_path: Path) -> None:
    assert symbi("up", root=tmp_path).returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_output_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:

    write_program(tmp_path)
    with running(tmp_path, "program") as daemon, Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [BIN / "symbi", "webhook", "list"],
            cwd=daemon.root,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "symbi: no space left on device\n"


def test_a_large_delivery_is_signed_and_a_header_of_two_lines_is_refused(tmp_path: Path) -> None:
    write_program(tmp_path)
    (tmp_path / "large.json").write_text(json.dumps("a" * 2_000_000))
    with running(tmp_path, "program") as daemon:
        large = daemon.symbi("webhook", "test", "github-events", "--payload", "@large.json", "--json")
        split = daemon.symbi("webhook", "test", "github-events", "--payload", "1", "--delivery-id", "a\nb: c")
    assert "Traceback" not in large.stderr + split.stderr
    assert (large.returncode, json.loads(large.stdout)["status"]) == (0, 202)
    assert split.returncode == 2
    assert "printable text in one line" in split.stderr
