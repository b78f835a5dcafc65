"""The parts of threads say what an index over messages has to read again."""

from __future__ import annotations

import pytest

from runtime.database.connection import Database
from runtime.memory.recall.message_parts import BEGINNING, POSITIONS, changes, is_beginning, parts, read
from runtime.memory.store_types import Part
from runtime.threads.messages import Messages
from runtime.threads.summaries import Summaries
from runtime.threads.thread import TOGETHER, Thread, Threads
from tests.clocks import ManualClock
from tests.runtime.threads.test_summaries import summary
from tests.runtime.threads.thread_runs import all_ended, many_threads, plans, reads_everything, said, statements


@pytest.fixture
def threads(database: Database, clock: ManualClock) -> Threads:
    return Threads(database, clock)


@pytest.fixture
def messages(database: Database, clock: ManualClock) -> Messages:
    return Messages(database, clock)


@pytest.fixture
def summaries(database: Database, clock: ManualClock) -> Summaries:
    return Summaries(database, clock)


@pytest.fixture
async def thread(threads: Threads) -> Thread:
    return await threads.for_subject("owner", "helper", "42")


async def listed(database: Database, agent: str | None = None) -> dict[str, Part]:
    return {part.name: part async for part in parts(database, agent=agent)}


async def texts(database: Database, clock: ManualClock, part: Part) -> list[str]:
    sources = Threads(database, clock), Messages(database, clock), Summaries(database, clock)
    return [each.text for each in await read(sources, part)]


async def test_an_empty_thread_has_no_part(database: Database, thread: Thread) -> None:
    assert await listed(database) == {}


async def test_a_part_changes_with_its_messages_alone(
    database: Database, clock: ManualClock, messages: Messages, thread: Thread
) -> None:
    await messages.append(thread, [said(str(number)) for number in range(POSITIONS)])
    before = await listed(database)
    beginning, rest = "helper/0", f"helper/{thread.id}."
    assert sorted(before) == sorted([beginning, f"{rest}0"])
    await messages.append(thread, [said("next")])
    after = await listed(database)
    assert sorted(after) == sorted([beginning, f"{rest}0", f"{rest}1"])
    assert {name: after[name] for name in before} == before
    await messages.append(thread, [said("more")])
    assert (await listed(database))[f"{rest}1"].revision != after[f"{rest}1"].revision
    assert await texts(database, clock, after[f"{rest}1"]) == ["next", "more"]
    assert await texts(database, clock, after[beginning]) == [str(number) for number in range(BEGINNING)]
    assert await texts(database, clock, after[f"{rest}0"]) == [str(number) for number in range(BEGINNING, POSITIONS)]
    assert await texts(database, clock, after[f"{rest}0"]._replace(name=f"{rest}2")) == []


async def test_a_part_changes_with_a_deletion(
    database: Database, clock: ManualClock, messages: Messages, thread: Thread
) -> None:
    await messages.append(thread, [said("a"), said("b")])
    seen = {(await listed(database))["helper/0"].revision}
    await messages.delete(thread, 0)
    seen.add((await listed(database))["helper/0"].revision)
    await messages.append(thread, [said("c")])
    part = (await listed(database))["helper/0"]
    assert len(seen | {part.revision}) == 3
    assert await texts(database, clock, part) == ["b", "c"]


async def test_the_summaries_of_a_thread_are_a_part(
    database: Database, clock: ManualClock, summaries: Summaries, thread: Thread
) -> None:
    await summaries.append(thread, summary(3))
    [first] = (await listed(database)).values()
    stored = await summaries.append(thread, summary(7))
    [second] = (await listed(database)).values()
    assert first.name == second.name
    assert first.revision != second.revision
    assert stored.text in await texts(database, clock, second)


async def test_the_beginnings_of_some_threads_are_one_part(
    database: Database, clock: ManualClock, threads: Threads, messages: Messages
) -> None:
    made = [await threads.conversation("owner", "helper") for _ in range(TOGETHER + 1)]
    for number, each in enumerate(made):
        await messages.append(each, [said(str(number))])
    found = await listed(database)
    assert sorted(found) == ["helper/0", "helper/1"]
    assert await texts(database, clock, found["helper/0"]) == [str(number) for number in range(TOGETHER)]
    assert await texts(database, clock, found["helper/1"]) == [str(TOGETHER)]


