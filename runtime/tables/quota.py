"""Limits of what a user may store, and the errors at a limit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.quantity import format_duration, format_size, read_size, write_size
from runtime.errors import UsageError
from runtime.identity.user_settings import Tier
from runtime.tables.errors import QuotaExceeded

SMALLEST_STORAGE: Final = 1_000_000
LARGEST_STORAGE: Final = 10**15
"""Bounds of what a user may store, in bytes."""
LARGEST_COUNT: Final = 10**12
"""Largest limit of tables, and of rows."""
UNLIMITED: Final = "unlimited"

_WORD: Final = re.compile(r"(tables|rows|storage|texts)=(\S+)")
_COUNT: Final = re.compile(r"[0-9](?:[_,]?[0-9])*", re.ASCII)


class Quota(NamedTuple):
    """Limits of one user. `tables` and `rows` (of each table): None is no limit. `storage`: bytes of tables and
    key-value store together. `texts`: bytes of memories, collections, conversations and core memory together."""

    tables: int | None
    rows: int | None
    storage: int
    texts: int = 1_000_000_000

    def __str__(self) -> str:
        """Return the text that `read_quota` reads."""
        tables, rows = (UNLIMITED if each is None else each for each in self[:2])
        return f"tables={tables} rows={rows} storage={write_size(self.storage)} texts={write_size(self.texts)}"


TIERS: Final[Mapping[Tier, Quota]] = MappingProxyType(
    {
        "free": Quota(5, 10_000, 25_000_000, 1_000_000_000),
        "pro": Quota(50, 100_000, 500_000_000, 10_000_000_000),
        "enterprise": Quota(None, None, 5_000_000_000, 100_000_000_000),
    }
)
"""The defaults of the process (the third design, feature 2)."""


def read_quota(text: str, default: Quota) -> Quota:
    """Parse limits such as `tables=5 rows=10000 storage=25MB`; those that are not named are those of `default`. Raises
    UsageError, without the text."""
    given: dict[str, int | None] = {}
    for word in text.split():
        match = _WORD.fullmatch(word)
        if match is None:
            raise UsageError("a word is no limit", hint=f"write limits such as {default}")
        if match[1] in given:
            raise UsageError(f"{match[1]} is given twice", hint="name each limit once")
        read = read_storage if match[1] in ("storage", "texts") else _read_count
        given[match[1]] = read(match[2], match[1])
    if not given:
        raise UsageError("no limit is named", hint=f"write limits such as {default}")
    return default._replace(**given)  # type: ignore[arg-type]  # only `tables` and `rows` can be None


def read_storage(text: str, name: str = "storage") -> int:
    """Parse the bytes that a user may store, such as `100MB`. `name`: of the limit. Raises UsageError, without the
    text."""
    try:
        size = read_size(text.strip())
    except Invalid as error:
        raise UsageError(f"{name}: {error}", hint=error.hint) from None
    if not SMALLEST_STORAGE <= size <= LARGEST_STORAGE:
        bounds = f"{write_size(SMALLEST_STORAGE)} to {write_size(LARGEST_STORAGE)}"
        raise UsageError(f"{name}: out of bounds", hint=f"write a size from {bounds}")
    return size


def _read_count(text: str, name: str) -> int | None:
    if text == UNLIMITED:
        return None
    count = int(re.sub("[_,]", "", text)) if len(text) < 30 and _COUNT.fullmatch(text) else 0
    if not 1 <= count <= LARGEST_COUNT:
        hint = f"write a number from 1 to {LARGEST_COUNT:,}, or {UNLIMITED}"
        raise UsageError(f"{name}: not a limit", hint=hint)
    return count


def storage_exceeded(quota: Quota, used: int) -> QuotaExceeded:
    """Return the error of a user who has `used` so many bytes, for a change that needs more."""
    free = max(0, quota.storage - used)
    message = f"{format_size(quota.storage)} may be stored, {format_size(used)} are used, {format_size(free)} are free"
    return QuotaExceeded(message, hint=_HINT)


def texts_exceeded(quota: Quota, used: int, parts: Mapping[str, int], wait: float) -> QuotaExceeded:
    """Return the error of a user who has `used` so many bytes of texts, for a call that needs more. `parts`: what they
    are. `wait`: seconds until what is deleted now makes room."""
    of = ", ".join(f"{name} {format_size(size)}" for name, size in parts.items() if size)
    free = max(0, quota.texts - used)
    message = (
        f"{format_size(quota.texts)} of texts may be stored, {format_size(used)} are used"
        f"{f' ({of})' if of else ''}, {format_size(free)} are free"
    )
    soon = f"; it makes room within {format_duration(math.ceil(wait))}" if wait >= 1 else ""
    hint = f"delete items of memories and collections, or conversations{soon}; or ask for a larger tier"
    return QuotaExceeded(message, hint=hint)


def tables_exceeded(quota: Quota, count: int) -> QuotaExceeded:
    """Return the error of a user who has `count` tables, for one more."""
    most = quota.tables or 0
    free = max(0, most - count)
    message = f"{_plural(most, 'table')} may exist, {count:,} {_are(count)} used, {free:,} {_are(free)} free"
    return QuotaExceeded(message, hint="drop a table, or ask for a larger tier")


def rows_exceeded(quota: Quota, table: str, count: int) -> QuotaExceeded:
    """Return the error for rows added to a table that has `count` before."""
    most = quota.rows or 0
    free = max(0, most - count)
    message = (
        f"{_plural(most, 'row')} may be in a table, {count:,} {_are(count)} in {table}, {free:,} {_are(free)} free"
    )
    return QuotaExceeded(message, hint=_HINT)


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


_HINT: Final = "delete something, or ask for a larger tier"
