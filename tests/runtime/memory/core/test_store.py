"""Core memory: blocks are made once, edited by version, kept in a bounded history and never another user's."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.dialects import sqlite

from runtime.clock import milliseconds
from runtime.crypto import MasterKey, Unsealable
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import block_versions, blocks, runs
from runtime.errors import Conflict, NotFound
from runtime.identity import belongings, users
from runtime.memory.core.block import Block, BlockScope, BlockVersion, DeclaredBlock, Origin
from runtime.memory.core.changes import BLOCKS, VERSIONS, BlockChange, BlockFull, BlockSeals, ReadOnlyBlock
from runtime.memory.core.store import BlockStore, blocks_query
from runtime.memory.core.undo import undo_blocks
from runtime.threads.run import Begin, begin
from runtime.threads.run_log import RunLog
from runtime.threads.step import Superseded
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import migrated
from tests.lanes import repeated

MINE = BlockScope("owner", "assistant")
PERSON = Origin("person")
AGENT = Origin("agent")
TEAM = DeclaredBlock(label="team", description="The team.", value="Ada, Bob")
DECLARED = [TEAM, DeclaredBlock(label="rules", value="Be brief.", read_only=True, char_limit=60, shared=True)]


@pytest.fixture
def store(database: Database, clock: ManualClock) -> BlockStore:
    return BlockStore(database, clock)


@pytest.fixture
async def other(database_url: str, database: Database, clock: ManualClock) -> AsyncIterator[BlockStore]:
    """The same blocks, as another process opens them."""
    opened = await Database.open(database_url, KEY)
    yield BlockStore(opened, clock)
    await opened.close()


async def count(database: Database, table: Any) -> int:
    async with database.read() as connection:
        return int((await connection.execute(select(func.count()).select_from(table))).scalar_one())


async def running(database: Database, clock: ManualClock, run_id: str = "run", attempt: int = 1) -> None:
    """Begin an attempt at a run."""
    begun = Begin(run_id, "owner", "message", None, None, "assistant", attempt, milliseconds(clock), attempt == 1)
    await database.transact(lambda connection: begin(connection, [begun]))


def by_run(key: str, attempt: int = 1, run_id: str = "run") -> Origin:
    return Origin("agent", run_id, attempt, key)


async def value(store: BlockStore, label: str, scope: BlockScope = MINE) -> str:
    return (await store.read(scope, label)).value


async def test_the_first_use_makes_the_blocks_in_the_order_of_a_context(store: BlockStore) -> None:
    made = await store.ensure(MINE, DECLARED)
    assert [(each.label, each.agent, each.value, each.version) for each in made] == [
        ("persona", "assistant", "I am a helpful AI assistant.", 1),
        ("team", "assistant", "Ada, Bob", 1),
        ("rules", None, "Be brief.", 1),
        ("human", None, "", 1),
    ]
    assert [(each.char_limit, each.read_only) for each in made] == [
        (20_000, False), (20_000, False), (60, True), (20_000, False),
    ]  # fmt: skip
    assert await store.ensure(MINE, DECLARED) == made


async def test_a_program_gives_first_values_and_changes_no_block_that_exists(store: BlockStore) -> None:
    persona = DeclaredBlock(label="persona", value="I am Kim.", description="Kim", char_limit=100)
    await store.ensure(MINE, [persona])
    changed = DeclaredBlock(label="persona", value="I am Lou.", description="Lou", read_only=True)
    found = await store.ensure(MINE, [changed, TEAM])
    assert [(each.label, each.value, each.description, each.read_only) for each in found[:2]] == [
        ("persona", "I am Kim.", "Kim", False),
        ("team", "Ada, Bob", "The team.", False),
    ]


async def test_reading_before_the_first_use_shows_the_blocks_and_stores_nothing(
    store: BlockStore, database: Database
) -> None:
    assert [each.label for each in await store.blocks(MINE, DECLARED)] == ["persona", "team", "rules", "human"]
    assert (await store.read(MINE, "team", DECLARED)).value == "Ada, Bob"
    assert [each.version for each in await store.history(MINE, "team", declared=DECLARED)] == [1]
    assert await count(database, blocks) == 0


async def test_two_daemons_make_each_block_once(store: BlockStore, other: BlockStore, database: Database) -> None:
    subjects = [None, "a", "b"]
    scopes = [BlockScope("owner", agent, subject) for agent in ("assistant", "helper") for subject in subjects]
    work = [each.ensure(scope, DECLARED) for scope in scopes * 3 for each in (store, other)]
    answers = await asyncio.gather(*work)
    assert {len(found) for found in answers} == {4}
    # persona and team of two agents, human and rules of all, human of two subjects of two agents.
    assert await count(database, blocks) == 10
    assert await count(database, block_versions) == 10


async def test_a_subject_has_a_human_block_of_its_own(store: BlockStore) -> None:
    scopes = [MINE, MINE._replace(subject="17"), MINE._replace(subject="18")]
    for each in scopes:
        await store.ensure(each, DECLARED)
        await store.append(each, "human", f"I am {each.subject}", AGENT)
        await store.append(each, "team", f"met {each.subject}", AGENT)
    assert [await value(store, "human", each) for each in scopes] == ["I am None", "I am 17", "I am 18"]
    # The other blocks are the agent's, or everybody's.
    assert {await value(store, "team", each) for each in scopes} == {"Ada, Bob\nmet None\nmet 17\nmet 18"}


async def test_all_agents_of_a_user_share_the_human_block_and_not_the_persona(store: BlockStore) -> None:
    helper = MINE._replace(agent="helper")
    for each in (MINE, helper):
        await store.ensure(each)
    await store.append(MINE, "human", "Likes tea", AGENT)
    await store.append(MINE, "persona", "I like tea too", AGENT)
    assert await value(store, "human", helper) == "Likes tea"
    assert "tea" not in await value(store, "persona", helper)


async def test_users_of_one_name_have_nothing_in_common(
    store: BlockStore, database: Database, clock: ManualClock
) -> None:
    first = await users.add(database, "ada", milliseconds(clock))
    await store.ensure(BlockScope(first, "assistant"))
    await store.append(BlockScope(first, "assistant"), "human", "the first", AGENT)
    await database.transact(lambda connection: users.remove(connection, first, milliseconds(clock)))
    second = await users.add(database, "ada", milliseconds(clock))
    await store.ensure(BlockScope(second, "assistant"))
    assert await value(store, "human", BlockScope(second, "assistant")) == ""
    await store.append(BlockScope(second, "assistant"), "human", "the second", AGENT)
    await belongings.delete_rows(database, first)
    assert await value(store, "human", BlockScope(second, "assistant")) == "the second"
    assert await store.by_id(first, []) == []


async def test_a_removed_user_gets_no_blocks_and_an_edit_finds_none(
    store: BlockStore, database: Database, clock: ManualClock
) -> None:
    ada = await users.add(database, "ada", milliseconds(clock))
    scope = BlockScope(ada, "assistant")
    await store.ensure(scope)
    block = await store.read(scope, "human")
    await database.transact(lambda connection: users.remove(connection, ada, milliseconds(clock)))
    await belongings.delete_rows(database, ada)
    with pytest.raises(NotFound, match="deleted"):
        await store.change(block, lambda text: f"{text}x", AGENT)
    with pytest.raises(NotFound, match="removed"):
        await store.ensure(scope)
    assert await count(database, blocks) == await count(database, block_versions) == 0


async def test_an_edit_of_an_older_version_is_refused_and_told_the_newest(store: BlockStore) -> None:
    await store.ensure(MINE)
    await store.write(MINE, "human", "one", PERSON, version=1)
    await store.write(MINE, "human", "two", PERSON, version=2)
    with pytest.raises(Conflict, match="newest version of the block human is 3, not 2") as conflict:
        await store.write(MINE, "human", "three", PERSON, version=2)
    assert getattr(conflict.value, "version", None) == 3
    assert await value(store, "human") == "two"


@repeated("number", 20, 60)
async def test_edits_of_two_daemons_at_once_are_all_made(
    store: BlockStore, other: BlockStore, database: Database, number: int
) -> None:
    await store.ensure(MINE, DECLARED)
    labels = ("human", "team", "persona")
    await asyncio.gather(
        *(
            each.append(MINE, label, f"{name} {index}", AGENT)
            for index in range(number)
            for label in labels
            for name, each in (("one", store), ("two", other))
        )
    )
    for label in labels:
        block = await store.read(MINE, label)
        added = [line for line in block.value.splitlines() if line.startswith(("one ", "two "))]
        assert sorted(added) == sorted(f"{name} {index}" for name in ("one", "two") for index in range(number))
        assert block.version == 2 * number + 1
        assert len(await store.history(MINE, label)) == min(VERSIONS, 2 * number + 1)


async def test_one_of_two_edits_of_the_same_version_is_refused(store: BlockStore, other: BlockStore) -> None:
    await store.ensure(MINE)
    edits = [each.write(MINE, "human", f"{index}", PERSON, version=1) for index, each in enumerate((store, other))]
    answers = await asyncio.gather(*edits, return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["ChangedBlock", "VersionConflict"]


async def test_an_unknown_label_is_answered_with_the_nearest(store: BlockStore) -> None:
    await store.ensure(MINE)
    with pytest.raises(NotFound) as unknown:
        await store.append(MINE, "humans", "x", AGENT)
    assert unknown.value.hint == "did you mean human?"


async def test_a_text_over_the_limit_is_refused_with_both_lengths(store: BlockStore) -> None:
    await store.ensure(MINE, [DeclaredBlock(label="team", char_limit=10, value="äöü")])
    assert (await store.append(MINE, "team", "345678", AGENT)).block.value == "äöü\n345678"
    with pytest.raises(BlockFull, match="would have 12 characters; its limit is 10"):
        await store.append(MINE, "team", "9", AGENT)
    assert await value(store, "team") == "äöü\n345678"


async def test_a_read_only_block_is_changed_by_persons_only(store: BlockStore) -> None:
    await store.ensure(MINE, DECLARED)
    for origin in (AGENT, Origin("tool"), Origin("payload")):
        with pytest.raises(ReadOnlyBlock):
            await store.write(MINE, "rules", "x", origin)
    assert (await store.write(MINE, "rules", "Be kind.", PERSON)).block.version == 2


async def test_secrets_are_redacted_also_when_two_edits_put_one_together(store: BlockStore, database: Database) -> None:
    token = "ghp_" + "a1B2" * 9
    await store.ensure(MINE, [DeclaredBlock(label="team", value=f"the token {token}")])
    assert token not in await value(store, "team")
    done = await store.append(MINE, "human", f"the token is {token}", AGENT)
    assert done.redacted
    assert token not in done.block.value
    await store.write(MINE, "human", f"{token[:20]}|", PERSON)
    done = await store.replace(MINE, "human", "|", token[20:], AGENT)
    assert done.redacted
    assert "REDACTED" in done.block.value
    assert all(token not in each.value for each in await store.history(MINE, "human"))


async def test_line_ends_and_broken_characters_are_stored_in_one_form(store: BlockStore) -> None:
    await store.ensure(MINE)
    done = await store.write(MINE, "human", "a\r\nb\ud83d\x00", PERSON)
    assert done.block.value == await value(store, "human") == "a\nb\ufffd\x00"


async def test_the_same_text_makes_no_version(store: BlockStore) -> None:
    await store.ensure(MINE)
    done = await store.write(MINE, "human", "", PERSON)
    assert (done.changed, done.block.version) == (False, 1)


async def test_the_history_says_who_changed_what_in_which_run(
    store: BlockStore, database: Database, clock: ManualClock
) -> None:
    await running(database, clock)
    await store.ensure(MINE, DECLARED)
    clock.advance(5)
    await store.append(MINE, "team", "Cleo", by_run("call 1"))
    await store.write(MINE, "team", "nobody", PERSON)
    found = await store.history(MINE, "team")
    assert [(each.version, each.value, each.changed_by, each.run_id) for each in found] == [
        (3, "nobody", "person", None),
        (2, "Ada, Bob\nCleo", "agent", "run"),
        (1, "Ada, Bob", "program", None),
    ]
    assert found[0].created_at == found[2].created_at + 5000
    assert [each.version for each in await store.history(MINE, "team", 1)] == [3]


async def test_an_earlier_version_can_be_restored(store: BlockStore) -> None:
    await store.ensure(MINE)
    for said in ("one", "two"):
        await store.write(MINE, "human", said, PERSON)
    done = await store.restore(MINE, "human", 2, PERSON)
    assert (done.block.value, done.block.version) == ("one", 4)
    with pytest.raises(NotFound) as absent:
        await store.restore(MINE, "human", 9, PERSON)
    assert absent.value.hint == "the versions 1 to 4 are stored"


async def test_the_history_is_bounded_to_the_newest_versions(store: BlockStore, database: Database) -> None:
    await store.ensure(MINE)
    for number in range(VERSIONS + 10):
        await store.write(MINE, "human", str(number), PERSON)
    found = await store.history(MINE, "human", 1000)
    assert [each.version for each in found] == list(range(VERSIONS + 11, 11, -1))
    assert await count(database, block_versions) == VERSIONS + 1  # and the persona's


async def test_a_change_of_a_run_happens_once(store: BlockStore, database: Database, clock: ManualClock) -> None:
    await running(database, clock)
    await store.ensure(MINE)
    first = await store.append(MINE, "human", "tea", by_run("call 1"))
    await store.append(MINE, "human", "coffee", by_run("call 2"))
    await running(database, clock, attempt=2)
    again = await store.append(MINE, "human", "tea", by_run("call 1", 2))
    assert again.block == first.block
    assert again.changed
    at_once = await asyncio.gather(*(store.append(MINE, "human", "milk", by_run("call 3", 2)) for _ in range(5)))
    assert {each.block.version for each in at_once} == {4}
    assert await value(store, "human") == "tea\ncoffee\nmilk"
    # Keys belong to one run, and may be long.
    await running(database, clock, "another")
    for _ in range(2):
        await store.append(MINE, "human", "tea", by_run("call 1", run_id="another"))
        await store.append(MINE, "human", "x", by_run("k" * 200, run_id="another"))
    assert await value(store, "human") == "tea\ncoffee\nmilk\ntea\nx"


async def test_a_change_of_an_older_attempt_is_refused(
    store: BlockStore, database: Database, clock: ManualClock
) -> None:
    await store.ensure(MINE)
    await running(database, clock)
    await running(database, clock, attempt=2)
    with pytest.raises(Superseded):
        await store.append(MINE, "human", "tea", by_run("call 1", 1))
    await store.append(MINE, "human", "tea", by_run("call 1", 2))
    await database.transact(lambda connection: connection.execute(update(runs).values(state="done")))
    with pytest.raises(Superseded):
        await store.append(MINE, "human", "coffee", by_run("call 2", 2))
    assert await value(store, "human") == "tea"


async def test_a_repeated_change_is_known_after_many_others_while_its_run_has_not_ended(
    store: BlockStore, database: Database, clock: ManualClock
) -> None:
    await store.ensure(MINE)
    await running(database, clock)
    await store.append(MINE, "human", "tea", by_run("call 1"))
    for number in range(VERSIONS + 5):
        await store.write(MINE, "human", f"tea\n{number}", PERSON)
    await store.append(MINE, "human", "tea", by_run("call 1"))
    assert (await value(store, "human")).count("tea") == 1
    await database.transact(lambda connection: connection.execute(update(runs).values(state="done")))
    await store.write(MINE, "human", "end", PERSON)
    assert await count(database, block_versions) == VERSIONS + 1


async def test_the_versions_of_a_run_that_waits_for_its_model_are_kept(
    store: BlockStore, database: Database, clock: ManualClock
) -> None:
    await store.ensure(MINE)
    await running(database, clock)
    await store.append(MINE, "human", "tea", by_run("call 1"))
    await database.transact(lambda connection: connection.execute(update(runs).values(state="model_unavailable")))
    for number in range(VERSIONS + 5):
        await store.write(MINE, "human", f"tea\n{number}", PERSON)
    await running(database, clock, attempt=2)
    await store.append(MINE, "human", "tea", by_run("call 1", 2))
    assert (await value(store, "human")).count("tea") == 1


async def test_a_change_whose_commit_was_reported_lost_is_not_made_twice(store: BlockStore, database: Database) -> None:
    await store.ensure(MINE)
    block = await store.read(MINE, "human")
    seals = BlockSeals(database.keys)
    change = BlockChange(seals, "owner", block.id, "human", lambda text: f"{text}x", None, PERSON, block.updated_at)
    first = await database.commits.store(BLOCKS, change)
    assert await database.commits.store(BLOCKS, change) == first
    assert await value(store, "human") == "x"


async def test_a_bad_change_does_not_touch_those_stored_with_it(store: BlockStore) -> None:
    await store.ensure(MINE, DECLARED)
    answers = await asyncio.gather(
        store.append(MINE, "human", "a", AGENT),
        store.replace(MINE, "human", "absent", "b", AGENT),
        store.append(MINE, "rules", "x", AGENT),
        store.write(MINE, "human", "z", PERSON, version=1),
        store.append(MINE, "human", "c", AGENT),
        return_exceptions=True,
    )
    refused = [type(each).__name__ for each in answers if isinstance(each, Exception)]
    assert refused == ["TextAbsent", "ReadOnlyBlock", "VersionConflict"]
    assert await value(store, "human") == "a\nc"


async def test_what_a_run_changed_can_be_undone_unless_it_was_edited_since(
    store: BlockStore, database: Database, clock: ManualClock
) -> None:
    await store.ensure(MINE, DECLARED)
    await running(database, clock)
    await store.append(MINE, "human", "tea", by_run("1"))
    await store.append(MINE, "human", "milk", by_run("2"))
    await store.append(MINE, "team", "Cleo", by_run("3"))
    await store.append(MINE, "team", "Dan", PERSON)
    await store.write(MINE, "persona", "I am Kim.", Origin("agent", "another"))
    assert await undo_blocks(store, "another user", "run", PERSON) == []
    foreseen = await undo_blocks(store, "owner", "run", PERSON, dry_run=True)
    assert [(each.outcome, each.version) for each in foreseen] == [("restored", 3), ("edited", 3)]
    done = await undo_blocks(store, "owner", "run", PERSON)
    assert [(each.block.label, each.outcome, each.version) for each in done] == [
        ("human", "restored", 4),
        ("team", "edited", 3),
    ]
    assert [await value(store, label) for label in ("human", "team")] == ["", "Ada, Bob\nCleo\nDan"]
    again = await undo_blocks(store, "owner", "run", PERSON)
    assert [each.outcome for each in again] == ["unchanged", "edited"]


async def test_runs_are_undone_one_after_the_other_from_the_newest(
    store: BlockStore, database: Database, clock: ManualClock
) -> None:
    await store.ensure(MINE)
    for name in ("first", "second"):
        await running(database, clock, name)
        for key in ("1", "2"):
            await store.append(MINE, "human", f"{name} {key}", by_run(key, run_id=name))
    (early,) = await undo_blocks(store, "owner", "first", PERSON)
    assert early.outcome == "edited"
    for name, left in (("second", "first 1\nfirst 2"), ("first", "")):
        (done,) = await undo_blocks(store, "owner", name, PERSON)
        assert done.outcome == "restored"
        assert await value(store, "human") == left


async def test_a_change_between_two_of_a_run_is_kept_by_its_undo(
    store: BlockStore, database: Database, clock: ManualClock
) -> None:
    await store.ensure(MINE)
    await running(database, clock)
    await store.append(MINE, "human", "tea", by_run("1"))
    await store.append(MINE, "human", "Name: Ada", PERSON)
    await store.append(MINE, "human", "milk", by_run("2"))
    (done,) = await undo_blocks(store, "owner", "run", PERSON)
    assert done.outcome == "edited"
    assert await value(store, "human") == "tea\nName: Ada\nmilk"


async def test_two_undos_at_once_restore_a_block_once(
    store: BlockStore, database: Database, clock: ManualClock
) -> None:
    await store.ensure(MINE, DECLARED)
    await running(database, clock)
    await store.append(MINE, "human", "tea", by_run("1"))
    both = await asyncio.gather(*(undo_blocks(store, "owner", "run", PERSON) for _ in range(2)))
    assert sorted(each.outcome for done in both for each in done) == ["restored", "unchanged"]
    assert await value(store, "human") == ""


async def test_an_undo_that_another_overtakes_says_that_nothing_is_left_to_do(
    store: BlockStore, database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure(MINE, DECLARED)
    await running(database, clock)
    await store.append(MINE, "human", "tea", by_run("1"))
    versions = store.versions

    async def overtaken(block: Block, limit: int | None = None) -> list[BlockVersion]:
        monkeypatch.undo()
        await undo_blocks(store, "owner", "run", PERSON)
        return await versions(block, limit)

    monkeypatch.setattr(store, "versions", overtaken)
    (undone,) = await undo_blocks(store, "owner", "run", PERSON)
    assert (undone.outcome, undone.version) == ("unchanged", 3)


async def test_nothing_of_a_block_is_readable_in_the_file(tmp_path: Path, clock: ManualClock) -> None:
    path = migrated(tmp_path / "symbiont.db")
    database = await Database.open(path, KEY)
    store = BlockStore(database, clock)
    await store.ensure(MINE)
    await store.write(MINE, "human", "okapiquux", PERSON)
    await store.write(MINE, "human", "okapiquux again", PERSON)
    await database.close()
    assert not any(b"okapiquux" in each.read_bytes() for each in tmp_path.iterdir())
    # A text cannot be moved to another block, or to another user.
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE blocks SET value = (SELECT value FROM blocks WHERE label = 'human')")
    database = await Database.open(path, KEY)
    with pytest.raises(Unsealable):
        await BlockStore(database, clock).read(MINE, "persona")
    await database.close()


async def test_a_copied_database_is_unreadable_without_its_key(tmp_path: Path, clock: ManualClock) -> None:
    path = migrated(tmp_path / "symbiont.db")
    database = await Database.open(path, KEY)
    await BlockStore(database, clock).ensure(MINE)
    await database.close()
    copied = tmp_path / "copied.db"
    copied.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(copied)) as connection, connection:
        connection.execute("DELETE FROM meta")
    stolen = await Database.open(copied, MasterKey(bytes(32)))
    with pytest.raises(Unsealable):
        await BlockStore(stolen, clock).blocks(MINE)
    await stolen.close()


async def test_on_a_full_disk_an_edit_is_refused_and_the_block_stays(tmp_path: Path, clock: ManualClock) -> None:
    database = await Database.open(migrated(tmp_path / "symbiont.db"), KEY)
    store = BlockStore(database, clock)
    await store.ensure(MINE)
    # SQLite's own limit fails like a full disk.
    pages = await database.transact(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar_one())
    await database.transact(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count = {pages}").scalar_one())
    with pytest.raises(Unavailable):
        await store.write(MINE, "human", "x" * 19_000, PERSON)
    block = await store.read(MINE, "human")
    assert (block.value, block.version) == ("", 1)
    await database.close()
    opened = await Database.open(tmp_path / "symbiont.db", KEY)
    store = BlockStore(opened, clock)
    assert (await store.write(MINE, "human", "x" * 19_000, PERSON)).block.version == 2
    await opened.close()


async def test_blocks_are_found_by_indexes(tmp_path: Path) -> None:
    database = await Database.open(migrated(tmp_path / "symbiont.db"), KEY)
    query = blocks_query(BlockScope("owner", "assistant", "17"))
    sql = str(query.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))
    async with database.read() as connection:
        plan = " ".join([row[3] for row in await connection.execute(text(f"EXPLAIN QUERY PLAN {sql}"))])
    await database.close()
    assert all(name in plan for name in ("uq_blocks_user", "uq_blocks_agent", "uq_blocks_subject"))
    assert "SCAN" not in plan


@repeated("number", 6, 60)
async def test_steps_edits_and_ends_of_two_daemons_do_not_wait_for_each_other(
    store: BlockStore, other: BlockStore, database: Database, clock: ManualClock, number: int
) -> None:
    """Each run writes steps and edits the same blocks in another order, all at once."""
    await store.ensure(MINE, DECLARED)

    async def work(name: str, daemon: BlockStore, index: int) -> None:
        run_id = f"{name} {index}"
        await running(daemon.database, clock, run_id)
        log = RunLog(daemon.database, clock, run_id, 1)

        async def edit(label: str) -> str:
            done = await daemon.append(MINE, label, run_id, by_run(label, run_id=run_id))
            return done.block.label

        labels = ["human", "team", "persona"][:: 1 if index % 2 else -1]
        await asyncio.gather(*(log.step("tool", {}, partial(edit, label), key=label) for label in labels))
        await log.settle()

    daemons = (("one", store), ("two", other))
    await asyncio.gather(*(work(name, each, index) for name, each in daemons for index in range(number)))
    for label in ("human", "team", "persona"):
        lines = (await value(store, label)).splitlines()
        assert sorted(line for line in lines if line.startswith(("one ", "two "))) == sorted(
            f"{name} {index}" for name in ("one", "two") for index in range(number)
        )
