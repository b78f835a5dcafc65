"""Summaries by a daemon: the environment names the model, and a kill leaves one summary or none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import LONG
from tests.runtime.daemon.running import GITHUB, Daemon, running, symbi, until, write_program
from tests.runtime.daemon.v1 import ask, make_token
from tests.runtime.models.services import SAID, Service, never, serving

pytestmark = LONG

EVER = {"start": "2020-01-01T00:00:00Z", "end": "2100-01-01T00:00:00Z"}
NOTES = ["The deploy failed. The disk was full.", "Ada freed the disk."]


@pytest.fixture
def ollama() -> Iterator[Service]:
    """A model server in a thread, so that tests may wait for processes."""
    found: list[tuple[Service, asyncio.AbstractEventLoop, asyncio.Event]] = []
    begun = threading.Event()

    async def serve() -> None:
        async with serving("ollama") as service:
            found.append((service, asyncio.get_running_loop(), asyncio.Event()))
            begun.set()
            await found[0][2].wait()

    # Requests that it never answers are cancelled at the end.
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert begun.wait(30)
    service, loop, ended = found[0]
    yield service
    loop.call_soon_threadsafe(ended.set)
    thread.join(30)


def tool(daemon: Daemon, token: str, name: str, **given: Any) -> dict[str, Any]:
    answer = ask(daemon, token, "POST", f"/v1/tools/{name}", given)
    assert answer.status == 200, answer.body
    told: dict[str, Any] = answer.json()
    return told


def remember(daemon: Daemon, token: str) -> None:
    for note in NOTES:
        tool(daemon, token, "push", text=note, memory_type="episodic", tags="daily")


def test_the_environment_names_the_model_and_the_summary_outlives_a_kill(tmp_path: Path, ollama: Service) -> None:
    write_program(tmp_path, GITHUB)
    with running(
        tmp_path,
        "program",
        EMBEDDING_PROVIDER="none",
        OLLAMA_BASE_URL=ollama.url,
        SUMMARIZATION_MODEL="mistral",
        SUMMARIZATION_MAX_WORDS="12",
    ) as daemon:
        token = make_token(daemon, "--scope", "admin")
        remember(daemon, token)
        done = tool(daemon, token, "summarize", time_range=EVER)
        daemon.kill()

    assert (done["summary"], done["provider"], done["model"]) == (SAID, "ollama", "mistral")
    assert "at most 12 words" in ollama.bodies[0]["messages"][0]["content"]
    # The same number of words as before: for more, it would be written again.
    away = {"OLLAMA_URL": "http://localhost:1", "SUMMARIZATION_MAX_WORDS": "12"}
    with running(tmp_path, "program", wait=True, EMBEDDING_PROVIDER="none", **away) as daemon:
        assert tool(daemon, token, "summarize", time_range=EVER) == done
        found = tool(daemon, token, "search", query_text="deploy", tags=["summary"])["hits"]
        assert [hit["memory_id"] for hit in found] == [done["upserted_memory_id"]]
        told = symbi("readiness", root=tmp_path).stdout
        assert "none, because of EMBEDDING_PROVIDER" in told


def test_a_kill_while_the_model_writes_leaves_no_summary_and_the_next_call_makes_it(
    tmp_path: Path, ollama: Service
) -> None:
    write_program(tmp_path, GITHUB + "\nmemory notes {\n    store collection\n}\n")
    ollama.answers.append(never)
    with running(tmp_path, "program", EMBEDDING_PROVIDER="none", OLLAMA_URL=ollama.url) as daemon:
        token = make_token(daemon, "--scope", "admin")
        remember(daemon, token)
        asking = threading.Thread(target=_ignoring, args=(daemon, token))
        asking.start()
        until(lambda: ollama.bodies, what="the model's question")
        daemon.kill()
        asking.join(60)

    with running(tmp_path, "program", EMBEDDING_PROVIDER="none", OLLAMA_URL=ollama.url) as daemon:
        assert tool(daemon, token, "search", query_text="deploy", tags=["summary"])["hits"] == []
        done = tool(daemon, token, "summarize", time_range=EVER)
        assert (done["summary"], len(done["source_memory_ids"])) == (SAID, 2)


def _ignoring(daemon: Daemon, token: str) -> None:
    """Request a summary that is never answered."""
    try:
        ask(daemon, token, "POST", "/v1/tools/summarize", {"time_range": EVER})
    except OSError:
        return
