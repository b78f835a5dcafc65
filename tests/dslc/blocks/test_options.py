"""Diagnostics of options of a provider that are valid alone and not together, or have another form than required."""

from __future__ import annotations

import pytest

from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.source import Source

_TIMED = 'payload "{timestamp}.{body}" timestamp_header "X-T"'


@pytest.mark.parametrize(
    ("provider", "code", "said"),
    [
        ('custom { header "Bad Header" }', "T406", "this character is not allowed in a header's name"),
        ('custom { header "" }', "T402", "a header's name has 1 to 128 characters"),
        ('custom { prefix " v1=" }', "T406", "not a prefix: printable ASCII"),
        ('custom { payload "{nope}.{body}" }', "T406", "{nope} is not allowed here"),
        ('custom { payload "{url}{body}" }', "T406", "{url} is not allowed here"),
        ('custom { payload "signed" }', "T406", "{body} is missing"),
        ('custom { payload "{body}{id}" id_header "X-Id" }', "T406", "{id} needs a separator before it"),
        ('custom { payload "{id}.{body}" }', "T405", "`id_header` must name the header that holds it"),
        ('custom { payload "{timestamp}.{body}" }', "T405", "`timestamp_header` must name the header that holds it"),
        ('custom { payload "{body}" timestamp_header "X-T" }', "T405", "`payload` does not sign {timestamp}"),
        (f'custom {{ {_TIMED} event_header "x-t" }}', "T405", "`event_header` and `timestamp_header` name the same"),
        (f"custom {{ {_TIMED} tolerance 0s }}", "T402", "`tolerance`: out of bounds"),
        ("jwt { algorithms [RS256 ES256] }", "T405", "`algorithms` must all be of one family"),
        ("jwt { algorithms [] }", "T402", "`algorithms` has 0 items"),
        ("jwt { leeway 10m }", "T402", "`leeway`: out of bounds"),
        ("jwt { max_age 2d }", "T402", "`max_age`: out of bounds"),
        ('jwt { jwks_url "http://keys.example.org" }', "T406", "not an https URL"),
        ('jwt { jwks_url "https://k.example" algorithms HS256 }', "T405", "`algorithms HS256` exclude each other"),
        ("twilio", "T405", "`twilio` signs the URL that it calls: `public_url` is required"),
        ('aws-sns { topic "orders" }', "T406", "not the ARN of a topic"),
    ],
)
def test_an_option_that_the_daemon_refuses_is_one_error_at_its_place(provider: str, code: str, said: str) -> None:
    keyless = "aws-sns" in provider or "jwks_url" in provider
    secret = "" if keyless else 'secret "secret://env/S"'
    text = f'webhook w {{\n    path "/w"\n    provider {provider}\n    {secret}\n}}\n'
    source = Source("w.symbiont", text)
    found = analyse([source], Catalog.installed()).diagnostics
    assert [(each.code, said in each.message) for each in found] == [(code, True)]
    assert source.position(found[0].span.start).line == 3
    assert found[0].hint


def test_an_unverified_webhook_needs_no_address() -> None:
    text = 'webhook w { path "/w" provider twilio insecure_allow_unverified true }\n'
    assert [each.code for each in analyse([Source("w", text)], Catalog.installed()).diagnostics] == ["P502"]
