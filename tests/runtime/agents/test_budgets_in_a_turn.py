"""Limits in the middle of a turn: summaries, requests that are sent again, and fallbacks count and are limited too."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from runtime.api.admin import readiness, users
from runtime.database.schema import OWNER, reservations, usage, usage_totals
from tests.lanes import LONG
from tests.runtime.agents.loop.acting import Acting, acting, program
from tests.runtime.agents.scripted import Given, Refusal, ScriptedModel, says
from tests.runtime.agents.test_budgets import idle
from tests.runtime.webhooks.candidates import rows

SMALL = "context { max_tokens 3000 reply_tokens 400 }"
LARGE_BLOCK = f'tools ["agent_block_history"] block notes {{ value "{"word " * 300}" }}'
PRICED = 'model "m" }} input_price {0} output_price {0} }}'
TOO_LONG = Refusal(400, "This model's maximum context length is 2000 tokens.")


def is_summary(body: Mapping[str, Any]) -> bool:
    """Return True for the request of a summarizer."""
    return "You keep the summary" in body["messages"][0]["content"]


class Tightening:
    """A model that summarizes, and reads a long block in the first `steps` steps of a run. In the last of them the
    limit of the user becomes so low that no further call is allowed."""

    def __init__(self) -> None:
        self.steps = 0
        self.asked: Counter[str] = Counter()
        self.tighten: Callable[[], None] = lambda: None

    def __call__(self, body: Mapping[str, Any]) -> Given:
        kind = "summary" if is_summary(body) else "reply"
        self.asked[kind] += 1
        if kind == "summary":
            return "They talked about words."
        if not self.steps:
            return says("Read.")
        self.steps -= 1
        if not self.steps:
            self.tighten()
        return says(agent_block_history={"label": "notes", "limit": self.steps + 1})


def tightening(agent: Acting) -> Callable[[], None]:
    """Return what lets no more calls of the owner begin, and is called in another thread."""
    loop = asyncio.get_running_loop()

    async def tighten() -> None:
        context = agent.app.admin_context()
        used = (await users.user_show(context, {"name": OWNER}))["used"]["tokens"]
        await users.user_set(context, {"name": OWNER, "tokens_per_day": str(used + 1)})

    return lambda: asyncio.run_coroutine_threadsafe(tighten(), loop).result(60)


async def lift(agent: Acting) -> None:
    await users.user_set(agent.app.admin_context(), {"name": OWNER, "tokens_per_day": "none"})


async def counted(agent: Acting) -> tuple[int, int]:
    """Return the tokens that count for the owner; and those that the rows of the calls have, by which reservations are
    replaced."""
    await idle(agent)
    assert not await rows(agent.app.state.database, reservations)
    async with agent.app.state.database.read() as connection:
        totals = await connection.execute(select(usage_totals.c.tokens).where(usage_totals.c.user_id == OWNER))
        calls = await connection.execute(select(usage.c.tokens_in, usage.c.tokens_out).where(usage.c.agent == "helper"))
        return sum(totals.scalars()), sum((tokens_in or 0) + (tokens_out or 0) for tokens_in, tokens_out in calls)


async def purposes(agent: Acting) -> Counter[str]:
    """Return how many calls were answered, by their purpose."""
    return Counter(row.purpose for row in await rows(agent.app.state.database, usage) if row.outcome == "answered")


@LONG
async def test_a_delivery_whose_summary_is_refused_waits_and_goes_on_with_one_summary(tmp_path: Path) -> None:
    answers = Tightening()
    with ScriptedModel(answers) as model:
        async with acting(tmp_path, program(model, f"{SMALL} {LARGE_BLOCK}")) as agent:
            answers.tighten = tightening(agent)
            await agent.ask("Question. " + "word " * 150)
            while not answers.asked["summary"]:
                assert await agent.ask("Question. " + "word " * 150) == "answered"
            before, answers.steps = answers.asked.copy(), 2
            delivery = await agent.deliver({"words": "word " * 100})
            row = await agent.until(delivery, lambda row: row.state == "budget_exceeded")
            assert "the limit of the user" in row.error
            refused = [each for each in await rows(agent.app.state.database, usage) if each.outcome == "refused"]
            assert refused == []
            assert answers.asked["reply"] == before["reply"] + 2

            waited = answers.asked.copy()
            await lift(agent)
            assert await agent.end(delivery) == "answered"
            assert answers.asked["summary"] == waited["summary"] + 1
            assert answers.asked["reply"] == waited["reply"] + 1
            assert [name for name, _, _ in await agent.outputs()] == ["agent_block_history"] * 2
            assert (await purposes(agent))["summary"] == answers.asked["summary"]
            total, told = await counted(agent)
            assert total == told > 0


@LONG
async def test_a_person_whose_summary_is_refused_is_told(tmp_path: Path) -> None:
    answers = Tightening()
    with ScriptedModel(answers) as model:
        async with acting(tmp_path, program(model, f"{SMALL} {LARGE_BLOCK}")) as agent:
            answers.tighten = tightening(agent)
            while not answers.asked["summary"]:
                assert await agent.ask("Question. " + "word " * 150) == "answered"
            before, answers.steps = answers.asked.copy(), 2
            assert await agent.ask("Question.") == "failed"
            assert "the limit of the user" in (await agent.messages())[-1].text
            assert answers.asked["reply"] == before["reply"] + 2


async def test_a_summary_for_which_no_day_is_enough_is_left_out(tmp_path: Path) -> None:
    """Otherwise no turn of its thread would ever end well."""

    def answer(body: Mapping[str, Any]) -> Given:
        return "They talked about words." if is_summary(body) else says("Read.")

    with ScriptedModel(answer) as model:
        text = program(model, f"{SMALL} limits {{ tokens_per_day 20000 }}")
        async with acting(tmp_path, text.replace('model "m" }', 'model "m" } window 200000', 1)) as agent:
            for number in range(5):
                assert await agent.ask(f"{number} " + "word " * 20_000) == "answered"
            assert not any(map(is_summary, model.bodies))
            assert await agent.end(await agent.deliver({"n": 1})) == "answered"


async def test_a_request_that_was_too_large_counts_when_it_is_sent_again(tmp_path: Path) -> None:
    with ScriptedModel(TOO_LONG, says("Shorter.")) as model:
        async with acting(tmp_path, program(model, "limits { tokens_per_day 100000 }")) as agent:
            assert await agent.ask("Talk. " + "word " * 500) == "answered"
            outcomes = [row.outcome for row in await rows(agent.app.state.database, usage)]
            assert sorted(outcomes) == ["answered", "refused"]
            total, told = await counted(agent)
            assert total == told > 0


async def test_a_request_that_was_too_large_is_not_sent_again_at_a_limit(tmp_path: Path) -> None:
    armed: list[Callable[[], None]] = []

    def answer(body: Mapping[str, Any]) -> Given:
        if is_summary(body):
            return "They talked about words."
        if not armed:
            return says("Yes.")
        armed.pop()()
        return TOO_LONG

    with ScriptedModel(answer) as model:
        async with acting(tmp_path, program(model, SMALL)) as agent:
            while (await counted(agent))[0] < 3000:
                assert await agent.ask("Are you there? " + "word " * 500) == "answered"
            armed.append(tightening(agent))
            delivery = await agent.deliver({"number": 1})
            await agent.until(delivery, lambda row: row.state == "budget_exceeded")
            asked = len(model.bodies)
            await lift(agent)
            assert await agent.end(delivery) == "answered"
            assert len(model.bodies) > asked


def with_fallback(first: ScriptedModel, second: ScriptedModel, price: str) -> str:
    """Return a program with a model that costs $1 per million tokens, and a fallback of another price."""
    other = second.block.replace("model scripted", "model other").replace('model "m" } }', price)
    text = program(first, "context { reply_tokens 200 }", models=other)
    return text.replace('model "m" } }', PRICED.format(1).replace("} input", "} fallback [other] input"), 1)


@LONG
async def test_a_fallback_counts_with_its_own_price(tmp_path: Path) -> None:
    with ScriptedModel(503) as first, ScriptedModel(says("I stand in.")) as second:
        async with acting(tmp_path, with_fallback(first, second, PRICED.format(100))) as agent:
            context = agent.app.admin_context()
            await users.user_set(context, {"name": OWNER, "cost_per_day": "10"})
            assert await agent.ask("Hello.") == "answered"
            total, told = await counted(agent)
            assert total == told > 0
            async with agent.app.state.database.read() as connection:
                costs = await connection.execute(select(usage_totals.c.cost).where(usage_totals.c.user_id == OWNER))
                assert sum(costs.scalars()) == told * 100_000


@LONG
@pytest.mark.parametrize("price", [PRICED.format(1000), 'model "m" } }'], ids=["dear", "unpriced"])
async def test_a_fallback_that_a_limit_does_not_allow_is_not_asked_and_the_run_waits_for_its_model(
    tmp_path: Path, price: str
) -> None:
    """Not for the next day: the model itself is cheap enough."""
    with ScriptedModel(503, 503, 503, says("I am back.")) as first, ScriptedModel(says("I stand in.")) as second:
        async with acting(tmp_path, with_fallback(first, second, price)) as agent:
            await users.user_set(agent.app.admin_context(), {"name": OWNER, "cost_per_day": "0.05"})
            for turn in (await agent.send("Hello."), await agent.deliver({"number": 1})):
                assert await agent.end(turn) == "answered"
            assert second.bodies == []


async def test_readiness_names_fallbacks_and_summarizers_without_prices(tmp_path: Path) -> None:
    with ScriptedModel(says("Yes.")) as first, ScriptedModel(says("Yes.")) as second:
        text = with_fallback(first, second, 'model "m" } }').replace(
            "reply_tokens 200 }", "} summarizer { model other }"
        )
        async with acting(tmp_path, text) as agent:
            await users.user_set(agent.app.admin_context(), {"name": OWNER, "cost_per_day": "1.50"})
            found = await readiness.readiness(agent.app.admin_context(), {})
            (check,) = [each for each in found["checks"] if each["check"] == "limits of costs"]
            assert check["status"] == "YELLOW"
            assert "other (helper)" in check["text"]
            assert "scripted" not in check["text"]


@LONG
@pytest.mark.parametrize("tells", [True, False])
async def test_a_summary_whose_service_does_not_say_what_it_used_counts_what_was_reserved(
    tmp_path: Path, tells: bool
) -> None:
    answers = Tightening()
    with ScriptedModel(answers) as model:
        model.tells = tells
        async with acting(tmp_path, program(model, f"{SMALL} limits {{ tokens_per_day 1000000 }}")) as agent:
            while not answers.asked["summary"]:
                assert await agent.ask("Question. " + "word " * 150) == "answered"
            total, told = await counted(agent)
            assert total == told if tells else total > 400 * answers.asked.total()
