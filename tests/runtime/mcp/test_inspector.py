"""Another implementation of the protocol as a client: the command line of the Inspector, on the TypeScript SDK."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.tools import TOOLS
from tests.lanes import LONG
from tests.runtime.daemon.running import BIN, environment

PACKAGE = "@modelcontextprotocol/inspector@0.15.0"
# Kept between runs: there are two hundred packages.
CACHE = Path(tempfile.gettempdir()) / f"symbiont-inspector-0.15.0-{os.getuid()}"
SECONDS = 180

Inspect = Callable[..., Any]


@pytest.fixture(scope="module")
def inspect(tmp_path_factory: pytest.TempPathFactory) -> Inspect:
    """Return what the Inspector prints for one request to `symbi mcp`."""
    npx = shutil.which("npx")
    if npx is None:
        pytest.skip("there is no npx")
    root = tmp_path_factory.mktemp("root")

    def run(*arguments: str) -> Any:
        command = [
            npx,
            "--yes",
            PACKAGE,
            "--cli",
            str(BIN / "symbi"),
            "mcp",
            "--tools",
            "all,approvals",
            "--root",
            str(root),
            *arguments,
        ]
        more = {"npm_config_cache": str(CACHE), "npm_config_audit": "false", "npm_config_fund": "false"}
        try:
            done = subprocess.run(
                command, env=environment(**more), capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"npx did not end in {SECONDS} s")
        if done.returncode != 0 and ("npm error" in done.stderr or "npm ERR" in done.stderr):
            pytest.skip(f"the Inspector cannot be had: {done.stderr.strip().splitlines()[-1][:200]}")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@LONG
def test_another_implementation_lists_and_calls_the_tools_and_hears_of_errors(inspect: Inspect) -> None:
    assert {tool["name"] for tool in inspect("--method", "tools/list")["tools"]} == TOOLS.keys()
    kept = inspect(
        "--method", "tools/call", "--tool-name", "push",
        "--tool-arg", "text=The staging database is restored every night.", "--tool-arg", "project_id=inspected",
    )  # fmt: skip
    assert kept["structuredContent"]["inserted"] == 1
    refused = inspect(
        "--method", "tools/call", "--tool-name", "search", "--tool-arg", "query_text=x", "--tool-arg", "limit=0"
    )
    assert refused["isError"] is True
    assert refused["content"][0]["text"].startswith("invalid_params: limit: ")
