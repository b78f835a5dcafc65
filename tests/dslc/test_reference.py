"""The reference contains the whole language, and its examples can be copied."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from dslc.blocks import TABLE
from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.diagnostics.diagnostic import CODES, Severity
from dslc.example import ExampleLine, line, needed_settings, row_line
from dslc.reference.markdown import anchors, code, sentence
from dslc.reference.pages import pages
from dslc.reference.sample import complete, sample
from dslc.reference.settings import same_as
from dslc.reference.titles import family_page
from dslc.setting import Setting
from dslc.source import Source
from dslc.vocabulary import Vocabulary
from tests.cases import each_case
from tests.dslc.catalogs import CATALOG
from tests.dslc.test_cli import dslc

COMMITTED = Path(__file__).parents[2] / "docs" / "reference"
INSTALLED = Vocabulary(Catalog.installed())
CATALOGS = {"installed": INSTALLED, "tests": Vocabulary(CATALOG)}
_DIAGNOSTICS = pages(INSTALLED)["diagnostics.md"]


def problems(text: str, vocabulary: Vocabulary = INSTALLED) -> list[str]:
    """Return the errors and warnings of one program."""
    found = analyse([Source("page", text)], vocabulary.catalog).diagnostics
    return [f"{each.code}: {each.message}" for each in found if each.severity is not Severity.NOTE]


def _can_be_given(setting: Setting, vocabulary: Vocabulary) -> bool:
    return setting.type != "variant" or bool(vocabulary.rows(setting.family or ""))


def _lines(settings: tuple[Setting, ...], vocabulary: Vocabulary) -> Iterator[tuple[str, list[ExampleLine]]]:
    """Return every setting of a body with its example and the settings that it requires, also in groups and rows."""
    for setting in settings:
        if not _can_be_given(setting, vocabulary):
            continue
        for inner, body in _lines(setting.settings, vocabulary):
            yield (
                f"{setting.name}.{inner}",
                complete(vocabulary, settings, [ExampleLine(setting.name, _name_of(setting), tuple(body))]),
            )
        for name, row in vocabulary.rows(setting.family or "").items():
            head = row_line(setting, row, vocabulary)
            yield f"{setting.name} {name}", complete(vocabulary, settings, [head])
            for inner, body in _lines(row.options, vocabulary):
                filled = ExampleLine(head.key, head.value, tuple(body))
                yield f"{setting.name} {name} {inner}", complete(vocabulary, settings, [filled])
        yield setting.name, complete(vocabulary, settings, [line(setting, vocabulary)])


def _name_of(setting: Setting) -> str | None:
    return "a-name" if setting.named else None


_IDLE = {*("tools", "confirm", "tool_calling", "max_steps", "thread", "context", "summarizer", "block", "main", "lock")}


class SettingExample(NamedTuple):
    """A setting with its example, in a catalog and a kind of block."""

    catalog: str
    kind: str
    name: str
    lines: list[ExampleLine]

    @property
    def text(self) -> str:
        """The program with the example."""
        return sample(CATALOGS[self.catalog], self.kind, *self.lines)


EVERY_SETTING = [
    SettingExample(which, kind, name, lines)
    for which, vocabulary in CATALOGS.items()
    for kind, settings in vocabulary.kinds.items()
    for name, lines in _lines(tuple(settings.values()), vocabulary)
]


@each_case("example", EVERY_SETTING)
def test_the_example_of_every_setting_is_taken(example: SettingExample) -> None:
    text, lines = example.text, example.lines
    warned = ["P502"] if any(each.key == "insecure_allow_unverified" for each in lines) else []
    warned += ["P504"] if re.search(r"^ {8,}header ", text, re.MULTILINE) and "filter" in text else []
    warned += ["P506"] if re.search(r"^ {8,}parameter ", text, re.MULTILINE) else []
    models = any(each.key == "model" and each.value != "none" for each in lines)
    idle = not models and any(each.key in _IDLE for each in lines)
    warned += ["R303"] if example.kind == "agent" and idle else []
    assert [problem[:4] for problem in problems(text, CATALOGS[example.catalog])] == warned, text


def test_what_an_example_needs_stands_beside_it() -> None:
    options = CATALOGS["tests"].rows("provider")["custom"].options
    known = {option.name: option for option in options}
    assert [each.name for each in needed_settings(options, [known["max_age"]])] == ["timestamp_header", "max_age"]


def test_the_committed_pages_are_what_the_models_say() -> None:
    written = pages(INSTALLED)
    committed = {path.name: path.read_text(encoding="utf-8") for path in COMMITTED.iterdir()}
    assert committed == written, "run `make docs`"


@pytest.mark.parametrize("vocabulary", CATALOGS.values(), ids=CATALOGS)
def test_every_setting_row_and_code_has_its_heading(vocabulary: Vocabulary) -> None:
    written = pages(vocabulary)
    headings = {name: re.findall(r"^#+ (.*)$", text, re.MULTILINE) for name, text in written.items()}
    for kind, settings in vocabulary.kinds.items():
        assert headings[f"{kind}.md"][0] == kind
        assert _named(tuple(settings.values())) <= set(headings[f"{kind}.md"])
    for family in vocabulary.catalog.families:
        for name, row in vocabulary.rows(family).items():
            assert {name} | _named(row.options, f"{name}.") <= set(headings[family_page(family)])
    assert set(CODES) <= set(headings["diagnostics.md"])


def _named(settings: tuple[Setting, ...], prefix: str = "", around: tuple[tuple[str, Setting], ...] = ()) -> set[str]:
    inner = [
        _named(setting.settings, f"{prefix}{setting.name}.", (*around, (prefix + setting.name, setting)))
        for setting in settings
        if same_as(setting, around) is None
    ]
    return {prefix + setting.name for setting in settings}.union(*inner)


def test_a_group_like_the_one_round_it_refers_to_that_one() -> None:
    page = pages(INSTALLED)["webhook.md"]
    section = re.search(r"^#+ filter.not\n(.*?)(?=^#+ |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section is not None
    assert "- Settings: those of [`filter`](#filter), with less nesting" in section[1]
    assert "filter.not.equals" not in page


def test_a_family_without_rows_has_no_page() -> None:
    without = Vocabulary(Catalog({**INSTALLED.catalog.families, "tool": ()}, INSTALLED.catalog.kinds))
    assert "tools.md" in pages(INSTALLED)
    assert "tools.md" not in pages(without)


@each_case("name", pages(INSTALLED))
def test_no_two_headings_of_a_page_share_an_anchor(name: str) -> None:
    found = anchors(pages(INSTALLED)[name])
    assert len(set(found)) == len(found)


def test_the_text_of_a_setting_is_in_its_section() -> None:
    for kind, settings in INSTALLED.kinds.items():
        page = pages(INSTALLED)[f"{kind}.md"]
        for setting in settings.values():
            section = re.search(rf"^### {setting.name}\n(.*?)(?=^###? |\Z)", page, re.MULTILINE | re.DOTALL)
            assert section is not None
            assert setting.doc in section[1]


def test_bounds_choices_and_relations_are_told() -> None:
    page = pages(CATALOGS["tests"])["providers.md"]
    assert "- Bounds: at least `1s`, at most `1h`" in page
    assert "- Choices: `hex` or `base64`" in page
    assert "- Needs: `timestamp_header`\n- Excludes: `tolerance`" in page
    assert "- Excludes: `max_age`" in page, "an exclusion is told on both sides"
    assert "- Required: one of `json_path`, `header`, `any` or `not`" in pages(INSTALLED)["webhook.md"]


@each_case("name", CODES)
def test_what_a_diagnostic_shows_as_right_does_not_have_it(name: str) -> None:
    section = re.search(rf"^### {name}\n.*?```symbiont right\n(.*?)^```$", _DIAGNOSTICS, re.MULTILINE | re.DOTALL)
    assert section is not None
    found = analyse([Source("page", section[1])], INSTALLED.catalog).diagnostics
    assert name not in {each.code for each in found}


def test_every_kind_shows_an_example_of_its_own() -> None:
    for kind, model in TABLE.items():
        examples = re.findall(r"```symbiont\n(.*?)```", model.__doc__ or "", re.DOTALL)
        assert len(examples) == 1
        assert re.match(rf"\s*{kind} ", examples[0])


def test_code_may_hold_backticks() -> None:
    assert (code("a"), code("a`b"), code("``")) == ("`a`", "`` a`b ``", "``` `` ```")


def test_a_sentence_ends_at_its_stop() -> None:
    assert sentence("Matched by `v1.2` alone. More.") == "Matched by `v1.2` alone."


def test_docs_writes_the_pages_and_removes_its_own_that_are_gone(tmp_path: Path) -> None:
    stale, mine = tmp_path / "gone.md", tmp_path / "mine.md"
    stale.write_text(pages(INSTALLED)["index.md"], encoding="utf-8")
    mine.write_text("# Mine\n", encoding="utf-8")
    assert dslc("docs", "--output", str(tmp_path), cwd=tmp_path).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"mine.md", *pages(INSTALLED)}


def test_docs_prints_every_page(tmp_path: Path) -> None:
    done = dslc("docs", cwd=tmp_path)
    assert done.returncode == 0
    assert all(text in done.stdout for text in pages(INSTALLED).values())


def test_docs_says_in_one_line_that_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = dslc("docs", "--output", "file/reference", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("dslc: cannot write ")
    assert len(done.stderr.splitlines()) == 1
