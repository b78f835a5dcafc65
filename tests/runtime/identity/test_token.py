"""The text of a token: long enough, with a checksum that detects typing errors."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from runtime.identity.token import is_token, make_token, token_hash
from tests.cases import each_case


def test_a_token_says_what_it_is_and_has_256_random_bits() -> None:
    tokens = {make_token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert all(is_token(token) and token.startswith("symbi_") and len(token) == 55 for token in tokens)
    assert all(set(token) <= set(string.ascii_letters + string.digits + "_") for token in tokens)


@given(place=st.integers(6, 54), letter=st.sampled_from(string.ascii_letters + string.digits))
def test_one_wrong_letter_is_no_token(place: int, letter: str) -> None:
    token = make_token()
    typed = token[:place] + letter + token[place + 1 :]
    assert is_token(typed) == (typed == token)


@each_case(
    "change",
    [
        lambda token: token + " ",
        lambda token: token + "\n",
        lambda token: token[:-1],
        lambda token: token.upper(),
        lambda token: token.removeprefix("symbi_"),
        lambda token: token.replace("symbi_", "ghp_"),
        lambda token: "",
        lambda token: "symbi_" + "٠" * 49,
    ],
)
def test_anything_else_is_no_token(change: object) -> None:
    assert callable(change)
    assert not is_token(change(make_token()))


def test_the_hash_is_of_the_whole_token() -> None:
    token = make_token()
    assert len(token_hash(token)) == 32
    assert token_hash(token) != token_hash(token[:-1])
