from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.memory.redact import PATTERNS, redact

# Put together here so that no scanner takes the test for a leak.
_PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF0qJDr0mxy8GhUq8\n" * 3
    + "-----END RSA PRIVATE KEY-----"
)
_JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
_GITHUB = "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4a"
_OPENAI = "sk" + "-proj-abcdEFGH1234abcdEFGH1234abcdEFGH1234"

SECRETS = [
    ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=[REDACTED:key]"),
    ("export GITHUB_TOKEN=abc123; make", "export GITHUB_TOKEN=[REDACTED:token]; make"),
    ('DB_PASSWORD="two words"', 'DB_PASSWORD="[REDACTED:password]"'),
    ("SLACK_SIGNING_SECRET = 8f742231b10e", "SLACK_SIGNING_SECRET = [REDACTED:secret]"),
    ("db_password=hunter2", "db_password=[REDACTED:password]"),
    ("password=hunter2&user=bob", "password=[REDACTED:password]&user=bob"),
    ("password=a,b", "password=[REDACTED:password]"),
    ("password: hunter2", "password: [REDACTED:password]"),
    ("api_key=abc", "api_key=[REDACTED:key]"),
    ("apiKey: 'abc def'", "apiKey: '[REDACTED:key]'"),
    ("?token=abc", "?token=[REDACTED:token]"),
    ('{"client_secret": "s3cr\\"et", "a": 1}', '{"client_secret": "[REDACTED:secret]", "a": 1}'),
    ('"password": "unclosed', '"password": "[REDACTED:password]'),
    ("Authorization: Bearer abc.def", "Authorization: Bearer [REDACTED:authorization]"),
    ("authorization: Basic dXNlcjpwYXNz1=", "authorization: Basic [REDACTED:authorization]"),
    ("curl -H 'Authorization: token 0123abcd'", "curl -H 'Authorization: token [REDACTED:authorization]'"),
    ("uses Bearer abcdefghij0123456789 now", "uses Bearer [REDACTED:bearer] now"),
    ("id AKIAIOSFODNN7EXAMPLE.", "id [REDACTED:aws_access_key]."),
    (f"with {_GITHUB}!", "with [REDACTED:github_token]!"),
    ("github_pat" + "_11ABCDEFG0abcdefghijkl_mnop", "[REDACTED:github_token]"),
    ("xoxb" + "-123456789012-abcdefABCDEF", "[REDACTED:slack_token]"),
    (
        "https://hooks.slack.com/services/T00000000/B00000000/XXXX1234",
        "https://hooks.slack.com/services/[REDACTED:slack_webhook]",
    ),
    ("sk" + "_live_4eC39HqLyjWDarjtT1zdp7dc", "[REDACTED:stripe_key]"),
    ("whsec" + "_5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH", "[REDACTED:webhook_secret]"),
    (f"key {_OPENAI}", "key [REDACTED:openai_key]"),
    ("sk" + "-ant-api03-abcdefghijklmnopqrstuvwxyz", "[REDACTED:anthropic_key]"),
    ("AIza" + "SyA1234567890abcdefghijklmnopqrstuvw", "[REDACTED:google_api_key]"),
    ("glpat" + "-abcdefghij0123456789", "[REDACTED:gitlab_token]"),
    ("npm" + "_abcdefghijklmnopqrstuvwxyz0123456789", "[REDACTED:npm_token]"),
    ("pypi" + "-AgEIcHlwaS5vcmcCJGFiY2RlZmdoLTEyMzQtNTY3OC05MGFiLWNkZWYxMjM0NTY3OA", "[REDACTED:pypi_token]"),
    ("SG" + ".abcdefghijklmnopqrstuv.abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG", "[REDACTED:sendgrid_key]"),
    (f"cookie {_JWT};", "cookie [REDACTED:jwt];"),
    (f"a\n{_PEM}\nb", "a\n[REDACTED:private_key]\nb"),
    (_PEM.replace("\n", "\\n"), "[REDACTED:private_key]"),
    (_PEM.rpartition("\n")[0], "[REDACTED:private_key]"),
    ("postgresql://bob:hunter2@db.example.com/app", "postgresql://bob:[REDACTED:url_password]@db.example.com/app"),
    ("redis://:hunter2@cache:6379", "redis://:[REDACTED:url_password]@cache:6379"),
    (f"Ünï {_GITHUB} çödé 日本", "Ünï [REDACTED:github_token] çödé 日本"),
    (f"STRIPE_API_KEY={_GITHUB}", "STRIPE_API_KEY=[REDACTED:github_token]"),
    ("password=AKIAIOSFODNN7EXAMPLE/and-more", "password=[REDACTED:password]"),
]

LOOK_ALIKES = [
    "max_tokens=512 and next_token=abc",
    "the password is required",
    "password: required",
    "Password:\n- at least 12 characters",
    "if token == expected: pass",
    "API_KEY=${API_KEY} GITHUB_TOKEN=$GITHUB_TOKEN",
    'secret   "secret://env/GITHUB_SECRET"',
    "api_key=<your key> token=*** password=null",
    "PUBLIC_KEY=abc primary_key=id sort_key=created_at",
    "keyboard=qwerty monkey=1 tokenizer=bpe secretary=Ann",
    "a bearer of bad news",
    "Authorization: required",
    "scikit: sk-learn-style-names-are-fine sk-estimator",
    "ghp_short xoxb- whsec_ sk_live_ AKIA eyJ",
    "AKIAIOSFODNN7EXAMPLETOOLONG is no key id",
    "pk_live_4eC39HqLyjWDarjtT1zdp7dc is publishable",
    "https://example.com:8080/path@2x.png",
    "https://example.com/a:b@c",
    "mailto:bob@example.com",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
    "a file that starts with -----BEGIN RSA PRIVATE KEY----- is one, and more",
    "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    "550e8400-e29b-41d4-a716-446655440000",
    "symbiont:delivery/0199d1f0-0000-7000-8000-000000000000",
    "[REDACTED:password] password=[REDACTED:password]",
]


@pytest.mark.parametrize(("text", "clean"), SECRETS)
def test_a_secret_is_replaced_and_nothing_round_it_is(text: str, clean: str) -> None:
    assert redact(text) == clean


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_every_pattern_of_the_table_has_a_secret_here_that_it_finds() -> None:
    found = {pattern.type for pattern in PATTERNS if any(f"[REDACTED:{pattern.type}]" in clean for _, clean in SECRETS)}
    assert found == {pattern.type for pattern in PATTERNS}


_PIECES = [
    *(text for text, _ in SECRETS),
    *LOOK_ALIKES,
    " ",
    "\n",
    "=",
    ":",
    '"',
    "'",
    "[",
    "]",
    "[REDACTED:",
    "token",
    "x",
    "é",
    "_",
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(_PIECES), max_size=6).map("".join) | st.text())
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    clean = redact(text)
    assert redact(clean) == clean


@pytest.mark.parametrize(
    "piece",
    [
        "eyJ",
        "password=",
        'token="',
        "-----BEGIN PRIVATE KEY-----",
        "http://a:",
        "A_",
        "sk-",
        "AKIA",
        "eyJaaaaaaaa.",
        "SG.",
        "a-",
        '"',
        "-----BEGIN PRIVATE KEY-----\nA: b\n",
        "_KEY=",
        "authorization:",
        "hooks.slack.com/services/",
        "ghp_",
        "password='\\",
        "[REDACTED:",
    ],
)
def test_a_megabyte_made_to_be_slow_is_redacted_all_the_same(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    assert "hunter2" not in redact(f"{text} db_password=hunter2")
