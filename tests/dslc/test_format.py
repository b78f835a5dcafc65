"""The canonical form: its laws over any program, and what it looks like."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dslc.compiler import analyse
from dslc.files import find, read
from dslc.findings import Findings
from dslc.format import formatted
from dslc.source import Source
from dslc.strings import text_of
from dslc.syntax import parse
from dslc.vocabulary import Vocabulary
from grammar.parser import load
from tests.dslc.catalogs import CATALOG
from tests.dslc.programs import programs

ROOT = Path(__file__).parent.parent.parent
_PARSER = load()
_VOCABULARY = Vocabulary(CATALOG)
_SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
_COMMENT = re.compile(r"(?:#|//)[^\n]*")


def fmt(text: str) -> str:
    """A text without syntax error in canonical form."""
    file = parse(Source("a.symbiont", text), _VOCABULARY)
    assert file.readable, file.diagnostics
    return formatted(file)


def meaning(text: str) -> tuple[Any, list[tuple[str, str]]]:
    """The program of a text, and what is found in it with the text it was found at."""
    source = Source("a.symbiont", text)
    done = analyse([source], CATALOG)
    # Where a block stands is no part of what it says.
    origins = list(done.program.origins)
    found = [(item.code, source.data[item.span.start : item.span.end].decode()) for item in done.diagnostics]
    secrets = [webhook.secret for webhook in done.program.webhooks.values()]
    # Of a text over several lines the indentation is not what it says.
    return (done.program, origins, secrets), [(code, re.sub(r"\s+", " ", at)) for code, at in found]


def words(text: str) -> tuple[list[tuple[str, str | None]], list[tuple[str, int, bool]]]:
    """The tokens of a text, strings by what they say, and its comments: the text, how many tokens stand before it, and
    whether it has a line of its own. Commas count for nothing."""
    text = text.removeprefix("\ufeff")
    tokens: list[tuple[str, str | None]] = []
    comments: list[tuple[str, int, bool]] = []
    at, line_begins = 0, True
    for token in [*_PARSER.lex(text), None]:
        start, end = (token.start_pos or 0, token.end_pos or 0) if token else (len(text), len(text))
        if token is not None and token.type == "_NL":
            continue
        gap = text[at:start]
        for comment in _COMMENT.finditer(gap):
            own = line_begins or "\n" in gap[: comment.start()]
            comments.append((comment[0].rstrip(), len(tokens), own))
        line_begins = line_begins or "\n" in gap
        at = end
        if token is None or token.type == "_COMMA":
            continue
        said = text_of(token, Findings(Source("", ""))) if "STRING" in token.type else str(token)
        tokens.append((token.type, said))
        line_begins = False
    return tokens, comments


def assert_laws(text: str) -> None:
    """The program and every comment are unchanged, and the canonical form is its own."""
    written = fmt(text)
    assert words(written) == words(text)
    assert meaning(written) == meaning(text)
    assert fmt(written) == written


@_SETTINGS
@given(programs())
def test_any_program_keeps_its_meaning_and_comments_and_is_formatted_once(text: str) -> None:
    assert_laws(text)


@_SETTINGS
@given(programs(), st.integers(0, 3), st.sampled_from(["agent", "memory", "x"]))
def test_programs_with_mistakes_of_meaning_do_too(text: str, at: int, kind: str) -> None:
    assert_laws(text.replace(("webhook", "path", "secret", "retention")[at], kind))


@pytest.mark.parametrize(
    "path",
    [path for folder in ("examples", "tests/golden/dslc", "docs", "runtime") for path in find([ROOT / folder])],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_example_and_golden_file_keeps_the_laws(path: Path) -> None:
    file = parse(Source(str(path), read(path)), _VOCABULARY)
    if file.readable:
        assert_laws((file.source.data).decode())


@pytest.mark.parametrize("path", find([ROOT / "examples"]), ids=lambda path: path.name)
def test_the_examples_are_in_canonical_form(path: Path) -> None:
    assert fmt(path.read_text()) == path.read_text()
