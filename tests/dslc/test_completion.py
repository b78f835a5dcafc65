"""The scripts of `dslc completion` work in real shells."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dslc.diagnostics.diagnostic import CODES
from dslc.report import FORMATS
from tests.dslc.command import run
from tests.dslc.test_cli import dslc


def _with(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"there is no {shell} here")


_STYLE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|.)")
_START = {"bash": ("--norc", "--noprofile", "-i"), "zsh": ("-f", "-i")}
_SETUP = {
    "bash": 'PS1="> "; bind "set enable-bracketed-paste off"; bind "set completion-query-items 0"; '
    'bind "set page-completions off"; eval "$(dslc completion bash)"; echo ready',
    "zsh": 'PS1="> "; autoload -U compinit; compinit -D -u; eval "$(dslc completion zsh)"; echo ready',
}


class _Shell:
    """An interactive shell on a pseudo terminal."""

    def __init__(self, name: str, folder: Path) -> None:
        self.seen = ""
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.execvpe(name, [name, *_START[name]], _environment(folder))
        self.type(_SETUP[name] + "\r")
        self.wait_for("\nready")

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def wait_for(self, pattern: str) -> str:
        """Wait for `pattern`; return the output since the last wait."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if re.search(pattern, self.seen):
                shown, self.seen = self.seen, ""
                return shown
            if select.select([self.terminal], [], [], 0.2)[0]:
                read = os.read(self.terminal, 65_536).decode(errors="replace")
                self.seen = _STYLE.sub("", self.seen + read).replace("\r", "")
        raise AssertionError(f"{pattern!r} did not come: {self.seen!r}")

    def close(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.terminal)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with programs, beside one called `bin` with the command."""
    folder, command = tmp_path / "work", tmp_path / "bin" / "dslc"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom dslc.cli import main\nmain()\n")
    command.chmod(0o755)
    (folder / "sub folder").mkdir(parents=True)
    for name in ("my hooks.symbiont", "notes.txt", "sub folder/inner.symbiont"):
        (folder / name).touch()
    return folder


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{folder.parent / 'bin'}:{os.environ['PATH']}",
        "TERM": "dumb",
        "HOME": str(folder.parent),
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "COLUMNS": "200",
    }


@_with("fish")
def test_fish_completes_commands_codes_formats_and_files(folder: Path) -> None:
    def offered(typed: str) -> list[str]:
        script = f"dslc completion fish | source; complete -C {typed!r}"
        command = ["fish", "--no-config", "-c", script]
        done = subprocess.run(
            command, cwd=folder, env=_environment(folder), capture_output=True, text=True, timeout=60, check=True
        )
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    assert offered("dslc expl") == ["explain"]
    assert offered("dslc explain s105") == ["S105"]
    assert offered("dslc check --format sa") == ["sarif"]
    assert offered("dslc check ") == ["my hooks.symbiont", "sub folder/"]


@pytest.mark.parametrize("shell", [pytest.param(name, marks=_with(name)) for name in ("bash", "zsh")])
def test_a_shell_completes_commands_codes_formats_and_files(shell: str, folder: Path) -> None:
    session = _Shell(shell, folder)
    try:
        for typed, completed in (
            ("dslc expl\t", "dslc explain "),
            ("s10\t", "S10"),
            ("5 --form\t", "5 --format "),
            ("js\t", "json "),
            ("\x15dslc check my\t", r"my\\ hooks.symbiont "),
            ("sub\t", r"sub\\ folder/"),
            ("inn\t", r"inner.symbiont "),
            ("--format sa\t", "sarif "),
            ("\x15dslc check n\t\x15echo done\r", "\ndone"),
        ):
            session.type(typed)
            shown = session.wait_for(completed)
        assert "notes" not in shown
    finally:
        session.close()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_every_shell(shell: str, tmp_path: Path) -> None:
    done = run("completion", shell, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_DSLC_COMPLETE" in done.stdout


def test_another_shell_exits_2(tmp_path: Path) -> None:
    assert run("completion", "tcsh", cwd=tmp_path).returncode == 2


def _answers(words: str, folder: Path) -> list[str]:
    """Return the completions that the command returns to bash for the last of these words."""
    environment = {"_DSLC_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    return dslc(cwd=folder, **environment).stdout.split()


def test_codes_and_formats_are_all_offered(tmp_path: Path) -> None:
    assert _answers("dslc explain ", tmp_path) == [f"plain,{code}" for code in CODES]
    assert _answers("dslc check --format ", tmp_path) == [f"plain,{name}" for name in FORMATS]


def test_files_of_a_folder_are_offered_and_folders_are_left_to_the_shell(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("a/one.symbiont", "a/two.symbiont", "a/three.txt"):
        (tmp_path / name).touch()
    assert _answers("dslc check a/", tmp_path) == ["plain,a/one.symbiont", "plain,a/two.symbiont", "dir,a/"]
    assert _answers("dslc check nowhere/", tmp_path) == ["dir,nowhere/"]
