"""The changes of blocks in the database: new blocks and new versions, stored with the writes of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import structs
from sqlalchemy import Connection, delete, exists

from runtime.crypto import SealedBytes
from runtime.database import bulk
from runtime.database.group_commit import Stage
from runtime.database.keys.ring import KeyRing
from runtime.database.schema import block_versions, blocks, runs
from runtime.database.sealed import Seal
from runtime.database.text import hash_key
from runtime.errors import Conflict, NotFound, SymbiontError, UsageError
from runtime.identity import users
from runtime.memory.core.block import Block, Origin
from runtime.memory.item import well_formed
from runtime.memory.redaction.redact import redact
from runtime.threads import run, stage_ranks
from runtime.threads.step import Superseded

VERSIONS: Final = 50
"""Versions of a block that are kept, and more while the run that made them has not ended."""

Edit: TypeAlias = Callable[[str], str]
"""Returns the new text of a block from the current one. Called in the transaction, possibly more than once."""

_MAY_CHANGE_READ_ONLY: Final = ("person", "program")


class ReadOnlyBlock(UsageError):  # noqa: N818 - errors are named for what is the case
    """The block can be changed by persons only."""


class BlockFull(UsageError):  # noqa: N818
    """The new text is longer than the block may be."""


class VersionConflict(Conflict):
    """The block has another version than the caller expected. `version`: the newest one."""

    def __init__(self, label: str, expected: int, version: int) -> None:
        super().__init__(
            f"the newest version of the block {label} is {version}, not {expected}",
            hint="read it again and repeat the change",
        )
        self.version = version


class BlockSeals:
    """Seals and opens the texts of blocks and of their versions."""

    def __init__(self, keys: KeyRing) -> None:
        self._block = Seal(keys, blocks.c.value)
        self._version = Seal(keys, block_versions.c.value)

    def close(self, block: Block) -> SealedBytes:
        """Seal the text of a block's row."""
        return self._block.close(block.value.encode(), row=block.id, user_id=block.user_id, version=block.version)

    def open(self, sealed: bytes, block_id: str, version: int, user_id: str) -> str:
        """Return the text of a block's row. Raises `Unsealable`."""
        return self._block.open(sealed, row=block_id, user_id=user_id, version=version).decode()

    def close_version(self, block: Block) -> SealedBytes:
        """Seal the text of the row of a block's current version."""
        return self._version.close(
            block.value.encode(), row=_version_row(block.id, block.version), user_id=block.user_id
        )

    def open_version(self, sealed: bytes, block_id: str, version: int, user_id: str) -> str:
        """Return the text of a version's row. Raises `Unsealable`."""
        return self._version.open(sealed, row=_version_row(block_id, version), user_id=user_id).decode()


class ChangedBlock(NamedTuple):
    """The block after a change. `changed`: False if the text stayed the same, and then there is no new version.
    `redacted`: the new text contained secrets."""

    block: Block
    changed: bool
    redacted: bool = False


class NewBlocks(NamedTuple):
    """Blocks to store, each unless one with its owner and label exists. They have new ids."""

    seals: BlockSeals
    blocks: Sequence[Block]


@dataclass(slots=True, eq=False)
class BlockChange:
    """An edit of one block. `expected`: the version that the block must have; None: any. `at`: Unix milliseconds."""

    seals: BlockSeals
    user_id: str
    block_id: str
    label: str
    edit: Edit
    expected: int | None
    origin: Origin
    at: int
    written: tuple[int, bytes] | None = None
    """Version and sealed text of an earlier try. If its commit was lost, it may be stored nevertheless."""


BlockWrite: TypeAlias = "NewBlocks | BlockChange"

_COLUMNS: Final = (
    "id", "user_id", "agent", "subject", "label", "description", "value", "char_limit", "read_only", "version",
    "created_at", "updated_at",
)  # fmt: skip
_INSERTED: Final = (*_COLUMNS, "subject_key")
_VERSION: Final = ("block_id", "version", "user_id", "value", "changed_by", "run_id", "key", "created_at")


def block_columns() -> list[Any]:
    """Return the columns of a query whose rows `read_block` reads."""
    return [blocks.c[name] for name in _COLUMNS]


def read_block(row: Sequence[Any], seals: BlockSeals) -> Block:
    """Return the block of a row. Raises `Unsealable`."""
    fields = dict(zip(_COLUMNS, row, strict=True))
    fields["value"] = seals.open(fields["value"], fields["id"], fields["version"], fields["user_id"])
    fields["read_only"] = bool(fields["read_only"])  # SQLite's driver returns a number
    return Block(**fields)


