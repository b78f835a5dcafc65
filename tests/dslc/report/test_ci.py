"""The action and the hooks that other repositories use work unchanged."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from dslc.cli import COMMANDS
from tests.dslc.command import run

_ROOT = Path(__file__).parents[3]
_ACTION = (_ROOT / "action.yml").read_text(encoding="utf-8")
_HOOKS = (_ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
_PAGE = (_ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
_BAD = "memory m { retention 90 }\n"
_WARNS = 'webhook w {\n    path   "/w"\n    secret "hunter2"\n}\n'


def _step(name: str) -> str:
    """Return the script of one step of the action."""
    match = re.search(rf"- name: {name}\n.*?run: \|\n((?: {{8}}[^\n]*\n|\n)+)", _ACTION, re.DOTALL)
    assert match is not None
    return textwrap.dedent(match[1])


def _run_check(folder: Path, paths: str, deny_warnings: str = "false") -> subprocess.CompletedProcess[str]:
    """Run the step that checks as GitHub does, with the command where the previous step installs it."""
    command = folder / "temp" / "dslc" / "bin" / "dslc"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!{sys.executable}\nfrom dslc.cli import main\nmain()\n")
    command.chmod(0o755)
    environment = {
        **os.environ,
        "RUNNER_TEMP": str(folder / "temp"),
        "GITHUB_WORKSPACE": str(folder),
        "DSLC_PATHS": paths,
        "DSLC_DENY_WARNINGS": deny_warnings,
        "PYTHONPATH": str(_ROOT),
    }
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", _step("Check")]
    return subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_the_action_shows_mistakes_at_their_lines_and_fails(tmp_path: Path) -> None:
    for name in ("one folder/a", "two/b"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / f"{name}.symbiont").write_text(_BAD)
    done = _run_check(tmp_path, "one folder\ntwo\n")
    assert (done.returncode, done.stderr) == (1, "")
    assert "::error file=one folder/a.symbiont,line=1," in done.stdout
    assert "::error file=two/b.symbiont,line=1," in done.stdout


@pytest.mark.parametrize(("deny_warnings", "code"), [("false", 0), ("true", 1)])
def test_the_action_denies_warnings_when_asked_to(deny_warnings: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_WARNS)
    done = _run_check(tmp_path, ".", deny_warnings)
    assert done.returncode == code
    assert "::warning file=a.symbiont" in done.stdout


def test_the_action_takes_no_path_for_an_option_or_a_command(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_WARNS)
    done = _run_check(tmp_path, "--version\n$(touch made)\n")
    assert done.returncode == 2
    assert done.stdout.startswith("::error title=dslc::no such file or folder: ")
    assert not (tmp_path / "made").exists()


def test_every_script_of_the_action_is_right_for_the_shell() -> None:
    for name in ("Install dslc", "Check"):
        subprocess.run(["bash", "-n", "-c", _step(name)], check=True)
        assert "${{" not in _step(name), "what a caller gives must not become a part of the script"


def test_every_hook_is_a_command_that_exists(tmp_path: Path) -> None:
    entries = re.findall(r"^  entry: (.+)$", _HOOKS, re.MULTILINE)
    assert entries == ["dslc check", "dslc fmt"]
    (tmp_path / "a.symbiont").write_text("memory m {\n    retention 90d\n}\n")
    for entry in entries:
        _, command, *options = shlex.split(entry)
        assert command in COMMANDS
        assert run(command, *options, "a.symbiont", cwd=tmp_path).returncode == 0


def test_the_page_names_what_there_is() -> None:
    assert set(re.findall(r"- id: (\S+)", _PAGE)) == set(re.findall(r"- id: (\S+)", _HOOKS))
    inputs = re.findall(r"^  ([a-z-]+):\n    description", _ACTION, re.MULTILINE)
    assert inputs == ["paths", "deny-warnings"]
    assert all(f"{name}:" in _PAGE for name in inputs)
