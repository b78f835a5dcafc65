"""The written pages: their programs compile, and their links lead to existing targets."""

from __future__ import annotations

import re
from pathlib import Path

from dslc.catalog import Catalog
from dslc.comparison.difference import difference
from dslc.comparison.report import render
from dslc.compiler import Compilation, analyse
from dslc.diagnostics.diagnostic import Severity
from dslc.editing.format import canonical
from dslc.reference.markdown import anchors
from dslc.report import FORMATS
from dslc.source import Source
from dslc.vocabulary import Vocabulary
from runtime.secrets.secret import Secret
from runtime.webhooks.providers import find_provider
from tests.cases import each_case

ROOT = Path(__file__).parents[2]
TOUR = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = [
    program
    for page in PAGES
    for program in re.findall(r"^```symbiont\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
]


@each_case("program", PROGRAMS)
def test_every_program_on_a_page_compiles_without_a_warning(program: str) -> None:
    found = analyse([Source("page.symbiont", program)], Catalog.installed()).diagnostics
    # The reference also shows settings that have no effect yet.
    told = [each for each in found if each.severity is not Severity.NOTE and each.code != "R303"]
    assert not [f"{each.code}: {each.message}" for each in told]


@each_case("program", PROGRAMS)
def test_the_daemon_takes_the_options_of_every_provider_on_a_page(program: str) -> None:
    compiled = analyse([Source("page.symbiont", program)], Catalog.installed()).program
    for webhook in compiled.webhooks.values():
        row, options = find_provider(webhook.provider.name), webhook.provider.options
        # A daemon has the secret in place of the reference.
        row.with_options({**options, **dict.fromkeys(row.references(options), Secret(b"a secret", "the page"))})


@each_case("program", PROGRAMS)
def test_every_program_on_a_page_is_laid_out_as_usual(program: str) -> None:
    assert canonical(program) == program


def _compiled(text: str) -> Compilation:
    return analyse([Source("main.symbiont", text)], Catalog.installed())


def test_the_tour_shows_a_mistake_as_it_is_reported() -> None:
    said = FORMATS["text"].render(_compiled("memory reviews {\n    retention 90\n}\n"))
    diagnostic, _, _ = said.partition("\n\n")
    assert f"```\n{diagnostic}\n```" in TOUR


def test_the_tour_shows_a_difference_as_it_is_reported() -> None:
    old = 'webhook github-events {{ path "/hooks/{}" secret "secret://env/A" }}\nmemory reviews {{ retention {} }}\n'
    before, after = (_compiled(old.format(*each)).program for each in (("github", "1y"), ("gh", "180d")))
    vocabulary = Vocabulary(Catalog.installed())
    said = render(difference(before, after, vocabulary), vocabulary, colour=False)
    assert f"```\n{said}```" in TOUR


def test_every_option_that_names_a_header_is_one_that_a_provider_has() -> None:
    reference = (ROOT / "docs" / "reference" / "providers.md").read_text(encoding="utf-8")
    known = {*re.findall(r"^\| \[`(\w+)`\]", reference, re.MULTILINE), "ambiguous_header"}
    named = {name for page in PAGES for name in re.findall(r"`(\w+_header)`", page.read_text(encoding="utf-8"))}
    assert "id_header" in known
    assert named <= known


def test_the_pages_have_programs() -> None:
    assert len(PROGRAMS) > 10


@each_case("page", PAGES)
def test_every_link_between_pages_goes_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if fragment:
            assert fragment in anchors(there.read_text(encoding="utf-8")), target
