"""Hints name the packages to install, never the distribution, whose name belongs to another project on PyPI."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from runtime import extras

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", ["local", "documents", "models", "qdrant", "vault", "keyring"])
def test_the_command_installs_what_the_extra_holds(extra: str) -> None:
    begin = f"{sys.executable} -m pip install "
    command = extras.install(extra)
    assert command.startswith(begin)
    named = {str(Requirement(each.strip("'"))) for each in command.removeprefix(begin).split(" ")}
    assert named == {str(Requirement(each)) for each in EXTRAS[extra]}


def test_nothing_tells_to_install_the_distribution_by_its_name() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    wrong = re.compile(r"pip\d* install[^\n`]*\bsymbiont\b(?!/|@)|`symbiont\[")
    found = []
    for name in filter(None, listed.decode().split("\0")):
        text = (ROOT / name).read_bytes().decode("utf-8", "replace")
        found += [f"{name}: {match[0]}" for match in wrong.finditer(text)]
    assert found == []
