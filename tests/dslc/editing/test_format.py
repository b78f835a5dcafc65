"""The canonical form: its laws for any program, and examples."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dslc.compiler import analyse
from dslc.diagnostics.collector import DiagnosticCollector
from dslc.editing.format import WIDEST, format_file
from dslc.files import find, read
from dslc.parse import parse
from dslc.source import Source
from dslc.syntax.reader import read_entries
from dslc.syntax.tree import ForeignNode
from dslc.value_reading.string_literals import text_of
from dslc.vocabulary import Vocabulary
from grammar.parser import load
from tests.cases import each_case
from tests.dslc.catalogs import CATALOG
from tests.dslc.programs import programs
from tests.dslc.recovery.mistakes import slips
from tests.grammar.programs import Writer
from tests.lanes import examples, first_of

ROOT = Path(__file__).parents[3]
_PARSER = load()
_VOCABULARY = Vocabulary(CATALOG)
_SETTINGS = settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
_COMMENT = re.compile(r"(?:#|//)[^\n]*")


def fmt(text: str) -> str:
    """Return the canonical form of a text without syntax errors."""
    file = parse(Source("a.symbiont", text), _VOCABULARY)
    assert file.readable, file.diagnostics
    return format_file(file)


def _is_refused_or_formatted(text: str) -> None:
    """Every text has a canonical form or a diagnostic with which `dslc fmt` refuses it."""
    file = parse(Source("a.symbiont", text), _VOCABULARY)
    assert file.readable == (not file.diagnostics), text
    if file.readable:
        assert parse(Source("a.symbiont", format_file(file)), _VOCABULARY).readable


def meaning(text: str) -> tuple[Any, list[tuple[str, str]]]:
    """Return the program of a text, and its diagnostics with the text at their position."""
    source = Source("a.symbiont", text)
    done = analyse([source], CATALOG)
    # The position of a block is not part of its meaning.
    origins = list(done.program.origins)
    found = [(item.code, source.data[item.span.start : item.span.end].decode()) for item in done.diagnostics]
    secrets = [webhook.secret for webhook in done.program.webhooks.values()]
    # Commas and white space in a list or text over several lines do not matter, nor the quotes of a key.
    return (done.program, origins, secrets), [(code, re.sub(r'[\s,"]+', "", at)) for code, at in found]


def words(text: str) -> tuple[list[tuple[str, str | None]], list[tuple[str, int, bool]]]:
    """Return the tokens of a text, strings by their values, and its comments: the text, the number of tokens before it,
    and whether it has its own line. Commas are ignored, and whether a key is in quotes."""
    text = text.removeprefix("\ufeff")
    for block in foreign_blocks(text):
        text = text.replace(block, " kept_as_it_is ", 1)
    keys = {entry.key.start for _, body in read_entries(text).bodies() for entry in body.entries}
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
        said = text_of(token, DiagnosticCollector("")) if "STRING" in token.type else str(token)
        tokens.append(("key" if start in keys else token.type, said))
        line_begins = False
    return tokens, comments


def foreign_blocks(text: str) -> list[str]:
    """Return the blocks of the wider language in a text."""
    file = parse(Source("a.symbiont", text), _VOCABULARY)
    return [section.text for section in file.sections if isinstance(section.blocks[0], ForeignNode)]


def assert_laws(text: str) -> None:
    """Assert that program and comments are unchanged, and that the canonical form of the result is the result."""
    written = fmt(text)
    assert words(written) == words(text)
    assert meaning(written) == meaning(text)
    assert fmt(written) == written


@_SETTINGS
@given(programs())
def test_any_program_keeps_its_meaning_and_comments_and_is_formatted_once(text: str) -> None:
    assert_laws(text)


@_SETTINGS
@given(programs(foreign=True))
def test_blocks_of_the_wider_language_stay_byte_for_byte(text: str) -> None:
    assert_laws(text)
    assert foreign_blocks(fmt(text)) == foreign_blocks(text)


@_SETTINGS
@given(st.integers(0, 2**32))
def test_any_text_that_can_be_read_keeps_the_laws_whatever_it_means(number: int) -> None:
    text = "".join(Writer(Random(number)).write())
    assume(parse(Source("a.symbiont", text), _VOCABULARY).readable)
    assume(not any(item.code == "S107" for item in analyse([Source("a.symbiont", text)], CATALOG).diagnostics))
    assert_laws(text)


@_SETTINGS
@given(programs(), st.integers(0, 3), st.sampled_from(["agent", "memory", "x"]))
def test_programs_with_mistakes_of_meaning_do_too(text: str, at: int, kind: str) -> None:
    assert_laws(text.replace(("webhook", "path", "secret", "retention")[at], kind))


FILES = [path for folder in ("examples", "tests/golden/dslc", "docs", "runtime") for path in find([ROOT / folder])]


@each_case("path", FILES)
def test_every_example_and_golden_file_keeps_the_laws(path: Path) -> None:
    file = parse(Source(str(path), read(path)), _VOCABULARY)
    if file.readable:
        assert_laws((file.source.data).decode())


@each_case("path", find([ROOT / "examples"]))
def test_the_examples_are_in_canonical_form(path: Path) -> None:
    assert fmt(path.read_text()) == path.read_text()


def shown(before: str, after: str) -> None:
    """Assert that this is the canonical form of a text."""
    assert fmt(before) == after
    assert_laws(before)


def test_blocks_stand_apart_and_settings_of_a_run_in_a_column() -> None:
    before = """

