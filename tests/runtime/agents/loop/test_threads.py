"""Which thread a turn belongs to, whose memory it has, and in which order turns run."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select
from structlog.contextvars import get_contextvars

from runtime.database.group_commit import GATHERING, GroupCommit
from runtime.database.schema import threads as threads_table
from runtime.database.schema import users
from runtime.threads.removal import deletion
from runtime.threads.run import ENDED
from runtime.threads.thread import Thread
from tests.lanes import repeated
from tests.runtime.agents.loop.acting import Acting, acting, program
from tests.runtime.agents.scripted import ScriptedModel, says

KEYED = 'thread keyed { json_path "$.issue" }'
SHARED = 'thread keyed { json_path "$.issue" separate_memory false } block human { deliveries true }'
MARK = " [from a delivery of pushes]"


async def threads(agent: Acting, user_id: str = "owner") -> list[Thread]:
    return await agent.services.threads.list(user_id, agent="helper")


def remembers(body: Mapping[str, Any]) -> str:
    """Append what the last delivery or message says to `human`, once; then answer."""
    last = body["messages"][-1]["content"]
    if "<tool_output" in last:
        return says("Noted.")
    return says(memory_append={"label": "human", "content": re.findall(r"remember (\w+)", last)[-1]})


async def test_deliveries_share_the_main_thread_by_default(tmp_path: Path) -> None:
    with ScriptedModel(says("Seen.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            for number in range(3):
                assert await agent.end(await agent.deliver({"issue": number})) == "answered"
            [thread] = await threads(agent)
            assert (thread.kind, thread.length) == ("main", 6)


async def test_each_delivery_has_a_thread_if_the_program_says_so(tmp_path: Path) -> None:
    with ScriptedModel(says("Seen.")) as model:
        async with acting(tmp_path, program(model, "thread delivery")) as agent:
            turns = [await agent.deliver({"issue": number}) for number in range(3)]
            assert [await agent.end(turn) for turn in turns] == ["answered"] * 3
            assert {(each.id, each.kind, each.length) for each in await threads(agent)} == {
                (turn, "delivery", 2) for turn in turns
            }


async def test_each_value_has_a_thread_and_a_memory_of_its_own(tmp_path: Path) -> None:
    with ScriptedModel(remembers) as model:
        async with acting(tmp_path, program(model, KEYED)) as agent:
            for issue, word in ((1, "apples"), (2, "pears"), (1, "plums")):
                assert await agent.end(await agent.deliver({"issue": issue, "text": f"remember {word}"})) == "answered"
            assert {(each.kind, each.subject, each.length) for each in await threads(agent)} == {
                ("keyed", "1", 8),
                ("keyed", "2", 4),
            }
            assert (await agent.block(subject="1")) == f"apples{MARK}\nplums{MARK}"
            assert (await agent.block(subject="2")) == f"pears{MARK}"
            assert await agent.block() == ""
        assert all("pears" not in text for text in map(str, model.bodies) if "apples" in text)


async def test_a_webhook_says_where_its_deliveries_name_the_subject(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedModel(says("Seen.")) as model:
        text = program(model, KEYED).replace(
            "webhook pushes {", 'webhook pushes { subject { json_path "$.data.customer" }', 1
        )
        async with acting(tmp_path, text) as agent:
            await agent.end(await agent.deliver({"issue": 1, "data": {"customer": "c-1"}}))
            await agent.end(await agent.deliver({"issue": 1}))
            assert {(each.kind, each.subject) for each in await threads(agent)} == {
                ("keyed", "c-1"),
                ("delivery", None),
            }
    [line] = [line for line in capsys.readouterr().out.splitlines() if "delivery_without_subject" in line]
    assert "$.data.customer" in line


async def test_the_memory_is_the_agents_if_it_is_not_separate(tmp_path: Path) -> None:
    with ScriptedModel(remembers) as model:
        async with acting(tmp_path, program(model, SHARED)) as agent:
            for issue, word in ((1, "apples"), (2, "pears")):
                assert await agent.end(await agent.deliver({"issue": issue, "text": f"remember {word}"})) == "answered"
            assert len(await threads(agent)) == 2
            assert (await agent.block()) == f"apples{MARK}\npears{MARK}"


@pytest.mark.parametrize(
    "payload",
    [{}, {"issue": None}, {"issue": [1, 2]}, {"issue": True}, {"issue": " "}, {"issue": "a\x00"}, {"issue": "a\ufffd"}],
)
async def test_a_payload_without_the_value_has_a_thread_of_its_own_and_the_run_says_so(
    tmp_path: Path, payload: dict[str, Any]
) -> None:
    with ScriptedModel(says("Seen.")) as model:
        async with acting(tmp_path, program(model, KEYED)) as agent:
            assert await agent.end(await agent.deliver(payload)) == "answered"
            [thread] = await threads(agent)
            assert thread.kind == "delivery"
            assert "has no value at $.issue that names a subject" in (await agent.messages(thread))[0].text


@pytest.mark.parametrize("value", ["x" * 1000, "漢🙂 \n", "'; DROP TABLE threads; --", 1.5, -0])
async def test_any_value_names_a_thread(tmp_path: Path, value: object) -> None:
    with ScriptedModel(remembers) as model:
        async with acting(tmp_path, program(model, KEYED)) as agent:
            assert await agent.end(await agent.deliver({"issue": value, "text": "remember plums"})) == "answered"
            [thread] = await threads(agent)
            assert thread.kind == "keyed"
            assert (await agent.block(subject=thread.subject)) == f"plums{MARK}"


async def test_a_message_to_a_keyed_thread_has_the_memory_of_its_subject(tmp_path: Path) -> None:
    with ScriptedModel(remembers) as model:
        async with acting(tmp_path, program(model, KEYED)) as agent:
            assert await agent.end(await agent.deliver({"issue": 1, "text": "remember apples"})) == "answered"
            [thread] = await threads(agent)
            assert await agent.ask("remember pears", thread=thread) == "answered"
            assert (await agent.block(subject="1")) == f"apples{MARK}\npears"
            assert await agent.block() == ""


async def test_the_tables_of_all_subjects_are_no_tools_in_the_thread_of_one(tmp_path: Path) -> None:
    shared = KEYED.replace("}", "shared_data true }")
    tools = "tools [agent_memory_sql]"
    with ScriptedModel(says("Hello.")) as model:
        # In the second program the threads are not keyed any more.
        for more, offered in ((f"{shared} {tools}", [True, True]), (tools, [False, True])):
            async with acting(tmp_path, program(model, more)) as agent:
                subject = await agent.services.threads.for_subject("owner", "helper", "tea")
                for thread in (subject, await agent.services.threads.main("owner", "helper")):
                    assert await agent.ask("Hello.", thread=thread) == "answered"
            assert ["agent_memory_sql" in json.dumps(body) for body in model.bodies[-2:]] == offered


async def test_messages_to_one_thread_are_answered_in_order(tmp_path: Path) -> None:
    def answer(body: Mapping[str, Any]) -> str:
        time.sleep(0.02)
        return says("Reply to " + re.findall(r"question (\d+)", body["messages"][-1]["content"])[-1])

    with ScriptedModel(answer) as model:
        async with acting(tmp_path, program(model)) as agent:
            runs = [await agent.send(f"question {number}") for number in range(8)]
            assert [await agent.end(run) for run in runs] == ["answered"] * 8
            said = [each.text for each in await agent.messages()]
    assert said == [text for n in range(8) for text in (f"question {n}", f"Reply to {n}")]


async def test_a_message_whose_thread_is_deleted_while_it_waits_ends_at_once(tmp_path: Path) -> None:
    began, going_on = threading.Event(), threading.Event()

    def answer(_: Mapping[str, Any]) -> str:
        began.set()
        going_on.wait(60)
        return says("Late.")

    with ScriptedModel(answer) as model:
        async with acting(tmp_path, program(model)) as agent:
            runs = [await agent.send("One."), await agent.send("Two.")]
            await asyncio.to_thread(began.wait, 60)
            await deletion.mark(agent.app.state.database, select(threads_table.c.id))
            going_on.set()
            for each in runs:
                row = await agent.until(each, lambda row: row.state in ENDED)
                assert (row.state, row.attempt, "was deleted" in row.error) == ("dead", 1, each == runs[0])
        assert len(model.bodies) == 1


async def test_users_share_nothing(tmp_path: Path) -> None:
    with ScriptedModel(remembers) as model:
        async with acting(tmp_path, program(model)) as agent:
            row = insert(users).values(user_id="u-ada", name="ada", created_at=0)
            await agent.app.state.database.transact(lambda connection: connection.execute(row))
            assert await agent.ask("remember apples") == "answered"
            assert await agent.ask("remember pears", user_id="u-ada") == "answered"
            assert (await agent.block()).split() == ["apples"]
            assert (await agent.block(user_id="u-ada")).split() == ["pears"]
        assert not any("apples" in text and "pears" in text for text in map(str, model.bodies))


@repeated("number", 16, 64)
async def test_many_conversations_at_once_are_all_answered_once(tmp_path: Path, number: int) -> None:
    def answer(body: Mapping[str, Any]) -> str:
        last = body["messages"][-1]["content"]
        if "<tool_output" in last:
            return says("Noted.")
        name = re.findall(r"number (\d+)", last)[-1]
        return says(memory_append={"label": "seen", "content": f"seen {name};"})

    with ScriptedModel(answer) as model:
        more = "block seen { char_limit 100000 }"
        async with acting(tmp_path, program(model, more)) as agent:
            places = [await agent.services.threads.conversation("owner", "helper") for _ in range(number)]
            runs = [await agent.send(f"number {n}", thread=place) for n, place in enumerate(places)]
            assert set(await asyncio.gather(*map(agent.end, runs))) == {"answered"}
            seen = Counter(re.findall(r"seen (\d+);", await agent.block("seen")))
            lengths = [(await agent.services.threads.get(place.id)).length for place in places]
    assert seen == Counter({str(each): 1 for each in range(number)})
    assert lengths == [4] * number


class RunCommits:
    """Counts the transactions that the writes of runs ask for. They are gathered as the group commit gathers them after
    a pause, whatever it stores for others and however long that takes."""

    def __init__(self, commits: GroupCommit) -> None:
        self.number = 0
        self._put = commits.put
        self._waiting: list[tuple[Any, Any, asyncio.Future[Any]]] = []
        self._storing: set[asyncio.Task[None]] = set()
        commits.put = self._gather  # type: ignore[method-assign]

    def _gather(self, stage: Any, item: Any) -> asyncio.Future[Any]:
        if "run_id" not in get_contextvars():
            return self._put(stage, item)
        if not self._waiting:
            task = asyncio.create_task(self._store())
            self._storing.add(task)
            task.add_done_callback(self._storing.discard)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((stage, item, answer))
        return answer

    async def _store(self) -> None:
        for _ in range(GATHERING):
            await asyncio.sleep(0)
        self.number += 1
        waiting, self._waiting = self._waiting, []
        stored = await asyncio.gather(*(self._put(stage, item) for stage, item, _ in waiting))
        for (_, _, answer), result in zip(waiting, stored, strict=True):
            if not answer.done():
                answer.set_result(result)


@pytest.mark.parametrize(
    ("call", "commits"),
    # The model call's intent, its reply with the intents of its calls, and their results; one more for a change.
    [(("memory_list", {"limit": 5}), 3), (("memory_append", {"label": "human", "content": "A fact."}), 4)],
)
async def test_a_step_with_one_round_of_calls_is_three_commits(
    tmp_path: Path, call: tuple[str, dict[str, Any]], commits: int
) -> None:
    at: list[int] = []

    def answer(body: Mapping[str, Any]) -> str:
        at.append(counted.number)
        name, given = call
        # The outcome changes, so that it is no repetition.
        return (
            says(**{name: {**given, "limit": len(at)} if "limit" in given else given}) if len(at) < 8 else says("So.")
        )

    with ScriptedModel(answer) as model:
        async with acting(tmp_path, program(model, 'tools ["memory_list" "memory_append"]')) as agent:
            counted = RunCommits(agent.app.state.database.commits)
            assert await agent.ask("Go.") == "answered"
    assert [later - earlier for earlier, later in pairwise(at)] == [commits] * 7