async def test_a_thread_in_the_place_of_a_deleted_one_changes_the_part(
    database: Database, clock: ManualClock, threads: Threads, messages: Messages, thread: Thread
) -> None:
    await messages.append(thread, [said("a")])
    before = await listed(database)
    await threads.delete(thread)
    other = await threads.for_subject("owner", "helper", "43")
    await messages.append(other, [said("b")])
    after = await listed(database)
    assert list(after) == list(before) == ["helper/0"]
    assert after != before
    assert await texts(database, clock, before["helper/0"]) == ["b"]


async def test_a_deleted_thread_has_no_parts(
    database: Database, clock: ManualClock, threads: Threads, messages: Messages, thread: Thread
) -> None:
    await messages.append(thread, [said("a")] * (BEGINNING + 1))
    before = await listed(database)
    await threads.delete(thread)
    assert await listed(database) == {}
    assert [await texts(database, clock, part) for part in before.values()] == [[], []]


async def test_the_parts_of_an_agent_are_its_own_alone(
    database: Database, threads: Threads, messages: Messages, thread: Thread
) -> None:
    other = await threads.main("owner", "other")
    for each in (thread, other):
        await messages.append(each, [said("a")] * (BEGINNING + 1))
    assert len(await listed(database)) == 4
    assert set(await listed(database, agent="other")) == {"other/0", f"other/{other.id}.0"}


async def test_very_many_short_threads_are_few_parts(database: Database, messages: Messages, thread: Thread) -> None:
    await many_threads(database, 2500, length=4)
    with statements() as recorded:
        found = await listed(database)
    assert all(map(is_beginning, found))
    assert len(found) == -(-2500 // TOGETHER)
    assert [statement for statement, _ in recorded if "messages" in statement] == []


async def test_a_listener_is_told_of_changes(
    messages: Messages, threads: Threads, summaries: Summaries, thread: Thread
) -> None:
    told: list[Thread] = []
    messages.on_change = threads.on_change = summaries.on_change = told.append
    await messages.append(thread, [said("a")])
    await messages.delete(thread, 0)
    await summaries.append(thread, summary(3))
    await threads.delete(thread)
    assert told == [thread] * 4


async def test_after_a_change_only_its_parts_are_listed(
    database: Database, threads: Threads, messages: Messages, thread: Thread
) -> None:
    await messages.append(thread, [said("a")] * (BEGINNING + 1))
    for _ in range(TOGETHER):
        await messages.append(await threads.conversation("owner", "helper"), [said("a")])
    await all_ended(database)
    begun = await changes(database, None)
    assert begun is not None
    assert (begun.parts, begun.gone) == ((), ())
    await messages.append(thread, [said("b")])
    found = await changes(database, begun.mark)
    assert found is not None
    everything = await listed(database)
    assert {part.name: part for part in found.parts} == {
        name: everything[name] for name in ("helper/0", f"helper/{thread.id}.0")
    }
    assert found.gone == ()


async def test_the_parts_of_a_deleted_thread_are_gone(
    database: Database, threads: Threads, messages: Messages, summaries: Summaries, thread: Thread
) -> None:
    await messages.append(thread, [said("a")] * (POSITIONS + 1))
    await summaries.append(thread, summary(3))
    await all_ended(database)
    begun = await changes(database, None)
    assert begun is not None
    await threads.delete(thread)
    found = await changes(database, begun.mark)
    assert found is not None
    of_it = f"helper/{thread.id}."
    assert (found.parts, list(found.gone)) == ((), sorted(["helper/0", f"{of_it}0", f"{of_it}1", f"{of_it}summaries"]))


async def test_a_search_for_changes_reads_no_message_and_not_all_threads(
    database: Database, messages: Messages, thread: Thread
) -> None:
    await many_threads(database, 5000, length=4)
    await messages.append(thread, [said("a")])
    await all_ended(database)
    begun = await changes(database, None)
    assert begun is not None
    await messages.append(thread, [said("b")])
    with statements() as recorded:
        assert await changes(database, begun.mark) is not None
    assert [statement for statement, _ in recorded if "messages" in statement] == []
    assert not any(map(reads_everything, await plans(database, recorded)))
