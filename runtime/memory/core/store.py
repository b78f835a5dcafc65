"""The blocks of core memory in the database."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from msgspec import structs
from sqlalchemy import Select, select, union_all

from runtime.clock import Clock, milliseconds, uuid7
from runtime.database.connection import Database
from runtime.database.schema import block_versions, blocks
from runtime.database.text import hash_key, storable
from runtime.errors import NotFound
from runtime.memory.core import edits
from runtime.memory.core.block import (
    Block,
    BlockScope,
    BlockVersion,
    DeclaredBlock,
    Origin,
    first_blocks,
    visible_blocks,
)
from runtime.memory.core.changes import (
    BLOCKS,
    VERSIONS,
    BlockChange,
    BlockSeals,
    ChangedBlock,
    Edit,
    NewBlocks,
    block_columns,
    clean,
    read_block,
)
from runtime.memory.item import from_delivery
from runtime.suggestions import unknown_name

_LONGEST_KEY: Final = 80
"""Characters of a key in the database; a longer one is replaced by its hash."""


class BlockStore:
    """Core memory of one database. Cheap to create.

    Every method takes the scope, which selects the blocks of one agent and user, and with a subject those of that
    subject. A block has the label that is unique in its scope. Methods that change a block raise NotFound with the
    nearest labels, `ReadOnlyBlock`, `BlockFull`, `Superseded` if the run of the origin has a newer attempt, Conflict if
    `version` is not the newest, and `Unavailable`. They return after the commit.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self._clock = clock
        self._seals = BlockSeals(database.keys)

    async def ensure(self, scope: BlockScope, declared: Sequence[DeclaredBlock] = ()) -> list[Block]:
        """Create the blocks that an agent has at its first use and that are missing, and return all, in the order of a
        context. A block that exists does not change. Raises NotFound if the user was removed."""
        scope = _stored_scope(scope)
        first, stored = self._first_blocks(scope, declared), await self._read_blocks(scope)
        there = {(each.agent, each.subject, each.label) for each in stored}
        missing = [each for each in first if (each.agent, each.subject, each.label) not in there]
        if missing:
            made = [structs.replace(each, id=uuid7(self._clock), value=clean(each.value)) for each in missing]
            await self.database.commits.store(BLOCKS, NewBlocks(self._seals, made))
            stored = await self._read_blocks(scope)
        return [each for each in visible_blocks(stored, first) if each.id]

    async def blocks(self, scope: BlockScope, declared: Sequence[DeclaredBlock] = ()) -> list[Block]:
        """Return the blocks as `ensure` does, without creating the missing ones, whose `id` is empty."""
        scope = _stored_scope(scope)
        return visible_blocks(await self._read_blocks(scope), self._first_blocks(scope, declared))

    async def read(self, scope: BlockScope, label: str, declared: Sequence[DeclaredBlock] = ()) -> Block:
        """Return one block. Raises NotFound with the nearest labels."""
        return named_block(await self.blocks(scope, declared), label)

    async def write(
        self, scope: BlockScope, label: str, value: str, origin: Origin, *, version: int | None = None
    ) -> ChangedBlock:
        """Replace the whole text, if the block has this version."""
        return await self._change(scope, label, lambda _: value, origin, version)

    async def replace(self, scope: BlockScope, label: str, old: str, new: str, origin: Origin) -> ChangedBlock:
        """Replace the only occurrence of a text. Raises UsageError with the place if it is absent or ambiguous."""
        return await self._change(scope, label, partial(edits.replace, old=old, new=new), origin)

    async def append(self, scope: BlockScope, label: str, content: str, origin: Origin) -> ChangedBlock:
        """Add lines at the end."""
        return await self._change(scope, label, partial(edits.append, content=content), origin)

    async def insert(self, scope: BlockScope, label: str, content: str, line: int, origin: Origin) -> ChangedBlock:
        """Insert lines, see `edits.insert`. Raises UsageError if there is no such line."""
        return await self._change(scope, label, partial(edits.insert, content=content, line=line), origin)

    async def restore(self, scope: BlockScope, label: str, version: int, origin: Origin) -> ChangedBlock:
        """Give the block the text of an earlier version again, as a new version. Raises NotFound if that is not
        stored."""
        history = await self.history(scope, label, VERSIONS)
        value = next((each.value for each in history if each.version == version), None)
        if value is None:
            stored = f"{history[-1].version} to {history[0].version} are stored"
            raise NotFound(f"the block {label} has no version {version}", hint=f"the versions {stored}")
        return await self.write(scope, label, value, origin)

    async def history(
        self, scope: BlockScope, label: str, limit: int = VERSIONS, declared: Sequence[DeclaredBlock] = ()
    ) -> list[BlockVersion]:
        """Return the newest versions, at most `limit`, newest first. Raises NotFound."""
        block = await self.read(scope, label, declared)
        if not block.id:
            return [BlockVersion(block.version, block.value, "program", None, block.created_at)]
        return await self.versions(block, min(limit, VERSIONS))

    async def versions(self, block: Block, limit: int | None = None) -> list[BlockVersion]:
        """Return the newest versions of a stored block, newest first; all that are stored without a limit."""
        query = select(block_versions).where(block_versions.c.block_id == block.id)
        async with self.database.read() as connection:
            rows = (await connection.execute(query.order_by(block_versions.c.version.desc()).limit(limit))).all()
        return [
            BlockVersion(
                row.version,
                self._seals.open_version(row.value, row.block_id, row.version, row.user_id),
                row.changed_by,
                row.run_id,
                row.created_at,
            )
            for row in rows
        ]

    async def has_agent(self, user_id: str, agent: str) -> bool:
        """True if the agent has a block of its own, or one of a subject, for this user."""
        query = select(blocks.c.id).where(blocks.c.user_id == user_id, blocks.c.agent == agent).limit(1)
        async with self.database.read() as connection:
            return (await connection.execute(query)).first() is not None

    async def by_id(self, user_id: str, ids: Iterable[str]) -> list[Block]:
        """Return the user's blocks with these ids, in the order of their labels."""
        chosen = blocks.c.user_id == user_id, blocks.c.id.in_(list(ids))
        query = select(*block_columns()).where(*chosen).order_by(blocks.c.label, blocks.c.id)
        async with self.database.read() as connection:
            return [read_block(row, self._seals) for row in await connection.execute(query)]

    async def change(self, block: Block, edit: Edit, origin: Origin, version: int | None = None) -> ChangedBlock:
        """Apply `edit` to the text of a stored block."""
        if origin.key is not None and len(origin.key) > _LONGEST_KEY:
            origin = origin._replace(key=hashlib.sha256(origin.key.encode()).hexdigest())
        if origin.webhook is not None:
            edit = partial(edits.with_source, edit=edit, source=from_delivery(origin.webhook))
        change = BlockChange(
            self._seals, block.user_id, block.id, block.label, edit, version, origin, milliseconds(self._clock)
        )
        changed = await self.database.commits.store(BLOCKS, change)
        assert changed is not None
        return changed

    async def _change(
        self, scope: BlockScope, label: str, edit: Edit, origin: Origin, version: int | None = None
    ) -> ChangedBlock:
        stored = await self._read_blocks(_stored_scope(scope))
        return await self.change(named_block(visible_blocks(stored, ()), label), edit, origin, version)

    def _first_blocks(self, scope: BlockScope, declared: Sequence[DeclaredBlock]) -> list[Block]:
        return first_blocks(scope, declared, milliseconds(self._clock))

    async def _read_blocks(self, scope: BlockScope) -> list[Block]:
        async with self.database.read() as connection:
            return [read_block(row, self._seals) for row in await connection.execute(blocks_query(scope))]


def blocks_query(scope: BlockScope) -> Any:
    """Return the query for all blocks of a scope: each part has the condition of a partial index."""
    mine = select(*block_columns()).where(blocks.c.user_id == scope.user_id)
    of_agent = mine.where(blocks.c.agent.is_not(None), blocks.c.agent == scope.agent)
    parts: list[Select[Any]] = [mine.where(blocks.c.agent.is_(None)), of_agent.where(blocks.c.subject_key.is_(None))]
    if scope.subject is not None:
        key = hash_key(scope.subject)
        parts.append(of_agent.where(blocks.c.subject_key.is_not(None), blocks.c.subject_key == key))
    return union_all(*parts)


def _stored_scope(scope: BlockScope) -> BlockScope:
    """Return the scope with its subject as the database stores it."""
    return scope._replace(subject=storable(scope.subject))


def named_block(found: Sequence[Block], label: str) -> Block:
    """Return the block with this label. Raises NotFound with the nearest labels."""
    for block in found:
        if block.label == label:
            return block
    raise unknown_name("block", label[:80], (each.label for each in found), NotFound)
