"""The inbox: accepted deliveries as turns of their agents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, select

from runtime.crypto import Unsealable
from runtime.database import bulk
from runtime.database.schema import bodies, deliveries
from runtime.errors import GiveUp
from runtime.threads.turns.queue import TurnQueue
from runtime.threads.turns.turn import DONE, TurnOutcome
from runtime.webhooks.deliveries.delivery import ClaimedDelivery, HeaderPairs
from runtime.webhooks.deliveries.stored_request import body_of
from runtime.webhooks.request.payload import OFF_THE_LOOP

NOT_KEPT: Final = "its body is no longer stored"

_HEADERS: Final = msgspec.json.Decoder(HeaderPairs)

_Sealed = tuple[bytes, int]
"""A stored request, and how many of its bytes are headers."""


class Inbox(TurnQueue[ClaimedDelivery]):
    """The accepted deliveries of one database. Concurrency is limited by webhook."""

    kind = ClaimedDelivery
    table = deliveries
    columns = (
        *("webhook", "provider", "provider_delivery_id", "event", "received_at", "source", "content_type", "headers"),
        *("verified", "keep_body", "size"),
    )
    group = "webhook"
    arrived = "received_at"
    content = bodies.c.body

    def read(self, connection: Connection, rows: Sequence[Any]) -> list[ClaimedDelivery | str]:
        # Large bodies are read by `load`, because this blocks the event loop, or all other writers.
        small = [(row.id,) for row in rows if row.size <= OFF_THE_LOOP]
        found = bulk.find(connection, bodies, ("delivery_id",), ("body", "headers_size"), small)
        sealed = {row[0]: (row[1], row[2]) for row in found}
        return [self._delivery(row, sealed.get(row.id)) for row in rows]

    async def load(self, turn: ClaimedDelivery) -> ClaimedDelivery:
        if not turn.left_out:
            return turn
        query = select(bodies.c.body, bodies.c.headers_size).where(bodies.c.delivery_id == turn.id)
        async with self._database.read() as connection:
            found = (await connection.execute(query)).one_or_none()
        if found is None:
            raise GiveUp(NOT_KEPT)
        try:
            body = await asyncio.to_thread(self._body, (found[0], found[1]), turn.id, turn.user_id)
        except Unsealable as error:
            raise GiveUp(error.line()) from None
        return msgspec.structs.replace(turn, body=body, left_out=False)

    def store_outcomes(self, connection: Connection, endings: Sequence[TurnOutcome[ClaimedDelivery]]) -> None:
        done = [ending.turn.id for ending in endings if ending.outcome.state == DONE and not ending.turn.keep_body]
        bulk.delete(connection, bodies, "delivery_id", done)

    def _delivery(self, row: Any, sealed: _Sealed | None) -> ClaimedDelivery | str:
        """Return the delivery of a claimed row, or why it can never run."""
        left_out = row.size > OFF_THE_LOOP
        if sealed is None and not left_out:
            return NOT_KEPT
        try:
            body = b"" if sealed is None else self._body(sealed, row.id, row.user_id)
            headers = _HEADERS.decode(row.headers)
        except Unsealable as error:
            return error.line()
        except msgspec.DecodeError:
            return "its headers were changed"
        return ClaimedDelivery(
            **self.turn_fields(row),
            webhook=row.webhook,
            provider=row.provider,
            event=row.event,
            provider_delivery_id=row.provider_delivery_id,
            body=body,
            content_type=row.content_type,
            headers=headers,
            source=row.source,
            received_at=row.received_at,
            verified=bool(row.verified),
            keep_body=bool(row.keep_body),
            left_out=left_out,
        )

    def _body(self, sealed: _Sealed, row: str, user_id: str) -> bytes:
        """Return the body of a delivery. Raises Unsealable."""
        return body_of(self._seal.open(sealed[0], row=row, user_id=user_id), sealed[1])
