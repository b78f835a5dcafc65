"""Sealed values open only with their key, in their place, and unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.crypto import MasterKey, Unsealable

KEY = MasterKey(bytes(range(32)))
PLACE = {"user_id": "owner", "table": "bodies", "column": "body", "row": "1"}


@given(st.binary(max_size=500))
def test_what_is_sealed_opens_and_is_never_the_same_twice(plaintext: bytes) -> None:
    sealed = KEY.seal(plaintext, **PLACE)
    assert KEY.unseal(sealed, **PLACE) == plaintext
    assert sealed != KEY.seal(plaintext, **PLACE)
    assert len(plaintext) < 4 or sealed.find(plaintext) < 0


@pytest.mark.parametrize("part", list(PLACE))
def test_what_was_moved_does_not_open(part: str) -> None:
    sealed = KEY.seal(b"secret", **PLACE)
    with pytest.raises(Unsealable, match="changed or moved"):
        KEY.unseal(sealed, **{**PLACE, part: "other"})


@given(st.integers(0, 32 + 16), st.integers(1, 255))
def test_what_was_changed_does_not_open(place: int, difference: int) -> None:
    sealed = bytearray(KEY.seal(b"0123456789abcdef", **PLACE))
    sealed[place] ^= difference
    with pytest.raises(Unsealable):
        KEY.unseal(bytes(sealed), **PLACE)


def test_another_key_is_told_from_a_changed_text() -> None:
    with pytest.raises(Unsealable, match=f"not {MasterKey(bytes(32)).key_id.hex()}"):
        MasterKey(bytes(32)).unseal(KEY.seal(b"secret", **PLACE), **PLACE)


def test_a_key_has_32_bytes_and_is_not_in_its_repr() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        MasterKey(b"short")
    assert bytes(range(32)).hex() not in repr(KEY)
