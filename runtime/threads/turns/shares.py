"""Claims of turns from several sources in one transaction, in equal shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from runtime.database.group_commit import Stage
from runtime.threads import stage_ranks
from runtime.threads.turns.queue import TurnQueue


class Places(NamedTuple):
    """Free places for turns of these sources, the first of which has the first choice."""

    sources: tuple[TurnQueue[Any], ...]
    free: int


ClaimedTurns = list[tuple[TurnQueue[Any], list[Any]]]
"""The turns of each source."""


def claim(connection: Connection, asked: Sequence[Places]) -> list[ClaimedTurns]:
    """Claim turns for all of these places."""
    return [_claim(connection, *each) for each in asked]


SHARES: Final[Stage[Places, ClaimedTurns]] = Stage(stage_ranks.CLAIM, claim)
"""The stage of such claims."""


def _claim(connection: Connection, sources: tuple[TurnQueue[Any], ...], free: int) -> ClaimedTurns:
    """Claim up to `free` turns. A share that a source does not use goes to the others."""
    found: ClaimedTurns = []
    asked = sources
    while free and asked:
        share = -(-free // len(asked))
        full = []
        for source in asked:
            limit = min(share, free)
            if not limit:
                break
            turns = source.claim_in(connection, limit)
            found.append((source, turns))
            free -= len(turns)
            if len(turns) == limit:
                full.append(source)
        asked = tuple(full)
    return found
