"""Keys are wrapped for their holder alone, derived keys differ, and no key is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.crypto import MasterKey, Unsealable, associated_data, derive_key, new_key

KEY = MasterKey(bytes(range(32)))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
PLACES = st.tuples(TEXTS, st.sampled_from(["bodies.body", "items.content"]), TEXTS, st.integers(0, 20))


def test_a_wrapped_key_opens_as_the_key_of_its_holder_only() -> None:
    key = new_key()
    wrapped = KEY.wrap(key, "ada", b"1234")
    assert KEY.unwrap(wrapped, "ada", b"1234") == key
    for holder, key_id, master in (
        ("bob", b"1234", KEY),
        ("ada", b"1235", KEY),
        ("ada", b"1234", MasterKey(bytes(32))),
    ):
        with pytest.raises(Unsealable, match="cannot be unwrapped"):
            master.unwrap(wrapped, holder, key_id)


@given(st.integers(0, 39), st.integers(1, 255))
def test_a_wrapped_key_that_was_changed_does_not_open(at: int, difference: int) -> None:
    wrapped = bytearray(KEY.wrap(bytes(32), "ada", b"1234"))
    wrapped[at] ^= difference
    with pytest.raises(Unsealable):
        KEY.unwrap(bytes(wrapped), "ada", b"1234")


@given(PLACES, PLACES)
def test_two_places_are_never_authenticated_as_the_same(
    one: tuple[str, str, str, int], other: tuple[str, str, str, int]
) -> None:
    assert (associated_data(*one) == associated_data(*other)) == (one == other)


def test_keys_of_two_purposes_differ() -> None:
    assert len({derive_key(bytes(32), "seal", name) for name in ("bodies.body", "items.content")} | {bytes(32)}) == 3


def test_a_key_has_32_bytes_and_is_not_in_its_repr() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        MasterKey(b"short")
    assert bytes(range(32)).hex() not in repr(KEY)
