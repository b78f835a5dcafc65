"""Types of the results of the memory tools, from which their schemas are built."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal

from pydantic import Field

from runtime.memory.item import Item
from runtime.memory.open_memory import FoundHit
from runtime.tools.result import NextCursor, Result


class KeptItem(Item):
    """An item and its memory."""

    memory: str


class ListedItem(KeptItem):
    """An item, its memory, and what became of it."""

    valid_until: datetime | None = Field(None, description="The time from which another item replaces it; null: valid.")
    replaced_by: str | None = Field(None, description="The id of that item.")
    retracted: bool = Field(False, description="It was withdrawn, so that searches do not find it.")


class ExportedItem(KeptItem):
    """An item, its memory, and the number of equal items before it."""

    copy_number: int = Field(default=0, ge=0)


class Difficulty(Result):
    """A file or item that is unreadable or damaged."""

    file: str
    message: str
    severity: Literal["error", "warning"] = Field(description="For a warning, nothing is lost or refused.")


class Scores(Result):
    """Relevance of a hit."""

    score: float = Field(
        description="Orders the hits of one memory; the best hit of every search has about the same score."
    )
    parts: dict[str, float] = Field(description="The contribution of each part of the search to the score.")
    relevance: float = Field(
        description="How well the text itself fits, 0 to 1; comparable with that of any other hit."
    )
    cosine: float | None = Field(
        description="The similarity of meaning, -1 to 1; null if no vectors were searched or the item has none yet."
    )
    keyword_share: float = Field(
        description="The share of the question's words that it contains, 0 to 1, weighted by rarity."
    )


def scores_of(hit: FoundHit) -> dict[str, Any]:
    """Return the fields of `Scores`."""
    return {name: getattr(hit, name) for name in Scores.model_fields}


class MemoryHit(Scores):
    """A hit."""

    item: KeptItem
    file: str | None = Field(description="Its location; only the last parts of the path without the scope `admin`.")
    line: int | None


class MemoryHits(Result):
    """The hits, best first."""

    hits: list[MemoryHit]
    notes: list[str] = Field(description="Notes about the search.")


class ShownItem(Result):
    """An item and its location."""

    item: ListedItem
    file: str | None = Field(description="Its location; only the last parts of the path without the scope `admin`.")
    line: int | None


class EditedItem(Result):
    """The edited item."""

    item: ListedItem
    previous_id: str = Field(description="The previous id; the same as the item's id if that stayed.")


class ForgottenItem(Result):
    """The deleted item."""

    memory_id: str
    agent: str
    memory: str


class MemoryItems(Result):
    """The items, newest first."""

    items: list[ListedItem]
    next_cursor: NextCursor


class ExportedItems(Result):
    """A page of all items, in the order of the store."""

    items: list[ExportedItem]
    total: int | None = Field(description="Approximate total number of items; null if unknown.")
    problems: list[Difficulty] = Field(description="Unreadable items, which are not included.")
    next_cursor: NextCursor


class WrittenItem(Result):
    """The item that was, or would be, written."""

    outcome: Literal["stored", "there", "dry_run"] = Field(description="`there`: the item exists already.")
    memory: str
    item: KeptItem | None = Field(description="The stored item; null if it was not stored.")
    record: dict[str, Any] | None = Field(description="For a dry run: the record that would be stored.")
    refused: str | None = Field(None, description="For a dry run: why it would be refused, and the open gates.")


class ImportedLine(Result):
    """The result for one item."""

    outcome: Literal["stored", "there", "refused"]
    memory_id: str | None = Field(description="The id under which it is stored; null if unknown.")
    reason: str | None = Field(description="Why it was refused.")


class ImportedLines(Result):
    """The result for each item, in order."""

    lines: list[ImportedLine]
    stored: int
    there: int = Field(description="Number of items that existed already.")
    refused: int


class AgentMemoryState(Result):
    """The items of an agent in one memory."""

    agent: str
    memory: str
    files: int | None = Field(
        description="null without the scope `admin`, like all numbers that include items of other users."
    )
    bytes: int | None
    oldest: date | None = Field(description="The day of the oldest log.")
    newest: date | None = Field(description="The day of the newest log.")
    items: int | None = Field(description="null if the index cannot be read.")
    embedded: int | None = Field(description="Items with a vector, which can be found by meaning.")
    pending: int | None = Field(description="Items that wait for a vector.")
    problems: list[Difficulty]


class MemoryState(Result):
    """A memory of the program."""

    memory: str
    store: str = Field(description="The kind of store.")
    capabilities: list[str] = Field(
        description="What the store supports: edit, delete, compact, remove, gates, upsert, replace, keep_ids."
    )
    embedding: str | None = Field(description="The embedding; null: searched by keyword only.")
    problems: list[str] = Field(description="The parts that do not work as declared at the moment.")


class MemoryStats(Result):
    """The number of items."""

    agents: list[AgentMemoryState]
    memories: list[MemoryState]


class MemoryFile(Result):
    """A file, unchanged."""

    path: str
    text: str | None = Field(description="null if there is no such file.")


class MemoryFiles(Result):
    """The files of an agent's memory."""

    agent: str
    name: str = Field(description="The memory's name.")
    memory: MemoryFile
    log: MemoryFile


class MemoryCompaction(Result):
    """The result of compacting the logs of one memory."""

    memory: str
    flushed: int = Field(description="Long-term entries that were copied.")
    deleted: int = Field(description="Expired logs, or entries of a collection, that were deleted.")
    problems: list[Difficulty] = Field(description="Logs that were not deleted, and why.")


class CompactionResult(Result):
    """The result of compacting an agent's logs."""

    agent: str
    memories: list[MemoryCompaction]


class MemoryPurge(Result):
    """The items of an agent in one memory."""

    memory: str
    files: int = Field(description="0 if only items of one user were deleted from files shared by several users.")
    items: int | None = Field(description="null if they cannot be counted.")


class PurgeResult(Result):
    """The items that were, or would be, deleted."""

    agent: str | None
    memories: list[MemoryPurge]
    notes: list[str] = Field(description="Notes about the deletion.")
    dry_run: bool


class MemoryReindex(Result):
    """The result of rebuilding one index."""

    memory: str
    parts: int = Field(description="Files, or the units in which the store is read.")
    items: int
    embedded: int = Field(description="Items with a vector, which can be found by meaning.")
    problems: list[str]


class ReindexResult(Result):
    """The result of rebuilding indexes."""

    memories: list[MemoryReindex]


class AgentVerification(Result):
    """The number of items of an agent that were read, and the problems."""

    agent: str
    memory: str
    files: int
    items: int
    problems: list[Difficulty]


class VerificationResult(Result):
    """The number of items read, and the problems."""

    agents: list[AgentVerification]
    good: bool
