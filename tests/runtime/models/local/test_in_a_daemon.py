"""A daemon whose memory is summarized by a real small model on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.lanes import LONG
from tests.runtime.daemon.running import GITHUB, running, until, write_program
from tests.runtime.daemon.v1 import make_token
from tests.runtime.models.local.gguf import folders, is_worker, small_model, workers
from tests.stories.test_summaries import EVER, remember, tool

PROGRAM = """
memory notes {
    store collection
    summarize {
        model local {
            path    "models/small.gguf"
            threads 1
        }
    }
}
"""


@LONG
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_summary_is_written_by_a_worker_that_ends_with_the_daemon(tmp_path: Path, end: str) -> None:
    # A short path: the daemon's socket is below it, and the name of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="s") as temporary:
        answer_and_end(tmp_path, Path(temporary), end)


def answer_and_end(tmp_path: Path, temporary: Path, end: str) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "small.gguf").symlink_to(small_model())
    write_program(tmp_path, GITHUB + PROGRAM)
    with running(tmp_path, "program", EMBEDDING_PROVIDER="none", TMPDIR=str(temporary)) as daemon:
        token = make_token(daemon, "--scope", "admin")
        remember(daemon, token)
        assert workers(daemon.process.pid) == []
        done = tool(daemon, token, "summarize", time_range=EVER, strategy="abstractive")
        assert (done["provider"], done["model"]) == ("local", "small")
        assert done["summary"]
        (worker,) = workers(daemon.process.pid)
        if end == "stop":
            assert daemon.stop() == 0
        else:
            daemon.kill()
        until(lambda: not is_worker(worker), what="the end of the worker")
    until(lambda: folders(temporary) == [], what="the removal of its folder")
