"""An agent is told once that it talks with a user, or about a subject, for the first time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import delete, insert

from runtime.api.admin.agents.context_preview import agent_context_preview
from runtime.database.schema import runs, users
from tests.runtime.agents.loop.acting import acting, program
from tests.runtime.agents.scripted import ScriptedModel, says

FIRST = "This is your first conversation with this user."
SUBJECTS = 'thread keyed { json_path "$.issue" }'


def told(model: ScriptedModel) -> list[bool]:
    """Return for each request whether it says that the conversation is the first one."""
    return [FIRST in model.texts(number) for number in range(len(model.bodies))]


async def test_only_the_first_delivery_of_many_threads_is_the_first(tmp_path: Path) -> None:
    with ScriptedModel(says("Seen.")) as model:
        async with acting(tmp_path, program(model, "thread delivery")) as agent:
            for number in range(3):
                assert await agent.end(await agent.deliver({"issue": number})) == "answered"
        assert told(model) == [True, False, False]


async def test_a_new_conversation_with_a_known_user_is_not_the_first(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("Hello.") == "answered"
            thread = await agent.services.threads.conversation("owner", "helper")
            assert await agent.ask("Hello again.", thread=thread) == "answered"
        assert told(model) == [True, False]


async def test_another_user_is_met_for_the_first_time(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            row = {"user_id": "ada", "name": "ada", "created_at": 0}
            await agent.app.state.database.transact(lambda connection: connection.execute(insert(users).values(row)))
            assert await agent.ask("Hello.") == "answered"
            assert await agent.ask("Hello.", thread=await agent.main("ada")) == "answered"
        assert told(model) == [True, True]


async def test_each_subject_is_met_for_the_first_time(tmp_path: Path) -> None:
    with ScriptedModel(says("Seen.")) as model:
        async with acting(tmp_path, program(model, SUBJECTS)) as agent:
            for issue in (1, 2, 1):
                assert await agent.end(await agent.deliver({"issue": issue})) == "answered"
        assert told(model) == [True, True, False]


async def test_it_is_said_in_every_step_and_every_attempt_of_a_run(tmp_path: Path) -> None:
    state = {"asked": 0}

    def answer(_: Any) -> int | str:
        state["asked"] += 1
        if state["asked"] == 1:
            return says(memory_append={"label": "human", "content": "Ada."})
        return 503 if state["asked"] <= 4 else says("Noted.")

    with ScriptedModel(answer) as model:
        async with acting(tmp_path, program(model)) as agent:
            turn = await agent.send("I am Ada.")
            assert await agent.end(turn) == "answered"
            assert (await agent.run(turn)).attempt == 2
        assert told(model) == [True] * 5


async def test_a_user_is_known_after_the_runs_were_deleted(tmp_path: Path) -> None:
    with ScriptedModel(says("Seen.")) as model:
        async with acting(tmp_path, program(model, "thread delivery")) as agent:
            assert await agent.end(await agent.deliver({"issue": 1})) == "answered"
            await agent.app.state.database.transact(lambda connection: connection.execute(delete(runs)))
            assert await agent.end(await agent.deliver({"issue": 2})) == "answered"
        assert told(model) == [True, False]


async def test_what_a_recorder_received_was_no_conversation(tmp_path: Path) -> None:
    with ScriptedModel(says("Seen.")) as model:
        async with acting(tmp_path, program(model, chosen="model none")) as agent:
            for number in range(3):
                assert await agent.end(await agent.deliver({"issue": number})) is None
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("Hello.") == "answered"
        assert told(model) == [True]


async def test_a_context_that_is_only_shown_is_no_conversation(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model)) as agent:

            async def shown() -> bool:
                async with agent.app.pinned():
                    answer = await agent_context_preview(agent.app.admin_context(), {})
                return any(FIRST in message["content"] for message in answer["messages"])

            assert await shown()
            thread = await agent.services.threads.conversation("owner", "helper")
            assert await agent.ask("Hello.", thread=thread) == "answered"
            assert not await shown()
        assert told(model) == [True]
