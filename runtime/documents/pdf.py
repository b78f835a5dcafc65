"""PDF (ISO 32000) as the text of its pages, read by pypdf, which is in the extra `documents`."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dslc.blocks.values.quantity import format_duration
from runtime.documents.document import Document, Unreadable

if TYPE_CHECKING:
    from pypdf import PdfReader

MOST_PAGES = 10_000
MOST_SECONDS = 60.0
"""CPU time for reading one file's pages: a small file can have any number of drawing operations."""


def read_pdf(data: bytes, _encoding: str | None) -> Document:
    """Return one passage for each page; an unreadable page is a problem, and the others are read.

    Raises Unreadable for a file that is broken, needs a password, or has no text (a scan).
    """
    with _without_warnings():
        began = time.thread_time()
        reader, count = _open_pdf(data)
        passages: list[str | None] = []
        problems: list[str] = []
        for number in range(count):
            if time.thread_time() - began > MOST_SECONDS:
                raise Unreadable(
                    f"its first {number:,} of {count:,} pages take more than {format_duration(MOST_SECONDS)} to read",
                    hint="split it",
                )
            try:
                passages.append(_clean(reader.pages[number].extract_text()))
            except Exception as error:
                # A damaged file fails in many ways, with any type of error.
                passages.append(None)
                problems.append(f"page {number + 1} cannot be read ({type(error).__name__})")
        title = _title(reader)
    if not any(passages):
        raise Unreadable(
            problems[0] if problems else f"there is no text in its {count:,} page{'s' * (count != 1)}",
            hint=None if problems else "if it is scanned, recognize its text (OCR) first",
        )
    return Document(tuple(passages), title, "page", problems=tuple(problems))


def _open_pdf(data: bytes) -> tuple[PdfReader, int]:
    """Return the file, unlocked, and its number of pages. Raises Unreadable."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    try:
        reader = PdfReader(io.BytesIO(data))
        # Most encrypted files only forbid printing or changes, and open with an empty password.
        locked = reader.is_encrypted and not reader.decrypt("")
        count = 0 if locked else len(reader.pages)
    except DependencyError as error:
        raise Unreadable(f"its encryption is not supported: {error}") from None
    except Exception as error:
        raise Unreadable(f"it is not a readable PDF ({type(error).__name__}: {_line(error)})") from None
    if locked:
        raise Unreadable("it is encrypted and asks for a password", hint="save it without one, then push that")
    if count > MOST_PAGES:
        raise Unreadable(f"it has {count:,} pages", hint=f"at most {MOST_PAGES:,}; split it")
    if not count:
        raise Unreadable("it has no pages")
    return reader, count


def _title(reader: PdfReader) -> str | None:
    try:
        about = reader.metadata
        return " ".join(str(about.title).split()) or None if about is not None and about.title else None
    except Exception:
        return None  # only used for messages


def _clean(text: str) -> str:
    """Remove characters that are never part of text: fonts without a map to Unicode produce NULs and lone
    surrogates."""
    text = text.replace("\0", "").replace("\u00ad\n", "").replace("\u00ad", "")
    return text.encode("utf-8", "replace").decode("utf-8").strip()


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or "no reason is given"


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence warnings about what pypdf repairs on its own."""
    log = logging.getLogger("pypdf")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)
