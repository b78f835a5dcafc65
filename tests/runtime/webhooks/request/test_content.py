"""Compressed bodies: what is read, and within which bounds."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from runtime.webhooks.request.content import decompressed, most_content
from runtime.webhooks.request.refusal import RefusedRequest

TEXT = b'{"action": "opened", "text": "' + b"some words " * 50 + b'"}'


def raw(data: bytes) -> bytes:
    writer = zlib.compressobj(wbits=-15)
    return writer.compress(data) + writer.flush()


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(TEXT)),
        ("x-gzip", gzip.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw(TEXT)),
    ],
    ids=["gzip", "x-gzip", "zlib", "raw"],
)
def test_each_coding_is_read_whole_or_not_at_all(coding: str, body: bytes) -> None:
    assert decompressed(body, coding, len(TEXT)) == TEXT
    with pytest.raises(RefusedRequest, match="body_too_large"):
        decompressed(body, coding, len(TEXT) - 1)
    for wrong in (body[:-1], body[:4], b"", body + b"x", body + body, TEXT):
        with pytest.raises(RefusedRequest, match="malformed_encoding"):
            decompressed(wrong, coding, 10 * len(TEXT))


def test_a_content_is_at_most_a_hundred_times_its_body() -> None:
    assert most_content(1_000_000, 25_000_000) == 25_000_000
    assert most_content(10_000, 25_000_000) == 1_000_000
    assert most_content(10, 25_000_000) == 262_144
    assert most_content(10, 1_000) == 1_000


def test_a_body_that_would_fill_the_memory_takes_none_beyond_its_bound() -> None:
    bomb = gzip.compress(bytes(32 * 1024 * 1024))
    tracemalloc.start()
    with pytest.raises(RefusedRequest, match="body_too_large"):
        decompressed(bomb, "gzip", 1024 * 1024)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 1024 * 1024
