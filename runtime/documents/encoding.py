"""Decodes bytes: in the encoding that the file declares, else UTF-8, else the encoding that a person names.

The encoding is not guessed: a wrong guess would be stored as garbled text.
"""

from __future__ import annotations

import codecs

from runtime.documents.document import Unreadable
from runtime.errors import UsageError

# Longer ones first: the mark of UTF-32 LE begins like that of UTF-16 LE.
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte-order marks, and the codec for the text after one (Unicode Standard, section 23.8)."""
_NO_FILES = frozenset({"idna", "punycode"})
"""Codecs for host names, which are not accepted. The second takes quadratic time."""


def find_encoding(name: str) -> str:
    """Return the codec with this `name`. Raises UsageError."""
    try:
        found = codecs.lookup(name)
        # Codecs such as base64 and rot13 do not decode bytes to text.
        b"a".decode(found.name)
    except (LookupError, ValueError, TypeError):
        raise UsageError(f"unknown encoding {name!r}", hint="for example latin-1, cp1252, shift_jis") from None
    return found.name


def decoded(data: bytes, encoding: str | None = None, declared: str | None = None) -> str:
    r"""Return the text of `data`, with lines ended by `\n`: by its byte-order mark, else in its declared encoding,
    else in UTF-8, else in `encoding`. Raises Unreadable for any other, and for binary data."""
    marked = next((codec for mark, codec in MARKS if data.startswith(mark)), None)
    if marked is not None:
        return _clean(_strict(data, marked))
    if b"\0" in data:
        raise Unreadable("it is binary, not text")
    if declared is not None:
        try:
            if codecs.lookup(declared).name not in _NO_FILES:
                return _clean(data.decode(declared))
        except (LookupError, ValueError):
            pass  # the declared encoding is wrong; the file may still be UTF-8
    try:
        return _clean(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        if encoding is not None:
            return _clean(_strict(data, encoding))
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(
            f"it is not UTF-8: byte {error.start + 1}, on line {line}, cannot be read",
            hint="name its encoding, such as --encoding latin-1",
        ) from None


def _strict(data: bytes, codec: str) -> str:
    try:
        return data.decode(codec)
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"it is not {codec.removesuffix('-sig').upper()}: byte {error.start + 1} cannot be read"
        ) from None


def _clean(text: str) -> str:
    if "\0" in text:
        raise Unreadable("it is binary, not text")
    return text.replace("\r\n", "\n").replace("\r", "\n")
