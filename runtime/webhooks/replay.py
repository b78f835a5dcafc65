"""Sending a delivery to its agent again, because a person asks for it."""

from __future__ import annotations

from sqlalchemy import Connection, select

from runtime.clock import Clock, milliseconds
from runtime.database import Database
from runtime.database.schema import bodies, deliveries
from runtime.errors import SymbiontError
from runtime.webhooks.delivery import AGENT_GONE, DEAD, DONE, QUEUED


async def send_again(database: Database, clock: Clock, delivery_id: str, *, fresh: bool = False) -> None:
    """Queue a delivery that has ended.

    A dead letter, and one whose agent was gone, go on after the last step that is done; one that was done, or any when
    `fresh`, begins a new run. Raises SymbiontError, in one line, when there is nothing to send or it has not ended.
    """
    now = milliseconds(clock)

    def queue(connection: Connection) -> str | None:
        query = select(deliveries.c.state, deliveries.c.run_id).where(deliveries.c.id == delivery_id).with_for_update()
        row = connection.execute(query).first()
        if row is None:
            return "there is no such delivery"
        if row.state not in {DONE, DEAD, AGENT_GONE}:
            return f"it is {row.state} already"
        if connection.execute(select(bodies.c.delivery_id).where(bodies.c.delivery_id == delivery_id)).first() is None:
            return "its body is not kept any more"
        run_id = None if fresh or row.state == DONE else row.run_id
        connection.execute(
            deliveries.update()
            .where(deliveries.c.id == delivery_id)
            .values(state=QUEUED, tries=0, next_attempt_at=now, finished_at=None, run_id=run_id)
        )
        return None

    reason = await database.transact(queue)
    if reason is not None:
        raise SymbiontError(f"cannot send the delivery {delivery_id} again: {reason}")
