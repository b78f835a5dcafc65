"""TABLE of readers: turns a file into text, by its kind."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from dslc.blocks.values.quantity import format_size
from runtime import extras
from runtime.documents.document import Document, Unreadable
from runtime.documents.encoding import MARKS
from runtime.extension_table import table_of

MIB = 1024 * 1024
_HEAD_BYTES = 1024
"""Number of bytes at the beginning of a file that determine its kind."""


@dataclass(frozen=True)
class Reader:
    """One row. `function`: `module:name`, loaded when a file is read. `largest`: bytes of a file. `needs`: the
    packages of the extra `documents` that it uses."""

    name: str
    function: str
    endings: tuple[str, ...]
    largest: int
    needs: tuple[str, ...] = ()
    begins: tuple[bytes, ...] = ()
    """The beginnings of files of this kind, whatever their name, in lower case, possibly after white space."""

    @property
    def missing(self) -> bool:
        """True if the extra is not installed."""
        return any(find_spec(package) is None for package in self.needs)

    def is_begun_by(self, head: bytes) -> bool:
        """True if the beginning of a file shows that it is of this kind."""
        return bool(self.begins) and head.lstrip().lower().startswith(self.begins)

    def read(self, data: bytes, encoding: str | None = None) -> Document:
        """Return the text of these bytes. Raises Unreadable."""
        if self.missing:
            raise Unreadable(f"reading {self.name.upper()} requires further packages", hint=extras.install("documents"))
        if len(data) > self.largest:
            raise too_large(self)
        module, _, name = self.function.partition(":")
        found = getattr(import_module(module), name)(data, encoding)
        assert isinstance(found, Document)
        return replace(found, kind=self.name)


READERS = table_of(
    "reader of documents",
    [
        Reader("text", "runtime.documents.plain:read_text", (".txt", ".text", ".rst", ".adoc", ".org"), 16 * MIB),
        Reader("markdown", "runtime.documents.plain:read_markdown", (".md", ".markdown", ".mdown", ".mkd"), 16 * MIB),
        Reader(
            "html",
            "runtime.documents.html:read_html",
            (".html", ".htm", ".xhtml"),
            8 * MIB,
            needs=("bs4", "markdownify"),
            begins=(b"<!doctype html", b"<html"),
        ),
        Reader("pdf", "runtime.documents.pdf:read_pdf", (".pdf",), 128 * MIB, needs=("pypdf",), begins=(b"%pdf-",)),
    ],
)

ENDINGS = {ending: reader for reader in READERS.values() for ending in reader.endings}
"""The reader of each ending, in lower case."""


def reader_of(head: bytes, name: str | None = None) -> Reader:
    """Return the reader for a file with this beginning and name. The beginning decides before the name, except for
    source code and the like, which may contain HTML; unknown kinds are read as text."""
    named = ENDINGS.get(Path(name).suffix.lower()) if name is not None else None
    plain = next((head[len(mark) :] for mark, _ in MARKS if head.startswith(mark)), head)
    for reader in READERS.values():
        if reader.is_begun_by(plain) and (named is None or reader.name == "pdf"):
            return reader
    return named or READERS["text"]


def read(source: Path | bytes, encoding: str | None = None, *, name: str | None = None) -> Document:
    """Return the text of a file or of its content. `name`: of the content. Raises Unreadable."""
    if isinstance(source, bytes):
        return reader_of(source[:_HEAD_BYTES], name).read(source, encoding)
    try:
        return _read_file(source, encoding)
    except OSError as error:
        raise Unreadable((error.strerror or str(error)).lower()) from None


def _read_file(path: Path, encoding: str | None) -> Document:
    # Opening a pipe would block until a writer opens it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - it is open
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("it is not a file", hint="pipe its output into `symbi push -`")
        head = file.read(_HEAD_BYTES)
        reader = reader_of(head, path.name)
        if status.st_size > reader.largest:
            raise too_large(reader)
        return reader.read(head + file.read(reader.largest + 1 - len(head)), encoding)


def too_large(reader: Reader) -> Unreadable:
    """Return the message about a file that is too large."""
    return Unreadable(f"it is larger than {format_size(reader.largest)}", hint="split it")
