"""A sample equals a current request of its sender: it verifies, and its event and id are found."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl

import pytest

from runtime.clock import SYSTEM, uuid7
from runtime.errors import UsageError
from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.providers.samples import sample as samples
from runtime.webhooks.request.field_source import BODY
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.verification import VerifiedRequest, Verifier
from tests.cases import each_case
from tests.signatures import prepare, sign_request

NOW = 1_771_065_000.0
SECRETS = {"standard-webhooks": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
URL = "https://hooks.example.com/hooks/twilio"
ALL = [(provider, event) for provider in samples.names() for event in samples.events(provider)]
HANDSHAKES = {("slack", "url_verification"), ("zoom", "endpoint.url_validation")}


def verifier(provider: str) -> tuple[Verifier, str]:
    secret = SECRETS.get(provider, "a secret of the tests")
    return prepare(provider, [secret]), secret


def received(provider: str, event: str, delivery_id: str, *, now: float = NOW) -> tuple[Verifier, WebhookRequest]:
    """Return the request with a sample of `event`."""
    checks, secret = verifier(provider)
    made = samples.make(checks.provider, event, now=now, delivery_id=delivery_id)
    headers, body = sign_request(
        checks.provider, secret, made.body, now=now, delivery_id=delivery_id, event=made.event, url=URL
    )
    added = {name.lower() for name, _ in made.headers}
    pairs = [*made.headers, *(pair for pair in headers if pair[0].lower() not in added)]
    return checks, WebhookRequest(Headers(pairs), body, "POST", URL)


def verified(provider: str, event: str, delivery_id: str) -> VerifiedRequest:
    checks, request = received(provider, event, delivery_id)
    return checks.identify(checks.check(request, NOW), request, checks.payload(request))


def test_there_are_samples_of_the_twelve_most_used() -> None:
    assert set(samples.names()) == {
        *("github", "gitlab", "linear", "meta", "pagerduty", "sentry", "shopify", "slack", "standard-webhooks"),
        *("stripe", "twilio", "zoom"),
    }
    assert set(samples.names()) <= set(PROVIDERS)
    assert all(len(samples.events(provider)) >= 5 for provider in samples.names())


@each_case("sample", ALL)
def test_every_sample_verifies_and_says_what_it_is(sample: tuple[str, str]) -> None:
    provider, event = sample
    delivery_id = uuid7(SYSTEM)
    found = verified(provider, event, delivery_id)
    row = PROVIDERS[provider]
    assert found.event is not None
    assert found.event == event or event.startswith(found.event) or provider == "gitlab"
    own = row.delivery_id and BODY not in row.delivery_id
    if own and (provider, event) not in HANDSHAKES and not event.startswith("/"):
        assert delivery_id.replace("-", "") in (found.delivery_id or "").replace("-", "")


@each_case("sample", ALL)
def test_two_samples_are_two_deliveries(sample: tuple[str, str]) -> None:
    provider, event = sample
    first, second = (received(provider, event, uuid7(SYSTEM)) for _ in range(2))
    if BODY in PROVIDERS[provider].delivery_id:
        assert first[1].body != second[1].body
    elif PROVIDERS[provider].delivery_id and (provider, event) not in HANDSHAKES:
        assert (first[1].body, first[1].headers) != (second[1].body, second[1].headers)


@each_case("sample", ALL)
def test_no_place_is_left_empty(sample: tuple[str, str]) -> None:
    provider, event = sample
    _, request = received(provider, event, "0194")
    text = request.body.decode()
    fields = dict(parse_qsl(text)).values() if not text.startswith("{") else [json.dumps(json.loads(text))]
    for field in fields:
        assert not any(place in field for place in ("{id}", "{hex}", "{now}", "{now_ms}", "{iso}"))


def test_the_time_in_a_body_is_the_time_of_sending() -> None:
    _, request = received("stripe", "invoice.paid", "0194", now=1_800_000_000.5)
    assert json.loads(request.body)["created"] == 1_800_000_000
    _, request = received("linear", "Issue.create", "0194", now=1_800_000_000.5)
    assert json.loads(request.body)["webhookTimestamp"] == 1_800_000_000_500


def test_the_beginning_of_a_name_is_enough() -> None:
    row = PROVIDERS["github"]
    assert samples.make(row, "pull_request", now=NOW, delivery_id="1").name == "pull_request.opened"
    assert samples.make(row, None, now=NOW, delivery_id="1").name == "pull_request.opened"
    assert samples.make(row, "issues", now=NOW, delivery_id="1").event == "issues"


@pytest.mark.parametrize(
    ("event", "hint"), [("pull_request.opend", "pull_request.opened"), ("zebra", "there are: pull_request.opened")]
)
def test_an_event_without_a_sample_is_refused_with_the_nearest(event: str, hint: str) -> None:
    with pytest.raises(UsageError, match="no sample of GitHub's event") as error:
        samples.make(PROVIDERS["github"], event, now=NOW, delivery_id="1")
    assert hint in (error.value.hint or "")


@each_case("provider", sorted(set(PROVIDERS) - set(samples.names())))
def test_a_provider_without_samples_gets_one_that_says_only_what_it_is(provider: str) -> None:
    row = PROVIDERS[provider]
    made = samples.make(row, None, now=NOW, delivery_id="0194")
    assert made.is_generic
    assert made.body
    payload = row.payload(made.body, row.content_type)
    assert payload.value_or_none() is not None


@each_case("provider", sorted(name for name, row in PROVIDERS.items() if BODY in row.delivery_id))
def test_two_made_up_ones_are_two_deliveries_where_the_body_is_the_id(provider: str) -> None:
    row = PROVIDERS[provider]
    first, second = (samples.make(row, None, now=1_800_000_000, delivery_id=uuid7(SYSTEM)).body for _ in range(2))
    assert first != second
