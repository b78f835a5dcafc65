"""A failed fsync stops the daemon, whichever caller wrote: it is unknown which data the kernel dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lanes import LONG
from tests.runtime.daemon.running import running, until, write_program
from tests.runtime.daemon.v1 import ask, make_token

pytestmark = LONG

FAILING = "tests.runtime.daemon.failing_fsync:failing"


@pytest.mark.parametrize("by", ["http", "command"])
def test_a_write_whose_fsync_fails_ends_the_daemon_and_is_not_acknowledged(tmp_path: Path, by: str) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program", command=FAILING) as daemon:
        token = make_token(daemon, "--scope", "write")
        assert ask(daemon, token, "POST", "/v1/memory/items", {"agent": "reviewer", "text": "one"}).status == 200
        (tmp_path / "broken-disk").touch()
        if by == "http":
            assert ask(daemon, token, "POST", "/v1/memory/items", {"agent": "reviewer", "text": "two"}).status == 500
        else:
            done = daemon.symbi("memory", "write", "reviewer", "two")
            assert done.returncode == 1, done
            assert done.stdout == ""
        until(lambda: daemon.process.poll() is not None)
        assert daemon.process.poll() == 1
    assert "Traceback" not in daemon.log.read_text()
