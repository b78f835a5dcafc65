"""An admin socket that a cleaner of temporary files removed."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

from tests.runtime.daemon.running import running, write_program


def test_a_command_names_the_socket_that_is_missing(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        path = Path(json.loads((tmp_path / ".symbi/daemon.json").read_bytes())["socket"])
        # It would bind another one otherwise.
        os.kill(daemon.process.pid, signal.SIGSTOP)
        shutil.rmtree(path.parent)
        done = daemon.symbi("webhook", "list")
        os.kill(daemon.process.pid, signal.SIGCONT)
        assert done.returncode == 2
        assert f"{path} is missing" in done.stderr
