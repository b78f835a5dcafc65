"""The identity of summaries."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta, timezone

from runtime.memory.item import chunk_hash, is_summary_uri, summary_uri
from runtime.memory.redaction.redact import redact
from runtime.memory.summary.key import content_of, is_summary, key_tag, summary_key

START = datetime(2025, 1, 1, tzinfo=UTC)
END = datetime(2025, 1, 7, 23, 59, 59, tzinfo=UTC)
IDS = ["0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60", "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a61"]


def test_it_is_the_sha256_of_project_start_end_and_the_joined_ids() -> None:
    told = f"default2025-01-01T00:00:00Z2025-01-07T23:59:59Z{','.join(IDS)}"

    assert summary_key("default", START, END, IDS) == hashlib.sha256(told.encode()).hexdigest()


def test_the_same_moment_in_another_zone_is_the_same_key() -> None:
    there = timezone(timedelta(hours=5, minutes=30))

    assert summary_key("p", START.astimezone(there), END.astimezone(there), IDS) == summary_key("p", START, END, IDS)


def test_another_project_time_or_item_is_another_key() -> None:
    keys = {
        summary_key("p", START, END, IDS),
        summary_key("q", START, END, IDS),
        summary_key("p", START + timedelta(microseconds=1), END, IDS),
        summary_key("p", START, END + timedelta(seconds=1), IDS),
        summary_key("p", START, END, IDS[:1]),
        summary_key("p", START, END, IDS[::-1]),
    }

    assert len(keys) == 6


def test_other_texts_in_another_order_or_another_number_of_words_are_other_content() -> None:
    hashes = [chunk_hash("a"), chunk_hash("b")]
    made = [content_of(hashes, 250), content_of(hashes[::-1], 250), content_of(hashes[:1], 250), content_of(hashes, 6)]

    assert len(set(made)) == 4
    assert content_of(iter(hashes), 250) == made[0]


def test_no_key_is_taken_for_a_secret() -> None:
    keys = [summary_key(str(number), START, END, IDS) for number in range(200)]

    for key in keys:
        assert all(redact(told) == told for told in (key_tag(key), summary_uri(key), content_of([key], 250)))


def test_a_summary_is_known_by_its_tags_and_by_where_it_is_from() -> None:
    assert is_summary(("daily", "summary", "summary:ab"))
    assert not is_summary(("summary", "daily"))
    assert is_summary_uri(summary_uri("ab"))
    assert not is_summary_uri("https://example.org/")
    assert not is_summary_uri(None)
