"""Key-value stores for tests."""

from __future__ import annotations

from runtime.clock import Clock
from runtime.database.connection import Database
from runtime.identity.user_settings import UserSettingsStore
from runtime.search.entry import ALL_SUBJECTS, WantedSubject
from runtime.tables.kv.entry import KvEntry
from runtime.tables.kv.store import KvStore
from runtime.tables.quota import TIERS
from runtime.tables.storage import UserStorage

MOST_BYTES = 1_000_000


def storage_of(database: Database, clock: Clock, *, most: int | None = None) -> UserStorage:
    """What users store. `most`: bytes of each."""
    tiers = {name: quota if most is None else quota._replace(storage=most) for name, quota in TIERS.items()}
    return UserStorage(database, clock, UserSettingsStore(database, clock), tiers, "free")


def store_of(
    database: Database,
    clock: Clock,
    user_id: str = "owner",
    *,
    most: int | None = None,
    subject: WantedSubject = ALL_SUBJECTS,
) -> KvStore:
    """The store of a user and a subject."""
    return KvStore(database, clock, storage_of(database, clock, most=most), user_id, subject)


async def everything(store: KvStore, *tags: str, limit: int | None = None, most: int = MOST_BYTES) -> list[KvEntry]:
    """All entries with these tags, page by page."""
    page = await store.page(tags, limit=limit, most_bytes=most)
    found = [*page.entries]
    while page.after is not None:
        page = await store.page(tags, after=page.after, limit=limit, most_bytes=most)
        found += page.entries
    return found
