"""Only what is on disk is acknowledged: full disks, removed files, lost keys."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.daemon.running import running, symbi, until, write_program


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command: list[str | Path] = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if os.geteuid() != 0 or mounted.returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_refuses_what_it_cannot_keep_and_loses_nothing(small_disk: Path) -> None:
    write_program(small_disk)
    with running(small_disk, "program") as daemon:
        filler = small_disk / "filler"
        acknowledged = [daemon.github(b'{"number":"first"}', "first").json()["delivery_id"]]
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as handle:
            while handle.write(b"x" * 4096):
                pass
        refused = 0
        for number in range(40):
            answer = daemon.github(b'{"number":"%d"}' % number, f"full-{number}")
            if answer.status == 202:
                acknowledged.append(answer.json()["delivery_id"])
            else:
                assert (answer.status, answer.json()["error"]) == (503, "unavailable")
                assert answer.headers["retry-after"]
                assert daemon.readyz().status == 503, "who is refused and who watches are told the same"
                assert b"symbiont_storage_up 0.0" in daemon.request("GET", "/metrics", to="admin").body
                refused += 1
        assert refused
        checks = json.loads(daemon.symbi("readiness", "--json").stdout)["checks"]
        (told,) = [row for row in checks if row["check"] == "database"]
        assert (told["status"], told["text"].count("symbiont.db: ")) == ("RED", 1)
        filler.unlink()
        until(lambda: daemon.readyz().status == 200)
        assert daemon.github(b"{}", "after").status == 202

        def done() -> set[str]:
            return {row["delivery_id"] for row in daemon.attempts("--limit", "1000") if row["run_state"] == "done"}

        until(lambda: set(acknowledged) <= done())


def test_a_database_that_is_removed_stops_the_daemon(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        (tmp_path / ".symbi/symbiont.db").rename(tmp_path / "gone.db")
        assert daemon.process.wait(60) == 1
        stops = [line for line in daemon.log.read_text().splitlines() if '"critical"' in line]
        assert any("was removed or replaced while it was in use" in line for line in stops), stops


def test_a_lost_master_key_is_not_replaced_by_a_new_one(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program"):
        pass
    (tmp_path / ".symbi/master.key").unlink()
    done = symbi("up", "program", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", root=tmp_path)
    assert done.returncode == 2
    assert "is missing" in done.stderr
    assert not (tmp_path / ".symbi/master.key").exists()


def test_a_killed_daemon_leaves_no_socket_behind_for_ever(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        left = Path(daemon.addresses["socket"]).parent
        daemon.kill()
    assert left.exists()
    with running(tmp_path, "program"):
        assert not left.exists()


def test_a_key_that_only_the_daemon_has_is_named_and_not_called_lost(tmp_path: Path) -> None:
    write_program(tmp_path)
    key: dict[str, Any] = {"SYMBIONT_MASTER_KEY": "secret://env/THE_KEY", "THE_KEY": "ab" * 32}
    with running(tmp_path, "program", **key):
        assert symbi("memory", "list", root=tmp_path).returncode == 0
    for command in (("webhook", "logs"), ("up", "program", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")):
        done = symbi(*command, root=tmp_path)
        assert done.returncode == 2
        said = done.stderr
        assert "read its master key from" in said
        assert "set SYMBIONT_MASTER_KEY to secret://env/THE_KEY" in said
        assert "ab" * 32 not in said
    assert symbi("webhook", "logs", root=tmp_path, **key).returncode == 0
    assert not (tmp_path / ".symbi/master.key").exists()
