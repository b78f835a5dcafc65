"""The daemon looks at its models from time to time, and a probe of `/readyz` asks none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from runtime.daemon.listeners.operators import admin
from runtime.daemon.process.root import make
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program.app import App
from runtime.daemon.program.upkeep import MODELS_SECONDS, look_at_models
from runtime.models import reachability
from runtime.models.reachability import KNOWN_SECONDS, LOOK_SECONDS
from tests.clocks import ManualClock, until
from tests.runtime.models.services import Service, says, serving


class Looking:
    """An app whose models are looked at, and its probe."""

    def __init__(self, app: App, client: TestClient[Any, Any], file: Path) -> None:
        self.app = app
        self._client = client
        self._file = file

    def write(self, service: Service) -> None:
        """Write a program whose agent answers with `service`."""
        self._file.write_text(
            f"""
model quick {{ service openai {{ url "{service.url}" }} }}
agent helper {{ model quick }}
memory notes {{ embedding hashing }}
"""
        )

    async def warnings(self) -> list[str]:
        answer = await self._client.get("/readyz")
        assert answer.status == 200
        return [str(each) for each in (await answer.json())["warnings"]]


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serving("openai") as running:
        yield running


@asynccontextmanager
async def looking(tmp_path: Path, service: Service, clock: ManualClock) -> AsyncIterator[Looking]:
    (tmp_path / "program").mkdir()
    async with (
        App.open(make(tmp_path, {}), ProcessSettings(), clock) as app,
        TestClient(TestServer(admin(app, lambda: True))) as client,
    ):
        found = Looking(app, client, tmp_path / "program/agents.symbiont")
        found.write(service)
        await app.load([tmp_path / "program"])
        task = asyncio.create_task(look_at_models(app))
        yield found
        task.cancel()
        await asyncio.wait({task})


async def test_no_probe_asks_a_model(tmp_path: Path, service: Service, clock: ManualClock) -> None:
    service.looks.append(says(401))
    async with looking(tmp_path, service, clock) as found:
        await until(lambda: clock.sleepers > 0)
        told = [await found.warnings() for _ in range(20)]
        (warning,) = told[0]

        assert told == [[warning]] * 20
        assert warning.startswith("model quick: ")
        assert "does not accept the key" in warning
        assert warning.endswith("agents without a model: helper")
        assert (service.looked, len(service.bodies)) == (1, 0)


async def test_models_are_looked_at_from_time_to_time(
    tmp_path: Path, service: Service, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The models' clock is not the tests'.
    monkeypatch.setattr(reachability, "REACHABLE_SECONDS", 0.0)
    service.looks.append(says(503))
    async with looking(tmp_path, service, clock) as found:
        await until(lambda: clock.sleepers > 0)
        assert len(await found.warnings()) == 1
        clock.advance(MODELS_SECONDS)
        await until(lambda: service.looked == 2 and clock.sleepers > 0)
        assert await found.warnings() == []


async def test_the_models_of_a_new_program_are_looked_at_soon(
    tmp_path: Path, service: Service, clock: ManualClock
) -> None:
    async with serving("openai") as other, looking(tmp_path, service, clock) as found:
        await until(lambda: clock.sleepers > 0)
        other.looks.append(says(503))
        found.write(other)
        assert await found.app.reload()
        clock.advance(1)
        await until(lambda: other.looked == 1 and clock.sleepers > 0)
        (warning,) = await found.warnings()

        assert other.host in warning
        assert service.looked == 1


def test_what_was_seen_is_known_until_after_the_next_look() -> None:
    assert MODELS_SECONDS + LOOK_SECONDS < KNOWN_SECONDS
