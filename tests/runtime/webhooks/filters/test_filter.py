from __future__ import annotations

import json
from typing import Any

import pytest

from dslc.blocks.filter import AnyOf, InnerFilter, WebhookFilter
from runtime.webhooks.filters.filter import compile_filters
from runtime.webhooks.request.field_source import compile_sources
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.payload import Payload, decode_json
from runtime.webhooks.request.refusal import RefusedRequest

BODY: Any = {
    "action": "opened",
    "number": 42,
    "ratio": 1.5,
    "one": 1.0,
    "draft": False,
    "merged": True,
    "none": None,
    "text": "42",
    "word": "true",
    "labels": ["bug", "help wanted", 7],
    "items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}],
    "object": {"bug": 1},
}


def holds(*filters: WebhookFilter, body: Any = BODY, headers: tuple[tuple[str, str], ...] = ()) -> bool:
    """Return True if all filters accept a body sent as JSON."""
    compiled = compile_filters(filters)
    assert compiled is not None
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return compiled.refusing_filter(None, Headers(headers), Payload(decode_json, sent, None)) is None


def wanted(path: str, **says: Any) -> bool:
    return holds(WebhookFilter(json_path=path, **says))


def header(value: str | None, **says: Any) -> bool:
    return holds(WebhookFilter(header="X-Where", **says), headers=() if value is None else (("x-where", value),))


# Numbers and booleans compare as written.
@pytest.mark.parametrize(
    ("path", "equal", "other"),
    [
        ("$.action", ["opened"], ["Opened", "opened ", "open"]),
        ("$.number", [42, 42.0, "42"], ["42.0", 43]),
        ("$.ratio", [1.5, "1.5"], []),
        ("$.one", [1, 1.0], [True]),
        ("$.draft", [False, "false"], [0, ""]),
        ("$.merged", [True, "true"], [1, "True", "1"]),
        ("$.text", ["42"], [42]),
        ("$.word", ["true"], [True]),
        ("$.none", [], ["null", ""]),
        ("$.items[*].name", ["b"], ["c"]),
        ("$..n", [2], []),
        ("$.labels[-1]", [7], []),
        ("$.labels", [], ["bug"]),
        ("$.object", [], ["bug"]),
        ("$.missing", [], [""]),
    ],
)
def test_equals_finds_its_value_and_nothing_else(path: str, equal: list[Any], other: list[Any]) -> None:
    assert [value for value in equal + other if wanted(path, equals=value)] == equal


@pytest.mark.parametrize(
    ("path", "parts", "other"),
    [
        ("$.action", ["pen"], ["x"]),
        ("$.labels", ["bug", "7"], ["help"]),
        ("$.labels[*]", ["wanted"], []),
        ("$.items[*].name", ["a"], []),
        ("$.number", [], ["4"]),
        ("$.object", [], ["bug"]),
        ("$.none", [], [""]),
        ("$.missing", [], [""]),
    ],
)
def test_contains_finds_a_part_of_a_text_or_a_member_of_a_list(path: str, parts: list[str], other: list[str]) -> None:
    assert [value for value in parts + other if wanted(path, contains=value)] == parts


def test_one_node_must_pass_both_tests_of_a_filter() -> None:
    assert wanted("$.items[*].name", equals="a", contains="a")
    assert not wanted("$.items[*].name", equals="a", contains="b")


def test_every_filter_must_match() -> None:
    opened, merged, closed = (
        WebhookFilter(json_path="$.action", equals="opened"),
        WebhookFilter(json_path="$.merged", equals=True),
        WebhookFilter(json_path="$.action", equals="closed"),
    )
    assert holds(opened, merged)
    assert not holds(opened, closed)


def test_without_filters_there_is_nothing_to_ask() -> None:
    assert compile_filters([]) is None


@pytest.mark.parametrize("payload", [None, [], {}, "opened", 1, [{"action": "opened"}]])
def test_a_payload_of_another_shape_is_not_wanted(payload: object) -> None:
    assert not holds(WebhookFilter(json_path="$.action", equals="opened"), body=payload)


