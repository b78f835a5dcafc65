"""The interface of indexes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from runtime.search.entry import EVERY_ENTRY, EntryFilter, IndexEntry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


WHOLE_ID: Final = 36
"""Number of characters of an id, which is a UUID."""


class IndexPlace(NamedTuple):
    """The place of an index. `path`: its file on this machine (None: in memory); `name`: of its collection or table
    on a server: letters, digits and `_`; `key`: 32 bytes that seal the file (None: not sealed)."""

    path: Path | None
    name: str
    key: bytes | None = None


class IndexChange(NamedTuple):
    """The result of putting a part: numbers of new or changed, unchanged, and removed entries."""

    changed: int
    kept: int
    removed: int


class IndexStats(NamedTuple):
    """Numbers of `entries` and of those with a vector, the model of the vectors (None: no vectors) and its
    dimension, the bytes on disk, and the number of entries with token bits of the version in use."""

    entries: int
    embedded: int
    model: str | None
    dimension: int | None
    bytes: int
    tokenized: int = 0


class PendingEntry(NamedTuple):
    """An entry that waits for its vector: the text to embed, and its hash, which is returned with the vector."""

    id: str
    hash: str
    text: str


class AppendedEntries(NamedTuple):
    """Entries added at the end of a part: see `Index.append`."""

    part: str
    agent: str
    before: str | None
    after: str
    entries: Sequence[IndexEntry]


class ScoredEntries(NamedTuple):
    """Entries by key with their scores, best first, at most the requested number. A key is the index's own number of
    an entry, above 0, valid during a search; it is never reused for another entry."""

    keys: NDArray[np.int64]
    scores: NDArray[np.float32]


class WordMatches(NamedTuple):
    """Results as in `ScoredEntries`, for the words of a question, with each entry's share of the words' total weight, 0
    to 1: 1 for an entry of average length with each word. `weights`: of each word that has a letter or digit, above 0:
    the rarer it is, the higher."""

    keys: NDArray[np.int64]
    scores: NDArray[np.float32]
    shares: NDArray[np.float32]
    weights: Mapping[str, float]


class Neighbours(NamedTuple):
    """The neighbours of entries, one row for each key in the given order: the keys of the entries before and after
    it (0: none), its author's number in `authors` (-1: none), its time in microseconds since 1970, UTC, if its text
    has a question mark, and the number of words of the text."""

    before: NDArray[np.int64]
    after: NDArray[np.int64]
    author: NDArray[np.int64]
    time: NDArray[np.int64]
    asks: NDArray[np.bool_]
    words: NDArray[np.int64]
    authors: Sequence[str]

    def at(self, places: NDArray[np.int64]) -> Neighbours:
        """Return these rows."""
        return Neighbours(
            self.before[places],
            self.after[places],
            self.author[places],
            self.time[places],
            self.asks[places],
            self.words[places],
            self.authors,
        )


class Index(ABC):
    """An open index over one store. Derived: it can be deleted at any time and is rebuilt from the store.

    Parts are the store's units of reading, each with a revision given by the store. An id is one entry: put into
    another part, it moves there. Entries of one agent's `group` are neighbours in the order of time, `order` and id.
    Every method raises IndexFailed; none blocks the event loop. An index that finds itself damaged starts again empty
    and logs that: then `parts` lacks what must be put again.
    """

    @property
    def problem(self) -> str | None:
        """Return the problem of an index that is not fully working, in one line; it recovers on its own."""
        return None

    @property
    def rebuilt(self) -> int:
        """Return the number of times that it started again empty because it was damaged, since it was opened."""
        return 0

    async def reachable(self) -> str | None:
        """Call the server and return its address; None: the index is in this process. Raises IndexFailed if it does
        not answer."""
        return None

    async def reseal(self, key: bytes) -> None:  # noqa: B027 - an index without a file has nothing to seal
        """Seal its file with another key (32 bytes) instead of the present one."""

    @abstractmethod
    async def parts(self, agent: str | None = None, names: Collection[str] | None = None) -> Mapping[str, str]:
        """Return the revision of every part by its name: of one agent or of all, or of those of these names that
        exist."""

    @abstractmethod
    async def put(self, part: str, agent: str, revision: str, entries: Sequence[IndexEntry]) -> IndexChange:
        """Replace the entries of the part, in one transaction. Unchanged entries keep their vectors; one with only
        another line, order or rest counts as kept. Of two with one id the later counts."""

    @abstractmethod
    async def append(self, appended: Sequence[AppendedEntries]) -> list[bool]:
        """Add entries at the end of each part in turn, if its revision is `before` (None: it does not exist), which
        becomes `after`. Return for each part if that was so; after IndexFailed it is unknown which were done."""

    @abstractmethod
    async def drop(self, parts: Sequence[str]) -> int:
        """Delete these parts and their entries; return how many entries."""

    @abstractmethod
    async def clear(self) -> None:
        """Delete everything, vectors too."""

    @abstractmethod
    async def use_model(self, model: str | None, dimension: int | None, token_bits: str | None = None) -> None:
        """Use vectors of `model` from now on; those of another one are deleted, and their entries become pending.
        None: no vectors are wanted, and existing ones stay. `dimension` None: that of the first vector.

        `token_bits`: the version of the token bits that are wanted with the vectors; those of another one are deleted,
        and their entries become pending, but their vectors stay. None: none are wanted, and existing ones stay."""

    @abstractmethod
    async def pending(self, limit: int) -> Sequence[PendingEntry]:
        """Return entries without a vector of the model in use, newest first, then those without token bits of the
        version in use, newest first; none while no model is in use. This is the queue of entries to embed, as durable
        as the index."""

    @abstractmethod
    async def embed(
        self, vectors: Sequence[tuple[PendingEntry, NDArray[np.float32]]], tokens: Sequence[bytes] | None = None
    ) -> int:
        """Store the vectors of these entries, and with `tokens` the token bits of each (`EmbeddedTexts.tokens`);
        return how many were stored. Entries that are gone or have changed are skipped, and all are while no model is
        in use. Raises EmbeddingMismatch for a vector of another dimension or with numbers that are not finite; then
        none is stored."""

    @abstractmethod
    async def keyword(self, words: Sequence[str], wanted: EntryFilter, limit: int) -> WordMatches:
        """Return the entries that contain one or more of `words`, or have a neighbour that does, by BM25, which is
        above 0.

        Words are any text, split as the texts of entries are; one that gives several words is searched as a phrase. An
        entry's text, its author and date, and (with less weight) its neighbours' texts count. If one agent or one user
        is asked for, only their entries determine the weight of a word.
        """

    @abstractmethod
    async def nearest(
        self, vector: NDArray[np.float32], wanted: EntryFilter, limit: int, also: NDArray[np.int64] | None = None
    ) -> ScoredEntries:
        """Return the entries nearest to `vector` by cosine, -1 to 1, and in addition to `limit` those of the keys
        `also` that pass; entries without a vector are left out. Raises EmbeddingMismatch for a vector of another
        dimension."""

    @abstractmethod
    async def tokens(self, keys: NDArray[np.int64]) -> Sequence[bytes | None]:
        """Return the token bits of each of these entries; None for one without, or with those of another version."""

    @abstractmethod
    async def neighbours(self, keys: NDArray[np.int64]) -> Neighbours:
        """Return neighbours, author and time of each entry."""

    @abstractmethod
    async def entries(self, keys: Sequence[int]) -> Mapping[int, IndexEntry]:
        """Return the entries of these keys, without those that are gone."""

    @abstractmethod
    async def newest(
        self, wanted: EntryFilter, limit: int, before: tuple[datetime, str] | None = None, begins: str = ""
    ) -> Sequence[IndexEntry]:
        """Return up to `limit` (1 or more) wanted entries, newest first; of equal times the greatest id first.
        `before`: only entries after this time and id in that order. `begins`: only ids with this beginning; with
        `WHOLE_ID` characters it is a whole id."""

    @abstractmethod
    async def authors(self, wanted: EntryFilter) -> Sequence[str]:
        """Return the authors of the wanted entries, by name."""

    @abstractmethod
    async def stats(self, wanted: EntryFilter = EVERY_ENTRY) -> IndexStats:
        """Return the numbers of wanted entries; the bytes are those of the whole index."""

    async def close(self) -> None:  # noqa: B027 - what holds nothing open closes by doing nothing
        """Finish writing and release resources."""
