"""Filters of generated bodies against a naive reading of the same rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dslc.blocks.filter import AnyOf, Condition, InnerAny, InnerFilter, WebhookFilter
from dslc.blocks.variant import Variant
from dslc.blocks.webhook import Webhook
from runtime.webhooks.filters.explanation import explain
from runtime.webhooks.filters.filter import compile_filters
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.payload import Payload, decode_json

_NAMES = ("a", "b", "c")
_SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["", "a", "ab", "b", "1", "1.0", "true", "false", "null", "-0", "1e2"]),
    st.sampled_from([0, 1, -1, 100, 2**53, 2**53 + 1, 1.0, 1.5, -0.0, 100.0, True, False]),
)
_BODIES = st.dictionaries(
    st.sampled_from(_NAMES),
    st.recursive(
        _SCALARS | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)
_PATHS = st.sampled_from(["$.a", "$.b", "$.a.b", "$.a[0]", "$.a[*]", "$..b", "$['c']", "$.c.*", "$"])


_WHERE = st.fixed_dictionaries({"json_path": _PATHS}) | st.just({"header": "X-Where"})
_TEXT = st.sampled_from(["a", "b", "1", "tru"])
_COMPARED = st.fixed_dictionaries(
    {},
    optional={
        "equals": _SCALARS,
        "contains": _TEXT,
        "one_of": st.lists(_SCALARS, min_size=1, max_size=3).map(tuple),
        "matches": _TEXT,
    },
)
# A comparison requires that the value exists; only `exists` can require the opposite.
_SAYS = st.builds(
    lambda where, compared, exists: {**where, **compared, **({} if compared else {"exists": exists})},
    _WHERE,
    _COMPARED,
    st.booleans(),
)
_LEAVES = _SAYS.map(lambda says: Condition(**says))


def _nested(kind: Any, group: Any, inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Nested filters: each has a condition, or contains a filter that has one."""
    alternatives = st.lists(inner, min_size=1, max_size=2).map(lambda each: (group(filter=tuple(each)),))
    opposites = inner.map(lambda each: (each,))
    return st.one_of(
        _SAYS.map(lambda says: kind(**says)),
        st.builds(lambda says, given: kind(**says, any=given), _SAYS | st.just({}), alternatives),
        st.builds(lambda says, given: kind(**says, not_=given), _SAYS | st.just({}), opposites),
        st.builds(lambda given, refused: kind(any=given, not_=refused), alternatives, opposites),
    )


_FILTERS = _nested(WebhookFilter, AnyOf, _nested(InnerFilter, InnerAny, _LEAVES))
_RULES = st.lists(_FILTERS, min_size=1, max_size=2)
_HEADERS = st.sampled_from([None, "", "a", "ab", "1", "true", "1.0"])


def _find(path: str, body: Any) -> list[Any]:
    """Return the nodes of the paths above, without the implementation."""

    def child(node: Any, name: str) -> list[Any]:
        return [node[name]] if isinstance(node, dict) and name in node else []

    def children(node: Any) -> list[Any]:
        return list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else []

    def below(node: Any) -> list[Any]:
        return [node, *(deep for inner in children(node) for deep in below(inner))]

    match path:
        case "$":
            return [body]
        case "$.a.b":
            return [found for node in child(body, "a") for found in child(node, "b")]
        case "$.a[0]":
            return [node[0] for node in child(body, "a") if isinstance(node, list) and node]
        case "$.a[*]":
            return [found for node in child(body, "a") for found in children(node)]
        case "$.c.*":
            return [found for node in child(body, "c") for found in children(node)]
        case "$..b":
            return [found for node in below(body) for found in child(node, "b")]
    return child(body, path[-1] if path[-1] in _NAMES else path[-3])


