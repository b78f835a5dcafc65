from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.agents.delivery_summary import describe, one_line
from runtime.webhooks.providers import PROVIDERS

PULL_REQUEST: Any = {
    "action": "opened",
    "number": 42,
    "pull_request": {"number": 42, "title": "Add a\nwidget", "body": "long"},
    "repository": {"full_name": "octo/widgets"},
    "sender": {"login": "octocat"},
}


def test_a_pull_request_is_told_in_a_few_facts() -> None:
    summary = describe("github", "pull_request", PULL_REQUEST)
    assert summary.title == "GitHub pull_request"
    assert summary.facts == [
        ("repository", "octo/widgets"),
        ("action", "opened"),
        ("number", "42"),
        ("title", "Add a widget"),
        ("sender", "octocat"),
    ]


def test_a_push_names_its_ref_and_commit() -> None:
    body = {"ref": "refs/heads/main", "repository": {"full_name": "o/r"}, "head_commit": {"message": "Fix\n\nwhy"}}
    assert describe("github", "push", body).facts == [
        ("repository", "o/r"),
        ("ref", "refs/heads/main"),
        ("commit", "Fix why"),
    ]


def test_stripe_and_slack_name_what_matters_there() -> None:
    invoice = {"livemode": False, "data": {"object": {"object": "invoice", "id": "in_1", "amount_due": 500}}}
    assert describe("stripe", "invoice.paid", invoice).facts == [
        ("object", "invoice"),
        ("id", "in_1"),
        ("amount", "500"),
        ("live mode", "false"),
    ]
    mention = {"team_id": "T1", "event": {"type": "app_mention", "channel": "C1", "user": "U1", "text": "hi"}}
    assert describe("slack", "app_mention", mention) == (
        "Slack app_mention",
        [("team", "T1"), ("channel", "C1"), ("user", "U1"), ("text", "hi")],
    )


def test_a_payload_that_no_row_knows_shows_its_first_scalars() -> None:
    body = {"a": 1, "b": {"c": 2}, "d": "x", "e": None, "f": "", "g": [1], "h": True, **{f"k{n}": n for n in range(9)}}
    assert describe("custom", None, body) == (
        "Webhook delivery",
        [("a", "1"), ("d", "x"), ("h", "true"), ("k0", "0"), ("k1", "1"), ("k2", "2")],
    )
    assert describe("github", "x", {"zen": "Keep it simple"}).facts == [("zen", "Keep it simple")]


@pytest.mark.parametrize("payload", [None, 1, "text", [1, 2], {}])
def test_a_payload_without_facts_has_a_title_still(payload: object) -> None:
    assert describe("stripe", "x", payload) == ("Stripe x", [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=300), inner, max_size=5),
)


@given(
    provider=st.sampled_from(sorted(PROVIDERS)),
    event=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    payload=JSON,
)
def test_every_text_is_one_short_line(provider: str, event: str | None, payload: object) -> None:
    summary = describe(provider, event, payload)
    for text in (summary.title, *(text for fact in summary.facts for text in fact)):
        assert 0 < len(text) <= 200
        assert text.isprintable()
        assert text == text.strip()


def test_a_long_text_is_cut_and_says_so() -> None:
    assert one_line("x" * 200) == "x" * 200
    assert one_line("x" * 201) == "x" * 199 + "…"
    assert one_line(" " * 5000 + "x") == "…"
    assert one_line("a\r\n\t\x00b\u2028c") == "a b c"


def test_a_stored_body_is_told_as_its_sender_meant_it() -> None:
    row = PROVIDERS["github"]
    form = "application/x-www-form-urlencoded"
    payload = row.payload(b"payload=%7B%22action%22%3A%22opened%22%7D", form).value_or_none()
    assert describe("github", "issues", payload).facts == [("action", "opened")]
    assert describe("github", "issues", row.payload(b"{", None).value_or_none()).facts == []
