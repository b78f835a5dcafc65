"""The scripts of `symbi completion` complete commands, options and their values."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.runtime.cli.memory.test_commands import good, refused
from tests.runtime.daemon.running import BIN, environment, symbi


def completed(words: str, tmp_path: Path) -> set[str]:
    """Return the completions that bash gets for these words."""
    env = environment(_SYMBI_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split(" ")) - 1))
    done = subprocess.run([BIN / "symbi"], cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_commands_options_and_values_are_completed(tmp_path: Path) -> None:
    assert completed("symbi col", tmp_path) == {"plain,collection"}
    assert completed("symbi collection s", tmp_path) == {"plain,search", "plain,summarize"}
    assert "plain,--no-replace" in completed("symbi push --", tmp_path)
    assert completed("symbi push --type e", tmp_path) == {"plain,episodic"}
    assert completed("symbi push do", tmp_path) == {"file,do"}
    assert completed("symbi memory mo", tmp_path) == {"plain,move"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_reads(shell: str, tmp_path: Path) -> None:
    script = good(symbi("completion", shell, root=tmp_path))
    assert "_SYMBI_COMPLETE" in script
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_another_shell_is_refused(tmp_path: Path) -> None:
    refused(symbi("completion", "tcsh", root=tmp_path), 2, "tcsh")
