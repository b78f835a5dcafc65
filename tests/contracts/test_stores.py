"""The contract of stores, for every row of the table."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dslc.blocks.memory import Memory
from dslc.blocks.setting import settings_of
from dslc.blocks.variant import Variant
from runtime.clock import SYSTEM, Clock
from runtime.database.connection import Database
from runtime.errors import UsageError
from runtime.memory import STORES, StoreRow, identity_of, open_store
from runtime.memory.collection.store import CollectionStore
from runtime.memory.errors import NoSuchItem, RefusedItem, StoreError, Unsupported
from runtime.memory.item import Item, MemoryType, Provenance, chunk_hash, delivery_uri, retraction_uri, run_uri
from runtime.memory.store import LARGEST_TEXT, Capability, Store
from runtime.memory.store_types import Append, Scan, position_of
from runtime.memory.succession import HiddenItems, changes_among
from runtime.search.entry import ALL_SUBJECTS
from tests.clocks import ManualClock
from tests.conftest import KEY, fresh
from tests.databases import migrated
from tests.lanes import examples
from tests.runtime.memory.texts import WHEN, fact, item, items

SECRET = "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4a"


KINDS = [(row, kind) for row in STORES.values() for kind in ((None,) if row.files else ("sqlite", "postgresql"))]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module", params=KINDS, ids=lambda found: "-".join(filter(None, (found[0].name, found[1]))))
def kind(request: pytest.FixtureRequest) -> tuple[StoreRow, str | None]:
    """Every row of the table; a store of database rows once for each kind of database."""
    found: tuple[StoreRow, str | None] = request.param
    return found


@pytest.fixture(scope="module")
def row(kind: tuple[StoreRow, str | None]) -> StoreRow:
    """The row of the table."""
    return kind[0]


@pytest.fixture
def memory(row: StoreRow) -> Memory:
    """A memory with that store, as a program declares it."""
    return Memory(name=f"m-{uuid4().hex}", store=Variant(name=row.name))


@pytest.fixture(scope="module")
def base_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the database for stores of rows, if that is SQLite."""
    return tmp_path_factory.mktemp("base")


