"""What a user may store in SQL tables and in the key-value store."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

Tier = Literal["free", "pro", "enterprise"]


class Quota(NamedTuple):
    """Limits of one user. `tables` and `rows` (of each table): None is no limit. `storage`: bytes of tables and
    key-value store together."""

    tables: int | None
    rows: int | None
    storage: int


TIERS: Final[Mapping[Tier, Quota]] = MappingProxyType(
    {
        "free": Quota(5, 10_000, 25_000_000),
        "pro": Quota(50, 100_000, 500_000_000),
        "enterprise": Quota(None, None, 5_000_000_000),
    }
)
"""The defaults of the process (the third design, feature 2)."""
