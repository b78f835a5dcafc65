"""Quotes of items, messages and threads in outputs of tools, by their ids, and their deletion with what they quote.

The ids in an output are noted in the transaction that stores it, in a row of some bytes, so that a deletion looks
through those, and opens only the outputs that quote what is deleted.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import ColumnElement, Connection, func, literal, or_, select, true

from runtime.crypto import Unsealable
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import messages, output_quotes, steps
from runtime.database.sealed import Seal
from runtime.threads import content
from runtime.threads.content import Deletion, Part, ToolOutputPart

CHUNK: Final = 64
"""Maximum number of messages that one transaction rewrites, so that other writes run in between."""
_PAGE: Final = 1000
"""Rows of ids that are read at once."""
_FEW: Final = 16
"""Up to this number of ids are looked for by the database; more are looked for here, which takes equally long."""


def codes_of(parts: Iterable[Part]) -> bytes:
    """Return the codes of the ids that outputs of tools have, empty if they have none."""
    texts = [part.text for part in parts if isinstance(part, ToolOutputPart)]
    return b"".join(sorted({_code(each) for text in texts for each in content.ids_in(text)}))


def note(connection: Connection, codes: bytes, *, message_id: str, user_id: str) -> None:
    """Note the codes of a message in the transaction that stores it."""
    bulk.insert(connection, output_quotes, ("user_id", "message_id", "codes"), [(user_id, message_id, codes)])


async def forget(database: Database, user_id: str, deleted: Deletion) -> None:
    """Delete from the outputs of tools in a user's threads what they quote of something that was deleted, or is about
    to be. May be interrupted and repeated. Raises `Unavailable`.

    A run that is at work keeps what it has read until it ends.
    """
    ids = {*deleted.ids, *(thread_id for thread_id, _ in deleted.messages)}
    quoting = await _quoting_messages(database, user_id, ids)
    changed = 0
    for start in range(0, len(quoting), CHUNK):
        rewrite = partial(_rewrite, database, user_id, deleted, quoting[start : start + CHUNK])
        changed += await database.transact(rewrite)
    if changed:
        database.empty_log()


async def _quoting_messages(database: Database, user_id: str, ids: set[str]) -> list[str]:
    """Return the messages that have one of these ids."""
    codes = [_code(found) for each in ids for found in content.ids_in(each)]
    if not codes:
        return []
    wanted = frozenset(array("q", b"".join(codes)))
    found: list[str] = []
    last = ""
    while True:
        async with database.read() as reading:
            has = _has_code(codes, reading.dialect.name) if len(codes) <= _FEW else true()
            query = select(*output_quotes.c["message_id", "codes"]).where(output_quotes.c.user_id == user_id, has)
            query = query.where(output_quotes.c.message_id > last).order_by(output_quotes.c.message_id).limit(_PAGE)
            page = (await reading.execute(query)).all()
        found += [row_id for row_id, noted in page if not wanted.isdisjoint(array("q", noted))]
        if len(page) < _PAGE:
            return found
        last = page[-1].message_id


def _has_code(codes: Sequence[bytes], dialect: str) -> ColumnElement[bool]:
    """Return the condition that one of these codes is noted."""
    noted = output_quotes.c.codes
    if dialect == "sqlite":
        places = [func.instr(noted, code) for code in codes]
    else:
        places = [func.position(literal(code).op("IN")(noted)) for code in codes]
    return or_(*(place > 0 for place in places))


def _rewrite(database: Database, user_id: str, deleted: Deletion, ids: Sequence[str], connection: Connection) -> int:
    """Rewrite those of these messages that quote it; return their number."""
    seal = Seal(database.keys, messages.c.content)
    keys = [(each,) for each in ids]
    contents: list[tuple[str, Any]] = []
    run_ids = set()
    for row_id, run_id, sealed in bulk.find(
        connection, messages, ("id",), ("run_id", "content"), keys, lock="NO KEY UPDATE"
    ):
        with suppress(Unsealable):
            parts = content.decode(seal.open(sealed, row=row_id, user_id=user_id))
            kept = content.without_copies(parts, deleted)
            if kept is not parts:
                contents.append((row_id, seal.close(content.encode(kept), row=row_id, user_id=user_id)))
                run_ids.add(run_id)
    bulk.update(connection, messages, ("id",), ("content",), contents)
    _rewrite_steps(connection, Seal(database.keys, steps.c.result), sorted(run_ids - {None}), user_id, deleted)
    return len(contents)


def _rewrite_steps(connection: Connection, seal: Seal, run_ids: Sequence[str], user_id: str, deleted: Deletion) -> None:
    """Rewrite the results of the calls of these runs, which have the same outputs."""
    results: list[tuple[str, int, Any]] = []
    columns = ("position", "kind", "result")
    for run_id, position, kind, sealed in bulk.find(
        connection, steps, ("run_id",), columns, [(each,) for each in run_ids]
    ):
        if kind != "tool" or sealed is None:
            continue
        row = f"{run_id}/{position}"
        with suppress(Unsealable):
            result = msgspec.json.decode(seal.open(sealed, row=row, user_id=user_id))
            text = content.text_without(result["text"], deleted)
            if text != result["text"]:
                encoded = msgspec.json.encode({**result, "text": text})
                results.append((run_id, position, seal.close(encoded, row=row, user_id=user_id)))
    bulk.update(connection, steps, ("run_id", "position"), ("result",), results)


def _code(identifier: str) -> bytes:
    """Return the last 8 bytes of an id, which are random or those of a hash."""
    return UUID(identifier).bytes[8:]