@pytest.fixture(scope="module")
def base_at(kind: tuple[StoreRow, str | None], base_folder: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The place of that database; None for a store of files."""
    if kind[1] == "postgresql":
        yield from fresh(request.getfixturevalue("postgres"))
    else:
        yield None if kind[1] is None else migrated(base_folder / "base.db")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def base(base_at: Path | str | None) -> AsyncIterator[Database | None]:
    """One open database for all memories of a store of rows."""
    database = None if base_at is None else await Database.open(base_at, KEY)
    yield database
    if database is not None:
        await database.close()


Opening = Callable[..., Awaitable[Store]]


@pytest.fixture
def opening(memory: Memory, base: Database | None, tmp_path: Path) -> Opening:
    """Return a function that opens the store; with `elsewhere` another, empty one."""

    async def open_it(*, elsewhere: bool = False, clock: Clock = SYSTEM) -> Store:
        folder, declared = tmp_path, memory
        if elsewhere:
            folder, declared = tmp_path / str(uuid4()), memory.model_copy(update={"name": f"m-{uuid4().hex}"})
        return await open_store(declared, folder, clock=clock, database=base)

    return open_it


@pytest_asyncio.fixture(loop_scope="module")
async def store(opening: Opening) -> AsyncIterator[Store]:
    opened = await opening()
    yield opened
    await opened.close()


@pytest.fixture
def collection(store: Store) -> CollectionStore:
    """The store; the test is skipped unless clients can use it as a collection."""
    if not isinstance(store, CollectionStore):
        pytest.skip("the store is not a collection")
    return store


def must_have(store: Store, *wanted: Capability) -> None:
    """Skip the test unless the store has these capabilities."""
    if not store.capabilities.issuperset(wanted):
        pytest.skip(f"the store cannot {' and '.join(wanted)}")


async def everything(store: Store, wanted: Scan | None = None) -> list[Item]:
    return [found async for found in store.scan(wanted)]


def plain(found: Item) -> Item:
    """Return the item without the id, which the store assigns."""
    return found.with_fields(memory_id="")


async def test_a_row_says_what_it_is_and_what_options_it_takes(row: StoreRow) -> None:
    assert row.title
    assert row.doc.endswith(".")
    assert all(setting.doc for setting in settings_of(row.options))


async def test_a_store_that_holds_nothing_has_nothing_to_show(store: Store, tmp_path: Path) -> None:
    assert await everything(store) == []
    assert await store.agents() == ()
    assert (await store.stats())[:3] == (0, 0, 0)
    if "remove" in store.capabilities:
        assert not await store.remove("reviewer")
    shown = await store.inspect("reviewer")
    assert (shown.memory, shown.log) == (None, None)


async def test_what_is_appended_is_what_a_scan_yields(store: Store) -> None:
    given_items = [
        item("Review\n- one", tags=("a", "b"), source_uri="https://example.com/1", project_id="p", user_id="u"),
        fact("User prefers dark mode", source_memory_ids=("x", "y")),
        fact("Asks about metrics", tags=("pattern", "z")),
        item(
            "Deploy with care", "procedural", source_uri="file:///a", other_sources=("file:///b", "file:///<c> --> d")
        ),
        item("Deployed", source_uri="file:///a", other_sources=("file:///b",)),
    ]
    written = await store.append(given_items)
    assert [plain(one) for one in written] == given_items
    found = await everything(store)
    assert {one.memory_id: one for one in found} == {one.memory_id: one for one in written}
    assert len({one.memory_id for one in written}) == len(written)
    assert all(one.memory_id for one in written)


ABOUT = Provenance(
    author="ann", session_id="s1", task="Review", confidence=0.75, risk_tier="YELLOW", git_commit="a109d56",
    sources=("src/a.py", "https://example.com/1"), run_id="r1", said_by="agent",
)  # fmt: skip


async def test_how_something_came_to_be_remembered_is_kept_with_it(store: Store) -> None:
    given_items = [
        item(provenance=ABOUT),
        fact(provenance=ABOUT),
        fact("Only this", provenance=Provenance(author="b")),
        fact("Newer", subject="a <customer> --> é", replaces="an id", retracts="another id"),
    ]
    await store.append(given_items)
    found = {plain(one).text: plain(one) for one in await everything(store)}
    assert found == {one.text: one for one in given_items}


async def test_a_store_that_is_opened_again_remembers(opening: Opening) -> None:
    first = await opening()
    written = await first.append([item(), fact()])
    await first.close()
    second = await opening()
    assert {one.memory_id for one in await everything(second)} == {one.memory_id for one in written}
    await second.close()


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=items())
async def test_any_item_comes_back_exactly_but_for_its_secrets(one: Item, opening: Opening) -> None:
    store = await opening(elsewhere=True)
    try:
        written = await store.append([one])
        assert await everything(store) == list(written)
        if "REDACTED" not in repr(written):
            assert [plain(found) for found in written] == [one]
    finally:
        await store.close()


def leaking() -> list[Item]:
    """Return items with a secret in each of their texts."""
    about = Provenance(
        author=SECRET, session_id=SECRET, task=SECRET, git_commit=SECRET, sources=(SECRET,), run_id=SECRET
    )
    fields: dict[str, Any] = {
        "project_id": SECRET,
        "user_id": SECRET,
        "source_memory_ids": (SECRET,),
        "provenance": about,
        "subject": SECRET,
        "replaces": SECRET,
        "retracts": SECRET,
    }
    return [
        item(f"Title {SECRET}\n- {SECRET}", tags=(SECRET,), source_uri=f"https://bob:{SECRET}@example.com/", **fields),
        fact(f"The token is {SECRET}", **fields),
    ]


async def test_no_secret_reaches_the_store_in_any_field(store: Store, tmp_path: Path, base_folder: Path) -> None:
    written = await store.append(leaking())
    assert SECRET not in repr(written)
    assert written[0].provenance.author == written[0].user_id == written[0].tags[0] == "[REDACTED:github_token]"
    if "edit" in store.capabilities:
        await store.edit((await everything(store))[0].memory_id, f"now {SECRET}")
    assert SECRET not in repr(await everything(store))
    assert "[REDACTED:github_token]" in repr(await everything(store))
    files = [file for folder in (tmp_path, base_folder) for file in folder.rglob("*") if file.is_file()]
    assert not [file for file in files if SECRET.encode() in file.read_bytes()]


async def test_a_preview_says_what_would_be_kept_and_keeps_nothing(store: Store) -> None:
    shown = await store.preview([*leaking(), fact("Known")])
    assert len(shown) == 3
    assert SECRET not in json.dumps(shown)
    assert "[REDACTED:github_token]" in json.dumps(shown)
    assert await everything(store) == []
    assert await store.parts() == ()
    for refused in (fact("x" * (LARGEST_TEXT + 1)), fact(agent_id="../up")):
        with pytest.raises(RefusedItem):
            await store.preview([refused])


async def test_an_item_that_cannot_be_redacted_is_not_stored(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> str:
        raise RuntimeError("broken")

    monkeypatch.setattr("runtime.memory.store.redact", fail)
    for write in (store.append, store.preview):
        with pytest.raises(RefusedItem, match="redacted"):
            await write([fact()])
    assert await everything(store) == []


async def test_a_delivery_that_is_done_again_leaves_nothing_twice(store: Store) -> None:
    one = item(source_uri=delivery_uri("d1"))
    part = item("Another part", source_uri=delivery_uri("d1", "2"))
    known = fact(source_uri=delivery_uri("d1", "3"))
    assert len(await store.append([one, part, known])) == 3
    assert await store.append([one, part, known, one.with_fields(text="Told otherwise", chunk_hash="")]) == ()
    assert await store.append([one.with_fields(timestamp=WHEN + timedelta(days=1))]) == ()
    assert len(await everything(store)) == 3


async def test_appends_that_happen_at_once_are_all_kept(store: Store) -> None:
    many = [item(f"Delivery {number}", source_uri=delivery_uri(str(number))) for number in range(60)]
    facts = [fact(f"Fact {number}") for number in range(20)]
    await asyncio.gather(*(store.append([one]) for one in (*many, *facts, *many)))
    assert sorted(one.text for one in await everything(store)) == sorted(one.text for one in (*many, *facts))


async def test_a_scan_gives_what_was_asked_for_and_nothing_else(store: Store) -> None:
    for day in range(4):
        await store.append(
            [item(f"Day {day}", timestamp=WHEN + timedelta(days=day), tags=("even",) if day % 2 == 0 else ())]
        )
    await store.append([fact("Known"), item("Elsewhere", agent_id="other")])

    async def texts(**wanted: object) -> list[str]:
        return [one.text for one in await everything(store, Scan.model_validate(wanted))]

    mine = {"agent_id": "reviewer", "memory_type": "episodic"}
    assert await texts(**mine) == ["Day 0", "Day 1", "Day 2", "Day 3"]
    assert await texts(**mine, newest_first=True, limit=2) == ["Day 3", "Day 2"]
    assert await texts(**mine, since=WHEN + timedelta(days=1), until=WHEN + timedelta(days=3)) == ["Day 1", "Day 2"]
    assert await texts(tags={"even"}) == ["Day 0", "Day 2"]
    assert await texts(memory_type="semantic") == ["Known"]
    assert await texts(agent_id="other") == ["Elsewhere"]
    assert await texts(agent_id="nobody") == []
    assert await texts(limit=0) == []


async def test_a_scan_asks_for_every_part_of_the_payload(store: Store) -> None:
    uri = "https://example.com/" + "long/" * 800
    given_items = [
        item("One", user_id="ada", project_id="p", tags=("a", "A b", 'c"')),
        item("Two", user_id="bob", project_id="p", tags=("b",), source_uri=uri, other_sources=("file:///too",)),
        fact("Three", user_id="ada", project_id="q", tags=("a", "b"), source_uri="https://example.com/3"),
        fact("Four", subject="s\0", replaces="old", provenance=Provenance(run_id="r")),
        fact("Five", user_id="eve", subject="s", retracts="old"),
    ]
    ids = {one.text: one.memory_id for one in await store.append(given_items)}

    async def texts(**wanted: object) -> set[str]:
        return {one.text for one in await everything(store, Scan.model_validate(wanted))}

    assert await texts(user_id="ada") == {"One", "Three"}
    assert await texts(project_id="p") == {"One", "Two"}
    assert await texts(project_id="p", user_id="ada") == {"One"}
    assert await texts(source_uri=uri) == {"Two"}
    assert await texts(source_uri="file:///too") == {"Two"}
    assert await texts(memory_ids={ids["One"], ids["Three"], "none"}) == {"One", "Three"}
    assert await texts(memory_ids={ids["One"]}, user_id="bob") == set()
    assert await texts(tags_any={"A", "b"}) == {"Two", "Three"}
    assert await texts(tags_any={'c"', "x"}) == {"One"}
    assert await texts(tags={"a", "b"}) == {"Three"}
    assert await texts(tags={"a"}, tags_any={"b", "A b"}, limit=1) <= {"One", "Three"}
    assert await texts(subject="s\0") == {"Four"}
    assert await texts(subject="s") == {"Five"}
    assert await texts(subject=None) == {"One", "Two", "Three"}
    assert await texts(subject=ALL_SUBJECTS) == {"One", "Two", "Three", "Four", "Five"}
    assert await texts(run_id="r") == {"Four"}
    assert await texts(chunk_hash=chunk_hash("Three")) == {"Three"}
    assert await texts(changes_of={"old", "none"}) == {"Four", "Five"}
    assert await texts(changes_of={"none"}) == set()
    assert await texts(changes=True) == {"Four", "Five"}


async def test_each_agents_memory_is_its_own(store: Store) -> None:
    await store.append([item(agent_id="a"), item(agent_id="b"), fact(agent_id="b")])
    assert await store.agents() == ("a", "b")
    assert (await store.stats()).agents == 2
    assert (await store.stats("a")).bytes < (await store.stats()).bytes
    if "remove" in store.capabilities:
        assert await store.remove("b")
        assert await store.agents() == ("a",)
        assert {one.agent_id for one in await everything(store)} == {"a"}


async def test_an_agent_cannot_leave_the_store_by_its_name(store: Store) -> None:
    for name in ("", ".", "..", "../up", "a/b", "/etc", "a\x00b", "a b", "é", "x" * 65, "a\n"):
        with pytest.raises(RefusedItem):
            await store.append([item(), item(agent_id=name)])
        with pytest.raises(RefusedItem):
            await everything(store, Scan(agent_id=name))
        with pytest.raises(RefusedItem):
            await store.inspect(name)
        if "remove" in store.capabilities:
            with pytest.raises(RefusedItem):
                await store.remove(name)
    assert await everything(store) == []


async def test_an_edit_changes_the_text_and_nothing_else(store: Store) -> None:
    must_have(store, "edit")
    for one in await store.append([item(tags=("a",)), fact("Old", tags=("pattern", "b")), fact("Untouched")]):
        if one.text != "Untouched":
            new = f"New {one.memory_type}\n\n## text "
            edited = await store.edit(one.memory_id, new)
            assert plain(edited) == plain(one.with_fields(text=new, chunk_hash=""))
            assert edited in await everything(store)
    assert len(await everything(store)) == 3
    with pytest.raises(NoSuchItem):
        await store.edit("no such id", "x", agent_id="reviewer")
    with pytest.raises(NoSuchItem):
        await store.edit("no such id", "x")


async def test_an_edit_says_nothing_that_another_item_of_a_store_without_copies_says(store: Store) -> None:
    must_have(store, "edit", "replace")
    first, second = await store.append([fact("One"), fact("Two")])
    with pytest.raises(RefusedItem, match=second.memory_id):
        await store.edit(first.memory_id, "Two ")
    assert {each.text for each in await everything(store)} == {"One", "Two"}


async def test_a_deleted_item_is_gone_and_no_other(store: Store) -> None:
    must_have(store, "delete")
    written = await store.append([item("One"), item("Two"), fact("Three"), fact("Four")])
    for one in written[::2]:
        await store.delete(one.memory_id)
    assert {one.text for one in await everything(store)} == {"Two", "Four"}
    with pytest.raises(NoSuchItem):
        await store.delete(written[0].memory_id, agent_id="reviewer")


async def test_what_a_user_has_is_forgotten_and_nothing_of_anybody_else(opening: Opening) -> None:
    store = await opening()
    agents, people = ("reviewer", "planner"), ("ada", "bob", "owner")
    kinds: tuple[MemoryType, ...] = ("episodic", "semantic", "procedural")
    written = await store.append(
        item(f"{kind} {number}", kind, agent_id=agent, user_id=user, source_uri=f"https://example.com/{number}")
        for agent in agents
        for kind in kinds
        for number in range(2)
        for user in people
    )
    left = {one.memory_id: one for one in written if one.user_id != "ada"}
    assert await store.forget_user("ada", agent_id="reviewer") == 6
    assert {one.user_id for one in await everything(store, Scan(agent_id="reviewer"))} == {"bob", "owner"}
    assert await store.forget_user("ada") == 6
    assert await store.forget_user("ada") == 0
    assert await store.forget_user("ad") == 0
    assert await store.forget_user("ada", agent_id="nobody") == 0
    assert {one.memory_id: one for one in await everything(store)} == left
    assert not (await store.verify())[1]
    in_parts = [one for part in await store.parts() for one, _ in await store.read(part)]
    assert {one.memory_id: one for one in in_parts} == left
    await store.close()
    store = await opening()
    assert {one.memory_id: one for one in await everything(store)} == left
    assert not (await store.verify())[1]
    # It may be stored again: no trace of the deleted one is left.
    again = await store.append([item("semantic 0", "semantic", user_id="ada")])
    assert [one.user_id for one in again] == ["ada"]
    assert await store.forget_user("owner") == 12
    assert {one.user_id for one in await everything(store)} == {"ada", "bob"}
    await store.close()


@pytest.mark.parametrize("unreadable", ["episodic", "semantic"])
async def test_a_file_that_cannot_be_read_keeps_nothing_else_of_a_forgotten_user(
    store: Store, row: StoreRow, unreadable: MemoryType
) -> None:
    if not row.files:
        pytest.skip("the store has no files")
    kinds: tuple[MemoryType, ...] = ("episodic", "semantic")
    written = await store.append(
        [
            item(f"{kind} {day}", kind, user_id=user, timestamp=WHEN + timedelta(days=day))
            for kind in kinds
            for day in range(3)
            for user in ("ada", "bob")
        ]
    )
    located = {known: place.file for known, place in (await store.locate(written)).items()}
    file = Path(next(located[one.memory_id] for one in written if one.memory_type == unreadable))
    file.rename(file.with_suffix(".aside"))
    file.mkdir()
    with pytest.raises(StoreError, match=file.name):
        await store.forget_user("ada")
    file.rmdir()
    file.with_suffix(".aside").rename(file)
    theirs = {one.memory_id for one in written if one.user_id == "ada" and located[one.memory_id] == str(file)}
    left = await everything(store)
    assert {one.memory_id for one in left if one.user_id == "ada"} == theirs
    assert sum(one.user_id == "bob" for one in left) == 6
    assert await store.forget_user("ada") == len(theirs)


async def test_what_a_store_does_not_declare_it_refuses_by_name(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(store), "capabilities", frozenset())
    refused = {
        "edit": store.edit("x", "y"),
        "delete": store.delete("x"),
        "compact": store.compact("x", older_than=WHEN.date()),
        "remove": store.remove("x"),
        "upsert": store.upsert([fact()]),
        "replace": store.replace(fact()),
    }
    for name, call in refused.items():
        with pytest.raises(Unsupported, match=name):
            await call


async def test_an_item_that_is_too_large_is_refused_and_said_to_be(store: Store) -> None:
    with pytest.raises(RefusedItem, match="too large"):
        await store.append([fact("small"), fact("x" * (LARGEST_TEXT + 1))])
    assert await everything(store) == []
    large = fact("x" * LARGEST_TEXT)
    assert [plain(one) for one in await store.append([large])] == [large]


async def in_parts(store: Store, agent_id: str | None = None) -> dict[str, Item]:
    return {one.memory_id: one for part in await store.parts(agent_id) for one, _ in await store.read(part)}


async def test_what_the_parts_hold_is_what_a_scan_yields(store: Store) -> None:
    await store.append([item(), fact(), item("Later", timestamp=WHEN + timedelta(days=1)), fact("b", agent_id="other")])
    assert await in_parts(store) == {one.memory_id: one for one in await everything(store)}
    own = await everything(store, Scan(agent_id="reviewer"))
    assert await in_parts(store, "reviewer") == {one.memory_id: one for one in own}
    assert await in_parts(store, "nobody") == {}
    parts = await store.parts()
    assert len({part.name for part in parts}) == len(parts)
    assert {part.agent_id for part in parts} == {"reviewer", "other"}


async def test_a_part_says_where_each_of_its_items_stands(store: Store) -> None:
    await store.append([item(), item("Another"), fact()])
    for part in await store.parts():
        for one, place in await store.read(part):
            assert one.agent_id == part.agent_id
            assert (await store.locate([one])).get(one.memory_id) == place


async def test_the_revision_of_a_part_changes_when_what_it_holds_does_and_not_otherwise(store: Store) -> None:
    await store.append([item(), fact(agent_id="other")])
    first = {part.name: part for part in await store.parts()}
    assert {part.name: part for part in await store.parts()} == first
    await everything(store)
    assert {part.name: part for part in await store.parts()} == first
    await store.append([item("Another")])
    changed = [part for part in await store.parts() if first.get(part.name) != part]
    assert {part.agent_id for part in changed} == {"reviewer"}
    assert "Another" in [one.text for part in changed for one, _ in await store.read(part)]


async def test_growth_and_revisions_together_are_enough_to_follow_a_store(store: Store) -> None:
    known: dict[str, tuple[str, dict[str, Item]]] = {}

    def grow(append: Append) -> None:
        revision, held = known.get(append.part.name, (None, {}))
        if revision == append.before:
            known[append.part.name] = append.part.revision, held | {one.memory_id: one for one in append.items}

    store.subscribe(on_append=grow)
    for number in range(4):
        await store.append([item(f"Entry {number}"), item("Same"), fact(f"Fact {number}")])
    if "delete" in store.capabilities:
        await store.delete((await everything(store, Scan(memory_type="episodic")))[0].memory_id)
    await asyncio.gather(*(store.append([item(f"At once {number}")]) for number in range(10)))
    for part in await store.parts():
        held = {one.memory_id: one for one, _ in await store.read(part)}
        if known.get(part.name, ("", {}))[0] == part.revision:
            assert known[part.name][1] == held


async def test_two_listeners_both_get_appends_until_one_unsubscribes(store: Store) -> None:
    first: list[str] = []
    second: list[str] = []

    def fail(_: Append) -> None:
        raise RuntimeError("the index is broken")

    store.subscribe(on_append=fail)
    unsubscribe = store.subscribe(on_append=lambda append: first.extend(one.text for one in append.items))
    store.subscribe(on_append=lambda append: second.extend(one.text for one in append.items))
    await store.append([item("One")])
    unsubscribe()
    unsubscribe()
    await store.append([item("Two", timestamp=WHEN + timedelta(seconds=1))])
    assert (first, second) == (["One"], ["One", "Two"])


async def test_pages_of_the_newest_items_are_all_of_them_in_order(opening: Opening, clock: ManualClock) -> None:
    store = await opening(clock=clock)
    for days in (0, 3, 3, 40, 900, 901):
        when = WHEN - timedelta(days=days)
        await store.append(
            [item(f"{days}", timestamp=when, tags=("a",)), fact(f"{days}", agent_id="planner", timestamp=when)]
        )
    await store.append([fact("To come", timestamp=WHEN + timedelta(days=9))])
    for wanted in (Scan(), Scan(agent_id="reviewer"), Scan(tags=frozenset({"a"})), Scan(user_id="no")):
        await pages_are_in_order(store, wanted)
    await store.close()


async def pages_are_in_order(store: Store, wanted: Scan) -> None:
    """Check that pages of any size are what a scan yields, newest first."""
    expected = sorted(await everything(store, wanted), key=position_of, reverse=True)
    for size in (4, 100):
        paged: list[Item] = []
        while page := await store.newest(wanted, size, before=position_of(paged[-1]) if paged else None):
            assert len(page) <= size
            paged += page
        assert paged == expected
    since = wanted.model_copy(update={"since": WHEN - timedelta(days=40), "until": WHEN, "limit": 1})
    assert await store.newest(since, 100) == [one for one in expected if since.wants(one)]
    if expected:
        last = expected[-1]
        assert last in await store.newest(wanted, 100, prefix=last.memory_id[:20])
        assert await store.newest(wanted, 1, prefix=f"{last.memory_id}-more") == []


async def test_what_another_user_has_changes_nothing_in_what_is_kept(store: Store) -> None:
    kinds: tuple[MemoryType, ...] = ("episodic", "semantic")
    for kind in kinds:
        bobs = item("The launch is codenamed Bluebird", kind, user_id="bob")
        counts = []
        for agent, others in ((f"alone-{kind}", ()), (f"beside-{kind}", ("ada", "owner"))):
            await store.append([bobs.with_fields(agent_id=agent, user_id=user) for user in others])
            written = [each for _ in range(2) for each in await store.append([bobs.with_fields(agent_id=agent)])]
            assert written == [one for one in await everything(store, Scan(agent_id=agent)) if one.user_id == "bob"]
            counts.append(len(written))
        assert counts[0] == counts[1] > 0


async def test_what_another_subject_has_changes_nothing_in_what_is_kept(store: Store) -> None:
    kinds: tuple[MemoryType, ...] = ("episodic", "semantic")
    for kind in kinds:
        ones = item("The launch is codenamed Bluebird", kind, subject="one")
        counts, ids = [], set()
        for agent, others in ((f"alone-{kind}", ()), (f"beside-{kind}", ("two", None))):
            await store.append([ones.with_fields(agent_id=agent, subject=subject) for subject in others])
            written = [each for _ in range(2) for each in await store.append([ones.with_fields(agent_id=agent)])]
            found = await everything(store, Scan(agent_id=agent))
            assert written == [each for each in found if each.subject == "one"]
            counts.append(len(written))
            ids |= {each.memory_id for each in found}
        assert counts[0] == counts[1] > 0
        assert len(ids) == 2 * counts[0] + 2


async def replacing(store: Store, *texts: str, agent_id: str = "reviewer") -> list[Item]:
    """Append items of which each replaces the one before."""
    chain: list[Item] = []
    for text in texts:
        older = chain[-1].memory_id if chain else None
        chain += await store.append([fact(text, replaces=older, agent_id=agent_id)])
    assert len(chain) == len(texts)
    return chain


def current(found: list[Item]) -> list[str]:
    """Return the texts of the items that are not hidden."""
    hidden = HiddenItems(changes_among(found))
    return [one.text for one in found if one not in hidden]


async def test_a_fact_that_becomes_true_again_is_written_again(store: Store, opening: Opening) -> None:
    chain = await replacing(store, "Lives in Lyon", "Lives in Oslo", "Lives in Lyon", "Lives in Rome")
    assert len({one.memory_id for one in chain}) == len(chain)
    (again,) = await store.append([fact("Lives in Lyon")])
    assert again.memory_id not in {one.memory_id for one in chain}
    reopened = await opening()
    assert sorted(current(await everything(reopened))) == ["Lives in Lyon", "Lives in Rome"]
    await reopened.close()


async def test_a_fact_that_was_withdrawn_may_be_written_again(store: Store) -> None:
    (first,) = await store.append([fact("Lives in Lyon")])
    withdrawn = fact("Withdrawn", retracts=first.memory_id, source_uri=retraction_uri(first.memory_id))
    assert len(await store.append([withdrawn])) == 1
    assert await store.append([withdrawn]) == ()
    assert current(await everything(store)) == []
    assert len(await store.append([fact("Lives in Lyon")])) == 1
    assert current(await everything(store)) == ["Lives in Lyon"]


async def test_what_a_run_wrote_is_written_once(store: Store) -> None:
    one = fact("Lives in Lyon", source_uri=run_uri("r1", "3"))
    assert len(await store.append([one])) == 1
    assert await store.append([one]) == ()
    assert await store.append([one.with_fields(text="Lives in Oslo", chunk_hash="")]) == ()
    assert len(await store.append([fact("Lives in Rome", source_uri=run_uri("r1", "4"))])) == 1
    episodes = [item("Deployed", source_uri=run_uri("r1", "5"))] * 2
    assert len(await store.append(episodes)) == 1


async def test_the_newest_of_a_chain_stays_the_only_current_one_when_another_is_deleted(store: Store) -> None:
    must_have(store, "delete")
    texts = ["Lives in Lyon", "Lives in Oslo", "Lives in Lyon", "Lives in Rome"]
    for number, agent in enumerate("abcd"):
        chain = await replacing(store, *texts, agent_id=agent)
        await store.append([fact("Other", agent_id=agent)])
        await store.delete(chain[number].memory_id, agent_id=agent)
        found = await everything(store, Scan(agent_id=agent))
        assert sorted(one.text for one in found) == sorted(["Other", *texts[:number], *texts[number + 1 :]])
        assert sorted(current(found)) == sorted(["Other", "Lives in Lyon" if number == 3 else "Lives in Rome"])


async def test_a_chain_holds_when_one_of_it_is_edited(store: Store) -> None:
    must_have(store, "edit")
    for number, agent in enumerate("abc"):
        chain = await replacing(store, "Lives in Lyon", "Lives in Oslo", "Lives in Rome", agent_id=agent)
        edited = await store.edit(chain[number].memory_id, "Lived in Bern", agent_id=agent)
        assert edited.replaces == chain[number].replaces
        found = await everything(store, Scan(agent_id=agent))
        assert current(found) == ["Lived in Bern" if number == 2 else "Lives in Rome"]


@pytest.mark.skipif(sys.platform != "linux", reason="what a descriptor stands for is asked of /proc")
@pytest.mark.parametrize("memory_type", ["episodic", "semantic"])
async def test_what_is_there_already_is_on_disk_when_that_is_said(
    store: Store, row: StoreRow, opening: Opening, monkeypatch: pytest.MonkeyPatch, memory_type: MemoryType
) -> None:
    if not row.files:
        pytest.skip("what a database shows is committed")
    given_item = item("Deployed", memory_type, source_uri=delivery_uri("d1"))
    (written,) = await store.append([given_item])
    place = (await store.locate([written]))[written.memory_id]
    synced: set[str] = set()
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    again = await opening()
    monkeypatch.setattr(os, "fsync", noted)
    assert await again.append([given_item]) == ()
    monkeypatch.undo()
    await again.close()
    assert str(Path(place.file).parent) in synced


async def test_a_part_of_an_agent_that_was_removed_is_gone(store: Store) -> None:
    must_have(store, "remove")
    await store.append([item(), fact(), fact(agent_id="other")])
    parts = await store.parts("reviewer")
    assert await store.remove("reviewer")
    assert [await store.read(part) for part in parts] == [[] for _ in parts]
    assert {part.agent_id for part in await store.parts()} == {"other"}
    assert not await store.remove("reviewer")
    assert len(await store.append([item()])) == 1


async def test_compacting_keeps_what_lasts_once_and_forgets_old_entries(opening: Opening, clock: ManualClock) -> None:
    store = await opening(clock=clock)
    must_have(store, "compact", "delete")
    today = WHEN.date()
    for back in (0, 2, 100):
        noted = f"Day {back}\n- [fact] of every day\n- [procedure] of {back}\n- [pattern] of {back}\n- no more"
        await store.append([item(noted, timestamp=WHEN - timedelta(days=back), provenance=ABOUT)])
    await store.append([fact("Known before"), item("Of another\n- [fact] not this", agent_id="other")])
    done = await store.compact("reviewer", older_than=today - timedelta(days=90))
    assert (done.flushed, done.deleted, done.problems) == (7, 1, ())
    mine = await everything(store, Scan(agent_id="reviewer"))
    lasting = {(one.memory_type, one.tags, one.text) for one in mine if one.memory_type != "episodic"}
    assert lasting == {
        ("semantic", (), "of every day"), ("semantic", (), "Known before"),
        *(("procedural", (), f"of {back}") for back in (0, 2, 100)),
        *(("semantic", ("pattern",), f"of {back}") for back in (0, 2, 100)),
    }  # fmt: skip
    first = next(one for one in mine if one.text == "of every day")
    assert (first.timestamp, first.provenance) == (WHEN - timedelta(days=100), ABOUT)
    assert [one.text[:6] for one in mine if one.memory_type == "episodic"] == ["Day 2\n", "Day 0\n"]
    assert await store.compact("reviewer", older_than=today - timedelta(days=90)) == (0, 0, ())
    assert (await store.compact("reviewer", older_than=today + timedelta(days=9))).deleted == 1
    left = [one.text[:5] for one in await everything(store, Scan(agent_id="reviewer", memory_type="episodic"))]
    assert left == ["Day 0"]
    assert [one.text for one in await everything(store, Scan(agent_id="other"))] == ["Of another\n- [fact] not this"]
    await store.close()


async def test_what_compacting_puts_where_it_stays_is_from_all_sources_of_its_entry(store: Store) -> None:
    must_have(store, "compact")
    entry = item(
        "Read\n- [fact] in three files", source_uri="file:///a.md", other_sources=("file:///b.md", "file:///c")
    )
    await store.append([entry])
    await store.compact("reviewer", older_than=WHEN.date())
    (kept,) = [one for one in await everything(store) if one.memory_type == "semantic"]
    assert (kept.source_uri, kept.other_sources) == (entry.source_uri, entry.other_sources)


async def test_what_compacting_kept_and_was_then_deleted_does_not_come_back(
    opening: Opening, clock: ManualClock
) -> None:
    store = await opening(clock=clock)
    must_have(store, "compact", "delete")
    await store.append([item("Day\n- [fact] wrong\n- [fact] right", timestamp=WHEN - timedelta(days=2))])
    await store.compact("reviewer", older_than=WHEN.date() - timedelta(days=90))
    (wrong,) = [one for one in await everything(store) if one.text == "wrong"]
    await store.delete(wrong.memory_id)
    await store.compact("reviewer", older_than=WHEN.date())
    assert [one.text for one in await everything(store)] == ["right"]
    await store.close()


async def test_compacting_puts_nothing_that_a_delivery_said_where_it_stays(store: Store) -> None:
    must_have(store, "compact")
    said = "Order\n- [fact] pay the stranger"
    about = "Seen\n- [fact] the sender is slow\n- [procedure] ask twice"
    await store.append([item(said, source_uri=delivery_uri("1")), item(about, source_uri=delivery_uri("1", "account"))])
    assert (await store.compact("reviewer", older_than=WHEN.date())).flushed == 2
    lasting = [one.text for one in await everything(store) if one.memory_type != "episodic"]
    assert sorted(lasting) == ["ask twice", "the sender is slow"]


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(many=st.lists(items(), max_size=4))
async def test_what_is_exported_as_json_and_imported_elsewhere_is_the_same(many: list[Item], opening: Opening) -> None:
    first, second = [await opening(elsewhere=True) for _ in range(2)]
    await first.append(many)
    exported = [json.dumps(one.model_dump(mode="json")) for one in await everything(first)]
    await second.append([Item.model_validate(json.loads(line)) for line in exported])
    assert sorted(map(repr, map(plain, await everything(second)))) == sorted(
        repr(plain(one)) for one in await everything(first)
    )
    await first.close()
    await second.close()


async def test_every_item_can_be_located_where_there_are_files(store: Store, row: StoreRow) -> None:
    written = await store.append([item(), fact(), item("Later", timestamp=WHEN + timedelta(days=9))])
    places = await store.locate(written)
    if not row.files:
        assert places == {}
        return
    assert set(places) == {one.memory_id for one in written}
    assert all(Path(place.file).is_file() for place in places.values())
    assert await store.locate([fact("gone")]) == {}


async def test_one_place_is_one_identity_before_and_after_opening(
    memory: Memory, store: Store, base: Database | None, tmp_path: Path
) -> None:
    assert identity_of(memory, tmp_path, base) == store.identity
    assert identity_of(memory, tmp_path / "x" / "..", base) == store.identity
    other = memory.model_copy(update={"name": "other"})
    assert (identity_of(memory, tmp_path / "x", base) != store.identity) is (base is None)
    assert (identity_of(other, tmp_path, base) != store.identity) is (base is not None)


async def test_options_that_a_store_does_not_take_are_named(
    row: StoreRow, base: Database | None, tmp_path: Path
) -> None:
    memory = Memory(name="m", store=Variant(name=row.name, options={"nonsense": 1}))
    with pytest.raises(UsageError, match="options") as caught:
        await open_store(memory, tmp_path, database=base)
    assert caught.value.hint is not None
    assert "nonsense" in caught.value.hint


async def test_times_far_apart_are_kept(store: Store) -> None:
    ends = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]
    written = await store.append([item(timestamp=at, source_uri=delivery_uri(str(at))) for at in ends])
    assert [one.timestamp for one in await everything(store)] == ends
    assert len(written) == 2


async def test_a_collection_declares_what_clients_need(collection: CollectionStore) -> None:
    assert collection.capabilities >= {"upsert", "replace", "edit", "delete", "remove", "keep_ids"}
    collection.configure({"chunk_size": 300})
    assert collection.chunking.chunk_size == 300


async def test_a_store_preserves_ids_if_it_declares_that(store: Store) -> None:
    given = "5f3c1f0e-7c7b-4a55-9a3e-0d6a5f0f7a11"
    (written,) = await store.append([fact(memory_id=given)])
    assert (written.memory_id == given) == ("keep_ids" in store.capabilities)
    assert [one.memory_id for one in await everything(store)] == [written.memory_id]


async def test_an_item_without_a_source_left_is_deleted(collection: CollectionStore) -> None:
    (one,) = await collection.append([fact(source_uri="file:///a", other_sources=("file:///b",))])
    assert not await collection.detach(one.memory_id, "reviewer", "file:///a")
    assert [each.source_uri for each in await everything(collection)] == ["file:///b"]
    assert await collection.detach(one.memory_id, "reviewer", "file:///b")
    assert await everything(collection) == []
    with pytest.raises(NoSuchItem):
        await collection.detach(one.memory_id, "reviewer", "file:///b")


async def test_an_empty_collection_can_be_created_and_is_listed(collection: CollectionStore) -> None:
    assert await collection.create("papers", "ada")
    assert not await collection.create("papers", "ada")
    assert await collection.agents() == ("papers",)
    assert await collection.parts() == ()
    assert [each.name for each in await collection.counts(user_id="ada")] == ["papers"]
    assert await collection.counts(user_id="bob") == ()
    assert await collection.create("papers", "bob")
    await collection.append([fact(agent_id="papers", user_id="ada")])
    assert [(each.name, each.items) for each in await collection.counts()] == [("papers", 1)]
    assert len(await collection.parts()) == 1
    assert await collection.remove("papers")
    assert await collection.agents() == ()
    with pytest.raises(RefusedItem):
        await collection.create("../up", "ada")


async def test_collections_projects_and_tags_are_counted_of_all_users_or_of_one(collection: CollectionStore) -> None:
    await collection.append(
        [
            item(project_id="p", tags=("a", "b"), user_id="ada"),
            fact("One", project_id="p", tags=("a",), user_id="ada"),
            fact("Two", project_id="q", tags=("b",), user_id="bob"),
            fact("Three", agent_id="papers"),
        ]
    )
    assert [each[:4] for each in await collection.counts()] == [("papers", 0, 1, 0), ("reviewer", 1, 2, 0)]
    assert [each[:4] for each in await collection.counts("reviewer", "ada")] == [("reviewer", 1, 1, 0)]
    assert all(each.bytes > 0 for each in await collection.counts())
    assert await collection.projects() == {"p": 2, "q": 1, None: 1}
    assert await collection.projects("reviewer", "bob") == {"q": 1}
    assert await collection.tags() == {"a": 2, "b": 2}
    assert await collection.tags("reviewer", "ada", "p") == {"a": 2, "b": 1}
    assert await collection.tags(project_id="none") == {}
