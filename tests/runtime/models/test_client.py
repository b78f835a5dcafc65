"""Calls of a model: their limits, repetitions, fallbacks and streams, against real services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from msgspec import structs

from dslc.blocks.model import LanguageModel
from dslc.blocks.variant import Variant
from runtime.models import MODELS, open_model
from runtime.models.budgets.budgets import CallEstimate
from runtime.models.calls import service as service_module
from runtime.models.calls.call import Call, CallOwner
from runtime.models.calls.counted_calls import TRIES, CallContext, CountedCalls
from runtime.models.calls.published_window import published_window
from runtime.models.calls.service import AWAY_SECONDS, FAILURES, LONGEST_AWAY_SECONDS, Services
from runtime.models.client import LONGEST_WAIT_SECONDS, CountedModel, ModelClient, open_client
from runtime.models.model import ModelRefused, ModelUnavailable, NoSuchModel, Window
from runtime.models.request import Message, Reply, Request, ToolSchema, Usage
from runtime.secrets.secret import Secret
from tests.cases import each_case
from tests.clocks import until
from tests.runtime.models.chat_service import SAID, ChatService, chat_service, never, says, streams, text
from tests.runtime.outbound.test_http import Sleepless

ADA = CallOwner("ada", "reviewer", "thread-1", "run-1")
ASKED = Request(messages=(Message("user", "What happened?"),), max_tokens=20)


class World:
    """Opens clients of services; they share what all clients of a process share."""

    def __init__(self) -> None:
        self.clock = Sleepless()
        self.calls: list[Call] = []
        self.context = CallContext(Services(self.clock), self.calls.append, self.clock)
        self.stack = AsyncExitStack()

    async def service(self) -> ChatService:
        return await self.stack.enter_async_context(chat_service())

    async def model(
        self, service: ChatService, name: str = "quick", key: str = "key-1", **settings: Any
    ) -> CountedModel:
        options = {"url": service.url, "model": "m-1", "timeout": settings.pop("timeout", timedelta(minutes=1))}
        options["api_key"] = Secret(key.encode(), "env KEY")
        choice = Variant(name="openai", options={"url": service.url})
        opened = await open_model(choice, options)
        assert opened is not None
        self.stack.push_async_callback(opened.close)
        return CountedModel(LanguageModel(name=name, service=choice, **settings), opened, options, self.context)

    async def client(self, service: ChatService, *fallback: CountedModel, **settings: Any) -> ModelClient:
        return ModelClient(await self.model(service, **settings), fallback)

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        """Return block and outcome of each call."""
        return [(call.name, call.outcome) for call in self.calls]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    async with made.stack:
        yield made


@pytest.fixture
async def service(world: World) -> ChatService:
    return await world.service()


async def ask(client: ModelClient) -> str:
    return (await client.reply(ASKED, owner=ADA)).text


def is_away(client: ModelClient) -> bool:
    """True if its service is called only now and then, because calls failed."""
    return client._first.calls.service.is_away


async def absence(client: ModelClient) -> ModelUnavailable:
    with pytest.raises(ModelUnavailable) as caught:
        await ask(client)
    assert "\n" not in caught.value.line()
    return caught.value


# One call.


async def test_a_reply_says_which_model_gave_it_and_is_counted_for_its_owner(
    world: World, service: ChatService
) -> None:
    client = await world.client(service, temperature=0.2)
    reply = await client.reply(ASKED, owner=ADA)

    assert (reply.text, reply.model) == (SAID, "openai/m-1")
    assert service.bodies[0]["temperature"] == 0.2
    (call,) = world.calls
    assert (call.owner, call.purpose, call.name, call.model, call.outcome) == (ADA, "chat", "quick", "m-1", "answered")
    assert (call.usage.tokens_in, call.usage.tokens_out) == (31, 11)


async def test_generate_is_without_chance_and_without_reasoning(
    world: World, service: ChatService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.answers.append(text("<think>hm</think> It rained. "))
    counted = await world.model(service)
    whole, asked = counted.model.reply, list[Request]()

    async def noted(request: Request) -> Reply:
        asked.append(request)
        return await whole(request)

    monkeypatch.setattr(counted.model, "reply", noted)
    reply = await ModelClient(counted).generate("What?", system="Be brief.", max_tokens=9, owner=ADA, purpose="summary")

    assert reply.text == "It rained."
    assert [request.reasoning for request in asked] == [False]
    assert service.bodies[0]["temperature"] == 0
    assert world.calls[0].purpose == "summary"


async def test_the_window_of_the_block_wins(world: World, service: ChatService) -> None:
    service.models = [{"id": "m-1", "max_model_len": 4096}]

    assert await (await world.client(service, window=2048)).window() == Window(2048, "program")
    assert await (await world.client(service)).window() == Window(4096, "service")


async def test_a_window_that_nothing_says_has_a_default(world: World, service: ChatService) -> None:
    assert await (await world.client(service)).window() == Window(32_768, "default")


@each_case(
    ("row", "options", "least"),
    [
        ("openai", {"model": "gpt-4.1-mini"}, 1_000_000),
        ("openai", {"model": "gpt-4o-mini"}, 128_000),
        ("openai", {"url": "https://api.groq.com/openai/v1", "model": "openai/gpt-oss-20b"}, 100_000),
        ("anthropic", {}, 200_000),
        ("bedrock", {}, 200_000),
        ("google", {}, 1_000_000),
        ("groq", {}, 100_000),
        ("cohere", {"model": "c4ai-aya-expanse-32b"}, 100_000),
        ("mistral", {"model": "devstral-2512"}, 100_000),
    ],
)
async def test_the_windows_of_known_models_are_known(row: str, options: dict[str, object], least: int) -> None:
    read: Any = MODELS[row].options.model_validate(options)

    window = await published_window(row, read.url, read.model)

    assert window is not None
    assert window >= least


async def test_a_window_that_only_the_prices_know_is_known(world: World, service: ChatService) -> None:
    client = await open_client(Variant(name="groq"), {"api_key": Secret(b"k" * 20, "env KEY"), "url": service.url})
    assert client is not None
    assert await client.window() == Window(131_072, "known")
    await client.close()


async def test_a_known_model_on_a_server_of_ones_own_has_the_window_of_that_server(service: ChatService) -> None:
    options = {"url": service.url, "model": "gpt-4.1-mini"}
    client = await open_client(Variant(name="openai"), options)
    assert client is not None
    assert await client.window() == Window(32_768, "default")
    await client.close()


async def test_a_service_that_is_named_in_place_has_its_own_window(service: ChatService) -> None:
    options = {"url": service.url, "window": 4096}
    client = await open_client(Variant(name="openai", options=options), options)
    assert client is not None
    assert await client.window() == Window(4096, "program")
    await client.close()


async def test_a_schema_takes_tokens_where_replies_are_held_to_it(world: World, service: ChatService) -> None:
    client = await world.client(service)

    assert client.schema_in_prompt
    client._first.model.holds_schema = False
    assert not client.schema_in_prompt


# Repetition.


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_what_passes_is_repeated_and_each_call_is_counted(
    world: World, service: ChatService, status: int
) -> None:
    service.answers += [says(status), says(status)]

    assert await ask(await world.client(service)) == SAID
    assert world.outcomes == [("quick", "unavailable")] * 2 + [("quick", "answered")]
    assert [0.375 <= wait <= 1.25 for wait in world.clock.waits] == [True, True]


async def test_a_service_that_stays_busy_is_unavailable_after_a_few_calls(world: World, service: ChatService) -> None:
    service.answers += [says(503)] * 9

    assert "answered 503: said by the service" in str(await absence(await world.client(service)))
    assert len(service.bodies) == TRIES


async def test_retry_after_is_waited_for(world: World, service: ChatService) -> None:
    service.answers.append(says(429, retry_after="4"))

    assert await ask(await world.client(service)) == SAID
    assert world.clock.waits == [4.0]


async def test_a_longer_retry_after_is_left_to_a_fallback_and_the_caller(world: World, service: ChatService) -> None:
    other = await world.service()
    service.answers += [says(429, retry_after=str(LONGEST_WAIT_SECONDS + 1))] * 2

    assert (await absence(await world.client(service))).retry_after == LONGEST_WAIT_SECONDS + 1
    assert await ask(await world.client(service, await world.model(other, "big"))) == SAID
    assert world.clock.waits == []
    assert (len(service.bodies), len(other.bodies)) == (2, 1)


async def test_the_deadline_is_that_of_all_tries_together(world: World, service: ChatService) -> None:
    service.answers += [says(429, retry_after="4")] * 9

    await absence(await world.client(service, timeout=timedelta(seconds=6)))
    assert world.clock.waits == [4.0]


async def test_a_service_that_never_answers_is_unavailable_at_the_deadline(world: World, service: ChatService) -> None:
    service.answers += [never] * TRIES
    client = await world.client(service, timeout=timedelta(seconds=1))
    # The tests' clock stands still while the service does not answer.
    world.clock.sleep = lambda seconds: asyncio.Event().wait()  # type: ignore[method-assign, assignment, return-value]
    asked = asyncio.create_task(ask(client))
    await until(lambda: bool(world.calls))

    assert world.outcomes == [("quick", "unavailable")]
    asked.cancel()
    await asyncio.wait({asked})


@pytest.mark.parametrize(("status", "kind"), [(401, ModelRefused), (403, ModelRefused), (404, NoSuchModel)])
async def test_what_a_person_must_fix_is_neither_repeated_nor_given_to_a_fallback(
    world: World, service: ChatService, status: int, kind: type[ModelRefused]
) -> None:
    other = await world.service()
    service.answers.append(says(status))
    client = await world.client(service, await world.model(other, "big"))
    with pytest.raises(kind):
        await ask(client)

    assert world.outcomes == [("quick", "refused")]
    assert other.bodies == []


# Concurrency.


class Held:
    """Answers that wait until they are let go."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.order: list[str] = []
        self.go = asyncio.Semaphore(0)

    async def answer(self, service: ChatService, request: web.BaseRequest) -> web.StreamResponse:
        self.running += 1
        self.most = max(self.most, self.running)
        self.order.append(service.bodies[-1]["messages"][-1]["content"])
        await self.go.acquire()
        self.running -= 1
        return await text(SAID)(service, request)