@pytest.mark.parametrize(
    ("sent", "equal", "other"),
    [
        (b"9007199254740993", [9007199254740993, "9007199254740993"], [9007199254740992.0]),
        (b"9007199254740992", [], [9007199254740993]),
        (b"123456789012345678901234567890", ["123456789012345678901234567890"], ["123456789012345678901234567891"]),
        (b"1e2", [100], ["1e2"]),  # other values are compared without quotes
        (b"1E2", [100.0], []),
        (b"100.0", [100], []),
        (b"-0", [0], ["-0"]),
        (b"-0.0", [0], []),
        (b"0", ["0"], [False]),
        (b"1", [], [True]),
        (b"1.50", [1.5, "1.5"], []),
        (b'"\\u0061"', ["a"], []),
        (b"true", [], [1]),
        (b"null", [], [0]),
    ],
)
def test_numbers_are_compared_by_their_exact_value(sent: bytes, equal: list[Any], other: list[Any]) -> None:
    filters = {value: WebhookFilter(json_path="$.a", equals=value) for value in equal + other}
    assert [value for value, rule in filters.items() if holds(rule, body=b'{"a":%b}' % sent)] == equal


def test_one_of_several_values_is_enough() -> None:
    assert wanted("$.action", one_of=("closed", "opened"))
    assert wanted("$.number", one_of=("closed", 42))
    assert wanted("$.number", one_of=("42", True))
    assert wanted("$.merged", one_of=("x", True))
    assert not wanted("$.merged", one_of=(1, "1", False))
    assert not wanted("$.one", one_of=(True, "1"))
    assert not wanted("$.missing", one_of=("", "null"))


def test_what_is_null_exists_and_what_is_not_found_does_not() -> None:
    assert wanted("$.none", exists=True)
    assert wanted("$.object", exists=True)
    assert wanted("$.missing", exists=False)
    assert not wanted("$.missing", exists=True)
    assert not wanted("$.none", exists=False)
    assert not wanted("$.items[*].name", exists=False)
    assert wanted("$.items[*].name", exists=True, equals="a")


@pytest.mark.parametrize("pattern", ["pen", "^opened$", "^o", "(?i)OPEN", "o.e", "[a-z]+", "^(opened|closed)$"])
def test_a_pattern_is_found_anywhere_unless_it_says_where(pattern: str) -> None:
    assert wanted("$.action", matches=pattern)


@pytest.mark.parametrize(("path", "pattern"), [("$.action", "^pen"), ("$.action", "OPEN"), ("$.number", "4"),
                                               ("$.none", ".*"), ("$.labels", "bug"), ("$.missing", ".*")])  # fmt: skip
def test_a_pattern_is_found_in_texts_only(path: str, pattern: str) -> None:
    assert not wanted(path, matches=pattern)


def test_a_dot_of_a_pattern_is_no_line_end() -> None:
    assert not holds(WebhookFilter(json_path="$.a", matches="^x.y$"), body={"a": "x\ny"})
    assert holds(WebhookFilter(json_path="$.a", matches="(?s)^x.y$"), body={"a": "x\ny"})
    assert not holds(WebhookFilter(json_path="$.a", matches="^y$"), body={"a": "x\ny"}), "`^` is where the text begins"


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "^(a|a?)+$", "(.*a){12}$", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_no_text_makes_a_pattern_take_more_than_linear_time(pattern: str) -> None:
    # Each of these would take very long in a backtracking engine.
    assert not holds(WebhookFilter(json_path="$.a", matches=pattern), body={"a": "a" * 100_000 + "!"})


def test_a_filter_with_a_pattern_that_re2_does_not_take_is_refused() -> None:
    with pytest.raises(ValueError, match="not a pattern of RE2"):
        WebhookFilter(json_path="$.a", matches="(?=a)")


def test_a_headers_exact_value_is_compared() -> None:
    assert header("live", equals="live")
    assert header("  live\t", equals="live"), "white space around it is no part of it"
    assert header("42", equals=42)
    assert header("true", equals=True)
    assert header("1.5", one_of=("x", 1.5))
    assert header("live", one_of=("test", "live"))
    assert header("a, live, b", contains="live")
    assert header("live", matches="^l")
    assert header("", exists=True)
    assert header(None, exists=False)
    for value in (None, "Live", "live2", "", '"live"'):
        assert not header(value, equals="live")
    assert not header("42.0", equals=42)
    assert not header(None, exists=True)
    assert not header("", exists=False)
    assert not header("\udcff", matches=".")


@pytest.mark.parametrize("says", [{"equals": "live"}, {"exists": True}, {"exists": False}])
def test_a_header_that_was_sent_twice_is_refused(says: dict[str, Any]) -> None:
    twice = (("X-Where", "live"), ("x-where", "live"))
    for rule in (WebhookFilter(header="X-WHERE", **says), WebhookFilter(not_=(InnerFilter(header="x-where", **says),))):
        with pytest.raises(RefusedRequest, match="ambiguous_header") as refused:
            holds(rule, headers=twice)
        assert refused.value.status == 400


def test_a_filter_on_a_header_needs_no_payload() -> None:
    assert holds(WebhookFilter(header="X-A", exists=False), body=b"no json")
    with pytest.raises(RefusedRequest, match="invalid_json"):
        holds(WebhookFilter(json_path="$", exists=True), body=b"no json")


