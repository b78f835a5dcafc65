"""Run the commands of the README and of the first steps unchanged."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lanes import LONG
from tests.runtime.daemon.running import environment, until

REPOSITORY = Path(__file__).parents[2]
PAGES = (REPOSITORY / "README.md", REPOSITORY / "docs" / "start.md")


def commands() -> list[str]:
    """Return the commands of the pages, each here-document with its command."""
    pages = "".join(page.read_text() for page in PAGES)
    found: list[str] = []
    for block in re.findall(r"```console\n(.*?)```", pages, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(line[2:])
            else:
                found[-1] += "\n" + line
    return found


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the repository in which the installation is already done."""
    for name in ("Makefile", "README.md", "pyproject.toml", "requirements.lock", "setup.py"):
        shutil.copy(REPOSITORY / name, tmp_path)
    for name in ("docs", "examples", "grammar"):
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/bin").symlink_to(Path(sys.executable).parent)
    (tmp_path / ".venv/installed").touch()
    return tmp_path


@LONG
def test_the_walk_through_works_as_it_stands(checkout: Path) -> None:
    env = environment(EMBEDDING_PROVIDER="", SYMBIONT_LISTEN="127.0.0.1:0", SYMBIONT_ADMIN_LISTEN="127.0.0.1:0")
    steps = commands()
    assert len(steps) > 8
    with (checkout / "up.log").open("wb") as log:
        daemon = subprocess.Popen(
            ["make", "run"],
            cwd=checkout,
            env=env,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        until(lambda: "/hooks/github" in (checkout / "up.log").read_text(), 120, "the daemon's start")
        script = "set -eu\n" + "\n".join(f"echo '=== {number}'\n{step}" for number, step in enumerate(steps))
        done = subprocess.run(
            ["bash", "-c", script], cwd=checkout, env=env, capture_output=True, text=True, timeout=120, check=False
        )
    finally:
        os.killpg(daemon.pid, signal.SIGTERM)
        daemon.wait(60)
    assert done.returncode == 0, done.stdout + done.stderr + (checkout / "up.log").read_text()
    shown = done.stdout
    ready = shown[: shown.index("=== 1")]
    assert "GREEN" in ready
    assert not re.search(r"^(YELLOW|RED)", ready, re.MULTILINE), ready
    start = (checkout / "up.log").read_text().partition('"generation": 2')[0]
    assert not re.search("warning|error", start), start
    assert "202 Accepted" in shown
    assert "GitHub pull_request" in shown
    assert "Add a dark mode" in shown
    assert "- name: Ada" in shown, shown
    assert re.search(
        r"by Ana  [0-9a-f-]{36}  \S+/greeter/memory\.md:\d+\n.*\n +We moved staging to Frankfurt", shown
    ), shown
    search = next(number for number, step in enumerate(steps) if "collection search" in step)
    first = shown[shown.index(f"=== {search}") :].split("\n\n")[0]
    assert "deliveries.md" in first, shown
    assert "| 429 with `Retry-After` |" in first, shown
    assert re.search(r"collection \(default\)\s+collection\s+\d+\s+embedded", shown), shown
    assert re.search(r"hello\s+/hooks/hello\s+custom\s+greeter\s+mounted", shown)
    secret_lines = [line for line in shown.splitlines() if re.fullmatch(r"[0-9a-f]{64}", line)]
    assert not secret_lines
