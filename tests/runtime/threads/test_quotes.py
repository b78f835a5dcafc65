"""What outputs of tools quote is found by the ids in them, and deleted wherever the output is stored."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from runtime.clock import SYSTEM, uuid7
from runtime.database.connection import Database
from runtime.database.schema import steps
from runtime.database.sealed import Seal
from runtime.threads import content
from runtime.threads.content import Deletion, ToolOutputPart
from runtime.threads.messages import Message, Messages, NewMessage
from runtime.threads.removal import quotes
from runtime.threads.run_log import RunLog
from runtime.threads.thread import Thread, Threads
from tests.clocks import ManualClock
from tests.runtime.threads.thread_runs import begin

SECRET = "HYPERTENSION-X"


@pytest.fixture
async def thread(database: Database, clock: ManualClock) -> Thread:
    return await Threads(database, clock).main("owner", "helper")


def quoting(*ids: str) -> str:
    return json.dumps({"hits": [{"memory_id": each, "text": f"{SECRET} {each}"} for each in ids]})


async def stored(database: Database, thread: Thread, *outputs: str) -> list[Message]:
    parts = [ToolOutputPart("call", "archival_search", output) for output in outputs]
    new = [NewMessage(role="tool", kind="tool_output", parts=(part,), tokens=40) for part in parts]
    return await Messages(database, SYSTEM).append(thread, new)


async def texts(database: Database, thread: Thread) -> list[str]:
    return [each.text for each in await Messages(database, SYSTEM).read(thread, limit=5000)]


async def test_only_outputs_that_quote_it_are_opened(
    database: Database, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def decode(encoded: bytes, real: object = content.decode) -> object:
        opened.append(encoded)
        assert callable(real)
        return real(encoded)

    ids = [uuid7(SYSTEM) for _ in range(600)]
    await stored(database, thread, *(quoting(one, other) for one, other in pairwise(ids)))
    monkeypatch.setattr(content, "decode", decode)
    await quotes.forget(database, "owner", Deletion(frozenset({ids[100]})))
    assert len(opened) == 2
    # As many as the database is not asked for.
    await quotes.forget(database, "owner", Deletion(frozenset(ids[200:300])))
    assert len(opened) == 2 + 101
    monkeypatch.undo()
    left = " ".join(await texts(database, thread))
    gone = [ids[100], *ids[200:300]]
    assert [each for each in ids if f"{SECRET} {each}" not in left] == gone


async def test_the_log_of_the_run_does_not_keep_it_either(
    database: Database, clock: ManualClock, thread: Thread
) -> None:
    run_id = await begin(database, thread.id)
    log = RunLog(database, clock, run_id, 1)
    kept, gone = uuid7(SYSTEM), uuid7(SYSTEM)

    async def act() -> object:
        return {"status": "ok", "text": quoting(kept, gone)}

    await log.step("tool", {}, act, key="call/1")
    await log.settle()
    part = ToolOutputPart("1", "archival_search", quoting(kept, gone))
    new = NewMessage(role="tool", kind="tool_output", parts=(part,), tokens=40)
    await Messages(database, clock).append(thread, [new], run_id=run_id)
    await quotes.forget(database, "owner", Deletion(frozenset({gone})))
    async with database.read() as reading:
        (row,) = (await reading.execute(steps.select())).all()
    result = json.loads(Seal(database.keys, steps.c.result).open(row.result, row=f"{run_id}/0", user_id="owner"))
    assert (result["status"], json.loads(result["text"])["hits"][1]) == ("ok", {"memory_id": gone, "deleted": True})
    assert f"{SECRET} {kept}" in result["text"]
