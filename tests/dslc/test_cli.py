"""The command as a real process: its output and exit codes."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.report import FORMATS
from dslc.source import Source
from tests.dslc.command import run
from tests.runtime.daemon import forked

_GOOD = 'webhook w {\n    path   "/w"\n    secret "secret://env/A"\n}\n'
_WARNS = _GOOD.replace("secret://env/A", "hunter2")
_BAD = "memory m { retention 90 }\n"


def dslc(*arguments: str, cwd: Path, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `dslc` as a process of its own."""
    return forked.run(arguments, cwd=cwd, env={**os.environ, **environment}, main=forked.DSLC, input=stdin)


def test_a_good_folder_exits_0_and_says_how_much_was_checked(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_GOOD)
    done = dslc("check", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 file, 1 block checked: no problems\n", "")


def test_no_summary_of_a_command_is_cut_off(tmp_path: Path) -> None:
    assert "..." not in dslc("--help", cwd=tmp_path, COLUMNS="80").stdout.partition("Commands:")[2]


def test_a_mistyped_command_is_answered_with_the_nearest(tmp_path: Path) -> None:
    done = dslc("shema", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "dslc: No such command 'shema'. Did you mean 'schema'?\n")


def test_an_error_exits_1_and_names_its_place(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_BAD)
    done = dslc("check", "a.symbiont", cwd=tmp_path)
    assert done.returncode == 1
    assert "a.symbiont:1:22" in done.stdout


def test_a_warning_exits_0_unless_warnings_are_denied(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_WARNS)
    assert run("check", cwd=tmp_path).returncode == 0
    assert run("check", "--deny-warnings", cwd=tmp_path).returncode == 1


def test_standard_input_is_checked(tmp_path: Path) -> None:
    done = dslc("check", "-", "--format", "json", cwd=tmp_path, stdin=_BAD)
    assert done.returncode == 1
    assert json.loads(done.stdout)["diagnostics"][0]["file"] == "<stdin>"


@pytest.mark.parametrize(
    "arguments",
    [["check", "nowhere"], ["check"], ["check", "--frobnicate"], ["check", "--format", "yaml"], ["frobnicate"], []],
)
def test_what_cannot_run_exits_2_without_a_traceback(arguments: list[str], tmp_path: Path) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr
    assert "Traceback" not in done.stderr


_CANNOT = [["check", "nowhere"], ["check"], ["check", "--frobnicate"], ["check", "--fix", "nowhere"]]


@pytest.mark.parametrize("arguments", _CANNOT)
def test_json_is_one_object_even_when_nothing_could_be_checked(arguments: list[str], tmp_path: Path) -> None:
    done = run(*arguments, "--format", "json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert done.returncode == 2
    assert set(report) >= {"version", "files", "blocks", "errors", "warnings", "diagnostics"}
    assert f"dslc: {report['failure']}\n" == done.stderr


@pytest.mark.parametrize("arguments", _CANNOT)
@pytest.mark.parametrize("form", ["github", "gitlab", "sarif", "junit"])
def test_every_format_says_that_nothing_could_be_checked(form: str, arguments: list[str], tmp_path: Path) -> None:
    done = run(*arguments, f"--format={form}", cwd=tmp_path)
    reason = done.stderr.removeprefix("dslc: ").strip()
    assert (done.returncode, done.stdout) == (2, FORMATS[form].render_failure(reason))


@pytest.mark.parametrize("form", [name for name, form in FORMATS.items() if form.document])
def test_a_document_stands_alone_and_the_summary_beside_it(form: str, tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_BAD)
    done = run("check", "--format", form, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "1 file, 1 block checked: 1 error\n")
    assert done.stdout[0] in "{[<"


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_may_have_any_name(form: str, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    for name in (b"\xff.symbiont", b"a\nb, c:d.symbiont", "é😀 '\"<&>%.symbiont".encode()):
        Path(os.fsdecode(folder + b"/" + name)).write_text(_BAD)
    done = run("check", "--format", form, cwd=tmp_path)
    assert done.returncode == 1
    assert "3 files, 3 blocks checked" in done.stdout + done.stderr
    if done.stdout.startswith(("{", "[")):
        json.loads(done.stdout)
    elif done.stdout.startswith("<"):
        Xml.fromstring(done.stdout)


@pytest.mark.parametrize("form", [name for name, form in FORMATS.items() if form.document])
def test_a_document_does_not_depend_on_the_stream(form: str) -> None:
    done = analyse([Source("ü😀.symbiont", 'memory ü { path "😀" }\n')], Catalog.installed())
    assert FORMATS[form].render(done).isascii()
    assert FORMATS[form].render_failure("ü😀").isascii()


@pytest.mark.parametrize("command", ["check", "fmt"])
def test_a_pipe_is_refused_with_the_way_to_give_it(command: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = run(command, "pipe", cwd=tmp_path)
    said = "pipe is a pipe or a device, not a file: give `-` and send the text to standard input"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"dslc: {said}\n")
    assert run(command, "/dev/stdin", cwd=tmp_path, stdin="memory m {}\n").returncode == 2


def test_a_file_is_checked_once_however_it_is_reached(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_GOOD)
    (tmp_path / "link.symbiont").symlink_to("a.symbiont")
    done = run("check", ".", "a.symbiont", str(tmp_path / "a.symbiont"), cwd=tmp_path)
    assert done.stdout == "1 file, 1 block checked: no problems\n"


def test_neither_check_nor_fmt_follows_a_link_out_of_the_folder(tmp_path: Path) -> None:
    folder, outside = tmp_path / "checkout", tmp_path / "outside.symbiont"
    folder.mkdir()
    outside.write_text('webhook   w   { path "/hunter2" }\n')
    (folder / "a.symbiont").write_text(_GOOD)
    (folder / "link.symbiont").symlink_to(outside)
    for command in (["check"], ["check", "--fix"], ["fmt", "--diff"], ["fmt"]):
        done = run(*command, ".", cwd=folder)
        assert "hunter2" not in done.stdout + done.stderr
        assert "skipped link.symbiont" in done.stderr
    assert outside.read_text() == 'webhook   w   { path "/hunter2" }\n'
    assert "hunter2" in run("check", "link.symbiont", cwd=folder).stdout, "whoever names a link wants it"


def test_no_line_is_shown_of_a_file_that_holds_nul(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_bytes(b"PATH=/bin\0A=hunter2\0memory {\n}\0")
    done = run("check", ".", cwd=tmp_path)
    assert done.returncode == 1
    assert "a.symbiont:1:" in done.stdout
    assert "hunter2" not in done.stdout
    (tmp_path / "a.symbiont").write_bytes(b"# hunter2 \0\nmemory   m   {}\n")
    assert "hunter2" not in run("fmt", "--diff", cwd=tmp_path).stdout


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text("x\n" + "# long\n" * 1000 + _BAD)
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", "from dslc.cli import main; main()", "check"]
    done = subprocess.run(command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_an_interrupt_ends_it_without_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from dslc.cli import main; main()", "check", "-"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        # More than fits into a pipe: once it is written, the command is reading.
        process.stdin.write(b"#" * 2_000_000)
        process.stdin.flush()
        # A signal just before a blocking read can have no effect on it: a person presses the keys again.
        for _ in range(20):
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=3)
                break
        assert process.returncode == 130
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_disk_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_GOOD)
    command = [sys.executable, "-c", "from dslc.cli import main; main()", "check"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"dslc: cannot write: ")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_is_no_traceback(closed: str, tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_GOOD)
    where = "-" if closed == "<&-" else "."
    command = f'"{sys.executable}" -c "from dslc.cli import main; main()" check {where} {closed}'
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == (2 if where == "-" else 0)
    assert "Traceback" not in done.stderr


def test_colour_stays_out_of_pipes_and_files(tmp_path: Path) -> None:
    assert "\x1b" not in run("check", "-", cwd=tmp_path, stdin=_BAD).stdout


def test_a_source_cannot_send_escapes_to_the_terminal(tmp_path: Path) -> None:
    done = run("check", "-", cwd=tmp_path, stdin='memory m { path \x1b[31m"\u202ex" retention 90 }\n')
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout


def test_a_terminal_without_unicode_gets_escapes(tmp_path: Path) -> None:
    done = dslc("check", "-", cwd=tmp_path, stdin="memory ü {}\n", PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_compile_prints_the_program_without_the_secrets_written_in_it(tmp_path: Path) -> None:
    done = run("compile", "-", cwd=tmp_path, stdin=_WARNS)
    assert done.returncode == 0
    assert json.loads(done.stdout)["webhooks"]["w"]["secret"] == ["[literal]"]
    assert "hunter2" not in done.stdout + done.stderr


def test_compile_prints_no_program_that_has_errors(tmp_path: Path) -> None:
    done = run("compile", "-", cwd=tmp_path, stdin=_BAD)
    assert (done.returncode, done.stdout) == (1, "")
    assert "T401" in done.stderr


def test_version_is_that_of_the_package_with_its_commit(tmp_path: Path) -> None:
    from dslc.version import full

    assert dslc("--version", cwd=tmp_path).stdout == f"dslc {full()}\n"


def test_a_check_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_GOOD)
    heavy = {
        *("rich", "aiohttp", "sqlalchemy", "jsonpath", "asyncio", "humanfriendly", "pygls", "pydantic", "tree_sitter"),
        *("xml", "runtime", "difflib", "importlib.metadata", "click.shell_completion", "dslc.check.allow"),
        *("dslc.blocks.values.types", "dslc.check.model", "dslc.cli.completion", "dslc.comparison.difference"),
        *("dslc.explain", "dslc.editing.fix", "dslc.editing.format", "dslc.recovery", "dslc.report.json"),
        *("dslc.report.mask", "dslc.report.unified_diff"),
    }
    script = (
        "import sys\nfrom dslc.cli import _run\nassert _run(['check']) == 0\n"
        f"print(*sorted({heavy!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


def test_the_blocks_load_without_the_compiler(tmp_path: Path) -> None:
    script = (
        "import sys, dslc.blocks, dslc.program\n"
        "print(*sorted({'lark', 'click', 'dslc.compiler', 'jsonpath'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


@pytest.mark.parametrize(
    "command", [("check",), ("fmt", "--diff"), ("fmt", "-"), ("check", "no\x1b[2J\u202e")], ids=ascii
)
def test_a_terminal_gets_no_control_characters_of_a_program(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    evil = "\x1b[2J\x1b[H\x1b]0;title\x07\u009b2J\u202e\x7f"
    text = f'agent a   {{\n  prompt "{evil}" # {evil}\n}}\n'
    (tmp_path / f"a{evil[:4]}.symbiont").write_text(text)
    monkeypatch.setattr("tests.dslc.command.io.TextIOWrapper", Terminal)
    done = run(*command, cwd=tmp_path, stdin=text)
    shown = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)
    assert shown.strip()
    assert sorted({each for each in shown if not each.isprintable() and each not in "\n\t"}) == []
