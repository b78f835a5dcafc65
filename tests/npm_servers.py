"""Servers of the Model Context Protocol from npm, installed once for all tests of a machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

VERSION = "2026.8.31"
PACKAGES = ("@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-filesystem")
# Kept between runs: there are a hundred packages.
CACHE = Path(tempfile.gettempdir()) / f"symbiont-mcp-servers-{VERSION}-{os.getuid()}"
SECONDS = 300


@cache
def installed() -> Path:
    """Return the folder of the commands of `PACKAGES`. The test is skipped without npm."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm")
    if not CACHE.exists():
        # Another worker may do the same: the first one to end counts.
        folder = Path(tempfile.mkdtemp(prefix="symbiont-mcp-"))
        (folder / "package.json").write_text("{}")
        wanted = [f"{package}@{VERSION}" for package in PACKAGES]
        done = subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *wanted],
            cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            pytest.skip(f"npm installs nothing: {done.stderr[-300:]}")
        try:
            folder.rename(CACHE)
        except OSError:
            shutil.rmtree(folder)
    return CACHE / "node_modules/.bin"
