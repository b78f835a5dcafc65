"""Whatever happens to turns, in whatever order: when none of a thread goes on, each of its calls has one output, what
was denied did not happen, and what was approved happened at most once."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from runtime.agents.loop.transcript import calls_without_output
from runtime.database.schema import OWNER, TURN_TABLES, approvals, runs
from runtime.errors import SymbiontError
from runtime.threads.content import ToolCallPart, ToolOutputPart
from runtime.threads.thread import Thread
from runtime.threads.turns.turn import LIVING
from runtime.webhooks.deliveries.redelivery import redeliver
from tests.lanes import LONG, examples
from tests.runtime.agents.approvals.waiting import CONFIRM, approve, deny, note, pass_deadlines
from tests.runtime.agents.loop.acting import Acting, acting, program
from tests.runtime.agents.scripted import ScriptedModel, calling, says
from tests.runtime.webhooks.candidates import rows

ACTIONS = ("send", "send", "deliver", "approve", "deny", "cancel", "redeliver", "expire", "kill", "pause")
Action = tuple[str, int]


class Replies:
    """What the model says: text, or calls of which some are to be confirmed. Each note is another one."""

    def __init__(self, seed: int, *, native: bool) -> None:
        self._random = Random(seed)
        self._native = native
        self._notes = 0

    def __call__(self, _body: Mapping[str, Any]) -> Any:
        made = [self._call() for _ in range(self._random.choice((0, 0, 1, 2, 3)))]
        text = "Well." if not made or self._random.random() < 0.5 else ""
        if self._native:
            return calling(*made, text=text)
        calls = [{"name": name, "args": given} for name, given in made]
        return json.dumps({"messages": [text] if text else [], "tool_calls": calls}) if made else says(text)

    def _call(self) -> tuple[str, dict[str, Any]]:
        self._notes += 1
        match self._random.randrange(5):
            case 0:
                return "archival_search", {"query": "tea"}
            case 1:
                return "memory_append", {"label": "human"}
            case 2:
                return "memory_insert", note(f"free{self._notes};")
            case 3:
                return "no_such_tool", {}
            case _:
                return "memory_append", note(f"asked{self._notes};")


class Turns:
    """The turns of one example: what happens to them, and what is left of them."""

    def __init__(self, agent: Acting, threads: list[Thread]) -> None:
        self.agent = agent
        self.threads = threads
        self.delivered: list[str] = []

    async def act(self, action: str, number: int) -> None:
        agent = self.agent
        waiting = await agent.services.approvals.newest(OWNER, waiting=True)
        known = await rows(agent.app.state.database, runs)
        # Such as a redelivery of what goes on.
        with suppress(SymbiontError):
            match action:
                case "send":
                    thread = self.threads[number % len(self.threads)]
                    await agent.send(f"Message {number}.", thread=thread)
                case "deliver":
                    self.delivered.append(await agent.deliver({"number": number}))
                case "redeliver" if self.delivered:
                    again = self.delivered[number % len(self.delivered)]
                    await redeliver(agent.app.state.database, agent.app.state.clock, again)
                    agent.dispatcher.wake()
                case "approve" if waiting:
                    await approve(agent, waiting[number % len(waiting)])
                case "deny" if waiting:
                    await deny(agent, waiting[number % len(waiting)], "no")
                case "cancel" if known:
                    await agent.dispatcher.cancel(known[number % len(known)].id, OWNER)
                case "expire":
                    await pass_deadlines(agent)
                case "kill":
                    await agent.kill()
                case "pause":
                    await asyncio.sleep(number / 200)

    async def finish(self, actions: list[Action]) -> None:
        """Decide about what waits until no turn goes on."""
        later = iter([*actions, *[("approve", 0)] * 1000])
        async with asyncio.timeout(120):
            while await self.living():
                if await self.agent.services.approvals.newest(OWNER, waiting=True):
                    await self.act(*next(later))
                await asyncio.sleep(0.02)

    async def living(self) -> bool:
        async with self.agent.app.state.database.read() as connection:
            for table in TURN_TABLES.values():
                living = select(table.c.id).where(table.c.state.in_(LIVING)).limit(1)
                if (await connection.execute(living)).first() is not None:
                    return True
        return False

    async def check(self) -> None:
        """Raise AssertionError if a call has no output or several, or if something else happened than was decided."""
        decided = {row.call_id: row.state for row in await rows(self.agent.app.state.database, approvals)}
        assert "awaiting" not in decided.values()
        done = await self.agent.block()
        for thread in self.threads:
            found = await self.agent.messages(thread)
            assert calls_without_output(found) == {}
            calls = {part.id: part for each in found for part in each.parts if isinstance(part, ToolCallPart)}
            outputs = [part for each in found for part in each.parts if isinstance(part, ToolOutputPart)]
            assert Counter(part.call_id for part in outputs) == Counter(calls.keys())
            for output in outputs:
                content = json.loads(calls[output.call_id].arguments).get("content", "no content")
                state = decided.get(output.call_id)
                assert done.count(content) <= 1
                if content.startswith("asked"):
                    assert state == "approved" or content not in done
                if output.status == "ok" and calls[output.call_id].name in ("memory_append", "memory_insert"):
                    assert content in done


@asynccontextmanager
async def turns(folder: Path, replies: Replies, more: str) -> AsyncIterator[Turns]:
    with ScriptedModel(replies) as model:
        async with acting(folder, program(model, f"max_steps 4 {CONFIRM} {more}")) as agent:
            conversation = await agent.services.threads.conversation(OWNER, "helper")
            yield Turns(agent, [await agent.main(), conversation])


@LONG
@settings(
    # Interleavings are not repeated exactly, so that shrinking finds little.
    phases=[Phase.generate],
    max_examples=examples(8),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    actions=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 9)), min_size=3, max_size=20),
    seed=st.integers(0, 2**32),
    native=st.booleans(),
)
def test_no_thread_keeps_a_call_without_an_output(actions: list[Action], seed: int, native: bool) -> None:
    async def tried() -> None:
        more = "tool_calling native" if native else ""
        with tempfile.TemporaryDirectory() as folder:
            async with turns(Path(folder), Replies(seed, native=native), more) as found:
                for action, number in [("send", 0), *actions]:
                    await found.act(action, number)
                await found.finish(actions)
                await found.check()

    asyncio.run(tried())
