"""Sending deliveries to their agents again, because a person asks for it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from runtime.clock import Clock, milliseconds
from runtime.database import Database, bulk
from runtime.database.schema import bodies, deliveries
from runtime.errors import SymbiontError
from runtime.webhooks.delivery import AGENT_GONE, DEAD, DONE, QUEUED

ENDED: Final = (DONE, DEAD, AGENT_GONE)
"""The states from which a delivery can be sent again."""


class Sent(NamedTuple):
    """What became of one: queued, or the `reason` why not."""

    delivery_id: str
    reason: str | None = None


async def send_again(database: Database, clock: Clock, delivery_id: str, *, fresh: bool = False) -> None:
    """Queue one delivery; see `send_all_again`. Raises SymbiontError, in one line, when it is not queued."""
    [sent] = await send_all_again(database, clock, [delivery_id], fresh=fresh)
    if sent.reason is not None:
        raise SymbiontError(f"cannot send the delivery {delivery_id} again: {sent.reason}")


async def send_all_again(
    database: Database,
    clock: Clock,
    delivery_ids: Sequence[str],
    *,
    fresh: bool = False,
    states: Collection[str] = ENDED,
    agents: Collection[str] | None = None,
) -> list[Sent]:
    """Queue deliveries that ended, in one transaction; they are claimed in the order in which they are given.

    A dead letter, and one whose agent was gone, go on after the last step that is done; one that was done, or any when
    `fresh`, begins a new run. One that is in none of `states` is left alone, so that asking twice for all dead letters
    queues none twice. `agents`: those there are; None when that is not known.
    """
    now = milliseconds(clock)
    wanted = list(dict.fromkeys(delivery_ids))

    def queue(connection: Connection) -> list[Sent]:
        keys = [(each,) for each in sorted(wanted)]
        columns = ("state", "run_id", "agent")
        found = bulk.find(connection, deliveries, ("id",), columns, keys, lock="UPDATE")
        rows = {row[0]: row[1:] for row in found}
        kept = {row[0] for row in bulk.find(connection, bodies, ("delivery_id",), (), keys)}
        sent = [Sent(each, _refusal(rows.get(each), each in kept, states, agents)) for each in wanted]
        queued = [each.delivery_id for each in sent if each.reason is None]
        bulk.update(
            connection,
            deliveries,
            ("id",),
            ("state", "tries", "next_attempt_at", "finished_at", "run_id"),
            [
                # A millisecond apart: what is due at the same time is claimed in any order.
                (each, QUEUED, 0, now - len(queued) + place, None, _run(rows[each][0], rows[each][1], fresh=fresh))
                for place, each in enumerate(queued, 1)
            ],
        )
        return sent

    return await database.transact(queue)


def _run(state: str, run_id: str | None, *, fresh: bool) -> str | None:
    """The run that goes on; None for a new one."""
    return None if fresh or state == DONE else run_id


def _refusal(
    row: Sequence[str] | None, body_kept: bool, states: Collection[str], agents: Collection[str] | None
) -> str | None:
    """Why a delivery is not sent again, None when it is."""
    if row is None:
        return "there is no such delivery"
    state, _, agent = row
    if state not in ENDED:
        return f"it is {state} already"
    if state not in states:
        return f"it is {state}"
    if not body_kept:
        return "its body is not kept any more"
    if agents is not None and agent not in agents:
        return f"the agent {agent} is not declared"
    return None