def numbered(client: ModelClient, number: int) -> asyncio.Task[Reply]:
    """Ask with a question of its own."""
    asked = Request(messages=(Message("user", str(number)),), max_tokens=20)
    return asyncio.create_task(client.reply(asked, owner=ADA))


async def test_users_of_one_model_wait_in_order_whichever_block_they_name(world: World, service: ChatService) -> None:
    held = Held()
    service.answers += [held.answer] * 9
    first = await world.client(service)
    second = await world.client(service, name="careful", temperature=0.0, timeout=timedelta(minutes=2))
    tasks = []
    for number in range(9):
        tasks.append(numbered((first, second)[number % 2], number))
        await asyncio.sleep(0)
    await until(lambda: held.running == 4)
    assert world.context.services.waiting() == {"quick": 5, "careful": 5}
    for _ in tasks:
        held.go.release()
    await asyncio.gather(*tasks)

    assert held.most == 4
    assert sorted(held.order[:4]) == ["0", "1", "2", "3"]
    assert world.context.services.waiting() == {"quick": 0, "careful": 0}


async def test_another_key_is_another_limit(world: World, service: ChatService) -> None:
    held = Held()
    service.answers += [held.answer] * 6
    clients = [await world.client(service), await world.client(service, name="other", key="key-2")]
    tasks = [numbered(clients[number % 2], number) for number in range(6)]
    await until(lambda: held.running == 6)
    for _ in tasks:
        held.go.release()
    await asyncio.gather(*tasks)


