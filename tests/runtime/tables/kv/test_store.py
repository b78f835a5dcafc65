"""Entries are set, found and deleted by name and tags, and compared by version, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import func, select

from runtime.clock import milliseconds
from runtime.database.connection import Database
from runtime.database.schema import kv, kv_tags, user_storage
from runtime.errors import NotFound
from runtime.identity import users
from runtime.search.entry import ALL_SUBJECTS, WantedSubject
from runtime.tables.errors import QuotaExceeded
from runtime.tables.kv import expiry as expiry_module
from runtime.tables.kv import writes
from runtime.tables.kv.entry import DEEPEST, LARGEST_VALUE, LONGEST_NAME, InvalidEntry
from runtime.tables.kv.expiry import Expiry
from runtime.tables.kv.store import KvStore
from runtime.tables.kv.writes import VersionConflict
from tests.cases import each_case
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.runtime.tables.kv.stores import everything, storage_of, store_of


@pytest.fixture
def store(database: Database, clock: ManualClock) -> KvStore:
    return store_of(database, clock)


@pytest.fixture
async def other(database_url: str, database: Database, clock: ManualClock) -> AsyncIterator[KvStore]:
    """The same store, as another process opens it."""
    opened = await Database.open(database_url, KEY)
    yield store_of(opened, clock)
    await opened.close()


async def count(database: Database, table: Any) -> int:
    async with database.read() as connection:
        return int((await connection.execute(select(func.count()).select_from(table))).scalar_one())


async def counted(database: Database, user_id: str = "owner") -> int:
    async with database.read() as connection:
        query = select(user_storage.c.kv_bytes).where(user_storage.c.user_id == user_id)
        return int((await connection.execute(query)).scalar_one())


async def value(store: KvStore, name: str) -> Any:
    entry = await store.get(name)
    return None if entry is None else entry.value


async def test_what_is_set_is_found_by_its_name(store: KvStore, clock: ManualClock) -> None:
    assert await store.get("theme") is None
    made = await store.set("theme", {"dark": True}, ["ui"])
    found = await store.get("theme")
    now = milliseconds(clock)
    assert found == ("theme", {"dark": True}, ["ui"], made.version, None, now, now, None)
    clock.advance(5)
    again = await store.set("theme", None)
    found = await store.get("theme")
    assert again.version > made.version
    assert found == ("theme", None, [], again.version, None, now, now + 5000, None)
    assert await everything(store, "ui") == []


async def test_each_subject_has_its_own_entries_under_the_same_names(database: Database, clock: ManualClock) -> None:
    subjects: tuple[str | None, ...] = ("tea", "coffee", None)
    wanted: tuple[WantedSubject, ...] = (*subjects, ALL_SUBJECTS)
    stores = {each: store_of(database, clock, subject=each) for each in wanted}
    for subject in subjects:
        await stores[subject].set("theme", f"{subject}", ["ui", "b"])
        await stores[subject].set("other", f"{subject}", ["ui"])
    for seen, store in stores.items():
        whose = subjects if seen is ALL_SUBJECTS else (seen,)
        entry = await store.get("theme")
        assert entry is not None
        assert entry.subject == (None if seen is ALL_SUBJECTS else seen)
        assert [each.subject for each in await everything(store, "ui", "b")] == [*whose]
        assert [each.value for each in await everything(store, limit=1)] == [f"{each}" for each in whose for _ in "12"]
        assert await store.count() == 2 * len(whose)
    with pytest.raises(VersionConflict):
        await stores["tea"].set("theme", "x", expected=0)
    await stores["tea"].set("new", "x", expected=0)
    assert [await store.get("new") is not None for store in stores.values()] == [True, False, False, False]
    assert await stores["tea"].delete("theme") == 1
    assert await stores["tea"].delete(tags=["ui"]) == 1
    assert [await store.count() for store in stores.values()] == [1, 2, 2, 5]
    assert await stores["coffee"].delete() == 2
    assert await stores[ALL_SUBJECTS].delete("new") == 0
    assert await stores[ALL_SUBJECTS].delete(tags=["ui"]) == 2
    with pytest.raises(ValueError, match="neither"):
        await stores[None].delete()
    rows = await everything(stores[ALL_SUBJECTS])
    assert [(each.name, each.subject) for each in rows] == [("new", "tea")]


@each_case(
    "given",
    [
        *(0, -1, 2**63, 10**400, -(10**300), 1.0, -0.0, 0.1, 1e300, 5e-324, True, False, None, ""),
        *("text", "\0 \x1f \u2028 😀", [], {}, [[]], {"": None}, {"b": 1, "a": [1.0, 1]}),
    ],
)
async def test_a_value_comes_back_as_it_was_given(store: KvStore, given: Any) -> None:
    await store.set("value", given)
    assert repr(await value(store, "value")) == repr(given)


async def test_a_value_is_measured_as_compact_json(store: KvStore) -> None:
    await store.set("most", "é" * ((LARGEST_VALUE - 2) // 2))
    with pytest.raises(InvalidEntry, match="65,537 bytes as JSON; 65,536 is the maximum"):
        await store.set("more", "x" * (LARGEST_VALUE - 1))
    assert await store.get("more") is None


async def test_a_value_is_not_nested_deeper_than_its_bound(store: KvStore) -> None:
    nested: Any = 1
    for _ in range(DEEPEST):
        nested = [nested]
    await store.set("deep", nested)
    assert await value(store, "deep") == nested
    for deeper in ([nested], {"a": nested}):
        with pytest.raises(InvalidEntry, match="nested deeper than 64 levels"):
            await store.set("deep", deeper)


@each_case("given", [float("nan"), float("inf"), [{"a": float("-inf")}], 10**5000], type)
async def test_a_number_that_json_does_not_have_is_refused(store: KvStore, given: Any) -> None:
    with pytest.raises(InvalidEntry, match="not finite, or has too many digits"):
        await store.set("number", given)


async def test_names_and_tags_are_equal_in_every_form_of_unicode(store: KvStore) -> None:
    await store.set("cafe\u0301", 1, ["re\u0301sume\u0301", "résumé"])
    entry = await store.get("café")
    assert entry is not None
    assert (entry.name, entry.tags) == ("café", ["résumé"])
    assert len(await everything(store, "re\u0301sumé")) == 1
    assert await store.delete("cafe\u0301") == 1


async def test_any_text_is_a_name(store: KvStore) -> None:
    names = ["a/b", "..", " ", "\0", "%2F", "a\nb", "Ж", "A", "a", "x" * LONGEST_NAME]
    for place, name in enumerate(names):
        await store.set(name, place)
    assert [await value(store, name) for name in names] == [*range(len(names))]
    for name in ("", "x" * (LONGEST_NAME + 1)):
        with pytest.raises(InvalidEntry, match="a key has 1 to 256 characters"):
            await store.set(name, 1)


@each_case("tags", [[""], [" "], ["x" * 65], [str(number) for number in range(21)]])
async def test_tags_out_of_bounds_are_refused(store: KvStore, tags: list[str]) -> None:
    with pytest.raises(InvalidEntry):
        await store.set("tagged", 1, tags)
    assert await store.get("tagged") is None


async def test_all_tags_of_a_question_must_match(store: KvStore) -> None:
    await store.set("one", 1, ["a", "b", "c"])
    await store.set("two", 2, ["b", "c"])
    await store.set("three", 3, ["c"])
    await store.set("four", 4)

    async def names(*tags: str) -> list[str]:
        return [each.name for each in await everything(store, *tags)]

    assert await names() == ["one", "two", "three", "four"]
    assert await names("c") == ["one", "two", "three"]
    assert await names("c", "b") == ["one", "two"]
    assert await names("a", "b", "c") == ["one"]
    assert await names("a", "nothing") == []
    await store.set("one", 1, ["c"])
    assert await names("b") == ["two"]
    assert await store.delete(tags=["c"]) == 3
    assert await names() == ["four"]


async def test_pages_hold_each_entry_once_whatever_changes_in_between(store: KvStore) -> None:
    for number in range(10):
        await store.set(f"n{number}", number, ["t"])
    first = await store.page(["t"], limit=4, most_bytes=10**6)
    assert [each.value for each in first.entries] == [0, 1, 2, 3]
    await store.set("n2", "changed", ["t"])
    await store.delete("n3")
    await store.set("new", 10, ["t"])
    assert first.after is not None
    rest = await store.page(["t"], after=first.after, most_bytes=10**6)
    assert [each.value for each in rest.entries] == [4, 5, 6, 7, 8, 9, 10]
    assert rest.after is None
    exact = await store.page(limit=10, most_bytes=10**6)
    assert len(exact.entries) == 10
    assert exact.after is None


async def test_a_page_is_cut_before_it_is_too_large(store: KvStore) -> None:
    for number in range(7):
        await store.set(f"n{number}", "x" * 60_000)
    page = await store.page(most_bytes=200_000)
    assert len(page.entries) == 3
    assert page.after is not None
    assert len((await store.page(most_bytes=1)).entries) == 1
    assert [each.name for each in await everything(store, most=130_000)] == [f"n{number}" for number in range(7)]
    assert await store.count() == 7


async def test_an_entry_is_changed_only_at_the_version_that_is_expected(store: KvStore) -> None:
    first = await store.set("n", 1, expected=0)
    with pytest.raises(VersionConflict, match=f"the entry 'n' has version {first.version}, not 0") as conflict:
        await store.set("n", 2, expected=0)
    assert conflict.value.version == first.version
    second = await store.set("n", 2, expected=first.version)
    with pytest.raises(VersionConflict) as conflict:
        await store.set("n", 3, expected=first.version)
    assert conflict.value.version == second.version
    assert await value(store, "n") == 2
    with pytest.raises(VersionConflict, match="there is no entry 'missing': its version is 0, not 7"):
        await store.set("missing", 1, expected=7)
    assert await store.get("missing") is None


async def test_a_version_is_never_used_again(store: KvStore, clock: ManualClock) -> None:
    first = await store.set("n", 1)
    await store.delete("n")
    clock.step(-86_400)
    second = await store.set("n", 1, expected=0)
    assert second.version > first.version
    with pytest.raises(VersionConflict):
        await store.set("n", 2, expected=first.version)


async def test_of_many_changes_at_one_version_exactly_one_is_made(store: KvStore, other: KvStore) -> None:
    expected = 0
    for turn in range(5):
        changes = [each.set("n", (turn, place), expected=expected) for place in range(10) for each in (store, other)]
        answers = await asyncio.gather(*changes, return_exceptions=True)
        (done,) = [answer for answer in answers if not isinstance(answer, BaseException)]
        assert all(
            isinstance(each, VersionConflict) and each.version == done.version for each in answers if each != done
        )
        expected = done.version


async def test_counting_at_once_by_compare_and_set_loses_nothing(store: KvStore, other: KvStore) -> None:
    async def add(one: KvStore) -> None:
        while True:
            found = await one.get("sum")
            try:
                await one.set("sum", 1 + (found.value if found else 0), expected=found.version if found else 0)
            except VersionConflict:
                continue
            return

    await asyncio.gather(*(add(one) for one in (store, other) * 10))
    assert await value(other, "sum") == 20


async def test_an_expired_entry_is_gone_at_once(store: KvStore, clock: ManualClock, database: Database) -> None:
    now = milliseconds(clock)
    made = await store.set("n", 1, ["t"], expires_at=now + 1000)
    await store.set("stays", 1, ["t"])
    clock.advance(0.999)
    entry = await store.get("n")
    assert entry is not None
    assert entry.expires_at == now + 1000
    clock.advance(0.001)
    assert await store.get("n") is None
    assert [each.name for each in await everything(store, "t")] == ["stays"]
    assert await store.count() == 1
    with pytest.raises(VersionConflict) as conflict:
        await store.set("n", 2, expected=made.version)
    assert conflict.value.version == 0
    assert await store.delete("n") == 0
    again = await store.set("n", 3, expected=0)
    assert again.version > made.version
    entry = await store.get("n")
    assert entry is not None
    assert (entry.created_at, entry.tags, entry.expires_at) == (now + 1000, [], None)
    assert await count(database, kv_tags) == 1


async def test_a_time_in_the_past_is_refused(store: KvStore, clock: ManualClock) -> None:
    for past in (0, milliseconds(clock)):
        with pytest.raises(InvalidEntry, match="is in the past") as wrong:
            await store.set("n", 1, expires_at=past)
        assert wrong.value.field == "expires_at"
    assert await store.get("n") is None


async def test_the_sweep_deletes_what_is_past_and_nothing_else(
    store: KvStore, database: Database, clock: ManualClock
) -> None:
    ada = await users.add(database, "ada", 0)
    theirs = store_of(database, clock, ada)
    now = milliseconds(clock)
    storage = storage_of(database, clock)
    for number in range(5):
        await store.set(f"past {number}", number, ["t"], expires_at=now + 1000)
        await theirs.set(f"past {number}", number, expires_at=now + 1000)
    kept = await store.set("later", 1, ["t"], expires_at=now + 2000)
    forever = await store.set("forever", 1)
    sweep = Expiry(database, clock, storage, lambda: milliseconds(clock)).sweep
    assert await sweep() == 0
    clock.advance(1)
    await store.set("past 0", "set again", ["t"], expires_at=now + 5000)
    assert await sweep() == 9
    assert [each.name for each in await everything(store)] == ["past 0", "later", "forever"]
    assert await count(database, kv) == 3
    assert await count(database, kv_tags) == 2
    again = await store.set("past 0", "set again", ["t"], expires_at=now + 5000)
    assert await counted(database) == kept.bytes + forever.bytes + again.bytes
    assert await counted(database, ada) == 0


async def test_the_sweep_of_a_daemon_whose_clock_is_ahead_deletes_nothing_early(
    postgres_url: str, clock: ManualClock
) -> None:
    database = await Database.open(postgres_url, KEY)
    store = store_of(database, clock)
    # The clock of the database is far beyond that of the test.
    await store.set("n", 1, expires_at=4_000_000_000_000)
    ahead = Expiry(database, clock, storage_of(database, clock), lambda: 5_000_000_000_000)
    assert await ahead.sweep() == 0
    assert await value(store, "n") == 1
    await database.close()


async def test_the_sweep_of_many_entries_is_made_in_parts(
    store: KvStore, database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry_module, "CHUNK", 10)
    expiry = milliseconds(clock) + 1
    await asyncio.gather(*(store.set(f"n{number}", 1, expires_at=expiry) for number in range(25)))
    clock.advance(1)
    assert await Expiry(database, clock, storage_of(database, clock), lambda: milliseconds(clock)).sweep() == 25
    assert await counted(database) == 0


async def test_what_entries_take_is_counted(store: KvStore, database: Database) -> None:
    one = await store.set("one", "x" * 1000, ["a", "b"])
    two = await store.set("two", 2)
    assert one.bytes > 1000 + two.bytes
    assert await counted(database) == one.bytes + two.bytes
    smaller = await store.set("one", "")
    assert await counted(database) == smaller.bytes + two.bytes
    await store.delete("one")
    assert await counted(database) == two.bytes
    await store.delete("two")
    assert await counted(database) == 0


async def test_a_full_quota_refuses_only_growth(database: Database, clock: ManualClock) -> None:
    store = store_of(database, clock, most=20_000)
    await store.set("n", "x" * 9000)
    await store.set("m", "x" * 9000)
    with pytest.raises(QuotaExceeded, match="20 KB may be stored"):
        await store.set("o", "x" * 9000)
    with pytest.raises(QuotaExceeded):
        await store.set("n", "x" * 12_000)
    assert await value(store, "n") == "x" * 9000
    assert await store.get("o") is None
    # As after a move to a smaller tier.
    smaller = store_of(database, clock, most=1000)
    assert len(await everything(smaller)) == 2
    await smaller.set("n", "x" * 8999)
    await smaller.set("n", "y" * 8999)
    with pytest.raises(QuotaExceeded):
        await smaller.set("n", "x" * 9000)
    assert await smaller.delete("n") == 1
    assert await smaller.delete("m") == 1
    await smaller.set("n", "x")


async def test_entries_that_have_expired_make_room(database: Database, clock: ManualClock) -> None:
    store = store_of(database, clock, most=20_000)
    await store.set("old", "x" * 9000, expires_at=milliseconds(clock) + 1)
    await store.set("kept", "x" * 9000)
    clock.advance(1)
    await store.set("new", "x" * 9000)
    assert [each.name for each in await everything(store)] == ["kept", "new"]
    with pytest.raises(QuotaExceeded):
        await store.set("more", "x" * 9000)
    assert await counted(database) <= 20_000


async def test_room_is_made_in_parts(database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "DELETED_AT_ONCE", 3)
    store = store_of(database, clock, most=20_000)
    for number in range(8):
        await store.set(f"n{number}", "x" * 2000, ["t"], expires_at=milliseconds(clock) + 1)
    clock.advance(1)
    new = await store.set("new", "x" * 5000)
    assert await count(database, kv) == await count(database, kv_tags) + 1 == 6
    async with database.read() as connection:
        others = await connection.scalar(select(func.sum(kv.c.bytes)).where(kv.c.expires_at.is_not(None)))
    assert await counted(database) == others + new.bytes


async def test_a_daemon_whose_clock_is_ahead_makes_no_room_early(postgres_url: str, clock: ManualClock) -> None:
    database = await Database.open(postgres_url, KEY)
    store = store_of(database, clock, most=20_000)
    # The clock of the database is far beyond that of the test.
    await store.set("n", "x" * 15_000, expires_at=4_000_000_000_000)
    with pytest.raises(QuotaExceeded):
        await store_of(database, ManualClock(5e9), most=20_000).set("m", "x" * 15_000)
    assert await value(store, "n") == "x" * 15_000
    await database.close()


async def test_an_expired_entry_is_replaced_when_there_is_no_room_for_two(
    database: Database, clock: ManualClock
) -> None:
    store = store_of(database, clock, most=10_000)
    await store.set("n", "x" * 9000, expires_at=milliseconds(clock) + 1)
    clock.advance(1)
    await store.set("n", "y" * 9000)
    assert await value(store, "n") == "y" * 9000


async def test_two_users_have_entries_of_the_same_name_and_tag(database: Database, clock: ManualClock) -> None:
    ada, bob = [await users.add(database, name, 0) for name in ("ada", "bob")]
    hers, his = store_of(database, clock, ada), store_of(database, clock, bob)
    await hers.set("n", "ada's", ["t"])
    await his.set("n", "bob's", ["t"])
    assert [each.value for each in await everything(hers, "t")] == ["ada's"]
    assert [each.value for each in await everything(his)] == ["bob's"]
    async with database.read() as connection:
        found = [bytes(row.code) for table in (kv, kv_tags) for row in await connection.execute(select(table.c.code))]
    assert len(set(found)) == len(found) == 4
    assert await his.delete(tags=["t"]) == 1
    assert await value(hers, "n") == "ada's"


async def test_a_user_who_was_removed_stores_nothing_more(database: Database, clock: ManualClock) -> None:
    ada = await users.add(database, "ada", 0)
    store = store_of(database, clock, ada)
    await store.set("n", 1)
    await database.transact(lambda connection: users.remove(connection, ada, 1))
    for change in (store.set("n", 2), store.delete("n")):
        with pytest.raises(NotFound, match="no such user"):
            await change
    assert await count(database, kv) == 1


async def test_nothing_is_deleted_without_a_name_or_tags(store: KvStore) -> None:
    with pytest.raises(ValueError, match="neither"):
        await store.delete()
