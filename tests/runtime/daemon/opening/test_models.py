"""A program's models: blocks and agents set only the policy; what calls a service belongs to the pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dslc.blocks.agent import Agent
from dslc.blocks.memory import Memory, Summarize
from dslc.blocks.model import LanguageModel
from dslc.blocks.variant import Variant
from dslc.program import Program
from runtime.clock import SYSTEM
from runtime.crypto import MasterKey
from runtime.daemon.opening.memories import MemoryOpener, ResourcePools
from runtime.daemon.opening.models import language_model
from runtime.daemon.program.generation import Generation, build
from runtime.database.connection import Database
from runtime.models.calls.call import BACKGROUND, Call
from runtime.models.calls.counted_calls import CallContext
from runtime.models.calls.service import Services
from runtime.models.model import ModelUnavailable
from runtime.models.request import Message, Request
from runtime.secrets.backend import SecretContext
from tests.clocks import until
from tests.databases import migrated
from tests.runtime.models.chat_service import SAID, ChatService, chat_service, text

ASKED = Request(messages=(Message("user", "What happened?"),), max_tokens=20)
QUICK = Variant(name="quick")


def block(url: str, name: str = "quick", **settings: Any) -> LanguageModel:
    service = Variant(name="openai", options={"url": url, "model": "m-1", "api_key": "secret://env/KEY"})
    return LanguageModel(name=name, service=service, **settings)


def of(*blocks: LanguageModel, **rest: Any) -> Program:
    return Program(models={each.name: each for each in blocks}, **rest)


@dataclass
class World:
    """Everything from which a generation is built, and the running generation."""

    opening: MemoryOpener
    environ: dict[str, str]
    calls: list[Call]
    running: Generation | None = None
    retiring: list[asyncio.Task[None]] = field(default_factory=list)

    async def load(self, program: Program) -> Generation:
        """Build the next generation as a reload does, and retire the one before."""
        before = self.running
        self.running = await build(before.number + 1 if before else 1, program, before, opening=self.opening)
        if before is not None:
            await before.retire()
        return self.running

    @property
    def opened(self) -> int:
        """Return the number of open models."""
        return len(self.opening.pools.models)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    database = await Database.open(migrated(tmp_path / "symbiont.db"), MasterKey(bytes(32)))
    environ = {"KEY": "key-1"}
    calls: list[Call] = []
    context = SecretContext(environ, tmp_path, database, database.keys, SYSTEM)
    pools = ResourcePools(calls=CallContext(Services(), calls.append))
    made = World(MemoryOpener(tmp_path, tmp_path / "index", context, pools), environ, calls)
    yield made
    if made.running is not None:
        await made.running.retire()
    assert made.opened == 0, "everything was given back"
    await database.close()


@pytest.fixture
async def service() -> AsyncIterator[ChatService]:
    async with chat_service() as running:
        yield running


def test_a_name_is_the_block_with_this_name() -> None:
    fast = LanguageModel(name="fast", service=Variant(name="ollama", options={"model": "small"}), temperature=0.2)
    assert language_model(of(fast), Variant(name="fast")) == fast


def test_a_service_is_a_model_with_the_defaults_of_a_block() -> None:
    service = Variant(name="ollama", options={"model": "large"})
    found = language_model(of(), service)
    assert found == LanguageModel(name="ollama", service=service)
    assert found.temperature == 0.7


async def test_a_model_block_answers_by_its_name_with_its_secret(world: World, service: ChatService) -> None:
    generation = await world.load(of(block(service.url, temperature=0.1)))
    client = generation.model(QUICK)
    assert client is not None
    reply = await client.reply(ASKED, owner=BACKGROUND)

    assert reply.text == SAID
    assert service.bodies[0]["temperature"] == 0.1
    assert [(call.name, call.outcome) for call in world.calls] == [("quick", "answered")]
    assert generation.warnings == ()


async def test_an_agent_may_name_a_row_with_its_options(world: World, service: ChatService) -> None:
    choice = Variant(name="openai", options={"url": service.url, "api_key": "secret://env/KEY"})
    program = of(
        agents={"reader": Agent(name="reader", model=choice), "quiet": Agent(name="quiet", model=Variant(name="none"))}
    )
    generation = await world.load(program)
    client = generation.model(choice)
    assert client is not None
    await client.reply(ASKED, owner=BACKGROUND)

    assert world.calls[0].name == "openai"
    assert generation.model(Variant(name="none")) is None
    assert generation.models.of(Variant(name="none")).not_opened == ()


async def test_another_policy_opens_nothing_twice(world: World, service: ChatService) -> None:
    await world.load(of(block(service.url)))
    (before,) = world.opening.pools.models._entries.values()
    other = block(service.url, "careful", temperature=0.0, input_price=1.0)
    generation = await world.load(of(block(service.url, temperature=1.0, window=4096), other))
    (after,) = world.opening.pools.models._entries.values()
    client = generation.model(QUICK)

    assert after.resource is before.resource
    assert client is not None
    assert (client.block.temperature, (await client.window()).tokens) == (1.0, 4096)


async def test_a_memory_summarizes_by_a_block(world: World, service: ChatService) -> None:
    memory = Memory(name="notes", summarize=Summarize(model=QUICK))
    generation = await world.load(of(block(service.url), memories={"notes": memory}))
    summarizer = generation.memories["notes"].summarizer

    assert summarizer is not None
    assert (summarizer.block.name, summarizer.model) == ("quick", "m-1")
    assert world.opened == 1


async def test_a_model_without_its_secret_is_off_and_says_why(world: World, service: ChatService) -> None:
    world.environ.clear()
    generation = await world.load(of(block(service.url)))

    assert generation.model(QUICK) is None
    (reason,) = generation.models.of(QUICK).not_opened
    assert "KEY" in reason
    assert f"model quick: {reason}" in generation.warnings
    assert service.bodies == []


async def test_a_fallback_that_cannot_be_opened_is_left_out_and_named(world: World, service: ChatService) -> None:
    missing = Variant(name="openai", options={"url": service.url, "api_key": "secret://env/NOT_SET"})
    big = LanguageModel(name="big", service=missing)
    generation = await world.load(of(block(service.url, fallback=("big",)), big))
    opened = generation.models.of(QUICK)

    assert opened.client is not None
    assert (await opened.client.reply(ASKED, owner=BACKGROUND)).text == SAID
    (note,) = opened.not_opened
    assert "fallback big" in note
    assert "NOT_SET" in note


async def test_openai_without_a_key_in_the_program_takes_that_of_the_environment(world: World) -> None:
    world.environ["OPENAI_API_KEY"] = "key-2"
    generation = await world.load(of(LanguageModel(name="quick", service=Variant(name="openai"))))

    assert generation.model(QUICK) is not None


async def test_a_replaced_model_closes_when_its_last_run_has_ended(world: World, service: ChatService) -> None:
    going = asyncio.Event()
    answered = asyncio.Event()

    async def slow(service: ChatService, request: Any) -> Any:
        going.set()
        await answered.wait()
        return await text("at last")(service, request)

    service.answers.append(slow)
    generation = await world.load(of(block(service.url)))
    async with chat_service() as other:
        async with generation.pinned():
            client = generation.model(QUICK)
            assert client is not None
            reply = asyncio.create_task(client.reply(ASKED, owner=BACKGROUND))
            await until(going.is_set)
            replacing = await world.load(of(block(other.url)))
            assert world.opened == 2
            answered.set()
            assert (await reply).text == "at last"
        assert world.opened == 1
        client = replacing.model(QUICK)
        assert client is not None
        assert (await client.reply(ASKED, owner=BACKGROUND)).text == SAID
        assert len(other.bodies) == 1


async def test_a_reload_keeps_what_is_known_of_a_service(world: World) -> None:
    program = of(block("http://localhost:1/v1"))
    generation = await world.load(program)
    client = generation.model(QUICK)
    assert client is not None
    client._first.calls.service._note_failure(ModelUnavailable("it is away"))
    known = client._first.calls.service
    after = (await world.load(of(block("http://localhost:1/v1", temperature=0.0)))).model(QUICK)

    assert after is not None
    assert after._first.calls.service is known
