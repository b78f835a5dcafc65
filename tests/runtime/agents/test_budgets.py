"""Agents at their limits: people are refused, deliveries wait, and everything that a model is asked counts."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from runtime.api.admin import readiness, users
from runtime.api.admin.agents import chat
from runtime.api.rest.problem import problem_of
from runtime.database.schema import OWNER, reservations, usage_totals
from runtime.identity.caller import OWNER_CALLER
from runtime.models.budgets.limits import BudgetExceeded
from runtime.tools import TOOLS
from tests.lanes import LONG
from tests.runtime.agents.loop.acting import Acting, acting, program
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import on_postgres, running, until, write_program


def limited(model: ScriptedModel, limits: str, *, more: str = "", models: str = "") -> str:
    """Return the program of an agent whose replies have 200 tokens at most."""
    return program(model, f"limits {{ {limits} }} context {{ reply_tokens 200 }} {more}", models)


async def used(agent: Acting) -> tuple[int, int]:
    """Return the tokens that count for the agent, and those that are reserved."""
    async with agent.app.state.database.read() as connection:
        totals = await connection.execute(select(usage_totals.c.tokens).where(usage_totals.c.agent == "helper"))
        held = await connection.execute(select(reservations.c.tokens).where(reservations.c.agent == "helper"))
        return sum(totals.scalars()), sum(held.scalars())


async def idle(agent: Acting) -> None:
    async with asyncio.timeout(60):
        while agent.dispatcher.running or agent.app.state.database.commits._task is not None:
            await asyncio.sleep(0.02)


async def reload(agent: Acting, folder: Path, text: str) -> None:
    write_program(folder, text)
    agent.app._keeps_program = True  # as a daemon's
    assert await agent.app.reload()


async def test_people_are_refused_at_a_limit_and_deliveries_wait_for_the_next_day(tmp_path: Path) -> None:
    with ScriptedModel(says("Yes.")) as model:
        async with acting(tmp_path, limited(model, "tokens_per_day 7000")) as agent:
            answered = 0
            while await agent.ask("Are you there?") == "answered":
                answered += 1
            last, event = (await agent.messages())[-1], (await agent.services.event_log.page(OWNER, 0)).events[-1]
            assert answered
            assert event.name == "agent.error"
            assert event.data["problem"]["type"] == "urn:symbiont:problem:budget_exceeded"
            assert last.text.startswith(
                "The turn failed: the limit of the agent helper, 7,000 tokens per day, is used up"
            )

            delivery = await agent.deliver({"number": 1})
            row = await agent.until(delivery, lambda row: row.state == "budget_exceeded")
            assert row.ended is None
            found = await readiness.readiness(agent.app.admin_context(), {})
            (check,) = [each for each in found["checks"] if each["check"] == "limits"]
            assert (check["status"], check["text"].partition(":")[0]) == (
                "YELLOW",
                "1 run waiting for the next day or hour at a limit",
            )
            asked = len(model.bodies)
            total, held = await used(agent)
            assert total <= 7000
            assert held == 0

            # A raised limit wakes it.
            await reload(agent, tmp_path, limited(model, "tokens_per_day 100000"))
            assert await agent.end(delivery) == "answered"
            assert len(model.bodies) == asked + 1


async def test_a_delivery_at_a_limit_leaves_its_thread_to_people_and_goes_on_from_its_steps(tmp_path: Path) -> None:
    with ScriptedModel(says(archival_insert={"content": "Step one."}), says("Done.")) as model:
        async with acting(tmp_path, limited(model, "tokens_per_day 2000")) as agent:
            delivery = await agent.deliver({"number": 1})
            await agent.until(delivery, lambda row: row.state == "budget_exceeded")
            assert len(model.bodies) == 1
            # A person is told at once, although the delivery is in the middle of its turn in the same thread.
            assert await agent.ask("Are you there?") == "failed"

            await reload(agent, tmp_path, limited(model, "tokens_per_day 100000"))
            assert await agent.end(delivery) == "answered"
            assert len(model.bodies) == 2
            assert [name for name, status, _ in await agent.outputs()] == ["archival_insert"]


@pytest.mark.parametrize(("at_limit", "asked", "delivered"), [("wait", "wait", "wait"), ("refuse", "dead", "dead")])
async def test_at_limit_decides_for_messages_and_deliveries(
    tmp_path: Path, at_limit: str, asked: str, delivered: str
) -> None:
    states = {"wait": "budget_exceeded", "dead": "dead"}
    with ScriptedModel(says("Yes.")) as model:
        async with acting(tmp_path, limited(model, f"runs_per_hour 1 at_limit {at_limit}")) as agent:
            assert await agent.ask("One.") == "answered"
            message, delivery = await agent.send("Two."), await agent.deliver({"number": 1})
            for turn, state in ((message, asked), (delivery, delivered)):
                wanted = {states[state]}
                row = await agent.until(turn, lambda row: row.state in wanted)  # noqa: B023 - awaited here
                assert "1 run per hour" in row.error
        assert len(model.bodies) == 1


async def test_messages_that_wait_keep_their_order(tmp_path: Path) -> None:
    with ScriptedModel(says("Yes.")) as model:
        async with acting(tmp_path, limited(model, "runs_per_hour 1 at_limit wait")) as agent:
            assert await agent.ask("One.") == "answered"
            turns = [await agent.send(text) for text in ("Two.", "Three.", "Four.")]
            await agent.until(turns[0], lambda row: row.state == "budget_exceeded")
            await reload(agent, tmp_path, limited(model, "runs_per_hour 100 at_limit wait"))
            for turn in turns:
                assert await agent.end(turn) == "answered"
            said = [each.text for each in await agent.messages() if each.role == "user"]
    assert said == ["One.", "Two.", "Three.", "Four."]


async def test_a_run_that_is_tried_again_begins_once(tmp_path: Path) -> None:
    with ScriptedModel(503, 503, 503, says("Yes.")) as model:
        async with acting(tmp_path, limited(model, "runs_per_hour 2")) as agent:
            first = await agent.send("One.")
            assert await agent.end(first) == "answered"
            assert (await agent.run(first)).attempt > 1
            assert await agent.ask("Two.") == "answered"
            assert await agent.ask("Three.") == "failed"


async def test_a_call_that_can_never_fit_ends_a_delivery_that_would_wait(tmp_path: Path) -> None:
    with ScriptedModel(says("Yes.")) as model:
        async with acting(tmp_path, limited(model, "tokens_per_day 300")) as agent:
            delivery = await agent.deliver({"number": 1})
            row = await agent.until(delivery, lambda row: row.state == "dead")
            assert "is less than one call of the model may take" in row.error
        assert not model.bodies


async def test_corrections_and_summaries_count(tmp_path: Path) -> None:
    """And what the service tells counts, not what was reserved."""

    def answer(body: Any) -> Any:
        return says("Fine.") if len(model.bodies) % 2 == 0 else '{"messages": [], "tool_calls": [{"name": 7}]}'

    with ScriptedModel(answer) as model:
        async with acting(tmp_path, limited(model, "tokens_per_day 1000000")) as agent:
            assert await agent.ask("One.") == "answered"
            await idle(agent)
            assert len(model.bodies) > 1
            told = sum(sum(len(str(m["content"])) for m in body["messages"]) // 4 for body in model.bodies)
            total, held = await used(agent)
            assert told <= total <= told + 100 * len(model.bodies)
            assert held == 0


async def test_a_limit_of_a_user_holds_and_is_lifted_for_what_waits(tmp_path: Path) -> None:
    with ScriptedModel(says("Yes.")) as model:
        async with acting(tmp_path, program(model, "context { reply_tokens 200 }")) as agent:
            context = agent.app.admin_context()
            await users.user_set(context, {"name": OWNER, "tokens_per_day": "6000"})
            while await agent.ask("Are you there?") == "answered":
                pass
            delivery = await agent.deliver({"number": 1})
            row = await agent.until(delivery, lambda row: row.state == "budget_exceeded")
            assert "the limit of the user, 6,000 tokens per day," in row.error
            shown = await users.user_show(context, {"name": OWNER})
            assert shown["limits"]["tokens_per_day"] == {"set": 6000, "most": 6000}
            assert 0 < shown["used"]["tokens"] <= 6000

            await users.user_set(context, {"name": OWNER, "tokens_per_day": "none"})
            assert await agent.end(delivery) == "answered"


async def test_a_person_is_told_before_a_message_is_stored(tmp_path: Path) -> None:
    with ScriptedModel(says("Yes.")) as model:
        async with acting(tmp_path, limited(model, "runs_per_hour 1")) as agent:
            assert await agent.ask("One.") == "answered"
            refusal = await agent.app.state.budgets.refusal(OWNER, "helper")
            assert refusal is not None
            problem = problem_of(refusal)
            assert (problem.status, problem.kind) == (429, "budget_exceeded")
            assert problem.headers == (("Retry-After", str(refusal.retry_after)),)
            assert 0 < refusal.retry_after <= 3600
            stored = len(await agent.messages())
            with pytest.raises(BudgetExceeded):
                await chat.chat_send(agent.app.admin_context(), {"agent": "helper", "message": "Two."})
            with pytest.raises(BudgetExceeded):
                await TOOLS["agent_chat"].call(agent.app.contexts.tool(OWNER_CALLER), {"input": "Two."})
            await idle(agent)
            assert len(await agent.messages()) == stored

            await reload(agent, tmp_path, limited(model, "runs_per_hour 1 at_limit wait"))
            assert await agent.app.state.budgets.refusal(OWNER, "helper") is None


async def test_agents_of_users_with_a_limit_of_costs_need_prices_and_readiness_says_so(tmp_path: Path) -> None:
    with ScriptedModel(says("Yes.")) as model:
        async with acting(tmp_path, program(model)) as agent:
            await users.user_set(agent.app.admin_context(), {"name": OWNER, "cost_per_day": "1.50"})
            delivery = await agent.deliver({"number": 1})
            row = await agent.until(delivery, lambda row: row.state == "budget_exceeded")
            assert "the model scripted has no prices" in row.error
            found = await readiness.readiness(agent.app.admin_context(), {})
            (check,) = [each for each in found["checks"] if each["check"] == "limits of costs"]
            assert (check["status"], "scripted (helper)" in check["text"]) == ("YELLOW", True)

            priced = program(model).replace('model "m" } }', 'model "m" } input_price 0.4 output_price 1.6 }')
            await reload(agent, tmp_path, priced)
            assert await agent.end(delivery) == "answered"
            found = await readiness.readiness(agent.app.admin_context(), {})
            assert "limits of costs" not in {each["check"] for each in found["checks"]}


async def test_a_service_that_does_not_say_what_it_used_counts_what_was_reserved(tmp_path: Path) -> None:
    with ScriptedModel(says("Yes.")) as model:
        model.tells = False
        async with acting(tmp_path, limited(model, "tokens_per_day 1000000")) as agent:
            assert await agent.ask("One.") == "answered"
            await idle(agent)
            total, held = await used(agent)
            assert total > 200
            assert held == 0


@LONG
def test_two_daemons_on_one_database_keep_a_limit_together_and_go_on_when_it_is_raised(
    tmp_path: Path, postgres_url: str
) -> None:
    def answer(_: Any) -> Any:
        time.sleep(0.05)
        return says("Yes.")

    with ScriptedModel(answer) as model, ExitStack() as stack:
        text = limited(model, "tokens_per_day 15000 runs_per_hour 1000", more="thread delivery")
        text = text.replace('memory notes { path "notes" embedding hashing }', "memory notes { store collection }")
        daemons = []
        for name in ("one", "other"):
            root = tmp_path / name
            root.mkdir()
            write_program(root, text)
            daemons.append(stack.enter_context(running(root, "program", wait=True, **on_postgres(postgres_url))))
        for number in range(40):
            assert daemons[number % 2].request("POST", "/w", b'{"number":%d}' % number).status == 202

        def states() -> Counter[str]:
            done = daemons[0].symbi("agent", "runs", "--limit", "100", "--json", **on_postgres(postgres_url))
            return Counter(run["state"] for run in json.loads(done.stdout)["runs"])

        found = until(lambda: seen if (seen := states())["budget_exceeded"] + seen["done"] == 40 else None, 120)
        assert found["budget_exceeded"]
        assert found["done"] == len(model.bodies)

        def limit() -> Any:
            shown = daemons[0].symbi("agent", "usage", "--json", **on_postgres(postgres_url))
            return json.loads(shown.stdout)["limits"][0]

        until(lambda: limit()["reserved"] == 0, what="the end of all reservations")
        assert 0 < limit()["used"] <= 15_000

        for name in ("one", "other"):
            write_program(tmp_path / name, text.replace("15000", "10000000"))
        until(lambda: states()["done"] == 40, 120)
        assert len(model.bodies) == 40


@LONG
def test_a_call_in_which_the_daemon_is_killed_counts_with_what_was_reserved(tmp_path: Path) -> None:
    """The run goes on and asks again, which counts too."""
    asked = threading.Event()
    killed = threading.Event()

    def answer(_: Any) -> Any:
        asked.set()
        killed.wait(60)
        return says("Yes.")

    def limit() -> dict[str, Any]:
        answer = daemon.symbi("agent", "usage", "--json")
        (found,) = json.loads(answer.stdout)["limits"]
        return dict(found)

    with ScriptedModel(answer) as model:
        write_program(tmp_path, limited(model, "tokens_per_day 20000"))
        with running(tmp_path, "program") as daemon:
            assert daemon.request("POST", "/w", b"{}").status == 202
            assert asked.wait(60)
            daemon.kill()
        killed.set()
        with running(tmp_path, "program") as daemon:
            until(lambda: limit()["used"] > 0)
            assert limit()["used"] < limit()["reserved"] < 20000
        assert len(model.bodies) == 2
