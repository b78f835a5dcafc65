"""Each summary of a thread absorbs the one before it, and is stored once."""

from __future__ import annotations

import asyncio

import pytest

from runtime.database.connection import Database
from runtime.database.schema import summaries as table
from runtime.errors import Conflict
from runtime.threads.step import Superseded
from runtime.threads.summaries import NewSummary, Summaries
from runtime.threads.thread import Thread, Threads
from runtime.threads.thread_write import ThreadGone
from tests.clocks import ManualClock
from tests.runtime.threads.thread_runs import begin
from tests.runtime.webhooks.candidates import rows

EMBEDDING = b"\x00\x00\x80\x3f" * 4


@pytest.fixture
def summaries(database: Database, clock: ManualClock) -> Summaries:
    return Summaries(database, clock)


@pytest.fixture
async def thread(database: Database, clock: ManualClock) -> Thread:
    return await Threads(database, clock).main("owner", "helper")


def summary(last: int, words: str = "They spoke.", **more: object) -> NewSummary:
    fields = {"first_position": 0, "last_position": last, "message_count": last + 1, "text": words, "tokens": 3}
    return NewSummary(**fields | more)  # type: ignore[arg-type]


async def test_a_thread_without_summaries_has_none(summaries: Summaries, thread: Thread) -> None:
    assert await summaries.latest(thread) is None
    assert await summaries.chain(thread) == []


async def test_summaries_are_a_chain(
    database: Database, clock: ManualClock, summaries: Summaries, thread: Thread
) -> None:
    run = await begin(database, thread.id)
    given = summary(9, "okapiquux", embedding=EMBEDDING, embedding_model="minilm")
    first = await summaries.append(thread, given, run_id=run, attempt=1)
    second = await summaries.append(thread, summary(19))
    assert (first.text, first.embedding, first.embedding_model) == ("okapiquux", EMBEDDING, "minilm")
    assert (first.first_position, first.last_position, first.message_count, first.tokens) == (0, 9, 10, 3)
    assert (first.previous_id, first.run_id, second.previous_id, second.run_id) == (None, run, first.id, None)
    assert await summaries.latest(thread) == second
    assert await summaries.chain(thread) == [first, second]
    assert (await Threads(database, clock).get(thread.id)).summary_count == 2
    [row, _] = await rows(database, table)
    assert b"okapiquux" not in row.content
    assert EMBEDDING not in row.embedding


async def test_a_summary_that_is_stored_again_is_the_first_one(summaries: Summaries, thread: Thread) -> None:
    found = await asyncio.gather(*(summaries.append(thread, summary(9, f"try {number}")) for number in range(4)))
    assert len({each.id for each in found}) == 1
    assert await summaries.chain(thread) == [found[0]]


async def test_a_summary_that_ends_before_the_newest_is_refused(summaries: Summaries, thread: Thread) -> None:
    newest = await summaries.append(thread, summary(9))
    with pytest.raises(Conflict, match="ends at message 10"):
        await summaries.append(thread, summary(5))
    assert await summaries.chain(thread) == [newest]


async def test_only_the_current_attempt_stores_a_summary(
    database: Database, clock: ManualClock, summaries: Summaries, thread: Thread
) -> None:
    run = await begin(database, thread.id)
    await begin(database, thread.id, run_id=run, attempt=2)
    with pytest.raises(Superseded):
        await summaries.append(thread, summary(9), run_id=run, attempt=1)
    await Threads(database, clock).delete(thread)
    with pytest.raises(ThreadGone):
        await summaries.append(thread, summary(9), run_id=run, attempt=2)
