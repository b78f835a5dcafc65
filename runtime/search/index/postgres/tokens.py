"""Token bits of an index in PostgreSQL. The triggers in `schema` delete those of removed entries and of earlier texts.

Their version is in `meta`, empty while none are stored: then the first daemon that stores some says which it is, as it
does for the model of the vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NONE_YET: Final = ""
_READ = """
SELECT key, bits FROM tokens WHERE key = ANY($1::bigint[])
AND EXISTS (SELECT FROM meta WHERE name = 'tokens' AND value = $2)"""


async def version_of(connection: Any) -> str | None:
    """Return the version of the stored bits; None: no daemon has wanted any."""
    found: str | None = await connection.fetchval("SELECT value FROM meta WHERE name = 'tokens'")
    return found


def differs(found: str | None, version: str | None) -> bool:
    """True if the bits of version `found` must be forgotten because those of `version` are wanted."""
    return version is not None and found not in {_NONE_YET, version}


async def forget(connection: Any) -> None:
    """Delete all bits; every entry with a vector waits for its bits."""
    await connection.execute("TRUNCATE tokens, waiting_tokens")
    await connection.execute(
        "INSERT INTO waiting_tokens (key, time) SELECT key, time FROM vectors JOIN places USING (key)"
    )
    await connection.execute(
        "INSERT INTO meta (name, value) VALUES ('tokens', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        _NONE_YET,
    )


async def store(connection: Any, version: str, bits: dict[int, bytes]) -> None:
    """Store the bits of these entries, unless another daemon's version was first."""
    found = await version_of(connection)
    if found is None:
        await forget(connection)  # The tables were made again since the version was said.
    if not found:
        await connection.execute("UPDATE meta SET value = $1 WHERE name = 'tokens'", version)
    elif found != version:
        return
    await connection.execute(
        "INSERT INTO tokens (key, bits) SELECT * FROM unnest($1::bigint[], $2::bytea[]) ON CONFLICT (key) DO NOTHING",
        list(bits), list(bits.values()),
    )  # fmt: skip
    await connection.execute("DELETE FROM waiting_tokens WHERE key = ANY($1::bigint[])", list(bits))


async def read(connection: Any, version: str, keys: NDArray[np.int64]) -> Sequence[bytes | None]:
    """See `Index.tokens`."""
    wanted = keys.tolist()
    found = dict(await connection.fetch(_READ, wanted, version))
    return [found.get(key) for key in wanted]
