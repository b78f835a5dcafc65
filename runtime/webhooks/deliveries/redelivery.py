"""Redelivery: queue deliveries again at an operator's request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from runtime.clock import Clock, milliseconds
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import bodies, deliveries
from runtime.errors import SymbiontError
from runtime.threads.turns.turn import AGENT_GONE, CANCELLED, DEAD, DONE, QUEUED
from runtime.webhooks.deliveries.delivery import KEPT

ENDED: Final = (DONE, KEPT, DEAD, AGENT_GONE, CANCELLED)
"""States from which a delivery can be sent again."""


class Redelivery(NamedTuple):
    """The outcome for one delivery: queued, or the `reason` why not."""

    delivery_id: str
    reason: str | None = None


class _Row(NamedTuple):
    """A delivery's current state, and the agent that it would be sent to; empty: none."""

    state: str
    run_id: str | None
    agent: str
    webhook: str


async def redeliver(database: Database, clock: Clock, delivery_id: str, *, fresh: bool = False) -> None:
    """Queue one delivery; see `redeliver_all`. Raises SymbiontError, in one line, if it is not queued."""
    [sent] = await redeliver_all(database, clock, [delivery_id], fresh=fresh)
    if sent.reason is not None:
        raise SymbiontError(f"cannot send the delivery {delivery_id} again: {sent.reason}")


async def redeliver_all(
    database: Database,
    clock: Clock,
    delivery_ids: Sequence[str],
    *,
    fresh: bool = False,
    states: Collection[str] = ENDED,
    agents: Collection[str] | None = None,
    wakes: Callable[[str], str | None] = lambda _: None,
) -> list[Redelivery]:
    """Queue finished deliveries in one transaction; they are claimed in the given order.

    A dead letter, or a delivery that was cancelled or whose agent was missing, continues after its last completed
    step. A done delivery, or any with `fresh`, begins a new run. A delivery in none of `states` is left alone, so
    asking twice for all dead letters queues each once. `agents`: the existing agents; None if unknown. `wakes`: returns
    the current agent of a webhook, for deliveries that were only stored.
    """
    now = milliseconds(clock)
    wanted = list(dict.fromkeys(delivery_ids))

    def queue(connection: Connection) -> list[Redelivery]:
        keys = [(each,) for each in sorted(wanted)]
        columns = ("state", "run_id", "agent", "webhook")
        found = bulk.find(connection, deliveries, ("id",), columns, keys, lock="UPDATE")
        rows = {row[0]: _Row(*row[1:]) for row in found}
        rows |= {key: row._replace(agent=wakes(row.webhook) or "") for key, row in rows.items() if row.state == KEPT}
        kept = {row[0] for row in bulk.find(connection, bodies, ("delivery_id",), (), keys)}
        sent = [Redelivery(each, _refusal(rows.get(each), each in kept, states, agents)) for each in wanted]
        queued = [each.delivery_id for each in sent if each.reason is None]
        bulk.update(
            connection,
            deliveries,
            ("id",),
            ("state", "agent", "tries", "next_attempt_at", "finished_at", "run_id"),
            [
                # A millisecond apart: deliveries due at the same time are claimed in the order of their arrival.
                (each, QUEUED, rows[each].agent, 0, now - len(queued) + place, None, _run(rows[each], fresh=fresh))
                for place, each in enumerate(queued, 1)
            ],
        )
        return sent

    return await database.transact(queue)


def _run(row: _Row, *, fresh: bool) -> str | None:
    """Return the run to continue; None for a new one."""
    return None if fresh or row.state == DONE else row.run_id


def _refusal(row: _Row | None, body_kept: bool, states: Collection[str], agents: Collection[str] | None) -> str | None:
    """Return why a delivery is not sent again, or None if it is."""
    if row is None:
        return "there is no such delivery"
    if row.state not in ENDED:
        return f"it is {row.state} already"
    if row.state not in states:
        return f"it is {row.state}"
    if not row.agent:
        return f"the webhook {row.webhook} has no agent"
    if not body_kept:
        return "its body is no longer stored"
    if agents is not None and row.agent not in agents:
        return f"the agent {row.agent} is not declared"
    return None