def clean(text: str) -> str:
    """Return a text as it is stored: without secrets, with `\\n` as line end."""
    return redact(well_formed(text).replace("\r\n", "\n"))


def store_blocks(connection: Connection, writes: Sequence[BlockWrite]) -> list[ChangedBlock | Exception | None]:
    """Store new blocks, then the changes, each applied to the result of those before it.

    Returns None for new blocks and the changed block for a change, or an exception for that write alone: `Superseded`
    if its run has a newer attempt.
    """
    answers: list[ChangedBlock | Exception | None] = [None] * len(writes)
    new = {place: write for place, write in enumerate(writes) if isinstance(write, NewBlocks)}
    for place, error in zip(new, _insert(connection, list(new.values())), strict=True):
        answers[place] = error
    changes = {place: write for place, write in enumerate(writes) if isinstance(write, BlockChange)}
    if changes:
        for place, answer in zip(changes, _Changes(connection, list(changes.values())).apply(), strict=True):
            answers[place] = answer
    return answers


BLOCKS: Final[Stage[BlockWrite, ChangedBlock | None]] = Stage(stage_ranks.BLOCKS, store_blocks)
"""Stored after the steps and messages of runs, before their ends."""


def _insert(connection: Connection, new: Sequence[NewBlocks]) -> list[Exception | None]:
    whose = sorted({block.user_id for each in new for block in each.blocks})
    removed = {user_id for user_id in whose if not users.exists(connection, user_id)}
    # In one order in all processes, so that two of them do not wait for each other.
    made = sorted(
        ((block, each.seals) for each in new for block in each.blocks if block.user_id not in removed),
        key=lambda pair: _order(pair[0]),
    )
    rows = [(*_row(block, seals), hash_key(block.subject)) for block, seals in made]
    if rows:
        bulk.insert(connection, blocks, _INSERTED, rows, ignore=True)
        there = {row[0] for row in bulk.find(connection, blocks, ("id",), ("version",), [(b.id,) for b, _ in made])}
        first = [_version_values(block, seals, Origin("program")) for block, seals in made if block.id in there]
        bulk.insert(connection, block_versions, _VERSION, first, ignore=True)
    return [
        NotFound("the user was removed") if any(block.user_id in removed for block in each.blocks) else None
        for each in new
    ]


def _order(block: Block) -> tuple[str, str, str, str]:
    return block.user_id, block.agent or "", block.subject or "", block.label


def _row(block: Block, seals: BlockSeals) -> tuple[Any, ...]:
    fields = structs.asdict(block) | {"value": seals.close(block)}
    return tuple(fields[name] for name in _COLUMNS)


def _version_values(block: Block, seals: BlockSeals, origin: Origin) -> tuple[Any, ...]:
    place = (block.id, block.version, block.user_id, seals.close_version(block))
    return (*place, origin.changed_by, origin.run_id, origin.key, block.updated_at)


def _must_fit(block: Block, value: str) -> None:
    if len(value) > block.char_limit:
        raise BlockFull(
            f"the block {block.label} would have {len(value):,} characters; its limit is {block.char_limit:,}",
            hint=f"it has {len(block.value):,} now: shorten it first, or store details elsewhere",
        )


def _version_row(block_id: str, version: int) -> str:
    return f"{block_id}/{version}"


