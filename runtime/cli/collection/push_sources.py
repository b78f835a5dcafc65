"""What is pushed: documents read one after the other, in batches that a request takes."""

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
from runtime.documents.folder import FoundFile, Search
from runtime.errors import UsageError

LARGEST_TEXT = 1_000_000
"""Characters of one item at most: the tool takes a little more. A longer text is several, cut at ends of lines."""
BATCH_TEXT = 256 * 1024
"""Characters after which a batch is sent: what was sent and answered is kept, whatever comes then."""
BATCH_ITEMS = 200
STANDARD_INPUT = "standard input"
_LARGEST_INPUT = max(reader.largest for reader in READERS.values())


class PushSource(NamedTuple):
    """A document that was read. `name`: as a person knows it. `uri`: where it is from, None when nobody said."""

    name: str
    uri: str | None
    document: Document

    def uri_of(self, number: int) -> str | None:
        """Where the passage `number`, counted from 1, is from."""
        return None if self.uri is None else f"{self.uri}{self.document.fragment(number)}"


@dataclass
class Batch:
    """What one request takes."""

    items: list[dict[str, Any]] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    """Of each item the name of its file."""
    ended: int = 0
    """Files of which nothing comes after this batch."""
    characters: int = 0
    replaces: bool = True
    last: PushSource | None = None
    """The document of numbered passages that it ends with: that may have had more once."""

    @property
    def names(self) -> Sequence[str]:
        """The files it is of."""
        return self.owners or [""]

    @property
    def full(self) -> bool:
        """Whether it is to be sent."""
        return self.characters >= BATCH_TEXT or len(self.items) >= BATCH_ITEMS

    def add(self, name: str, text: str, uri: str | None) -> None:
        """Add one item."""
        self.items.append({"text": text, "source_uri": uri} if uri is not None else {"text": text})
        self.owners.append(name)
        self.characters += len(text)


class PushSources:
    """The files below some paths, and standard input for `-`. What cannot be read is named in `failed`."""

    def __init__(self, paths: Sequence[str], encoding: str | None, uri: str | None) -> None:
        """`encoding`: of text that is not UTF-8 and does not say. `uri`: where the only file is from. Raises UsageError
        for `-` among others."""
        self._input = "-" in paths
        if self._input and len(paths) > 1:
            raise UsageError("- is standard input, and stands alone")
        self._encoding = encoding
        self._uri = uri
        search = Search()
        search.look([path for path in paths if path != "-"])
        self._places = search.places
        self.failed: list[tuple[str, str]] = [(shown(path), why) for path, why in search.failed]
        self.passed_over: Counter[str] = search.passed_over
        self.read = 0
        """Files that were looked at by now."""
        self.on_read: Callable[[str], None] = lambda _name: None
        """Is told which file is read now: that may take a while."""

    def __len__(self) -> int:
        return len(self._places) + self._input

    def fail(self, name: str, why: str) -> None:
        """A file was not kept, or not all of it."""
        self.failed.append((name, why))

    def documents(self) -> Iterator[PushSource]:
        """Each document that can be read."""
        if self._input:
            data = sys.stdin.buffer.read(_LARGEST_INPUT + 1)
            yield from self._read(STANDARD_INPUT, data, self._uri)
        for place in self._places:
            uri = self._uri if self._uri is not None else place.path.as_uri()
            yield from self._read(shown(place.shown), place, uri)

    def _read(self, name: str, source: FoundFile | bytes, uri: str | None) -> Iterator[PushSource]:
        self.on_read(name)
        try:
            # The superuser works on a service's root with other rights, and named files that root may read.
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
        """The documents in requests. `forgetting`: what is blank is sent too, so that what was there of it goes.

        The pieces of one long text stay together: what is forgotten is what none of them says.
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
            batch.ended += 1
            if source.document.numbered and source.uri is not None:
                batch.last = source
                yield batch
                batch = Batch()
        if batch.items or batch.ended:
            yield batch


def pieces(text: str) -> list[str]:
    """A text in pieces that an item holds, cut at ends of lines where there are any."""
    found = []
    begin = 0
    while len(text) - begin > LARGEST_TEXT:
        end = text.rfind("\n", begin + LARGEST_TEXT // 2, begin + LARGEST_TEXT) + 1
        end = end or begin + LARGEST_TEXT
        found.append(text[begin:end])
        begin = end
    return [piece for piece in (*found, text[begin:]) if piece.strip()]


def shown(path: str) -> str:
    """A path as it can be printed: a name that is not UTF-8 has U+FFFD in it."""
    return os.fsencode(path).decode("utf-8", "replace")
