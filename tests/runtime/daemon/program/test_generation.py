"""A generation is built beside the running one, and delays no request."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.source import Source
from runtime import secrets
from runtime.clock import SYSTEM
from runtime.crypto import MasterKey
from runtime.daemon.opening.memories import MemoryOpener, ResourcePools
from runtime.daemon.opening.secrets import AT_A_TIME as SECRETS_AT_A_TIME
from runtime.daemon.opening.secrets import Resolution, resolve
from runtime.daemon.program.generation import AT_A_TIME, ENDED_AT_A_TIME, Generation, build
from runtime.database.connection import Database
from runtime.secrets.backend import BackendUnavailable, SecretContext
from runtime.webhooks.routing.route import MountedWebhook
from tests.databases import migrated

MANY = 10 * AT_A_TIME

TWO = "memory a { store collection }\nmemory b { store collection }\n"
"""Two memories, so that neither is the only one."""


@asynccontextmanager
async def built(folder: Path, text: str) -> AsyncIterator[Generation]:
    program = analyse([Source("p.symbiont", text.encode())], Catalog.installed()).program
    assert program is not None
    database = await Database.open(migrated(folder / "symbiont.db"), MasterKey(bytes(32)))
    context = SecretContext(os.environ, folder, database, database.keys, SYSTEM)
    generation = await build(1, program, None, opening=MemoryOpener(folder, None, context, ResourcePools()))
    yield generation
    await generation.retire()
    await database.close()


@pytest.mark.parametrize(
    ("text", "agent", "webhook", "memory", "memories"),
    [
        ("memory a {}", "x", None, "a", {"a"}),
        (f"{TWO} agent x {{ memory a }}", "x", None, "a", {"a", "b"}),
        (f'{TWO} agent x {{ memory a }} webhook w {{ path "/w" secret "s" agent x }}', "x", "w", "a", {"a", "b"}),
        (f'{TWO} webhook w {{ path "/w" secret "s" memory b }}', "w", "w", "b", {"a", "b"}),
        (f'{TWO} webhook w {{ path "/w" secret "s" memory b }}', "w", None, "b", {"a", "b"}),
        (f'{TWO} webhook w {{ path "/w" secret "s" agent x memory b }}', "x", None, "b", {"a", "b"}),
        (f"{TWO} agent x {{ }}", "x", None, "default", {"a", "b", "default"}),
        (f'{TWO} webhook w {{ path "/w" secret "s" agent x }}', "x", "w", "default", {"a", "b", "default"}),
        (f'{TWO} agent x {{ }} webhook w {{ path "/w" secret "s" agent x memory b }}', "x", "w", "b",
         {"a", "b", "default"}),
        (f"{TWO} memory default {{ store collection }} agent x {{ }}", "x", None, "default", {"a", "b", "default"}),
        # The built-in memory has the folder of a declared one.
        ("memory a { }\nmemory b { store collection }\nagent x { }", "x", None, "a", {"a", "b"}),
        ('memory a { path "elsewhere" }\nmemory b { path "more" }\nagent x { }', "x", None, "default",
         {"a", "b", "default"}),
        (TWO, "nobody", None, "default", {"a", "b"}),
        ("agent x { }", "x", None, "default", {"default"}),
        ("", "nobody", None, "default", set()),
    ],
)  # fmt: skip
async def test_the_default_memory_is_there_only_when_something_falls_back_to_it(
    tmp_path: Path, text: str, agent: str, webhook: str | None, memory: str, memories: set[str]
) -> None:
    async with built(tmp_path, text) as generation:
        assert set(generation.memories) == memories
        assert generation.memories.name_of(agent, webhook) == memory


async def test_requests_have_their_turn_while_thousands_of_webhooks_are_mounted(tmp_path: Path) -> None:
    text = "".join(f'webhook w{n} {{ path "/hooks/{n}" secret "a secret" }}\n' for n in range(MANY))
    program = analyse([Source("many.symbiont", text.encode())], Catalog.installed()).program
    assert program is not None
    database = await Database.open(migrated(tmp_path / "symbiont.db"), MasterKey(bytes(32)))
    turns = 0

    async def requests() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(requests())
    context = SecretContext(os.environ, tmp_path, database, database.keys, SYSTEM)
    opening = MemoryOpener(tmp_path, None, context, ResourcePools())
    generation = await build(1, program, None, opening=opening)
    assert len(generation.table) == MANY
    await generation.retire()
    before = turns
    generation = await build(2, program, generation, opening=opening, again=lambda _: False)
    assert turns - before >= MANY // AT_A_TIME
    others.cancel()
    await generation.retire()
    await database.close()


async def test_requests_have_their_turn_while_thousands_of_secrets_are_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 10 * SECRETS_AT_A_TIME
    for number in range(many):
        monkeypatch.setenv(f"SECRET_{number}", f"secret {number}")
    text = "".join(f'webhook w{n} {{ path "/hooks/{n}" secret "secret://env/SECRET_{n}" }}\n' for n in range(many))
    program = analyse([Source("many.symbiont", text.encode())], Catalog.installed()).program
    database = await Database.open(migrated(tmp_path / "symbiont.db"), MasterKey(bytes(32)))
    context = SecretContext(os.environ, tmp_path, database, database.keys, SYSTEM)
    done = list[int]()

    async def requests(resolving: asyncio.Task[Resolution]) -> None:
        while not resolving.done():
            # Each one that has begun is a task.
            done.append(len(asyncio.all_tasks()))
            await asyncio.sleep(0)

    resolving = asyncio.create_task(resolve(program, (), Resolution(), context))
    await requests(resolving)
    assert len(resolving.result().values) == many
    assert max(done) <= SECRETS_AT_A_TIME + len(asyncio.all_tasks()) + 1
    await database.close()


async def test_a_backend_that_is_away_is_not_waited_for_by_each_of_thousands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 10 * SECRETS_AT_A_TIME
    asked = list[str]()

    async def read(path: str, _context: SecretContext) -> bytes:
        asked.append(path)
        raise BackendUnavailable("Vault did not answer")

    vault = replace(secrets.BACKENDS["vault"], read=read)
    monkeypatch.setattr(secrets, "BACKENDS", {**secrets.BACKENDS, "vault": vault})
    monkeypatch.setenv("HERE", "a secret")
    text = "".join(f'webhook w{n} {{ path "/hooks/{n}" secret "secret://vault/hooks/{n}" }}\n' for n in range(many))
    text += 'webhook last { path "/last" secret "secret://env/HERE" }'
    program = analyse([Source("many.symbiont", text.encode())], Catalog.installed()).program
    assert program is not None
    database = await Database.open(migrated(tmp_path / "symbiont.db"), MasterKey(bytes(32)))
    context = SecretContext(os.environ, tmp_path, database, database.keys, SYSTEM)
    found = await resolve(program, (), Resolution(), context)
    assert len(asked) == SECRETS_AT_A_TIME
    assert list(found.problems.values()) == ["Vault did not answer"] * many
    assert list(found.values) == ["secret://env/HERE"]
    # The next check reads it again.
    await resolve(program, (), found, context)
    assert len(asked) == 2 * SECRETS_AT_A_TIME
    await database.close()


async def test_requests_have_their_turn_while_a_replaced_generation_is_freed(tmp_path: Path) -> None:
    text = "".join(f'webhook w{n} {{ path "/freed/{n}" secret "a secret" }}\n' for n in range(MANY))
    async with built(tmp_path, text) as generation:
        pass
    del generation

    def left() -> int:
        return sum(isinstance(each, MountedWebhook) and each.path.startswith("/freed/") for each in gc.get_objects())

    counts = [left()]
    while counts[-1]:
        await asyncio.sleep(0)
        counts.append(left())
    assert counts[0] == MANY
    assert max(before - after for before, after in pairwise(counts)) <= ENDED_AT_A_TIME
