"""The command `symbi` itself: help, start-up time, and a closed pipe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dslc.version import full
from tests.runtime.daemon.running import BIN, environment, symbi


def test_the_version_is_the_packages_with_its_commit(tmp_path: Path) -> None:
    done = symbi("--version", root=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"symbi {full()}\n")


def test_help_lists_every_group(tmp_path: Path) -> None:
    done = symbi("--help", root=tmp_path)
    assert done.returncode == 0
    for name in ("up", "webhook", "memory", "secret"):
        assert f"\n  {name} " in done.stdout


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; from runtime.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'sqlalchemy', 'aiohttp', 'rich', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_unknown_command_is_refused_with_2(tmp_path: Path) -> None:
    assert symbi("nonsense", root=tmp_path).returncode == 2


def test_a_mistyped_command_is_answered_with_the_nearest(tmp_path: Path) -> None:
    assert "Did you mean 'webhook'?" in symbi("webhok", root=tmp_path).stderr
    assert "Did you mean 'list'?" in symbi("webhook", "lst", root=tmp_path).stderr


@pytest.mark.parametrize("group", [(), *((name,) for name in ("webhook", "memory", "user", "token", "secret"))])
def test_no_summary_of_a_command_is_cut_off(group: tuple[str, ...], tmp_path: Path) -> None:
    assert "..." not in symbi(*group, "--help", root=tmp_path).stdout.partition("Commands:")[2]


def test_a_named_folder_without_a_root_is_the_one_that_the_message_names(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    for command in (("list",), ("add", "x", "--path", "/x", "--secret", "secret://env/X")):
        done = symbi("webhook", *command, root=tmp_path, SYMBIONT_ROOT=str(elsewhere))
        assert (done.returncode, f"{elsewhere} contains no .symbi folder" in done.stderr) == (2, True)


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {BIN / 'symbi'} --help | true"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
