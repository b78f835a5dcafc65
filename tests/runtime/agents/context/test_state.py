"""The state and the time in a context are those of its step, of its subject and of its user's zone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from runtime.database.schema import user_settings
from tests.runtime.agents.loop.acting import Acting, acting, program
from tests.runtime.agents.scripted import ScriptedModel, says


def memory(model: ScriptedModel) -> list[tuple[int, int]]:
    """Return for each request how many archival items and messages it tells."""
    found = []
    for number in range(len(model.bodies)):
        seen = re.search(r"Memory: (\d+) archival items, (\d+) messages", model.texts(number))
        assert seen is not None
        found.append((int(seen[1]), int(seen[2])))
    return found


def times(model: ScriptedModel) -> list[str]:
    """Return the time that each request tells."""
    return [re.findall(r"Current time: (.*)", model.texts(number))[-1] for number in range(len(model.bodies))]


async def give_zone(agent: Acting, zone: str) -> None:
    async with agent.app.state.database.write() as connection:
        await connection.execute(user_settings.insert().values(user_id="owner", time_zone=zone, updated_at=0))


async def test_each_step_tells_what_is_stored_then(tmp_path: Path) -> None:
    replies = [says(archival_insert={"content": f"Fact {number} about tea."}) for number in range(2)]
    with ScriptedModel(*replies, says("Stored.")) as model:
        async with acting(tmp_path, program(model), kept=True) as agent:
            assert await agent.ask("Store it.") == "answered"
            assert await agent.ask("And now?") == "answered"
    assert [items for items, _ in memory(model)] == [0, 1, 2, 2]
    messages = [number for _, number in memory(model)]
    assert messages == sorted(set(messages))


async def test_a_subject_is_told_of_its_own_items(tmp_path: Path) -> None:
    def answer(body: Any) -> str:
        told = str(body["messages"][-1]["content"])
        if '"store"' in told and "<tool_output" not in told:
            return says(archival_insert={"content": "A fact about this customer."})
        return says("Seen.")

    with ScriptedModel(answer) as model:
        async with acting(tmp_path, program(model, 'thread keyed { json_path "$.customer" }'), kept=True) as agent:
            for payload in ({"customer": "a", "store": 1}, {"customer": "b"}, {"customer": "a"}, {"nobody": 1}):
                assert await agent.end(await agent.deliver(payload)) == "answered"
    assert [items for items, _ in memory(model)] == [0, 1, 0, 1, 0]


async def test_the_time_is_that_of_the_users_zone(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("Hello.") == "answered"
            await agent.services.settings.put("owner", "helper", {"preferences": {"timezone": "Asia/Tokyo"}})
            assert await agent.ask("Hello.") == "answered"
            # The zone of the user, by which tasks are due, comes first.
            await give_zone(agent, "Asia/Kathmandu")
            assert await agent.ask("Hello.") == "answered"
            await agent.services.settings.put("owner", "helper", {"preferences": {"timezone": "Nowhere"}})
            assert await agent.ask("Hello.") == "answered"
    form = r"[A-Z][a-z]+day \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
    machine, preferred, own, still = times(model)
    assert re.fullmatch(form + r"[+-]\d\d:\d\d \(.+\)", machine)
    assert re.fullmatch(form + r"\+09:00 \(Asia/Tokyo\)", preferred)
    assert re.fullmatch(form + r"\+05:45 \(Asia/Kathmandu\)", own)
    assert re.fullmatch(form + r"\+05:45 \(Asia/Kathmandu\)", still)


async def test_the_time_moves_within_a_run(tmp_path: Path) -> None:
    with ScriptedModel(says(memory_append={"label": "human", "content": "Tea."}), says("Noted.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            now = [1_795_950_000.0]

            class Moving:
                def __getattr__(self, name: str) -> Any:
                    return getattr(agent.app.state.clock, name)

                def now(self) -> float:
                    now[0] += 60
                    return now[0]

            agent.services.clock = Moving()
            assert await agent.ask("Note it.") == "answered"
    first, second = times(model)
    assert first != second