class _Changes:
    """The changes of one transaction. The rows of their runs and blocks are locked until it ends."""

    def __init__(self, connection: Connection, changes: Sequence[BlockChange]) -> None:
        self._connection = connection
        self._changes = changes
        self._seals = changes[0].seals  # of one database
        self._current = run.running_attempts(connection, filter(None, (each.origin.run_id for each in changes)))
        self._blocks = self._lock_blocks({each.block_id for each in changes})
        self._results = self._earlier_results(
            (each.origin.run_id, each.origin.key) for each in changes if each.origin.run_id and each.origin.key
        )
        self._versions: list[tuple[Any, ...]] = []
        self._edited: set[str] = set()

    def apply(self) -> list[ChangedBlock | Exception]:
        answers = [self._answer(change) for change in self._changes]
        edited = [self._blocks[block_id] for block_id in sorted(self._edited)]
        rows = [(block.id, self._seals.close(block), block.version, block.updated_at) for block in edited]
        bulk.update(self._connection, blocks, ("id",), ("value", "version", "updated_at"), rows)
        bulk.insert(self._connection, block_versions, _VERSION, self._versions)
        for block in edited:
            self._prune(block)
        return answers

    def _answer(self, change: BlockChange) -> ChangedBlock | Exception:
        try:
            return self._apply(change)
        except SymbiontError as error:
            return error

    def _apply(self, change: BlockChange) -> ChangedBlock:
        origin = change.origin
        if origin.attempt is not None and self._current.get(origin.run_id or "") != origin.attempt:
            raise Superseded(f"run {origin.run_id} continues elsewhere")
        block = self._blocks.get(change.block_id)
        if block is None or block.user_id != change.user_id:
            raise NotFound(f"the block {change.label} was deleted")
        earlier = self._earlier_block(change, block)
        if earlier is not None:
            return ChangedBlock(earlier, True)
        if block.read_only and origin.changed_by not in _MAY_CHANGE_READ_ONLY:
            raise ReadOnlyBlock(f"the block {block.label} is read-only", hint="a person can change it")
        if change.expected is not None and change.expected != block.version:
            raise VersionConflict(block.label, change.expected, block.version)
        given = change.edit(block.value)
        # Before redaction, which takes long for a long text.
        _must_fit(block, given)
        value = clean(given)
        if value == block.value:
            return ChangedBlock(block, False)
        _must_fit(block, value)
        # The clock may have been set back.
        at = max(change.at, block.updated_at)
        block = structs.replace(block, value=value, version=block.version + 1, updated_at=at)
        self._blocks[block.id] = block
        self._edited.add(block.id)
        row = _version_values(block, self._seals, origin)
        self._versions.append(row)
        change.written = block.version, row[_VERSION.index("value")]
        if origin.run_id is not None and origin.key is not None:
            self._results[origin.run_id, origin.key] = block
        return ChangedBlock(block, True, redacted=value != given.replace("\r\n", "\n"))

    def _earlier_block(self, change: BlockChange, block: Block) -> Block | None:
        """Return the block as this change made it, if it was stored before."""
        origin = change.origin
        if origin.run_id is not None and origin.key is not None:
            return self._results.get((origin.run_id, origin.key))
        if change.written is None:
            return None
        version, sealed = change.written
        stored = bulk.find(
            self._connection, block_versions, ("block_id", "version"), _VERSION[2:], [(block.id, version)]
        )
        return self._block_at_version(stored[0]) if stored and bytes(stored[0][3]) == sealed else None

    def _block_at_version(self, row: Sequence[Any]) -> Block | None:
        """Return the block as it was when the version with this row was made; None if it was deleted."""
        block_id, version, user_id, sealed, *_, created_at = row
        block = self._blocks.get(block_id)
        if block is None:
            return None
        value = self._seals.open_version(sealed, block_id, version, user_id)
        return structs.replace(block, value=value, version=version, updated_at=created_at)

    def _lock_blocks(self, ids: Iterable[str]) -> dict[str, Block]:
        keys = [(each,) for each in sorted(ids)]
        found = bulk.find(self._connection, blocks, ("id",), _COLUMNS[1:], keys, lock="UPDATE")
        return {row[0]: read_block(row, self._seals) for row in found}

    def _earlier_results(self, wanted: Iterable[tuple[str | None, str | None]]) -> dict[tuple[str, str], Block]:
        """Return the blocks as changes with these runs and keys made them."""
        keys = sorted(set(wanted))
        if not keys:
            return {}
        rest = tuple(name for name in _VERSION if name not in {"run_id", "key"})
        found: dict[tuple[str, str], Block] = {}
        for run_id, key, *fields in bulk.find(self._connection, block_versions, ("run_id", "key"), rest, keys):
            made = self._block_at_version((*fields[:-1], run_id, key, fields[-1]))
            if made is not None:
                found[run_id, key] = made
        return found

    def _prune(self, block: Block) -> None:
        """Delete old versions. Those of runs that have not ended stay: without them a repeated change would be made
        again."""
        if block.version <= VERSIONS:
            return
        unended = exists().where(runs.c.id == block_versions.c.run_id, runs.c.state.not_in(sorted(run.ENDED)))
        old = (block_versions.c.block_id == block.id, block_versions.c.version <= block.version - VERSIONS)
        self._connection.execute(delete(block_versions).where(*old, ~unended))
