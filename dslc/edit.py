"""Edits of a program's text: bytes in, bytes out, and what is not edited stays byte for byte."""

from __future__ import annotations

from collections.abc import Iterable

from dslc.diagnostic import Edit


def apply(data: bytes, edits: Iterable[Edit]) -> bytes:
    """`data` after `edits`, whose spans are bytes of `data` and whose order does not matter.

    Edits may touch. Of several insertions at one place the first given comes first, and all of them come before
    what replaces the bytes that follow. Raises ValueError when two edits overlap or one lies outside.
    """
    pieces, at = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.span.start, edit.span.end)):
        if not 0 <= edit.span.start <= edit.span.end <= len(data):
            raise ValueError(f"an edit lies outside: {edit.span} of {len(data)} bytes")
        if edit.span.start < at:
            raise ValueError(f"two edits overlap at byte {edit.span.start}")
        pieces += [data[at : edit.span.start], edit.text.encode()]
        at = edit.span.end
    return b"".join([*pieces, data[at:]])
