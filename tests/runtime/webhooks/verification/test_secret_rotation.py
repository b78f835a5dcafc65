"""Secrets that expire: a check accepts exactly those that are valid at the time of its request."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.secrets.secret import Secret
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.verification.secret_rotation import index_secrets
from tests.signatures import prepare, sign

MOMENTS = st.one_of(st.none(), st.integers(1, 6).map(float))


def secret(name: str, until: float | None = None, previous: Secret | None = None) -> Secret:
    return Secret(name.encode(), name, until=until, previous=previous)


def matches(secrets: list[Secret], key: Secret, now: float, places: list[int] | None = None) -> int | None:
    headers = Headers(sign("github", key, b"{}", now=now, delivery_id="1", event="push"))
    try:
        return prepare("github", secrets, places=places).check(WebhookRequest(headers, b"{}"), now).secret_index
    except RefusedRequest:
        return None


@settings(deadline=None)
@given(untils=st.lists(MOMENTS, min_size=1, max_size=5), now=st.floats(0, 7), data=st.data())
def test_exactly_the_good_ones_verify_each_under_its_own_number(
    untils: list[float | None], now: float, data: st.DataObject
) -> None:
    untils = [None, *untils]
    secrets = [secret(f"key-{at}", until) for at, until in enumerate(untils)]
    places = data.draw(st.permutations(range(len(secrets))))
    for at, each in enumerate(secrets):
        until = untils[at]
        good = until is None or now < until
        assert matches(secrets, each, now) == (at if good else None)
        assert matches(secrets, each, now, list(places)) == (places[at] if good else None)


def test_the_moment_itself_is_too_late() -> None:
    secrets = [secret("new"), secret("old", 100.0)]
    assert matches(secrets, secrets[1], 99.999) == 1
    assert matches(secrets, secrets[1], 100.0) is None
    assert matches(secrets, secrets[0], 100.0) == 0


def test_one_prepared_check_follows_the_clock_there_and_back() -> None:
    new, old = secret("new"), secret("old", 100.0)
    check = prepare("github", [new, old]).check
    request = WebhookRequest(Headers(sign("github", old, b"{}", now=0, delivery_id="1", event="push")), b"{}")
    assert check(request, 50.0).secret_index == 1
    with pytest.raises(RefusedRequest):
        check(request, 150.0)
    assert check(request, 50.0).secret_index == 1


def test_secrets_that_all_end_are_no_secrets() -> None:
    with pytest.raises(ValueError, match="every secret ends"):
        prepare("github", [secret("a", 1.0), secret("b", 2.0)])


def test_a_secret_keeps_its_number_when_another_cannot_be_resolved() -> None:
    before = secret("before", 10.0)
    there = secret("there", previous=before)
    assert index_secrets(["the variable A is not set", there]) == ((there, before), (1, 2))
    assert index_secrets([there, "gone", secret("x")]).places == (0, 2, 3)
    assert index_secrets(["gone"]) == ((), ())
