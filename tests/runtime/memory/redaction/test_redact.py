from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.memory.redaction.redact import PATTERNS, redact
from tests.cases import each_case
from tests.lanes import examples

# Concatenated, so that no secret scanner reports the test.
_JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
_GITHUB = "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4a"
_OPENAI = "sk" + "-proj-abcdEFGH1234abcdEFGH1234abcdEFGH1234"

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


@each_case("text", ["ＡＢＣ：１２３", "Wi-Fi и Xром, сор", "a\u200bb", "👨\u200d👩\u200d👧", "\ufeffx", "ﬁ é ß"])
def test_a_text_without_a_secret_stays_to_the_letter(text: str) -> None:
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


@each_case("end", ["", ".", ",", "\n", " and so on", ")"])
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
    done = subprocess.run(
        [sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[4], env=os.environ | {"PYTHONHASHSEED": "1", "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.stdout == redact(text)


_PIECES = [
    *(text for text, _ in DISGUISED), *TEXTS, *STAY,
    "\u200b", "\u0430", "＝", " ", "\n", "=", ":", '"', "'", "[", "]", "[REDACTED:", "token", "x", "é", "_",
]  # fmt: skip


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


@each_case(("piece", "size"), [*((one, 40_000) for one in _SLOW), *((one, 20_000) for one in _OFTEN)])
def test_a_long_text_made_to_be_slow_is_redacted_all_the_same(piece: str, size: int) -> None:
    text = piece * (size // len(piece))
    assert "hunter2" not in redact(f"{text} db_password=hunter2")
