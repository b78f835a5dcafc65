"""Run command lines of documentation pages."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from subprocess import CompletedProcess, run

from tests.runtime.daemon.running import BIN, environment, symbi

_OF_A_SHELL = re.compile(r"[|&;<>()$`*?\[\]{}~\\#\n]")


def typed(line: str, folder: Path) -> CompletedProcess[str]:
    """Run a line in `folder` as bash does; without bash if it consists of `symbi` and plain words."""
    if line.startswith("symbi ") and not _OF_A_SHELL.search(line):
        return symbi(*shlex.split(line)[1:], root=folder)
    env = environment(PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}")
    return run(["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True, check=False)
