"""The sizes of entries in PostgreSQL: their numbers of words with context.

An earlier program counted all words of neighbours. Its sizes are renewed in the background, a batch at a time; searches
go on with them until then.
"""

from __future__ import annotations

from typing import Any, Final

from runtime.search.dependence import SHORT

NOTHING_TO_RENEW: Final = ("sized", str(2**63 - 1))
"""The row of `meta` while no size is of an earlier program: sizes up to this key have been renewed."""
_AT_ONCE: Final = 2000
"""Entries in one transaction, which takes about 0.1 s: writers wait for it, and a search may."""


def with_context(text: str, about: str, before: str, after: str) -> str:
    """Return the SQL of `dependence.size_with_context`, given that of the numbers of words."""
    given = f"{_depends(before)} * {before} + {_depends(after)} * {after}"
    return f"({text} + {about} + floor({_depends(text)} * ({given}) + 0.5))::integer"


def _depends(words: str) -> str:
    return f"least(1, greatest(0, 2 - {words} / {SHORT}::float8))"


_RENEWED = "SELECT value::bigint FROM meta WHERE name = 'sized'"
_LAST = "SELECT max(key) FROM (SELECT key FROM places WHERE key > $1 ORDER BY key LIMIT $2) batch"
_RENEW = f"""
UPDATE places p SET size = fresh.size FROM (
    SELECT p.key, {with_context("p.text_size", "p.about_size", "coalesce(b.text_size, 0)", "coalesce(a.text_size, 0)")}
    FROM places p LEFT JOIN places b ON b.key = p.before LEFT JOIN places a ON a.key = p.after
    WHERE p.key > $1 AND p.key <= $2
) AS fresh (key, size) WHERE p.key = fresh.key AND p.size <> fresh.size"""  # noqa: S608 - expressions of ours


async def are_new(connection: Any) -> bool:
    """True if no size is of an earlier program."""
    return bool(await connection.fetchval(_RENEWED) == int(NOTHING_TO_RENEW[1]))


async def renew(connection: Any) -> None:
    """Renew some sizes of an earlier program."""
    done = await connection.fetchval(_RENEWED) or 0
    last = await connection.fetchval(_LAST, done, _AT_ONCE)
    if last is not None:
        await connection.execute(_RENEW, done, last)
    await connection.execute(
        "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        *(NOTHING_TO_RENEW if last is None else (NOTHING_TO_RENEW[0], str(last))),
    )
