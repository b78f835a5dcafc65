"""Calls of a running program's models are rows of their owners and metrics, also across a reload and an outage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from runtime.daemon.process.root import make
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.process.systemd import Notifier
from runtime.daemon.program.app import App
from runtime.daemon.server import Daemon
from runtime.database.errors import Unavailable
from runtime.database.schema import usage
from runtime.identity.caller import Caller
from runtime.models.client import ModelClient
from runtime.models.request import Message, Request
from runtime.tools.context import ActingAgent
from tests.clocks import until
from tests.runtime.models.chat_service import ChatService, chat_service, says

ADA = Caller("ada", frozenset({"write"}))


def program(service: ChatService, *, words: int = 200) -> str:
    return f"""
memory notes {{
    store collection
    embedding hashing
    summarize {{
        model openai {{
            url     "{service.url}"
            model   "m-1"
            api_key "secret://env/MODEL_KEY"
        }}
        max_words {words}
    }}
}}
"""


@pytest.fixture
async def service() -> AsyncIterator[ChatService]:
    async with chat_service() as running:
        yield running


@pytest.fixture
async def app(tmp_path: Path, service: ChatService, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    monkeypatch.setenv("MODEL_KEY", "key-1")
    (tmp_path / "program").mkdir()
    (tmp_path / "program/notes.symbiont").write_text(program(service))
    root = make(tmp_path, {})
    async with App.open(root, ProcessSettings()) as opened:
        await opened.load([tmp_path / "program"])
        yield opened


def summarizer(app: App) -> ModelClient:
    found = app.generation.memories["notes"].summarizer
    assert found is not None
    return found


async def ask(app: App, client: ModelClient | None = None) -> None:
    owner = app.contexts.tool(ADA, acting=ActingAgent("reviewer", "run-1", "thread-1")).call_owner
    asked = Request(messages=(Message("user", "What happened?"),), max_tokens=9)
    await (client or summarizer(app)).reply(asked, owner=owner, purpose="summary")


async def rows(app: App) -> list[Any]:
    await until(lambda: app.state.database.commits._task is None)
    async with app.state.database.read() as connection:
        return list((await connection.execute(select(usage).order_by(usage.c.id))).all())


async def test_a_call_is_a_row_of_its_owner_and_a_metric(app: App) -> None:
    await ask(app)
    (row,) = await rows(app)

    assert (row.user_id, row.agent, row.thread_id, row.run_id) == ("ada", "reviewer", "thread-1", "run-1")
    assert (row.purpose, row.model, row.service_model, row.outcome) == ("summary", "openai", "m-1", "answered")
    assert (row.tokens_in, row.tokens_out, row.cached) == (31, 11, 16)
    assert ("openai", "answered", 1) in app.state.metrics.model_calls.values()
    assert app.state.metrics.model_available.ask() == {"openai": 1}


async def test_no_call_fails_because_of_the_database(app: App) -> None:
    app.state.database.outage.problem = Unavailable("away")
    await ask(app)
    app.state.database.outage.problem = None
    await ask(app)

    assert len(await rows(app)) == 2


async def test_rows_of_an_outage_are_stored_when_it_ends(app: App) -> None:
    Daemon(app, Notifier({}))
    app.state.database.outage.problem = Unavailable("away")
    await ask(app)
    app.state.database.outage.problem = None
    app.state.database.outage.on_change(None)

    assert len(await rows(app)) == 1


async def test_a_reload_that_changes_no_service_keeps_its_connection_and_its_failures(
    app: App, service: ChatService, tmp_path: Path
) -> None:
    before = summarizer(app)
    service.answers.append(says(503))
    await ask(app)
    (tmp_path / "program/notes.symbiont").write_text(program(service, words=20))
    async with app.pinned():
        assert await app.reload()
        after = summarizer(app)
        assert after is not before
        assert len(app.state.pools.models) == 1
        await ask(app, before)
    await ask(app)

    assert [row.outcome for row in await rows(app)] == ["unavailable", "answered", "answered", "answered"]
    assert app.state.metrics.model_available.ask() == {"openai": 1}


async def test_a_replaced_service_is_closed_and_no_longer_a_metric(app: App, tmp_path: Path) -> None:
    async with chat_service() as other:
        (tmp_path / "program/notes.symbiont").write_text(program(other))
        assert await app.reload()
        await ask(app)

        assert len(other.bodies) == 1
        assert len(app.state.pools.models) == 1
