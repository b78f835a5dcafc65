"""The SHA-256 of kept bodies: worked out when somebody asks, not for each delivery."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from runtime.crypto import Unsealable
from runtime.database import Database, bulk
from runtime.database.schema import bodies
from runtime.database.sealed import Seal
from runtime.webhooks.kept import body_of

AT_ONCE_BYTES = 8 * 1024 * 1024
"""Bytes of bodies that are read and hashed at a time, about."""

AT_ONCE = 500
"""Bodies at a time."""

COLUMNS = ("user_id", "body", "headers_size")
"""What of a body's row its digest is made of, behind the delivery's id."""


def digest(seal: Seal, delivery_id: str, user_id: str, body: bytes, headers_size: int) -> str | None:
    """The digest of one kept body, hexadecimal; None when it does not open."""
    try:
        piece = seal.open(body, row=delivery_id, user_id=user_id)
    except Unsealable:
        return None
    return hashlib.sha256(body_of(piece, headers_size)).hexdigest()


async def digests(database: Database, rows: Sequence[Any]) -> dict[str, str]:
    """The digests of the bodies of accepted `rows` that have none of their own, by delivery, as far as they are kept.

    However many they are, few bodies are in memory at a time, and hashing them holds nobody up.
    """
    seal = Seal(database.master_key, bodies.c.body)
    found: dict[str, str] = {}
    for ids in _portions([row for row in rows if row.verdict == "accepted" and row.body_sha256 is None]):
        look = partial(bulk.find, table=bodies, keys=("delivery_id",), columns=COLUMNS, rows=ids)
        async with database.read() as connection:
            kept = await connection.run_sync(look)
        found |= await asyncio.to_thread(_hashed, seal, kept)
    return found


def _portions(rows: Sequence[Any]) -> Iterator[list[tuple[str]]]:
    """The ids of the deliveries, as many at a time as `AT_ONCE_BYTES` allow."""
    ids: list[tuple[str]] = []
    size = 0
    for row in rows:
        if ids and (size + row.size > AT_ONCE_BYTES or len(ids) == AT_ONCE):
            yield ids
            ids, size = [], 0
        ids.append((row.delivery_id,))
        size += row.size
    if ids:
        yield ids


def _hashed(seal: Seal, kept: Sequence[Any]) -> dict[str, str]:
    return {row[0]: found for row in kept if (found := digest(seal, *row)) is not None}