async def test_a_cancelled_waiter_frees_its_place(world: World, service: ChatService) -> None:
    held = Held()
    service.answers += [held.answer] * 6
    client = await world.client(service)
    running = [numbered(client, number) for number in range(4)]
    await until(lambda: held.running == 4)
    waiting = [numbered(client, number) for number in range(4, 7)]
    await until(lambda: world.context.services.waiting() == {"quick": 3})
    waiting[0].cancel()
    await until(lambda: world.context.services.waiting() == {"quick": 2})
    for _ in range(6):
        held.go.release()
    replies = await asyncio.gather(*running, *waiting[1:])

    assert len(replies) == 6
    assert "4" not in held.order


async def test_a_cancelled_call_ends_its_connection_and_is_counted(world: World, service: ChatService) -> None:
    gone = asyncio.Event()

    async def noticing(service: ChatService, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await never(service, request)
        finally:
            gone.set()

    service.answers.append(noticing)
    client = await world.client(service)
    asked = asyncio.create_task(ask(client))
    await until(lambda: bool(service.bodies))
    asked.cancel()
    await asyncio.wait({asked})

    assert world.outcomes == [("quick", "cancelled")]
    assert not is_away(client)
    assert await ask(client) == SAID


# The breaker.


async def go_away(world: World, service: ChatService, client: ModelClient) -> None:
    """Let the service fail until it is not called any more."""
    service.answers += [says(503)] * (FAILURES * TRIES)
    for _ in range(FAILURES):
        await absence(client)
    assert is_away(client)


async def test_a_model_that_keeps_failing_is_not_called_for_a_while(world: World, service: ChatService) -> None:
    client = await world.client(service)
    await go_away(world, service, client)
    calls = len(service.bodies)
    absent = await absence(client)

    assert len(service.bodies) == calls
    assert absent.retry_after == pytest.approx(AWAY_SECONDS)
    assert "called again in 10 s" in str(absent)
    assert "answered 503" in str(absent)
    assert world.context.services.available() == {"quick": 0}
    world.clock.advance(AWAY_SECONDS)
    assert await ask(client) == SAID
    assert not is_away(client)
    assert world.context.services.available() == {"quick": 1}


async def test_one_probe_at_a_time_finds_out_whether_it_is_back(world: World, service: ChatService) -> None:
    client = await world.client(service)
    await go_away(world, service, client)
    held = Held()
    service.answers = [held.answer]
    world.clock.advance(AWAY_SECONDS)
    probe = numbered(client, 1)
    await until(lambda: held.running == 1)
    await absence(client)
    held.go.release()

    assert (await probe).text == SAID
    assert await ask(client) == SAID


async def test_a_cancelled_probe_leaves_it_to_the_next_one(world: World, service: ChatService) -> None:
    client = await world.client(service)
    await go_away(world, service, client)
    held = Held()
    service.answers = [held.answer]
    world.clock.advance(AWAY_SECONDS)
    probe = numbered(client, 1)
    await until(lambda: held.running == 1)
    probe.cancel()
    await asyncio.wait({probe})

    assert await ask(client) == SAID


async def test_a_model_that_stays_away_is_probed_less_often(world: World, service: ChatService) -> None:
    client = await world.client(service)
    await go_away(world, service, client)
    seconds = []
    for _ in range(3):
        world.clock.advance(LONGEST_AWAY_SECONDS)
        service.answers += [says(503)] * TRIES
        await absence(client)
        seconds.append((await absence(client)).retry_after)

    assert seconds == [pytest.approx(20), pytest.approx(30), pytest.approx(30)]


async def test_a_model_that_nobody_calls_any_more_is_not_shown_as_away_for_ever(
    world: World, service: ChatService
) -> None:
    client = await world.client(service)
    await go_away(world, service, client)
    world.clock.advance(AWAY_SECONDS + LONGEST_AWAY_SECONDS)

    assert not is_away(client)
    assert world.context.services.available() == {"quick": 1}


async def test_refusals_do_not_take_a_model_away(world: World, service: ChatService) -> None:
    client = await world.client(service)
    service.answers += [says(401)] * 5
    for _ in range(5):
        with pytest.raises(ModelRefused):
            await ask(client)

    assert not is_away(client)


def test_a_service_is_shown_by_the_names_of_its_users_while_there_are_any() -> None:
    context = CallContext()
    services = context.services

    def used(identity: str, name: str) -> CountedCalls:
        return CountedCalls(name, "m-1", services.of(identity, 4), context)

    kept, users = used("a", "a"), [used("a", "again"), used("a", "again"), used("b", "b")]
    assert kept.service is users[0].service
    assert services.available() == {"a": 1, "again": 1, "b": 1}
    del users[1:]
    assert services.available() == {"a": 1, "again": 1}
    users.clear()
    assert services.available() == {"a": 1}


# Budgets.


@pytest.mark.parametrize("reads", [True, False])
async def test_a_schema_is_reserved_only_where_the_service_reads_it(
    world: World, service: ChatService, monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    model, asked = await world.model(service), list[CallEstimate]()
    monkeypatch.setattr(type(model.model), "schema_in_prompt", reads)

    async def reserve(_user: str, _agent: str | None, most: Callable[[], CallEstimate]) -> None:
        asked.append(most())

    monkeypatch.setattr(model.calls, "_reserve", reserve)
    for schema in (None, {"type": "object"}):
        await ModelClient(model).reply(structs.replace(ASKED, schema=schema), owner=ADA)
    without, with_schema = (each.tokens for each in asked)
    assert (with_schema > without) == reads


# Fallbacks.


async def test_fallbacks_are_asked_in_order_with_their_own_settings(world: World, service: ChatService) -> None:
    second, third = await world.service(), await world.service()
    service.answers += [says(503)] * TRIES
    second.answers += [says(500)] * TRIES
    fallback = [await world.model(second, "second"), await world.model(third, "third", temperature=1.5)]
    client = await world.client(service, *fallback)
    reply = await client.reply(ASKED, owner=ADA)

    assert reply.text == SAID
    assert third.bodies[0]["temperature"] == 1.5
    assert world.outcomes[-1] == ("third", "answered")
    assert [name for name, _ in world.outcomes] == ["quick"] * TRIES + ["second"] * TRIES + ["third"]


async def test_while_the_breaker_is_open_the_fallback_answers_at_once(world: World, service: ChatService) -> None:
    other = await world.service()
    client = await world.client(service, await world.model(other, "big"))
    service.answers += [says(503)] * (FAILURES * TRIES)
    for _ in range(FAILURES + 1):
        assert await ask(client) == SAID

    assert len(service.bodies) == FAILURES * TRIES
    assert len(other.bodies) == FAILURES + 1


async def test_a_fallback_that_a_person_must_fix_leaves_the_model_unavailable(
    world: World, service: ChatService
) -> None:
    other = await world.service()
    service.answers += [says(429, retry_after="60")] * TRIES
    other.answers.append(says(401))
    absent = await absence(await world.client(service, await world.model(other, "big")))

    assert absent.retry_after == 60
    assert "answered 429" in str(absent)
    assert "does not accept the key" in str(absent)


async def test_a_fallback_without_native_calls_is_not_asked_with_tools(world: World, service: ChatService) -> None:
    other = await world.service()
    service.answers += [says(503)] * TRIES
    big = await world.model(other, "big")
    big.model.native_calls = False
    client = await world.client(service, big)
    tool = ToolSchema("find", "Find something.", {"type": "object"})
    with pytest.raises(ModelUnavailable):
        await client.reply(Request(messages=ASKED.messages, max_tokens=20, tools=(tool,)), owner=ADA)

    assert other.bodies == []


async def test_alone_it_has_no_fallback_and_may_be_another_model(world: World, service: ChatService) -> None:
    other = await world.service()
    service.answers += [says(503)] * TRIES
    client = await world.client(service, await world.model(other, "big"))
    with pytest.raises(ModelUnavailable):
        await client.without_fallback().reply(ASKED, owner=ADA)
    reply = await client.without_fallback("m-2").reply(ASKED, owner=ADA)

    assert (reply.model, service.bodies[-1]["model"]) == ("openai/m-2", "m-2")
    assert other.bodies == []


# Streams.


async def read(client: ModelClient) -> tuple[list[str], Reply | None]:
    """Return the parts of a stream, and the whole reply."""
    parts: list[str] = []
    whole = None
    async for part in client.stream(ASKED, owner=ADA):
        if isinstance(part, Reply):
            whole = part
        else:
            parts.append(part)
    return parts, whole


async def test_a_stream_yields_its_parts_and_then_the_whole(world: World, service: ChatService) -> None:
    service.answers.append(streams("It ", "rained."))
    parts, whole = await read(await world.client(service))

    assert parts == ["It ", "rained."]
    assert whole is not None
    assert (whole.text, whole.model) == ("It rained.", "openai/m-1")
    assert world.outcomes == [("quick", "answered")]
    assert world.calls[0].usage.tokens_in == 7


async def test_a_stream_that_fails_before_its_first_part_is_opened_again_and_then_elsewhere(
    world: World, service: ChatService
) -> None:
    other = await world.service()
    service.answers += [says(503)] * TRIES
    other.answers += [says(503), streams("It ", "rained.")]
    parts, _ = await read(await world.client(service, await world.model(other, "big")))

    assert parts == ["It ", "rained."]
    assert world.outcomes == [("quick", "unavailable")] * TRIES + [("big", "unavailable"), ("big", "answered")]


async def test_a_stream_that_breaks_is_unavailable_and_goes_on_nowhere_else(world: World, service: ChatService) -> None:
    other = await world.service()
    service.answers.append(streams("It ", ends=False))
    client = await world.client(service, await world.model(other, "big"))
    stream = client.stream(ASKED, owner=ADA)
    assert await anext(stream) == "It "
    with pytest.raises(ModelUnavailable):
        await anext(stream)

    assert len(service.bodies) == 1
    assert other.bodies == []
    assert world.outcomes == [("quick", "unavailable")]


@pytest.mark.parametrize("closing", [True, False])
async def test_a_consumer_that_stops_early_ends_the_call_and_it_is_counted(
    world: World, service: ChatService, *, closing: bool
) -> None:
    service.answers.append(streams("It ", waits=True))
    client = await world.client(service)
    if closing:
        async with aclosing(client.stream(ASKED, owner=ADA)) as parts:
            assert await anext(parts) == "It "
    else:
        async for part in client.stream(ASKED, owner=ADA):
            assert part == "It "
            break
    await until(lambda: bool(world.calls))

    assert world.outcomes == [("quick", "cancelled")]
    assert world.calls[0].usage == Usage()
    # Its place is free.
    assert await asyncio.gather(*(ask(client) for _ in range(5))) == [SAID] * 5


def test_a_probe_comes_at_least_as_often_as_a_waiting_run_is_tried() -> None:
    assert service_module.LONGEST_AWAY_SECONDS <= 30
