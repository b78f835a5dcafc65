"""Compressed bodies within bounds, and forms with files as curl, browsers and libraries write them."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import aiohttp
import pytest

from runtime.webhooks.request.content import decompress, most_content
from runtime.webhooks.request.payload import Payload, json_or_form
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
    assert decompress(body, coding, len(TEXT)) == TEXT
    with pytest.raises(RefusedRequest, match="body_too_large"):
        decompress(body, coding, len(TEXT) - 1)
    for wrong in (body[:-1], body[:4], b"", body + b"x", body + body, TEXT):
        with pytest.raises(RefusedRequest, match="malformed_encoding"):
            decompress(wrong, coding, 10 * len(TEXT))


def test_a_content_is_at_most_a_hundred_times_its_body() -> None:
    assert most_content(1_000_000, 25_000_000) == 25_000_000
    assert most_content(10_000, 25_000_000) == 1_000_000
    assert most_content(10, 25_000_000) == 262_144
    assert most_content(10, 1_000) == 1_000


def test_a_body_that_would_fill_the_memory_takes_none_beyond_its_bound() -> None:
    bomb = gzip.compress(bytes(32 * 1024 * 1024))
    tracemalloc.start()
    with pytest.raises(RefusedRequest, match="body_too_large"):
        decompress(bomb, "gzip", 1024 * 1024)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 1024 * 1024


DECODER = json_or_form("payload", plain=True)
TYPE = "multipart/form-data; boundary=b"


def part(head: str, data: bytes = b"x") -> bytes:
    return f"--b\r\n{head}\r\n\r\n".encode() + data + b"\r\n"


def named(name: str, data: bytes = b"x", more: str = "") -> bytes:
    return part(f'Content-Disposition: form-data; name="{name}"{more}', data)


def value(body: bytes, content_type: str = TYPE) -> object:
    return Payload(DECODER, body, content_type).value()


def test_fields_are_texts_files_are_described_and_json_is_its_value() -> None:
    body = (
        named("title", "grün".encode())
        + part('Content-Disposition: form-data; name="payload"\r\nContent-Type: application/json', b'{"event": "play"}')
        + part(
            'content-disposition: form-data; name="thumb"; filename="a.jpg"\r\ncontent-type: image/jpeg', b"\xff\r\n-"
        )
        + named("tag", b"1")
        + named("tag", b"2")
        + named("tag", b"3")
        + named("list", b"", '; filename=""')
        + b"--b--\r\n"
    )
    assert value(body) == {
        "title": "grün",
        "payload": {"event": "play"},
        "thumb": {"filename": "a.jpg", "content_type": "image/jpeg", "size": 4},
        "tag": ["1", "2", "3"],
        "list": {"filename": "", "content_type": "text/plain", "size": 0},
    }


async def test_what_a_library_writes_is_read() -> None:
    form = aiohttp.FormData(quote_fields=False)
    form.add_field('a "quoted" name', "text")
    form.add_field("file", b"\r\n--x\r\n", filename="b.bin", content_type="application/octet-stream")
    written = form()
    body = await written.as_bytes()
    assert value(body, written.headers["Content-Type"]) == {
        'a "quoted" name': "text",
        "file": {"filename": "b.bin", "content_type": "application/octet-stream", "size": 7},
    }


def test_the_boundary_may_be_quoted_and_text_may_surround_the_form() -> None:
    body = b"preamble\r\n" + named("a") + b"--b--\r\nepilogue --b"
    for content_type in ('Multipart/Form-Data; Boundary="b"', "multipart/form-data; charset=utf-8; boundary=b; x=y"):
        assert value(body, content_type) == {"a": "x"}


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (named("a") + b"--b--", "multipart/form-data"),
        (named("a") + b"--b--", "multipart/form-data; boundary="),
        (named("a"), TYPE),
        (b"", TYPE),
        (b"{}", TYPE),
        (named("a").replace(b"\r\n", b"\n") + b"--b--", TYPE),
        (b"--b\r\n\r\nx\r\n--b--", TYPE),
        (part("Content-Disposition: attachment; name=a") + b"--b--", TYPE),
        (part("Content-Disposition: form-data; filename=a") + b"--b--", TYPE),
        (part('Content-Disposition: form-data; name="a"; name="b"') + b"--b--", TYPE),
        (part('Content-Disposition: form-data; name="a"\r\nContent-Disposition: form-data; name="b"') + b"--b--", TYPE),
        (part(f'Content-Disposition: form-data; name="{"a" * 5000}"') + b"--b--", TYPE),
        (named("a") * 201 + b"--b--", TYPE),
        (named("a") + b"--bc--" + b"\r\n--b--", TYPE),
        (named("a") + b"--b--\r\n" + named("b") + b"--b--", TYPE),
    ],
)
def test_anything_else_is_no_form(body: bytes, content_type: str) -> None:
    with pytest.raises(RefusedRequest, match="invalid_form"):
        value(body, content_type)


def test_the_largest_form_is_read() -> None:
    fields = value(b"".join(named(f"n{number}") for number in range(200)) + b"--b--")
    assert isinstance(fields, dict)
    assert len(fields) == 200


def test_json_that_could_be_read_in_two_ways_decides_nothing() -> None:
    body = (
        part('Content-Disposition: form-data; name="p"\r\nContent-Type: application/json', b'{"a":1,"a":2}') + b"--b--"
    )
    with pytest.raises(RefusedRequest, match="duplicate_key"):
        value(body)
