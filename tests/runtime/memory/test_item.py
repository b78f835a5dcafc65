from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from pydantic import ValidationError

from runtime.memory.item import (
    Item,
    Provenance,
    Twins,
    chunk_hash,
    delivery_uri,
    idempotency_key,
    memory_id,
    normalised,
    rfc3339,
)
from tests.runtime.memory.texts import fact, item, items, texts


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


@given(items())
def test_any_item_is_the_same_after_it_was_json(one: Item) -> None:
    exported = json.loads(json.dumps(one.model_dump(mode="json")))
    assert Item.model_validate(exported) == one
    assert Item.model_validate_json(one.model_dump_json()) == one


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("2026-02-14T00:30:00+01:00", "2026-02-13T23:30:00Z"),
        ("2026-02-14T10:30:07.25Z", "2026-02-14T10:30:07.250000Z"),
        ("2026-02-14T10:30:07.000001Z", "2026-02-14T10:30:07.000001Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
        ("1969-12-31T23:59:59-12:00", "1970-01-01T11:59:59Z"),
    ],
)
def test_a_time_in_json_is_rfc_3339_in_utc(at: str, said: str) -> None:
    one = Item.model_validate(fact().model_dump(mode="json") | {"timestamp": at})
    assert one.model_dump(mode="json")["timestamp"] == said
    assert rfc3339(one.timestamp) == said


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_a_time_that_utc_does_not_have_is_refused(at: str) -> None:
    with pytest.raises(ValidationError, match="year"):
        item(timestamp=at)


def test_an_item_cannot_be_changed() -> None:
    one = fact(provenance=Provenance(author="ann"))
    for change in ({"text": "other"}, {"provenance": Provenance()}):
        for name, value in change.items():
            with pytest.raises(ValidationError, match="frozen"):
                setattr(one, name, value)
    with pytest.raises(ValidationError, match="frozen"):
        one.provenance.author = "bob"  # type: ignore[misc]
    assert hash(one) == hash(fact(provenance=Provenance(author="ann")))


@given(texts)
def test_the_hash_is_of_the_text_as_it_is_normalised(text: str) -> None:
    assert chunk_hash(text) == hashlib.sha256(normalised(text).encode()).hexdigest() == fact(text).chunk_hash
    assert normalised(normalised(text)) == normalised(text)
    assert chunk_hash(f" {text}\r\n") == chunk_hash(text)


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan"), float("inf")])
def test_confidence_is_from_nothing_to_one(confidence: float) -> None:
    with pytest.raises(ValidationError, match="confidence"):
        Provenance(confidence=confidence)


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
        ("a", "Facts", 0, Twins("h")),
        ("b", "Facts", 0, Twins("h")),
        ("a", "Procedures", 0, Twins("h")),
        ("a", "Facts", 0, Twins("i")),
        ("a", "Facts", 1, Twins("h")),
        ("a", "Facts", 0, Twins("h", "ada")),
        ("a", "Facts", 0, Twins("h", subject="ada")),
        ("a", "Facts", 0, Twins("h", replaces="ada")),
        ("a", "Facts", 0, Twins("h", "ada", "ada")),
    ]
    assert len({memory_id(*place) for place in places}) == len(places)


def test_a_delivery_and_its_parts_are_different_keys_and_nothing_else_is_one() -> None:
    keys = {delivery_uri("a"), delivery_uri("a", "1"), delivery_uri("a#1"), delivery_uri("a/1"), delivery_uri("é")}
    assert len(keys) == 5
    assert all(idempotency_key(key) == key and key.isascii() for key in keys)
    assert idempotency_key("https://example.com/") is None


def test_a_plain_text_is_normalised_as_any_other() -> None:
    for text in ("", " ", "one two", " one two  ", "one  two", "one\ttwo", "one\x1ftwo", "one\ntwo ", "one\x7f two"):
        assert normalised(text) == " ".join(text.split())