memory  m{path "d"
  retention 90d
      search { vector_weight 0.5


    keyword_weight 0.5

    }


    store markdown }
agent a {}    agent "b" { memory m }
"""
    after = """\
memory m {
    path      "d"
    retention 90d
    search {
        vector_weight 0.5

        keyword_weight 0.5
    }

    store markdown
}

agent a {}

agent "b" { memory m }
"""
    shown(before, after)


def test_comments_stay_where_they_stand() -> None:
    before = """\
# about the file


# about m
memory m { // behind the brace

# above path
path "d"# behind path


# above retention
retention 90d,  // behind the comma
# before the brace

} # behind the block
# below it

// the end"""
    after = """\
# about the file

# about m
memory m { // behind the brace
    # above path
    path "d" # behind path

    # above retention
    retention 90d // behind the comma
    # before the brace
} # behind the block

# below it

// the end
"""
    shown(before, after)


def test_a_list_that_does_not_stay_on_its_line_has_a_line_for_each_item() -> None:
    before = """\
agent a { tools [ search
 remember, # both
 # more will come
] }
agent b { tools [search remember ,] }
agent c { tools [
] }
"""
    after = """\
agent a {
    tools [
        search,
        remember, # both
        # more will come
    ]
}

agent b { tools [search, remember] }

agent c {
    tools []
}
"""
    shown(before, after)


def test_what_is_written_on_one_line_stays_there_while_it_is_short() -> None:
    short = 'webhook w { path "/w" filter { json_path "$.a" equals "b" } insecure_allow_unverified true }\n'
    assert len(short) < WIDEST
    shown(short.replace(" ", "  "), short)
    after = """\
webhook w {
    path "/w"
    filter { json_path "$.a" equals "a long word that does not fit on the line" }
    insecure_allow_unverified true
}
"""
    shown(short.replace('"b"', '"a long word that does not fit on the line"'), after)


def test_a_key_in_quotes_is_written_bare_if_it_is_a_word() -> None:
    shown(
        """\
model m { service openai { headers {
"X-Team" "core"
   "X.Api-Key"   "secret://env/K"
"7" "x"
} } }
""",
        """\
model m {
    service openai {
        headers {
            X-Team      "core"
            "X.Api-Key" "secret://env/K"
            "7"         "x"
        }
    }
}
""",
    )


def test_a_setting_over_several_lines_ends_its_run() -> None:
    before = '''\
agent a {
memory m
instruction """
Be kind.
"""
max_steps 3
enabled true
}
'''
    after = '''\
agent a {
    memory      m
    instruction """
        Be kind.
        """
    max_steps 3
    enabled   true
}
'''
    shown(before, after)


