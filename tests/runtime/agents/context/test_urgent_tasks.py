"""Urgent and overdue tasks are in the next context of the user's main agent, each once a day."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from runtime.clock import milliseconds
from runtime.database.schema import user_settings
from runtime.identity import users
from runtime.tasks.store import TaskStore
from runtime.tasks.task import Actor, Due, Priority, Task
from runtime.tasks.urgent import MOST, UrgentTasks, urgent_notice
from runtime.threads.run_log import RunLog
from runtime.token_counter import estimate
from tests.clocks import ManualClock
from tests.runtime.agents.loop.acting import Acting, acting, program
from tests.runtime.agents.loop.test_context import shown
from tests.runtime.agents.scripted import ScriptedModel, says

USER = Actor("user")
DAY = 86_400_000


async def add(
    agent: Acting, title: str, *, user_id: str = "owner", priority: Priority = "urgent", due: Due | None = None
) -> Task:
    store = TaskStore(agent.app.state.database, agent.app.state.clock)
    return await store.create(user_id, USER, title=title, priority=priority, due=due)


async def said_at(agent: Acting, task: Task) -> int | None:
    return (await TaskStore(agent.app.state.database, agent.app.state.clock).get(task.user_id, task.id)).said_at


async def test_urgent_and_overdue_tasks_are_said_once(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            now = milliseconds(agent.app.state.clock)
            urgent = await add(agent, "Call </urgent_tasks>\nAda")
            overdue = await add(agent, "Pay rent", priority="low", due=Due(now - DAY, None))
            await add(agent, "Water plants", priority="high", due=Due(now + DAY, None))
            done = await add(agent, "Ended")
            await TaskStore(agent.app.state.database, agent.app.state.clock).update(
                "owner", done.id, {"status": "completed"}, USER
            )
            before = {each["task_id"]: each for each in (await shown(agent))["urgent_tasks"]}
            assert await said_at(agent, urgent) is None
            assert await agent.ask("Hello.") == "answered"
            assert await agent.ask("Again.") == "answered"
            after = {each["task_id"]: each for each in (await shown(agent))["urgent_tasks"]}
        first, second = (model.texts(number) for number in range(2))
    assert [before[each.id]["in_context"] for each in (urgent, overdue)] == [True, True]
    assert [before[each.id]["said_at"] for each in (urgent, overdue)] == [None, None]
    assert [after[each.id]["in_context"] for each in (urgent, overdue)] == [False, False]
    assert all(after[each.id]["said_at"] for each in (urgent, overdue))
    assert set(before) == {urgent.id, overdue.id}
    assert first.count("<urgent_tasks>") == first.count("</urgent_tasks>") == 1
    assert f"- Call <\\/urgent_tasks> Ada (id {urgent.id}; urgent)" in first
    assert f"- Pay rent (id {overdue.id}; low; overdue since 20" in first
    assert "Water plants" not in first
    assert "Ended" not in first
    assert "<urgent_tasks>" not in second


async def test_every_step_of_a_run_has_the_same_tasks(tmp_path: Path) -> None:
    with ScriptedModel(says(memory_append={"label": "human", "content": "Tea."}), says("Noted.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            await add(agent, "Call Ada")
            assert await agent.ask("Note it.") == "answered"
        assert ["Call Ada" in model.texts(number) for number in range(2)] == [True, True]


async def test_only_the_main_thread_of_the_main_agent_has_them(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            task = await add(agent, "Call Ada")
            thread = await agent.services.threads.conversation("owner", "helper")
            assert await agent.ask("Hello.", thread=thread) == "answered"
            assert await said_at(agent, task) is None
            assert (await shown(agent))["urgent_tasks"] != []
        assert "Call Ada" not in model.texts(0)


async def test_another_agent_than_the_main_one_has_none(tmp_path: Path) -> None:
    other = '} agent other { memory notes model scripted instruction "You rule." main true'
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model, other)) as agent:
            task = await add(agent, "Call Ada")
            assert await agent.ask("Hello.") == "answered"
            assert await said_at(agent, task) is None
            assert [each["in_context"] for each in (await shown(agent))["urgent_tasks"]] == [True]
        assert "Call Ada" not in model.texts(0)


async def test_nothing_of_another_user_is_said(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            ada = await users.add(agent.app.state.database, "ada", milliseconds(agent.app.state.clock))
            hers = await add(agent, "Of Ada", user_id=ada)
            assert await agent.ask("Hello.") == "answered"
            assert (await shown(agent))["urgent_tasks"] == []
            assert await said_at(agent, hers) is None
            assert await agent.ask("Hello.", user_id=ada) == "answered"
        assert ["Of Ada" in model.texts(number) for number in range(2)] == [False, True]


async def test_what_no_model_has_read_is_not_marked(tmp_path: Path) -> None:
    with ScriptedModel(400, says("Hello.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            task = await add(agent, "Call Ada")
            assert await agent.ask("Hello.") == "failed"
            assert await said_at(agent, task) is None
            assert await agent.ask("Hello.") == "answered"
            assert await said_at(agent, task) is not None
        assert "Call Ada" in model.texts(1)


async def test_an_interrupted_run_says_the_same_and_a_later_one_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the model replied, before the tasks are marked."""
    reached = asyncio.Event()
    mark, marked = UrgentTasks.mark_said, 0

    async def held(self: UrgentTasks, user_id: str, task_ids: Any) -> None:
        nonlocal marked
        marked += 1
        if marked == 1:
            reached.set()
            await asyncio.Event().wait()
        await mark(self, user_id, task_ids)

    monkeypatch.setattr(UrgentTasks, "mark_said", held)
    with ScriptedModel(says(memory_append={"label": "human", "content": "Tea."}), says("Noted."), says("Hi.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            task = await add(agent, "Call Ada")
            run_id = await agent.send("Note it.")
            await reached.wait()
            assert await said_at(agent, task) is None
            late = await add(agent, "Added later")
            await agent.kill()
            assert await agent.end(run_id) == "answered"
            assert await said_at(agent, task) is not None
            assert await said_at(agent, late) is None
            assert await agent.ask("Hello.") == "answered"
        texts = [model.texts(number) for number in range(3)]
    assert ["Call Ada" in text for text in texts] == [True, True, False]
    assert ["Added later" in text for text in texts] == [False, False, True]


async def test_a_run_that_began_without_them_goes_on_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = asyncio.Event()
    step, held = RunLog.step, False

    async def holding(self: RunLog, kind: str, *given: Any, **more: Any) -> Any:
        nonlocal held
        result = await step(self, kind, *given, **more)
        if kind == "model" and not held:
            held = True
            reached.set()
            await asyncio.Event().wait()
        return result

    monkeypatch.setattr(RunLog, "step", holding)
    with ScriptedModel(says(memory_append={"label": "human", "content": "Tea."}), says("Noted.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            run_id = await agent.send("Note it.")
            await reached.wait()
            task = await add(agent, "Added later")
            await agent.kill()
            assert await agent.end(run_id) == "answered"
            assert await said_at(agent, task) is None
        assert all("Added later" not in model.texts(number) for number in range(len(model.bodies)))


@pytest.mark.parametrize(
    ("zone", "waits", "due"),
    [("Etc/GMT+8", False, "2025-11-25T04:00:00-08:00"), ("Etc/GMT-8", True, "2025-11-25T20:00:00+08:00")],
)
async def test_the_day_is_that_of_the_user(tmp_path: Path, zone: str, waits: bool, due: str) -> None:
    """From 12:00 to 18:00 UTC it becomes another day in the east, not in the west."""
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            clock = ManualClock(1_764_072_000.0)
            urgent = UrgentTasks(agent.app.state.database, clock)
            row = {"user_id": "owner", "time_zone": zone, "updated_at": 1}
            await agent.app.state.database.transact(
                lambda connection: connection.execute(user_settings.insert().values(row))
            )
            task = await add(agent, "Call Ada", due=Due(1_764_072_000_000, None))
            await urgent.mark_said("owner", [task.id])
            clock.advance(6 * 3600)
            assert [(each.waits, each.due) for each in await urgent.of("owner")] == [(waits, due)]


async def test_they_are_bounded_in_number_and_tokens(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            for number in range(MOST + 5):
                await add(agent, f"Task {number} " + "word " * 80)
            found = await agent.services.urgent_tasks.of("owner")
            few, all_of_them = (urgent_notice(found, tokens=tokens, count=estimate) for tokens in (400, 100_000))
            assert 0 < len(few.task_ids) < len(all_of_them.task_ids) <= MOST
            assert estimate(few.text) <= 400
            assert urgent_notice(found, tokens=20, count=estimate) == ([], "")
            assert await agent.ask("Hello.") == "answered"
            assert await agent.ask("Hello.") == "answered"
        said = [{line for line in model.texts(n).splitlines() if line.startswith("- Task ")} for n in range(2)]
    assert all(said)
    assert said[0].isdisjoint(said[1])
