from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from pydantic import ValidationError

from runtime.memory.item import Item, chunk_hash, delivery_key, delivery_uri, memory_id
from tests.runtime.memory.texts import fact, item, texts


def test_the_chunk_hash_is_the_same_for_texts_that_differ_in_spacing_or_in_unicode_form_only() -> None:
    assert chunk_hash("caf\u00e9  au\r\n lait ") == chunk_hash(" cafe\u0301 au lait")
    assert chunk_hash("a b") != chunk_hash("ab")


def test_the_chunk_hash_is_the_sha256_of_the_normalised_text() -> None:
    assert chunk_hash(" hello\n") == "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


def test_an_item_whose_hash_is_not_that_of_its_text_is_refused() -> None:
    with pytest.raises(ValidationError, match="chunk_hash"):
        fact("one", chunk_hash=chunk_hash("two"))


@given(texts)
def test_an_item_survives_json(text: str) -> None:
    one = fact(text, tags=("b", "a", "b"), source_uri=text)
    assert Item.model_validate_json(one.model_dump_json()) == one
    assert one.tags == ("a", "b")


def test_times_are_kept_in_utc_and_need_an_offset() -> None:
    berlin = timezone(timedelta(hours=1))
    assert item(timestamp=datetime(2026, 2, 14, 0, 30, tzinfo=berlin)).timestamp == datetime(
        2026, 2, 13, 23, 30, tzinfo=UTC
    )
    with pytest.raises(ValidationError, match="timestamp"):
        item(timestamp=datetime(2026, 2, 14))  # noqa: DTZ001


def test_a_lone_surrogate_as_json_allows_it_becomes_a_replacement_character() -> None:
    assert fact("a\ud800b", tags=("\udfff",)).text == "a\ufffdb"


def test_an_id_says_where_and_what_an_item_is() -> None:
    places = [
        ("a", "Facts", "h", 0),
        ("b", "Facts", "h", 0),
        ("a", "Procedures", "h", 0),
        ("a", "Facts", "i", 0),
        ("a", "Facts", "h", 1),
    ]
    assert len({memory_id(*place) for place in places}) == len(places)


def test_a_delivery_and_its_parts_are_different_keys_and_nothing_else_is_one() -> None:
    keys = {delivery_uri("a"), delivery_uri("a", "1"), delivery_uri("a#1"), delivery_uri("a/1"), delivery_uri("é")}
    assert len(keys) == 5
    assert all(delivery_key(key) == key and key.isascii() for key in keys)
    assert delivery_key("https://example.com/") is None