def test_a_long_key_stands_for_itself() -> None:
    long = "x" * 41
    before = f"agent a {{\n b 1\n {long} 2\n ccc 3\n dd 4\n}}"
    shown(before, f"agent a {{\n    b 1\n    {long} 2\n    ccc 3\n    dd  4\n}}\n")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        ("\n  a\n    b\n  ", ["a", "  b"]),
        ("a\n    b", ["a", "    b"]),
        ("\n\ta\n\t\tb\n", ["a", "\tb"]),
        ("\n    a\n\n  \n      b\n\n", ["a", "", "", "  b", ""]),
        ("\n", []),
        ("  \n  ", []),
        ('\n  \\n\\u00e9 \\""\n', ['\\n\\u00e9 \\""']),
    ],
)
def test_a_long_string_stands_below_its_setting_and_says_what_it_said(raw: str, lines: list[str], end: str) -> None:
    text = "".join(f"        {line}\n" if line else "\n" for line in lines)
    before = f'agent a {{ instruction """{raw}""" }}\n'
    shown(before.replace("\n", end), f'agent a {{\n    instruction """\n{text}        """\n}}\n'.replace("\n", end))


def test_a_long_string_on_one_line_stays_as_it_is() -> None:
    shown('agent a { instruction """  a "b"  """ }', 'agent a { instruction """  a "b"  """ }\n')


def test_most_lines_decide_the_line_ending() -> None:
    shown("agent a {\r\n}\r\n# b\nagent c {}", "agent a {}\r\n\r\n# b\r\nagent c {}\r\n")
    shown("agent a {\r\n}\n# b\nagent c {}", "agent a {}\n\n# b\nagent c {}\n")


@pytest.mark.parametrize("text", ["", "\n\n", "  \t\n "])
def test_nothing_is_written_as_nothing(text: str) -> None:
    shown(text, "")


_LONG = (
    'webhook w { path "/w" secret "hunter2" provider custom { header "X" } keep_body false agent a-name-to-fill-it }\n'
)


@pytest.mark.parametrize(
    "text",
    [
        'webhook w { path "/w", secret "hunter2" # dslc: allow P501\n}\n',
        'webhook w {\n    path "/w"\n    # dslc: allow P501\n    provider github, secret "hunter2"\n}\n',
        f"# dslc: allow P501\n{_LONG}",
        'webhook v { path "/v" secret "a" } webhook w { path "/w" secret "b" } # dslc: allow P501\n',
    ],
)
def test_a_line_that_an_allow_comment_speaks_of_is_not_broken(text: str) -> None:
    shown(text, text)
    assert fmt(text.replace("dslc: allow", "allows")) != text


def test_only_the_block_with_such_a_line_is_left_as_it_is() -> None:
    kept = 'webhook w { path  "/w", secret "hunter2" # dslc: allow P501\n}\n'
    shown(f"agent a  {{}}\n{kept}agent b  {{}}\n", f"agent a {{}}\n\n{kept}\nagent b {{}}\n")


@first_of("number", range(20), 3)
def test_a_file_with_a_mistake_is_refused_for_a_reason_or_formatted(number: int) -> None:
    for slip in slips()[number :: 20 * 5]:
        _is_refused_or_formatted(slip.text)


_PIECES = (
    *("memory m {", "agent a {", "webhook w {", "search {", "}", "[", "]", "\n", "\n\n", "    "),
    *(
        "path",
        "secret",
        "unknown",
        "is",
        "=",
        ":",
        "=>",
        ",",
        ";",
        "'a'",
        '"a"',
        '"""',
        "90d",
        "\u00a0",
        "# x\n",
        "é",
        "(",
    ),
)


@_SETTINGS
@given(st.lists(st.sampled_from(_PIECES), max_size=30), st.sampled_from(["", " "]))
def test_any_text_is_refused_for_a_reason_or_formatted(sections: list[str], between: str) -> None:
    _is_refused_or_formatted(between.join(sections))