@pytest.mark.parametrize("body", [b'{"action":"opened","action":"closed"}', b'{"a":[{"b":1,"b":2}],"action":"opened"}'])
def test_a_body_with_a_key_twice_is_refused_by_whoever_reads_it(body: bytes) -> None:
    with pytest.raises(RefusedRequest, match="duplicate_key"):
        holds(WebhookFilter(json_path="$.action", equals="opened"), body=body)
    assert holds(WebhookFilter(header="X-A", exists=False), body=body), "nothing is read of it"


def test_alternatives_and_their_opposites() -> None:
    opened, closed = (
        InnerFilter(json_path="$.action", equals="opened"),
        InnerFilter(json_path="$.action", equals="shut"),
    )
    merged = InnerFilter(json_path="$.merged", equals=True)
    assert holds(WebhookFilter(any=(AnyOf(filter=(closed, opened)),)))
    assert not holds(WebhookFilter(any=(AnyOf(filter=(closed,)),)))
    assert not holds(WebhookFilter(any=(AnyOf(filter=(opened,)), AnyOf(filter=(closed,))))), "each `any` must hold"
    assert holds(WebhookFilter(not_=(closed,)))
    assert not holds(WebhookFilter(not_=(closed, merged))), "no `not` may hold"
    assert holds(WebhookFilter(json_path="$.action", equals="opened", not_=(closed,)))
    assert not holds(WebhookFilter(json_path="$.action", equals="opened", not_=(merged,)))
    assert holds(WebhookFilter(not_=(InnerFilter(json_path="$.missing", equals="x"),))), (
        "what is not there equals nothing"
    )
    assert not holds(WebhookFilter(not_=(InnerFilter(json_path="$.labels[*]", equals="bug"),))), "no label may be it"


def test_the_first_that_does_not_hold_is_named() -> None:
    rules = [WebhookFilter(json_path="$.action", equals=value) for value in ("opened", "closed", "shut")]
    compiled = compile_filters(rules)
    assert compiled is not None
    assert compiled.refusing_filter(None, Headers(()), Payload(decode_json, b'{"action":"opened"}', None)) == "filter_2"
    assert compiled.refusing_filter(None, Headers(()), Payload(decode_json, b"{}", None)) == "filter_1"


ACTION = compile_sources(("$.action",), malformed="malformed_event")


def refusing(asked: list[str], event: str | None, body: bytes = b'{"action":"opened"}', action: Any = ACTION) -> Any:
    """Return the name of what refuses an event, of the filters of a webhook that asks for `asked`."""
    compiled = compile_filters([], asked, *([action] if action else []))
    assert compiled is not None
    return compiled.refusing_filter(event, Headers(()), Payload(decode_json, body, None))


@pytest.mark.parametrize(
    ("asked", "events", "others"),
    [
        (["pull_request"], ["pull_request"], ["pull_request_review", None]),
        (["pull_request.opened"], ["pull_request"], []),
        (["issues", "pull_request.opened"], ["pull_request"], []),
        (["pull_request.closed"], [], ["pull_request"]),
        (["pull_request.opened.now"], [], ["pull_request"]),
        (["Pull_request"], [], ["pull_request"]),
        (["opened"], [], ["pull_request"]),
        (["invoice"], ["invoice.paid"], []),
        (["invoice.paid"], [], ["invoice", "invoice.paid_out"]),
        (["invoice.payment"], ["invoice.payment.failed"], []),
        (["voice"], [], ["invoice"]),
        (["pullrequest"], ["pullrequest:created"], []),
        (["orders"], ["orders/create"], []),
        (["orders/create"], ["orders/create"], []),
    ],
)
def test_an_event_is_wanted_by_its_name_or_its_beginning(
    asked: list[str], events: list[str], others: list[str | None]
) -> None:
    assert [refusing(asked, event) for event in events] == [None] * len(events)
    assert [refusing(asked, event) for event in others] == ["event"] * len(others)


def test_an_action_is_no_part_of_an_event_whose_provider_does_not_say_so() -> None:
    assert refusing(["pull_request.opened"], "pull_request", action=None) == "event"


def test_the_payload_is_not_read_for_an_event_that_needs_no_action() -> None:
    asked, twice = ["push", "pull_request.opened"], b'{"a":1,"a":2}'
    assert refusing(asked, "push", twice) is None
    assert refusing(asked, "issues", twice) == "event"
    with pytest.raises(RefusedRequest, match="duplicate_key"):
        refusing(asked, "pull_request", twice)
