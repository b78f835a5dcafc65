"""An installation says its version and its commit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dslc import version

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_a_checkout_says_its_commit_and_never_that_of_another_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    version.commit.cache_clear()
    assert version.full() == f"{version.version()} (commit {head[:12]})"


def test_an_installed_copy_says_the_commit_that_it_was_built_from_or_none(tmp_path: Path) -> None:
    (tmp_path / "dslc").mkdir()
    for name in ("__init__.py", "version.py"):
        shutil.copy(ROOT / "dslc" / name, tmp_path / "dslc")
    run = [sys.executable, "-c", "from dslc.version import commit; print(commit())"]
    for stamp, said in (("", "None"), ('COMMIT = "0123456789ab"', "0123456789ab")):
        if stamp:
            (tmp_path / "dslc/_commit.py").write_text(stamp)
        environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(run, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
        assert done.stdout == f"{said}\n"
