"""The sources of a push: reads documents one after the other, in batches of the size of a request."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from runtime.daemon.process.root_owner import as_invoker
from runtime.documents import READERS, read
from runtime.documents.document import Document, Unreadable
from runtime.documents.folder import FolderSearch, FoundFile
from runtime.errors import UsageError

LARGEST_TEXT = 1_000_000
"""Maximum characters of one item, a little less than the tool accepts. A longer text is split at line ends."""
BATCH_TEXT = 256 * 1024
"""Characters after which a batch is sent. Answered batches are stored, whatever happens later."""
BATCH_ITEMS = 200
STANDARD_INPUT = "standard input"
_LARGEST_INPUT = max(reader.largest for reader in READERS.values())


class PushSource(NamedTuple):
    """A document that was read. `name`: for messages. `uri`: its source, None if unknown."""

    name: str
    uri: str | None
    document: Document

    def uri_of(self, number: int) -> str | None:
        """Return the URI of passage `number`, counted from 1."""
        return None if self.uri is None else f"{self.uri}{self.document.fragment(number)}"


@dataclass
class Batch:
    """The content of one request."""

    items: list[dict[str, Any]] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    """The name of the file of each item."""
    complete_files: int = 0
    """Number of files that are complete with this batch."""
    characters: int = 0
    replaces: bool = True
    last: PushSource | None = None
    """The document with numbered passages that ends this batch; it may have had more passages before."""

    @property
    def names(self) -> Sequence[str]:
        """The names of its files."""
        return self.owners or [""]

    @property
    def full(self) -> bool:
        """True if it is ready to be sent."""
        return self.characters >= BATCH_TEXT or len(self.items) >= BATCH_ITEMS

    def add(self, name: str, text: str, uri: str | None) -> None:
        """Add one item."""
        self.items.append({"text": text, "source_uri": uri} if uri is not None else {"text": text})
        self.owners.append(name)
        self.characters += len(text)


class PushSources:
    """The files below some paths, and standard input for `-`. `failed` lists what cannot be read."""

    def __init__(self, paths: Sequence[str], encoding: str | None, uri: str | None) -> None:
        """`encoding`: of text that is not UTF-8 and declares none. `uri`: the source of the only file. Raises
        UsageError for `-` together with paths."""
        self._input = "-" in paths
        if self._input and len(paths) > 1:
            raise UsageError("`-` (standard input) cannot be combined with paths")
        self._encoding = encoding
        self._uri = uri
        search = FolderSearch()
        search.add([path for path in paths if path != "-"])
        self._places = search.files
        self.failed: list[tuple[str, str]] = [(printable_path(path), why) for path, why in search.failures]
        self.passed_over: Counter[str] = search.skipped
        self.read = 0
        """Number of files read so far."""
        self.on_read: Callable[[str], None] = lambda _name: None
        """Called with the name of a file before it is read, which may take a while."""

    def __len__(self) -> int:
        return len(self._places) + self._input

    def fail(self, name: str, why: str) -> None:
        """Record that a file was not stored, or not completely."""
        self.failed.append((name, why))

    def documents(self) -> Iterator[PushSource]:
        """Yield each readable document."""
        if self._input:
            data = sys.stdin.buffer.read(_LARGEST_INPUT + 1)
            yield from self._read_source(STANDARD_INPUT, data, self._uri)
        for place in self._places:
            uri = self._uri if self._uri is not None else place.path.as_uri()
            yield from self._read_source(printable_path(place.name), place, uri)

    def _read_source(self, name: str, source: FoundFile | bytes, uri: str | None) -> Iterator[PushSource]:
        self.on_read(name)
        try:
            # With the rights of the invoking user: a superuser has taken those of the service, which owns the root.
            with as_invoker():
                document = read(source if isinstance(source, bytes) else source.path, self._encoding)
        except Unreadable as error:
            self.fail(name, error.line())
        else:
            for problem in document.problems:
                self.fail(name, problem)
            yield PushSource(name, uri, document)
        finally:
            self.read += 1

    def batches(self, *, forgetting: bool) -> Iterator[Batch]:
        """Yield the documents in batches. `forgetting`: include blank passages, so that their former items are deleted.

        The pieces of one long text share a URI: items that none of them contains are deleted.
        """
        batch = Batch()
        for source in self.documents():
            blank_too = forgetting and source.uri is not None
            batch.replaces = source.uri is not None
            for number, passage in enumerate(source.document.passages, 1):
                if passage is None or not (passage or blank_too):
                    continue
                for piece in pieces(passage) or [""]:
                    batch.add(source.name, piece, source.uri_of(number))
                if batch.full:
                    yield batch
                    batch = Batch(replaces=batch.replaces)
            batch.complete_files += 1
            if source.document.number_name and source.uri is not None:
                batch.last = source
                yield batch
                batch = Batch()
        if batch.items or batch.complete_files:
            yield batch


def pieces(text: str) -> list[str]:
    """Split a text into pieces of the size of an item, at line ends where possible."""
    found = []
    begin = 0
    while len(text) - begin > LARGEST_TEXT:
        end = text.rfind("\n", begin + LARGEST_TEXT // 2, begin + LARGEST_TEXT) + 1
        end = end or begin + LARGEST_TEXT
        found.append(text[begin:end])
        begin = end
    return [piece for piece in (*found, text[begin:]) if piece.strip()]


def printable_path(path: str) -> str:
    """Return a printable path; bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")
