"""Verification as a whole: prepared once, defined for every request, and without the secret in any error."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from runtime.secrets.secret import Secret
from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.verification import prepare_unverified
from tests.contracts.provider_cases import CASES, URL, Case
from tests.signatures import prepare, sign, verify

NOW = 1_700_000_000
NAMES = (
    st.sampled_from(sorted({name for case in CASES for name, _ in case.sent()[0]}))
    | st.sampled_from(["X-Id", "X-Time", "X-Event", "content-type", "x-signature-256"])
    | st.text(max_size=8)
)
VALUES = (
    st.text(st.characters(), max_size=80)
    | st.sampled_from(
        [
            "t=1700000000,v1=" + "0" * 64,
            f"{NOW}",
            "sha256=" + "a" * 64,
            "v0=" + "b" * 64,
            "application/x-www-form-urlencoded",
            "application/json",
        ]
    )
    | st.integers().map(str)
)
PAIRS = st.lists(st.tuples(NAMES, VALUES), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "type", "event", "event_id", "command", "challenge", "payload"]), inner
        )
    ),
    max_leaves=12,
)
BODIES = (
    st.binary(max_size=200)
    | JSON.map(lambda value: json.dumps(value, ensure_ascii=True).encode())
    | JSON.map(lambda value: b"payload=" + json.dumps(value).encode())
    | st.sampled_from([b"[" * 50_000, b"NaN", b'{"id":"\\ud800"}', b'{"id":' + b"9" * 5000 + b"}", b"a=%ff&b=%zz"])
)


@settings(deadline=None)
@given(case=st.sampled_from(CASES), headers=PAIRS, body=BODIES)
def test_whatever_arrives_is_verified_or_refused(case: Case, headers: list[tuple[str, str]], body: bytes) -> None:
    assert case.refusal(headers, body).status in {400, 401}


@settings(deadline=None)
@given(case=st.sampled_from(CASES), headers=PAIRS, body=BODIES)
def test_what_was_signed_is_identified_and_greeted_without_a_fault(
    case: Case, headers: list[tuple[str, str]], body: bytes
) -> None:
    try:
        signed, body = case.sent(body=body)
    except ValueError:
        assume(False)  # a body without a place for the proof, or that this sender never sends
    verifier = prepare(case.name, () if case.row.keyless else [case.secret], case.options)
    taken = {name.lower() for name, _ in signed} - {"content-type"}
    rest = [(name, value) for name, value in headers if name.lower() not in taken]
    own = [pair for pair in signed if pair[0] != "Content-Type" or case.name == "twilio"]
    request = WebhookRequest(Headers([*own, *rest]), body, "POST", URL, "", case.keys)
    try:
        match = verifier.check(request, NOW)
    except RefusedRequest as refused:
        # A sender whose bodies have a fixed beginning signs no others.
        assert refused.reason == "signature_mismatch"  # noqa: PT017
        assume(False)
    payload = verifier.payload(request)
    verifier.handshake_response(request, payload, signed=True)
    with contextlib.suppress(RefusedRequest):
        verified = verifier.identify(match, request, payload)
        for text in (verified.event, verified.delivery_id):
            assert text is None or (text.isprintable() and 0 < len(text) <= 255)
            assert text is None or text.encode()


def test_one_verifier_serves_any_number_of_requests() -> None:
    verifier = prepare("github", [Secret(b"s", "test")])
    for body in (b"{}", b"[]", b""):
        request = WebhookRequest(Headers(sign("github", "s", body, now=NOW, delivery_id="d")), body)
        assert verifier.check(request, NOW).secret_index == 0


def test_applying_options_to_a_configured_row_changes_nothing() -> None:
    row = PROVIDERS["custom"].with_options({"header": "X-Sig"})
    assert row.with_options(None) == row
    headers = sign(row, "s", b"{}", now=NOW, delivery_id="d")
    assert prepare(row, ["s"]).check(WebhookRequest(Headers(headers), b"{}"), NOW).secret_index == 0


def test_a_preset_takes_no_options() -> None:
    with pytest.raises(ValueError, match="provider github has no options"):
        prepare("github", ["s"], {"header": "X"})


def test_a_string_in_place_of_a_list_is_one_secret_and_not_its_letters() -> None:
    headers = sign("github", "s", b"{}", now=NOW, delivery_id="d")
    with pytest.raises(RefusedRequest):
        verify("github", "secret", headers, b"{}", now=NOW)
    assert verify("github", "s", headers, b"{}", now=NOW).secret_index == 0


def test_no_error_shows_the_secret() -> None:
    for wrong in ({"header": "hunter2 hunter2"}, {"prefix": "é hunter2"}, {"hunter2": 1, "payload": "hunter2"}):
        with pytest.raises(ValueError, match="provider custom") as caught:
            prepare("custom", ["hunter2-secret"], wrong)
        assert "hunter2-secret" not in str(caught.value)
        assert "\n" not in str(caught.value)
    assert "hunter2" not in repr(prepare("github", [Secret(b"hunter2", "test")]))


def test_a_refusal_says_the_same_whatever_part_of_the_signature_is_wrong() -> None:
    good = sign("slack", "s", b"{}", now=NOW, delivery_id="d")
    answers = set()
    for headers, now in (
        ([good[0], good[1], ("X-Slack-Signature", "v0=" + "0" * 64)], NOW),
        ([good[0], good[1], ("X-Slack-Signature", "junk")], NOW),
        ([good[0], ("X-Slack-Request-Timestamp", "1"), ("X-Slack-Signature", "v0=" + "0" * 64)], NOW),
        ([good[0], ("X-Slack-Request-Timestamp", "x"), good[2]], NOW),
        ([good[0], good[2]], NOW),
        ([*good, good[2]], NOW),
        (sign("slack", "other", b"{}", now=NOW, delivery_id="d"), NOW + 10_000),
    ):
        with pytest.raises(RefusedRequest) as caught:
            verify("slack", ["s"], headers, b"{}", now=now)
        answers.add((caught.value.status, caught.value.shown, caught.value.message))
    assert answers == {(401, "invalid_signature", "the request's signature is not valid")}


def test_unverified_accepts_everything_and_says_that_nothing_matched() -> None:
    verifier = prepare_unverified(PROVIDERS["github"])
    request = WebhookRequest(Headers([("X-GitHub-Event", "push"), ("X-GitHub-Delivery", "d")]), b"{}")
    verified = verifier.identify(verifier.check(request, NOW), request, verifier.payload(request))
    assert (verified.mac, verified.timestamp, verified.secret_index) == (b"", None, -1)
    assert (verified.event, verified.delivery_id) == ("push", "d")
