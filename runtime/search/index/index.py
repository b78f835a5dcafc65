"""What every index promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from runtime.search.entry import Filter, IndexEntry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


WHOLE_ID: Final = 36
"""Characters of an id, which is a UUID."""


class IndexPlace(NamedTuple):
    """Where an index is: `path` is its file on this machine (None: what it keeps here is kept in memory only), `name`
    what an index on a server calls what is its own, for instance a collection or a table: letters, digits and `_`.
    `key`, 32 bytes, seals that file; None: whoever reads the file reads what it holds."""

    path: Path | None
    name: str
    key: bytes | None = None


class IndexChange(NamedTuple):
    """What putting a part changed: entries that are new or say something else, that stayed, that are gone."""

    changed: int
    kept: int
    removed: int


class IndexStats(NamedTuple):
    """`entries`, those of them that have a vector, the model of those vectors (None: there are none) and its
    dimension, and the bytes on disk."""

    entries: int
    embedded: int
    model: str | None
    dimension: int | None
    bytes: int


class Pending(NamedTuple):
    """An entry that waits for its vector: the text to embed, and a hash of just that, to be handed back with it."""

    id: str
    hash: str
    text: str


class AppendedEntries(NamedTuple):
    """What was added at the end of a part: see `Index.grow`."""

    part: str
    agent: str
    before: str | None
    after: str
    entries: Sequence[IndexEntry]


class Scored(NamedTuple):
    """Entries by key with their scores, best first, at most as many as were asked for. A key is the index's own number
    for an entry, above 0, good for the time of a search: one whose entry is gone is nobody's from then on."""

    keys: NDArray[np.int64]
    scores: NDArray[np.float32]


class Matched(NamedTuple):
    """As `Scored`, of a question's words; and of each entry how much of what these words weigh together it has, 0 to 1:
    1 for one of average length with each of them."""

    keys: NDArray[np.int64]
    scores: NDArray[np.float32]
    shares: NDArray[np.float32]


class Neighbours(NamedTuple):
    """What stands around entries, a row for each key in the order of the keys: the keys of the neighbours before and
    after it (0: none), its author's number in `authors` (-1: none), its time in microseconds since 1970, UTC, and
    whether its text holds a question mark."""

    before: NDArray[np.int64]
    after: NDArray[np.int64]
    author: NDArray[np.int64]
    time: NDArray[np.int64]
    asks: NDArray[np.bool_]
    authors: Sequence[str]


