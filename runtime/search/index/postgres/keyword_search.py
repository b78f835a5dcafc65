"""Finds entries by words: PostgreSQL's GIN index finds them, and BM25 over `ts_rank` orders them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.search.entry import EntryFilter
from runtime.search.index.index import WordMatches
from runtime.search.index.postgres.filters import Where
from runtime.search.index.postgres.text import tsquery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.search.index.embedded.tokenizer import Tokenizer

_SEARCH = """
WITH scope AS MATERIALIZED (
    SELECT count(*)::float8 AS entries, greatest(avg(f.words), 1)::float8 AS average FROM entry_facts f WHERE {scope}
), asked AS (
    SELECT number, query::tsquery FROM unnest($1::text[]) WITH ORDINALITY AS asked (query, number)
), found AS MATERIALIZED (
    SELECT number, key, f.words, pi() ^ 2 / 6 * ts_rank('{{1, 1, 1, 1}}', e.words, query) AS occurrences
    FROM asked JOIN entries e ON e.words @@ query JOIN entry_facts f USING (key) WHERE {scope}
), rarity AS MATERIALIZED (
    SELECT number, (entries - count(key) + 0.5) / (count(key) + 0.5) AS odds
    FROM scope CROSS JOIN asked LEFT JOIN found USING (number) GROUP BY number, entries
), share AS (
    SELECT number, key, 2.2 * occurrences / (occurrences + 1.2 * (0.25 + 0.75 * words / average)) AS share
    FROM found CROSS JOIN scope
), best AS (
    SELECT key, sum(greatest(ln(odds), 1e-6) * share) AS score, sum(ln(1 + odds) * least(share, 1)) AS weight
    FROM share JOIN rarity USING (number) JOIN entry_facts f USING (key) WHERE {wanted}
    GROUP BY key ORDER BY score DESC, key LIMIT $2
)
SELECT key, score, weight, (SELECT array_agg(ln(1 + odds) ORDER BY number) FROM rarity)
FROM (VALUES (true)) always LEFT JOIN best ON true ORDER BY score DESC, key"""
"""BM25 with k1 1.2 and b 0.75, as in the embedded index. `ts_rank` of one word grows with its occurrences, from 6/π²
for one; so the first counts as one, and all together as less than two. Always returns the words' weights."""


async def keyword(
    connection: Any, tokenizer: Tokenizer, words: Sequence[str], wanted: EntryFilter, limit: int
) -> WordMatches:
    """See `Index.keyword`."""
    nothing = WordMatches(np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, np.float32), {})
    phrases = tokenizer.phrases(words)
    if not phrases:
        return nothing
    where = Where(list(map(tsquery, phrases)), max(limit, 0))
    scope = where.add_scope(wanted).sql
    where = Where(*where.values)
    sql = _SEARCH.format(scope=scope, wanted=where.add_filter(wanted).sql)
    rows = await connection.fetch(sql, *where.values)
    weights = rows[0][3]
    found = nothing._replace(weights=tokenizer.word_weights(weights, words))
    if rows[0][0] is None:
        return found
    keys, scores, shares = zip(*(row[:3] for row in rows), strict=True)
    return found._replace(
        keys=np.array(keys, np.int64),
        scores=np.array(scores, np.float32),
        shares=np.array(shares, np.float32) / np.float32(sum(weights)),
    )
