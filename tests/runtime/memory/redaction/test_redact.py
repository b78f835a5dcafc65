from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.memory.redaction.redact import PATTERNS, redact
from tests.cases import each_case
from tests.lanes import examples

# Concatenated, so that no secret scanner reports the test.
_PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF0qJDr0mxy8GhUq8\n" * 3
    + "-----END RSA PRIVATE KEY-----"
)
_JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
_GITHUB = "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4a"
_OPENAI = "sk" + "-proj-abcdEFGH1234abcdEFGH1234abcdEFGH1234"

SECRETS = [
    ("symbi" + "_" + "0aB" * 16 + "z", "[REDACTED:symbi_token]"),
    ("Use Bearer tok_1234567890", "Use Bearer [REDACTED:bearer]"),
    (
        "Cookie: lang=de; sid=0123456789abcdef; theme=dark; _t=8hZ2kLq0xW",
        "Cookie: lang=de; sid=[REDACTED:session_cookie]; theme=dark; _t=[REDACTED:session_cookie]",
    ),
    (
        "Set-Cookie: auth=f00ba47e12; Path=/; Max-Age=31536000; HttpOnly",
        "Set-Cookie: auth=[REDACTED:session_cookie]; Path=/; Max-Age=31536000; HttpOnly",
    ),
    ("\n".join("> " + line for line in _PEM.splitlines()), "> [REDACTED:private_key]"),
    ("    client-key-data: " + "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt", "    client-key-data: [REDACTED:private_key]"),
    ('{"auths":{"r":{"auth": "dXNlcjpwYXNzd29yZA=="}}}', '{"auths":{"r":{"auth": "[REDACTED:authorization]"}}}'),
    (
        "//registry.npmjs.org/:_authToken=0f2cd5e8-8d5e-4bb6-9ad5-1d1c2b9c8a7e",
        "//registry.npmjs.org/:_authToken=[REDACTED:npm_token]",
    ),
    ("db.example.org:5432:app:alice:hunter2x", "db.example.org:5432:app:alice:[REDACTED:password]"),
    ("postgres://u:a/b@h/db", "postgres://u:[REDACTED:url_password]@h/db"),
    ("API_KEY_2=abcdef12", "API_KEY_2=[REDACTED:key]"),
    ("API_KEY_PROD=abcdef12", "API_KEY_PROD=[REDACTED:key]"),
    ("DB_PASSWORD_PROD=hunter2x", "DB_PASSWORD_PROD=[REDACTED:password]"),
    ("PASSWORD1=hunter2x", "PASSWORD1=[REDACTED:password]"),
    ("SECRET_KEY_BASE=" + "0f" * 32, "SECRET_KEY_BASE=[REDACTED:key]"),
    ("password=horse battery staple", "password=[REDACTED:password]"),
    ("passphrase: correct horse battery staple", "passphrase: [REDACTED:password]"),
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
    (f"/srv/notes_{_GITHUB}/a.txt", "/srv/notes_[REDACTED:github_token]/a.txt"),
    (
        "_AKIAIOSFODNN7EXAMPLE_ and __npm" + "_abcdefghijklmnopqrstuvwxyz0123456789__",
        "_[REDACTED:aws_access_key]_ and __[REDACTED:npm_token]__",
    ),
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
    "Bearer authentication, as in Bearer opensesame",
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


@each_case(("text", "clean"), SECRETS)
def test_a_secret_is_replaced_and_nothing_round_it_is(text: str, clean: str) -> None:
    assert redact(text) == clean


DISGUISED = [
    ("ｐａｓｓｗｏｒｄ: hunter2x", "password: [REDACTED:password]"),
    ("パスワード password：hunter2x です", "パスワード password:[REDACTED:password] です"),
    ("DB_PASSWORD＝hunter2x", "DB_PASSWORD=[REDACTED:password]"),
    ("\u0440\u0430ssword: hunter2x", "password: [REDACTED:password]"),
    ("пароль p\u0430ssw\u043erd=hunter2x", "пароль password=[REDACTED:password]"),
    (f"{_GITHUB[:9]}\u200b{_GITHUB[9:]}", "[REDACTED:github_token]"),
    ("pass\u200bword\u2060: hunter2x", "password: [REDACTED:password]"),
    ("👨\u200d👩\u200d👧 api\ufeff_key=abcdef12", "👨\u200d👩\u200d👧 api_key=[REDACTED:key]"),
]


@each_case(("text", "clean"), DISGUISED)
def test_a_secret_that_only_looks_different_is_replaced_too(text: str, clean: str) -> None:
    assert redact(text) == clean
    assert redact(clean) == clean


@pytest.mark.parametrize(
    "text", ["ＡＢＣ：１２３", "Wi-Fi и Xром, сор", "a\u200bb", "👨\u200d👩\u200d👧", "\ufeffx", "ﬁ é ß"]
)
def test_a_text_without_a_secret_stays_to_the_letter(text: str) -> None:
    assert redact(text) == text


@each_case("text", LOOK_ALIKES)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redact(text) == text


def corpus(name: str) -> list[str]:
    """Return the texts of a data file, each with its marks; the first line of the file explains the format."""
    lines = (Path(__file__).parent / name).read_text().splitlines()
    return [line.replace("⏎", "\n").replace("·", "") for line in lines if line and not line.startswith("## ")]


_MARKED = re.compile(r"⟦(\w+)\|([^⟧]*)⟧")
MARKED = corpus("secrets.txt")
STAY = corpus("look_alikes.txt")
TEXTS = [_MARKED.sub(r"\2", text) for text in MARKED]


def test_the_corpus_is_large_enough_to_say_something() -> None:
    assert len(_MARKED.findall("".join(MARKED))) >= 150
    assert len(STAY) >= 150


@each_case("marked", MARKED)
def test_every_secret_of_the_corpus_goes_and_nothing_round_it_does(marked: str) -> None:
    assert redact(_MARKED.sub(r"\2", marked)) == _MARKED.sub(r"[REDACTED:\1]", marked)


@each_case("text", STAY)
def test_every_look_alike_of_the_corpus_stays(text: str) -> None:
    assert redact(text) == text


def test_every_pattern_of_the_table_has_a_secret_in_the_corpus_that_it_finds() -> None:
    assert {kind for text in MARKED for kind, _ in _MARKED.findall(text)} == {pattern.type for pattern in PATTERNS}


@pytest.mark.parametrize("end", ["", ".", ",", "\n", " and so on", ")"])
def test_a_secret_goes_wherever_it_stands_in_a_line(end: str) -> None:
    for text in (_GITHUB, _OPENAI, _JWT, "postgres://a:hunter2@b", "https://bob:hunter2@example.com/"):
        for begin in ("", "(", '"', "see ", "- ", "| ", "日本"):
            clean = redact(f"{begin}{text}{end}")
            assert "REDACTED" in clean
            assert not any(secret in clean for secret in (_GITHUB, _OPENAI, _JWT, "hunter2"))


@settings(max_examples=examples(100))
@given(st.lists(st.sampled_from([*zip(TEXTS, MARKED, strict=True), *zip(STAY, STAY, strict=True)]), max_size=6))
def test_texts_below_one_another_are_redacted_as_each_alone(texts: list[tuple[str, str]]) -> None:
    together = redact("\n\n".join(text for text, _ in texts))
    secrets = [secret for _, marked in texts for _, secret in _MARKED.findall(marked) if len(secret) > 12]
    assert not [secret for secret in secrets if secret in together]


def test_a_text_whose_redaction_is_as_long_as_the_text_is_redacted() -> None:
    assert redact("x db_password=hunter2") == "x db_password=[REDACTED:password]"
    assert len("[REDACTED:password]") == len("12345678-abcdefghij")
    assert redact("password=12345678-abcdefghij") == "password=[REDACTED:password]"
    for length in range(1, 60):
        assert "s3cret" not in redact(f"password=s3cret{'x' * length}")


def test_redaction_is_the_same_in_every_process() -> None:
    program = "import sys; from runtime.memory.redaction.redact import redact; print(redact(sys.stdin.read()), end='')"
    text = "\n\n".join(TEXTS)
    clean = {
        subprocess.run(
            [sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True,
            cwd=Path(__file__).parents[4], env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert clean == {redact(text)}


_PIECES = [
    *(text for text, _ in SECRETS),
    *(text for text, _ in DISGUISED),
    "\u200b",
    "\u0430",
    "＝",
    *LOOK_ALIKES,
    *TEXTS,
    *STAY,
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


@settings(max_examples=examples(300))
@given(st.lists(st.sampled_from(_PIECES), max_size=6).map("".join) | st.text())
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    clean = redact(text)
    assert redact(clean) == clean


_SLOW = [
    "eyJ", "password=", "-----BEGIN PRIVATE KEY-----", "http://a:", "A_", "sk-", "AKIA", "SG.", "a-", '"',
    "-----BEGIN PRIVATE KEY-----\nA: b\n", "_KEY=", "authorization:", "hooks.slack.com/services/", "ghp_", "[REDACTED:",
    "curl -u ", "?sv=&sig=", "PuTTY-User-Key-File-2:\nPrivate-Lines: 1\n", "aToken", "x: str = ", "glpat-a_", "v1.0-",
    "<secret>", "--token ", "1/", "token=KEY_", "password=a.b", "password=(", "{",
    "a\u0430", "a\u200b", "x\u200b\u200b", "＝",
]  # fmt: skip
_OFTEN = ['token="', "password='\\", "password: a ", "password: {", "https://a:b@", "curl -u a:b ", "token=a;"]


@pytest.mark.parametrize(("piece", "size"), [*((one, 100_000) for one in _SLOW), *((one, 50_000) for one in _OFTEN)])
def test_a_long_text_made_to_be_slow_is_redacted_all_the_same(piece: str, size: int) -> None:
    text = piece * (size // len(piece))
    assert "hunter2" not in redact(f"{text} db_password=hunter2")