class Index(ABC):
    """An opened index over one store. Derived: it can be deleted at any time and is rebuilt from the store.

    Parts are what the store reads at once, each with a revision that the store gives it. An id is one entry: put in
    another part, it moves there. Entries of one agent's `group` are neighbours in the order of time, `order` and id.
    Everything raises IndexFailed; nothing blocks the event loop. An index that finds itself damaged begins anew, empty,
    and says so in its log: `parts` then lacks what must be put again.

    One that is on a server in part takes what is put while that is away, and has it found when it is back; what cannot
    be asked meanwhile raises IndexFailed.
    """

    on_work: Callable[[], None] | None = None
    """Called when there may be something for `tend`, or among what is `pending`, that no call of `put` put there."""

    @property
    def problem(self) -> str | None:
        """Why it is not as it should be just now, in one line; it mends itself."""
        return None

    async def tend(self) -> None:  # noqa: B027 - an index that is here has nothing to catch up with
        """Have a server hold what it should. Raises IndexFailed while it cannot be had."""

    async def reachable(self) -> str | None:
        """Where it is, after having asked there just now; None: it is in this process. Raises IndexFailed when that
        does not answer."""
        return None

    @abstractmethod
    async def parts(self, agent: str | None = None) -> Mapping[str, str]:
        """The revision of every part that was put, by its name; of one agent's or of all."""

    @abstractmethod
    async def put(self, part: str, agent: str, revision: str, entries: Sequence[IndexEntry]) -> IndexChange:
        """Make `entries` all that the part holds, in one transaction. Those that say what they said keep their vectors;
        one that differs in nothing but its line, order or rest counts as kept. Of two with one id the later counts."""

    @abstractmethod
    async def grow(self, part: str, agent: str, before: str | None, after: str, entries: Sequence[IndexEntry]) -> bool:
        """Add entries at the end of a part whose revision is `before` (None: that is not there), which then is `after`;
        False, and nothing done, if it is another one."""

    async def grow_each(self, grown: Sequence[AppendedEntries]) -> list[bool]:
        """`grow` for each of these in turn; what was done when it raises IndexFailed is not known."""
        return [await self.grow(*each) for each in grown]

    @abstractmethod
    async def drop(self, parts: Sequence[str]) -> int:
        """Forget these parts and their entries; how many entries that were."""

    @abstractmethod
    async def clear(self) -> None:
        """Forget everything, vectors too."""

    @abstractmethod
    async def use_model(self, model: str | None, dimension: int | None) -> None:
        """From now on vectors are those of `model`; those of another one are forgotten and become pending again.
        None: no vectors are wanted; what is there stays. A `dimension` of None is that of the first vector."""

    @abstractmethod
    async def pending(self, limit: int) -> Sequence[Pending]:
        """Entries that have no vector of the model in use, newest first; none while no model is in use. It is the queue
        of what is to be embedded, and as lasting as the index."""

    @abstractmethod
    async def embedded(self, vectors: Sequence[tuple[Pending, NDArray[np.float32]]]) -> int:
        """Keep the vectors of these entries; how many were kept. One that is gone, or says something else by now, is
        passed over, and so is everything while no model is in use. Raises EmbeddingMismatch for a vector of another
        dimension or with numbers that are none; then none is kept."""

    @abstractmethod
    async def keyword(self, words: Sequence[str], wanted: Filter, limit: int) -> Matched:
        """The entries that hold one or more of `words`, or have a neighbour that does, by BM25, which is above 0.

        Words are any text: each is read as the entries' texts are, and one that comes to several is looked for as they
        stand together. An entry's text, its author and date, and (for less) its neighbours' texts count. Where one
        agent or one user is asked for, the entries of no other say what a word weighs.
        """

    @abstractmethod
    async def nearest(
        self, vector: NDArray[np.float32], wanted: Filter, limit: int, also: NDArray[np.int64] | None = None
    ) -> Scored:
        """The entries nearest to `vector` by cosine, -1 to 1, and beyond `limit` those of the keys `also` that are
        wanted; one without a vector is not among them. Raises EmbeddingMismatch for a vector of another dimension."""

    @abstractmethod
    async def neighbours(self, keys: NDArray[np.int64]) -> Neighbours:
        """Who stands around each of these entries, who said it and when."""

    @abstractmethod
    async def entries(self, keys: Sequence[int]) -> Mapping[int, IndexEntry]:
        """The entries of these keys; one that is gone is left out."""

    @abstractmethod
    async def newest(
        self, wanted: Filter, limit: int, before: tuple[datetime, str] | None = None, begins: str = ""
    ) -> Sequence[IndexEntry]:
        """Up to `limit` (1 or more) of the entries that are wanted, newest first; of those of one time the greatest id
        first. `before`: only what comes after the entry of this time and id in that order. `begins`: only those whose
        id begins so; with `WHOLE_ID` characters it is the whole of one."""

    @abstractmethod
    async def authors(self, wanted: Filter) -> Sequence[str]:
        """Everybody who said one or more of the entries that are wanted, by name."""

    @abstractmethod
    async def stats(self, agent: str | None = None, user: str | None = None) -> IndexStats:
        """How much there is, of all agents or of one, of all users or of one; the bytes are those of everything."""

    async def close(self) -> None:  # noqa: B027 - what holds nothing open closes by doing nothing
        """Finish what is being written and let go of what is open."""
