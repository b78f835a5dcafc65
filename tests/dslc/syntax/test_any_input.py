"""No input makes the compiler raise, and every result can be reported."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dslc.compiler import Compilation, analyse
from dslc.report import FORMATS
from dslc.source import Source
from tests.cases import each_case
from tests.dslc.catalogs import CATALOG

VALID = '''memory "agent-memory" {
    store     records { gates [tdd_proof, review] segment 10KB }
    path      "data/agents"
    search { vector_weight 0.7 keyword_weight 0.3 }
}
webhook "github-events" {
    path "/hooks/github", provider custom { header "X-😀" tolerance "1m 30s" } # gïthub
    secret ["secret://vault/github" "hunter2"]
    agent    code-review-agent
    filter { json_path "$.action" equals "opened" }
    limits { body 1.5MB per_minute 10_000 }
}
agent code-review-agent {
    memory      agent-memory
    instruction """
        You review.
        \\u00e9
        """
}
'''
_PIECES = (
    *("{", "}", "[", "]", '"', '"""', "'", ",", "=", ":", "\n", "\r", "\r\n", "\\", "\\u", "#", "//", " ", "\t", "\0"),
    *("é", "\ufeff"),
    *("memory", "webhook", "agent", "a", "path", "retention", "secret", "filter"),
    *("90d", "-1", "0.7", "9" * 5000, "9" * 400 + "y"),
)


def compiled(*contents: bytes | str) -> Compilation:
    """Return the compilation of these contents, after creating every report and checking every span."""
    done = analyse([Source(f"{number}.symbiont", content) for number, content in enumerate(contents)], CATALOG)
    sizes = {source.name: len(source.data) for source in done.sources}
    for diagnostic in done.diagnostics:
        assert 0 <= diagnostic.span.start <= diagnostic.span.end <= sizes[diagnostic.file]
    for form in FORMATS.values():
        form.render(done, colour=True)
    json.loads(FORMATS["json"].render(done))
    return done


@given(st.binary(max_size=300))
@example(b"\xff\xfe")
@example(b"\xef\xbb\xbf\xef\xbb\xbf")
def test_any_bytes(content: bytes) -> None:
    compiled(content)


@given(st.text(max_size=200))
def test_any_text_with_lone_surrogates_and_all(content: str) -> None:
    compiled(content)


@given(st.lists(st.sampled_from(_PIECES), max_size=40), st.sampled_from(["", " "]))
def test_any_pieces_of_the_language(sections: list[str], between: str) -> None:
    compiled(between.join(sections))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_mutant_of_a_valid_program(data: st.DataObject) -> None:
    content = VALID
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        end = min(start + data.draw(st.integers(0, 20)), len(content))
        content = content[:start] + data.draw(st.sampled_from([*_PIECES, ""])) + content[end:]
    compiled(content, VALID)


_HUGE = "9" * 5000


@each_case(
    "place",
    [
        "memory m { retention %s }",
        "memory m { search { vector_weight %s } }",
        "agent a { max_steps %s }",
        'webhook w { path "/w" limits { body %s } }',
        'webhook w { path "/w" filter { json_path "$.a" equals %s } }',
    ],
)
def test_huge_numbers(place: str) -> None:
    for value in (_HUGE, f"{_HUGE}d", f"{_HUGE}KB", f"-{_HUGE}", f"0.{_HUGE}", "9" * 400 + ".5", "1_" * 3000 + "1"):
        compiled(place % value)


@each_case(
    "section",
    (
        *(
            "limits ({\n",
            "secret [ {\n",
            "zzz [[[[\n",
            "}{",
            "limits {% %}\n",
            "a {",
            "{",
            "[",
            '"',
            '"""',
            "a [",
            "a b {",
        ),
        *("}", "'", "\\", "[ ", '"\\u', "memory a {", "\n", "#", "=", "\ufeff"),
    ),
)
def test_thousands_of_one_thing(section: str) -> None:
    compiled(section * 1500)
    compiled("memory m {\n" + section * 1500)


@each_case(
    "query",
    [
        "$" + "[?" * 500 + "@.a",
        "$" + "[?(" * 200 + "@" + ")]" * 200,
        "$[?" + "!" * 1900 + "@.a]",
        "$" + ".a" * 900,
        "$[?@" + "[0]" * 400 + "]",
        *(
            "$[?match(@.a, '(((')]",
            "$[?count(@.*)]",
            "$[99999999999999999999]",
            "$[1:2:0]",
            "$.é",
            "$..*",
            "$['\\ud800']",
        ),
    ],
)
def test_any_query(query: str) -> None:
    compiled(
        f'webhook w {{ path "/w" insecure_allow_unverified true filter {{ json_path {json.dumps(query)} equals 1 }} }}'
    )


def test_sixty_four_levels_are_read_and_one_more_is_not() -> None:
    def nested(levels: int) -> str:
        return "memory m " + "{ a " * (levels - 1) + "{" + " }" * levels

    assert "S108" not in {diagnostic.code for diagnostic in compiled(nested(64)).diagnostics}
    assert "S108" in {diagnostic.code for diagnostic in compiled(nested(65)).diagnostics}


def test_more_than_four_mebibytes_are_one_error() -> None:
    done = compiled(b"#" * (4 * 1024 * 1024 + 1))
    assert [diagnostic.code for diagnostic in done.diagnostics] == ["S108"]
    assert compiled(b"#" * (4 * 1024 * 1024)).diagnostics == ()


def test_a_valid_program_has_no_errors() -> None:
    assert {diagnostic.code for diagnostic in compiled(VALID).diagnostics} == {"P501"}
