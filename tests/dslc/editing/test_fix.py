"""`dslc check --fix` applies safe corrections, reports them, and never leaves half a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dslc.cli.check import _fix_lines
from dslc.compiler import Compilation, analyse
from dslc.diagnostics.diagnostic import Edit, Fix, is_error
from dslc.editing.fix import FixResult, fix
from dslc.source import Source
from tests.dslc.catalogs import CATALOG
from tests.dslc.command import run

_WRONG = "memory m {\n    path      = 'data/a'\n    retention 90d;\n    store     markdown\n    store     markdown\n}\n"
_RIGHT = 'memory m {\n    path      "data/a"\n    retention 90d\n    store     markdown\n'


def _analyse(sources: Sequence[Source]) -> Compilation:
    return analyse(sources, CATALOG)


def _fixed(*texts: str | bytes, unsafe: bool = False) -> FixResult:
    sources = [Source(f"{number}.symbiont", text) for number, text in enumerate(texts)]
    return fix(_analyse(sources), _analyse, unsafe=unsafe)


def _text(done: FixResult, number: int = 0) -> str:
    return done.compilation.sources[number].data.decode()


def test_every_fix_is_made_until_none_is_left() -> None:
    done = _fixed(_WRONG)
    assert _text(done).startswith(_RIGHT)
    assert done.compilation.diagnostics == ()
    assert sorted(made.code for made in done.applied) == ["N203", "S105", "S106", "S112"]
    assert done.refused == []


_PAY = 'webhook pay {\n    path "/pay"\n    secret "secret://env/PAY"\n%s}\n'


@pytest.mark.parametrize(
    "text",
    [
        _PAY % "    agent support-prod\n" + 'agent support-dev {}\nmemory m { path "m" }\n',
        _PAY % '    secret "secret://env/NEW"\n',
        _PAY % '    provider custom { header "A" token_header "B" }\n',
        _PAY % "    memory team-a\n" + "memory team-b {}\n",
        "agent reviewer {}\n" + _PAY % "    agent reviwer\n",
        "memory m {\n    retenton 90d\n    store markdwn\n}\n",
        "memry m {}\n",
        "agent a {\n    instruction Review it\n}\n",
        'agent a {\n    instruction "Say "yes" to it"\n}\n',
        "memory m {\n    retention 90d\n    retention 30d\n}\n",
    ],
)
def test_a_fix_that_is_a_guess_is_made_only_when_it_is_asked_for(text: str) -> None:
    """The correction of a nearly valid file must not change the meaning of its program."""
    done = _fixed(text)
    assert (_text(done), done.applied, done.refused) == (text, [], [])
    guesses = [each.fix for each in done.compilation.diagnostics if each.fix is not None]
    assert guesses
    assert not any(guess.safe for guess in guesses)
    assert _text(_fixed(text, unsafe=True)) != text


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("memory m {\n    retention = 90d\n}\n", "memory m {\n    retention 90d\n}\n"),
        ("memory m {\n    path 'data/a'\n}\n", 'memory m {\n    path "data/a"\n}\n'),
        ('memory m {\n    path data/a"\n}\n', 'memory m {\n    path "data/a"\n}\n'),
        ("memory m {\n    retention 90d;\n};\n", "memory m {\n    retention 90d\n}\n"),
        ('memory m {\n    path path "x"\n}\n', 'memory m {\n    path "x"\n}\n'),
        ('memory m {\n    "retention": 90d\n}\n', "memory m {\n    retention 90d\n}\n"),
        ("memory a.b {\n    retention 90d\n}\n", 'memory "a.b" {\n    retention 90d\n}\n'),
        ("memory m {\n    retention 90d\n    retention  90d\n}\n", "memory m {\n    retention 90d\n}\n"),
    ],
)
def test_what_alone_could_be_meant_is_written_without_asking(wrong: str, right: str) -> None:
    done = _fixed(wrong)
    assert _text(done) == right
    assert not any(map(is_error, done.compilation.diagnostics))


def test_what_was_done_is_said_with_its_place() -> None:
    (made,) = _fixed("memory m {\n    retention = 90d\n}\n").applied
    assert (made.file, made.position.line, made.position.column, made.message) == ("0.symbiont", 2, 15, "remove `=`")


def test_two_words_are_not_both_changed_to_one() -> None:
    done = _fixed("memory m {\n    retenton 90d\n    retentin 1y\n}\n", unsafe=True)
    assert _text(done) == "memory m {\n    retention 90d\n    retentin 1y\n}\n"
    assert [made.message for made in done.applied] == ["write `retention`"]


@pytest.mark.parametrize("sign", ["=", ":", " =", " :"])
def test_a_name_and_the_sign_behind_it_are_both_mended(sign: str) -> None:
    done = _fixed(f"memory m {{\n    retenton{sign} 90d\n}}\n", unsafe=True)
    assert _text(done).split() == ["memory", "m", "{", "retention", "90d", "}"]
    assert done.refused == []


def _eager(sources: Sequence[Source]) -> Compilation:
    """A compiler that also proposes the text that is already there."""
    done = _analyse(sources)
    wanted = "has no setting `retenton`"
    return done._replace(
        diagnostics=tuple(
            each._replace(fix=Fix("write it", (Edit(each.span, "retention"),)))
            if each.message.endswith(wanted)
            else each
            for each in done.diagnostics
        )
    )


def test_a_fix_that_writes_what_is_there_already_is_refused_and_the_others_are_made() -> None:
    text = "memory m {\n    retention 90d\n    retenton 1y\n    stor = markdown\n}\n"
    done = fix(_eager([Source("a.symbiont", text)]), _eager, unsafe=True)
    assert _text(done) == text.replace("= ", "").replace("stor ", "store ")
    assert sorted(made.message for made in done.applied) == ["remove `=`", "write `store`"]
    assert [(left.message, left.position.line, left.error.code) for left in done.refused] == [("write it", 3, "N203")]
    (line,) = [line for line in _fix_lines(done, "a.symbiont") if line.startswith("not")]
    assert line == "not fixed a.symbiont:3:5: write it would be N203: `retention` is given twice\n"


def test_a_doubled_setting_that_a_fix_makes_is_never_removed() -> None:
    """Only the first of the two is corrected in one round; if both were renamed, the next round would remove one."""
    done = _fixed("memory m {\n    retention 1y\n    retention 2y\n    retenton 3y\n}\n", unsafe=True)
    assert "retenton 3y" in _text(done)
    assert "retention 1y" in _text(done)
    assert "2y" not in _text(done)


def test_what_a_fix_brings_to_light_is_reported() -> None:
    done = _fixed("memory m {\n    retention = 90\n}\n")
    assert _text(done) == "memory m {\n    retention 90\n}\n"
    assert [diagnostic.code for diagnostic in done.compilation.diagnostics] == ["T401"]


def test_line_ends_and_byte_order_marks_are_kept() -> None:
    done = _fixed("\ufeffmemory m {\r\n    retention = 90d\r\n}\r\n# é😀\r\n")
    assert _text(done) == "\ufeffmemory m {\r\n    retention 90d\r\n}\r\n# é😀\r\n"


def test_files_are_fixed_as_one_program() -> None:
    done = _fixed("memry m {}\n", 'webhook w {\n    pth "/w"\n    secret "secret://env/A"\n}\n', unsafe=True)
    assert (_text(done, 0), _text(done, 1)[:25]) == ("memory m {}\n", 'webhook w {\n    path "/w"')


_PIECES = (
    "memory m {", "webhook w {", "}", "\n", "retention", "retenton", "path", "pth", "=", ":", "90d", "'a'", '"/a"',
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.sampled_from(_PIECES), max_size=25), st.booleans())
def test_fixing_ends_and_makes_nothing_worse(sections: list[str], unsafe: bool) -> None:
    before = _analyse([Source("a.symbiont", " ".join(sections))])
    done = fix(before, _analyse, unsafe=unsafe)
    (source,) = done.compilation.sources
    assert _analyse([source]).diagnostics == done.compilation.diagnostics
    left = {(left.message, left.position) for left in done.refused}
    open_ = [each.fix for each in done.compilation.diagnostics if each.fix and (each.fix.safe or unsafe)]
    assert [each for each in open_ if each.message not in {one for one, _ in left}] == []
    if not any(map(is_error, before.diagnostics)):
        assert not any(map(is_error, done.compilation.diagnostics))


def test_files_are_changed_and_the_rest_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_WRONG)
    (tmp_path / "b.symbiont").write_text("agent a { bad 1 }\n")
    before = (tmp_path / "b.symbiont").stat()
    done = run("check", "--fix", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert "fixed a.symbiont:2:15: S105: remove `=`" in lines
    assert sum(line.startswith("fixed ") for line in lines) == 4
    assert "error[N202]: `agent a` has no setting `bad`" in lines
    assert "--fix`" not in lines[-1]
    assert (tmp_path / "a.symbiont").read_text().startswith(_RIGHT)
    assert (tmp_path / "b.symbiont").stat().st_mtime_ns == before.st_mtime_ns
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.symbiont", "b.symbiont"]


def test_guesses_are_made_when_they_are_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "a.symbiont"
    file.write_text("memory m {\n    retenton = 90d\n}\n")
    left = run("check", "--fix", cwd=tmp_path)
    assert file.read_text() == "memory m {\n    retenton 90d\n}\n"
    assert left.stdout.splitlines()[-1].startswith("1 with `--unsafe-fixes`, if the guess is right; ")
    done = run("check", "--unsafe-fixes", cwd=tmp_path)
    assert (done.returncode, file.read_text()) == (0, "memory m {\n    retention 90d\n}\n")


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_WRONG)
    run("check", "--fix", cwd=tmp_path)
    done = run("check", "--fix", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "1 file, 1 block checked: no problems\n")


def test_a_link_stays_one_and_the_mode_is_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "a.symbiont"
    real.write_text(_WRONG)
    real.chmod(0o640)
    link.symlink_to("real.txt")
    assert run("check", "--fix", cwd=tmp_path).returncode == 0
    assert link.is_symlink()
    assert real.read_text().startswith(_RIGHT)
    assert real.stat().st_mode & 0o777 == 0o640


def test_standard_input_comes_out_fixed_and_the_report_goes_to_standard_error(tmp_path: Path) -> None:
    done = run("check", "--fix", "-", cwd=tmp_path, stdin=_WRONG.replace("90d", "90"))
    assert done.returncode == 1
    assert done.stdout.startswith(_RIGHT.replace("90d", "90"))
    assert "fixed <stdin>:2:15: S105: remove `=`" in done.stderr
    assert "error[T401]" in done.stderr


def test_standard_input_that_is_right_comes_out_as_it_is(tmp_path: Path) -> None:
    text = 'memory m {\n    path "é😀"\n}'
    done = run("check", "--fix", "-", cwd=tmp_path, stdin=text)
    assert (done.returncode, done.stdout) == (0, text)


@pytest.mark.parametrize("form", ["json", "gitlab", "sarif"])
def test_a_document_stays_one(form: str, tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_WRONG)
    done = run("check", "--fix", "--format", form, cwd=tmp_path)
    report = json.loads(done.stdout)
    assert "fixed a.symbiont:2:15: S105: remove `=`" in done.stderr
    assert done.stderr.splitlines()[-1] == "1 file, 1 block checked: no problems"
    if form == "json":
        assert {made["code"] for made in report["fixed"]} == {"N203", "S105", "S106", "S112"}
        assert report["fixed"][0]["file"] == "a.symbiont"
        assert set(report["fixed"][0]["position"]) == {"offset", "line", "column"}


def test_json_says_nothing_of_fixes_that_nobody_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_WRONG)
    assert "fixed" not in json.loads(run("check", "--format", "json", cwd=tmp_path).stdout)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unwritable for root")
def test_a_file_that_may_not_be_written_is_one_clear_line(tmp_path: Path) -> None:
    file = tmp_path / "a.symbiont"
    file.write_text(_WRONG)
    file.chmod(0o444)
    done = run("check", "--fix", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dslc: cannot write a.symbiont: Permission denied\n"
    assert file.read_text() == _WRONG


def test_a_disk_that_takes_no_more_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a.symbiont").write_text(_WRONG)
    command = f'ulimit -f 0; exec "{sys.executable}" -c "from dslc.cli import main; main()" check --fix --format json'
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert json.loads(done.stdout)["failure"] == "cannot write a.symbiont: File too large"
    assert done.stderr == "dslc: cannot write a.symbiont: File too large\n"
    assert (tmp_path / "a.symbiont").read_text() == _WRONG
    assert [path.name for path in tmp_path.iterdir()] == ["a.symbiont"]
