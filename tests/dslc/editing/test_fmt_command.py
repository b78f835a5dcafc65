"""`dslc fmt` as a real process: written files, messages and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dslc.report.unified_diff import unified_diff
from dslc.source import Source
from tests.dslc.command import run

_UGLY = 'webhook w { path "/w", secret "secret://env/A"\n}\n'
_PRETTY = 'webhook w {\n    path   "/w"\n    secret "secret://env/A"\n}\n'
_BROKEN = "webhook w { path }\n"


def fmt(*arguments: str, cwd: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", "from dslc.cli import main; main()", "fmt", *arguments],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )


def test_files_are_written_in_place_and_named(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_UGLY)
    (tmp_path / "b.symbiont").write_text(_PRETTY)
    done = fmt(cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        b"a.symbiont: formatted\n1 file formatted, 1 unchanged\n",
        b"",
    )
    assert (tmp_path / "a.symbiont").read_text() == _PRETTY
    assert fmt(cwd=tmp_path).stdout == b"0 files formatted, 2 unchanged\n"


def test_check_writes_nothing_and_exits_1_when_something_would_change(tmp_path: Path) -> None:
    file = tmp_path / "a.symbiont"
    file.write_text(_UGLY)
    done = fmt("--check", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, b"a.symbiont: would be formatted\n1 file would be formatted\n")
    assert file.read_text() == _UGLY
    file.write_text(_PRETTY)
    assert fmt("--check", cwd=tmp_path).returncode == 0


def test_diff_shows_what_would_change_and_a_patch_of_it_is_the_change(tmp_path: Path) -> None:
    file = tmp_path / "a.symbiont"
    file.write_text(_UGLY)
    done = fmt("--diff", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, b"1 file would be formatted\n")
    assert done.stdout.decode() == (
        "--- a.symbiont\n+++ a.symbiont\n@@ -1,2 +1,4 @@\n"
        '-webhook w { path "/w", secret "secret://env/A"\n'
        '+webhook w {\n+    path   "/w"\n+    secret "secret://env/A"\n }\n'
    )
    assert file.read_text() == _UGLY


def test_a_diff_never_shows_a_secret(tmp_path: Path) -> None:
    text = 'webhook w {\n  path "/w"\n  secret ["hunter2" """\nhunter2\n"""]\n  # dslc: allow P501\n secret "hunter2" }'
    (tmp_path / "a.symbiont").write_text(text)
    done = fmt("--diff", cwd=tmp_path)
    assert done.returncode == 1
    assert b"*********" in done.stdout
    assert b"hunter2" not in done.stdout + done.stderr


def test_a_file_with_a_syntax_error_is_left_alone_and_the_others_are_formatted(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_BROKEN)
    (tmp_path / "b.symbiont").write_text(_UGLY)
    (tmp_path / "c.symbiont").write_text('agent a { instruction "\\q"}\n')
    done = fmt(cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"b.symbiont: formatted\n1 file formatted, 2 skipped\n")
    assert b"error[S101]" in done.stderr
    assert b"error[S107]" in done.stderr
    assert (tmp_path / "a.symbiont").read_text() == _BROKEN
    assert (tmp_path / "b.symbiont").read_text() == _PRETTY


@pytest.mark.parametrize("line", ['description = "helps"', "foo: bar", 'zzz => "x"'])
@pytest.mark.parametrize("arguments", [[], ["--check"], ["--diff"], ["-"]])
def test_an_unknown_setting_with_a_sign_is_a_syntax_error_like_any_other(
    tmp_path: Path, line: str, arguments: list[str]
) -> None:
    text = f"agent bot {{\n    {line}\n}}\n"
    (tmp_path / "a.symbiont").write_text(text)
    done = run("fmt", *arguments, cwd=tmp_path, stdin=text)
    assert (done.returncode, "error[S10" in done.stderr) == (2, True)
    assert (tmp_path / "a.symbiont").read_text() == text


def test_standard_input_goes_to_standard_output(tmp_path: Path) -> None:
    done = fmt("-", cwd=tmp_path, stdin=b"\xef\xbb\xbf# \xc3\xa9\r\nagent  a {\r\n}")
    assert (done.returncode, done.stdout) == (0, b"\xef\xbb\xbf# \xc3\xa9\r\nagent a {}\r\n")
    broken = fmt("-", cwd=tmp_path, stdin=_BROKEN.encode())
    assert (broken.returncode, broken.stdout) == (2, b"")
    checked = fmt("-", "--check", cwd=tmp_path, stdin=_UGLY.encode())
    assert (checked.returncode, checked.stdout) == (1, b"<stdin>: would be formatted\n1 file would be formatted\n")


@pytest.mark.parametrize("arguments", [["nowhere"], [], ["-", "."], ["--frobnicate"]])
def test_what_cannot_run_exits_2(tmp_path: Path, arguments: list[str]) -> None:
    assert fmt(*arguments, cwd=tmp_path).returncode == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_cannot_be_written_exits_2(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_UGLY)
    (tmp_path / "a.symbiont").chmod(0o444)
    done = fmt(cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"0 files formatted, 1 skipped\n")
    assert b"cannot write a.symbiont" in done.stderr


def test_a_diff_of_many_lines_needs_time_in_proportion() -> None:
    before = "".join(f"webhook w{number} {{\n  path  {json.dumps(f'/w{number}')}\n}}\n" for number in range(5000))
    after = before.replace("  path  ", "    path ")
    shown = unified_diff(Source("a", before), after.encode(), colour=False)
    assert sum(line.startswith("+ ") for line in shown.splitlines()) == 5000
    assert shown.count("@@ -") == 1


def test_a_diff_shows_changes_apart_and_what_is_at_the_end() -> None:
    lines = [f"agent a{number} {{}}" for number in range(30)]
    changed = [*lines]
    changed[3] = "agent  a3 {}"
    changed[20] = "agent  a20 {}"
    shown = unified_diff(Source("a", "\n".join(changed)), ("\n".join(lines) + "\n").encode(), colour=False)
    heads = [line for line in shown.splitlines() if line.startswith("@@")]
    assert heads == ["@@ -1,7 +1,7 @@", "@@ -18,7 +18,7 @@", "@@ -27,4 +27,4 @@"]
    assert shown.endswith("-agent a29 {}\n\\ No newline at end of file\n+agent a29 {}\n")


def test_a_diff_in_colour_moves_no_cursor() -> None:
    shown = unified_diff(Source("a", "# \x1b[2J\nagent  a {}\n"), b"# \x1b[2J\nagent a {}\n", colour=True)
    assert "\x1b[2J" not in shown
    assert "\x1b[31m-agent  a {}\x1b[0m\n\x1b[32m+agent a {}\x1b[0m\n" in shown


def test_a_diff_of_line_ends_alone_says_so() -> None:
    assert "Only line ends" in unified_diff(Source("a", "agent a {}\r\n"), b"agent a {}\n", colour=False)
