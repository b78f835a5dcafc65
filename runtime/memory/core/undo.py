"""Withdrawal of the changes that one run made to blocks."""

from __future__ import annotations

from typing import Literal, NamedTuple

from sqlalchemy import select

from runtime.database.schema import block_versions
from runtime.memory.core.block import Block, BlockVersion, Origin
from runtime.memory.core.changes import Edit, VersionConflict
from runtime.memory.core.store import BlockStore

Outcome = Literal["restored", "unchanged", "edited", "too_old"]
"""`restored`: it has the text from before the run. `unchanged`: it had that text already. `edited`: it was changed
since, or in between, and is left as it is. `too_old`: the text from before the run is not stored any more."""


class UndoneBlock(NamedTuple):
    """Outcome of an undo for one block that the run had changed. `version`: its newest version now."""

    block: Block
    outcome: Outcome
    version: int


async def undo_blocks(
    store: BlockStore, user_id: str, run_id: str, origin: Origin, *, dry_run: bool = False
) -> list[UndoneBlock]:
    """Give each block of the user that the run changed the text from before the run, unless it was edited since.

    `dry_run`: only return what would be done. May be interrupted and repeated. Raises `Unavailable`.
    """
    query = select(block_versions.c.block_id).where(
        block_versions.c.run_id == run_id, block_versions.c.user_id == user_id
    )
    async with store.database.read() as connection:
        ids = {row.block_id for row in await connection.execute(query)}
    return [await _undo(store, block, run_id, origin, dry_run=dry_run) for block in await store.by_id(user_id, ids)]


async def _undo(store: BlockStore, block: Block, run_id: str, origin: Origin, *, dry_run: bool) -> UndoneBlock:
    while True:
        versions = await store.versions(block)
        mine = [each for each in versions if each.run_id == run_id]
        before = next((each for each in versions if mine and each.version == mine[-1].version - 1), None)
        if before is None:
            return UndoneBlock(block, "too_old", block.version)
        # The block itself was read before its versions, and may have been changed in between.
        newest = versions[0]
        if newest.value == before.value:
            return UndoneBlock(block, "unchanged", newest.version)
        if not _is_unedited(versions, mine):
            return UndoneBlock(block, "edited", newest.version)
        if dry_run:
            return UndoneBlock(block, "restored", newest.version)
        try:
            changed = await store.change(block, _always(before.value), origin, newest.version)
        except VersionConflict:
            # Changed meanwhile, perhaps by another undo of the same run.
            block = next(iter(await store.by_id(block.user_id, [block.id])), block)
        else:
            return UndoneBlock(changed.block, "restored", changed.block.version)


def _always(value: str) -> Edit:
    return lambda _: value


def _is_unedited(versions: list[BlockVersion], mine: list[BlockVersion]) -> bool:
    """True if the text is as the run left it, as after the undo of a later run, and no other change came between the
    run's own."""
    return versions[0].value == mine[0].value and mine[0].version - mine[-1].version == len(mine) - 1