def _same(node: Any, wanted: Any) -> bool:
    kinds = {type(node), type(wanted)}
    if kinds <= {int, float}:
        return bool(node == wanted)
    if isinstance(wanted, str) and not isinstance(node, str):
        return isinstance(node, bool | int | float) and json.dumps(node) == wanted
    return len(kinds) == 1 and isinstance(wanted, str | bool) and bool(node == wanted)


def _passes(node: Any, rule: Condition) -> bool:
    if rule.equals is not None and not _same(node, rule.equals):
        return False
    if rule.one_of and not any(_same(node, each) for each in rule.one_of):
        return False
    if rule.contains is not None:
        held = isinstance(node, str) and rule.contains in node
        if not held and not (isinstance(node, list) and any(_same(each, rule.contains) for each in node)):
            return False
    # The patterns above are plain texts.
    return rule.matches is None or (isinstance(node, str) and rule.matches in node)


def _holds(rule: Condition, body: Any, header: str | None) -> bool:
    subject = True
    if rule.json_path is not None:
        nodes = _find(rule.json_path, body)
        subject = not nodes if rule.exists is False else any(_passes(node, rule) for node in nodes)
    elif rule.header is not None:
        subject = header is None if rule.exists is False else header is not None and _header(rule, header)
    groups: Sequence[Any] = getattr(rule, "any", ())
    refused: Sequence[Condition] = getattr(rule, "not_", ())
    return (
        subject
        and all(any(_holds(each, body, header) for each in group.filter) for group in groups)
        and not any(_holds(each, body, header) for each in refused)
    )


def _header(rule: Condition, header: str) -> bool:
    def text(value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value)

    return (
        (rule.equals is None or header == text(rule.equals))
        and (not rule.one_of or header in map(text, rule.one_of))
        and (rule.contains is None or rule.contains in header)
        and (rule.matches is None or rule.matches in header)
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_RULES, _BODIES, _HEADERS)
def test_filters_say_what_a_naive_reading_says(rules: list[WebhookFilter], body: Any, header: str | None) -> None:
    headers = () if header is None else (("x-where", header),)
    sent = json.dumps(body).encode()
    verdicts = [_holds(rule, body, header) for rule in rules]
    expected = next((f"filter_{number}" for number, holds in enumerate(verdicts, 1) if not holds), None)
    compiled = compile_filters(rules)
    assert compiled is not None
    assert compiled.refusing_filter(None, Headers(headers), Payload(decode_json, sent, None)) == expected


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_RULES, _BODIES, _HEADERS)
def test_an_explanation_has_the_verdict_of_every_filter(
    rules: list[WebhookFilter], body: Any, header: str | None
) -> None:
    headers = () if header is None else (("x-where", header),)
    webhook = Webhook(
        name="w", path="/w", provider=Variant(name="swarmlet"), secret=("secret://env/A",), filter=tuple(rules)
    )
    found = explain(webhook, headers, json.dumps(body).encode())
    verdicts = [_holds(rule, body, header) for rule in rules]
    assert [line.holds for line in found.lines if line.depth == 0] == verdicts
    assert found.wanted == all(verdicts)


@pytest.mark.parametrize(
    ("event", "body", "holds", "refused"),
    [
        ("pull_request", b'{"action":"opened"}', True, None),
        ("pull_request", b'{"action":"closed"}', False, None),
        ("pull_request", b'{"action":"opened","action":"closed"}', None, "duplicate_key"),
        ("issues", b'{"action":"opened","action":"closed"}', True, None),
        ("push", b'{"action":"opened","action":"closed"}', False, None),
    ],
)
def test_an_event_whose_action_cannot_be_read_is_not_said_to_be_wanted(
    event: str, body: bytes, holds: bool | None, refused: str | None
) -> None:
    webhook = Webhook(
        name="w",
        path="/w",
        provider=Variant(name="github"),
        secret=("secret://env/A",),
        event=("pull_request.opened", "issues"),
    )
    [line] = explain(webhook, [("X-GitHub-Event", event)], body).lines
    assert (line.holds, line.refused) == (holds, refused)
