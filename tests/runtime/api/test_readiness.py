"""Readiness in states that are hard to reach with a whole daemon."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dslc.blocks.memory import Memory, Summarize
from dslc.blocks.variant import Variant
from dslc.program import Program
from runtime import extras
from runtime.api.admin.readiness import LITTLE_ROOM, NO_ROOM, model_availability, readiness
from runtime.api.admin.state import AdminContext, ModelStatus
from runtime.clock import Clock
from runtime.database.connection import Database
from runtime.database.resealing import Resealing
from runtime.memory.open_memory import OpenMemory
from runtime.models.calls import service as service_calls
from runtime.models.calls.call import BACKGROUND
from runtime.models.client import ModelClient, open_client
from runtime.models.model import ModelRefused, ModelUnavailable
from runtime.search import embedding
from runtime.search.errors import IndexFailed
from runtime.switches import ALL_ON
from runtime.tools.daemon_hooks import DaemonHooks
from tests.cases import each_case
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.memory.opened import open_memory
from tests.runtime.memory.texts import fact
from tests.runtime.models.services import says, serving


class Looked:
    """Yield an app with a database and one memory, in which everything is healthy."""

    def __init__(self, state: Path, database: Database, memories: Mapping[str, OpenMemory], clock: Clock) -> None:
        self.state, self.database, self.memories, self.clock = state, database, memories, clock
        self.daemon = DaemonHooks(addresses={"public": "127.0.0.1:8080"})
        self.mounts: Mapping[str, Any] = {}
        self.agents = ("reviewer",)
        self.master_key = SimpleNamespace(place="secret://env/KEY", problem=_no_problem)
        self.program_state: Any = SimpleNamespace(models=[], environment_notes=(), resumed=False, reload_problem=None)
        self.program_state.missing_secrets, self.program_state.kept_secrets = [], []
        self.program = Program()
        self.switches = ALL_ON
        self.resealing = Resealing(database, clock)
        self.mcp = SimpleNamespace(servers={})
        self.no_tables: str | None = None
        self.sql = None

    async def row(self, check: str) -> tuple[str, str]:
        answer = await readiness(cast("AdminContext", self), {})
        (found,) = [row for row in answer["checks"] if row["check"] == check]
        return found["status"], found["text"]


async def _no_problem() -> None:
    pass


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(with_keys(tmp_path / "symbiont.db", KEY), KEY)
    yield opened
    await opened.close()


async def look(tmp_path: Path, database: Database, clock: ManualClock, choice: Variant | None) -> Looked:
    memory = await open_memory(Memory(name="notes", embedding=choice), tmp_path, index_folder=None, clock=clock)
    return Looked(tmp_path, database, {"notes": memory}, clock)


@pytest.fixture
async def app(tmp_path: Path, database: Database, clock: ManualClock) -> AsyncIterator[Looked]:
    made = await look(tmp_path, database, clock, Variant(name="hashing"))
    yield made
    await made.memories["notes"].close()


async def test_without_any_embedding_it_says_that_searches_go_by_keyword(
    tmp_path: Path, database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "default_embedding", lambda: None)
    app = await look(tmp_path, database, clock, None)
    level, text = await app.row("embedding of notes")
    assert level == "YELLOW"
    assert "searches use keywords" in text
    assert extras.install("local") in text
    await app.memories["notes"].close()


async def test_what_waits_for_its_vector_is_counted_and_is_well(app: Looked) -> None:
    await app.memories["notes"].store.append([fact("One"), fact("Two")])
    await app.memories["notes"].sync()
    assert await app.row("index of notes") == ("GREEN", "2 entries, 2 without a vector yet")
    await app.memories["notes"].embed()
    assert await app.row("index of notes") == ("GREEN", "2 entries")
    await app.memories["notes"].store.append([fact("Three")])
    await app.memories["notes"].sync()
    assert await app.row("index of notes") == ("GREEN", "3 entries, 1 without a vector yet")


async def test_an_index_that_cannot_be_read_is_red(app: Looked, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failed(_agent: str | None = None) -> None:
        raise IndexFailed("the index cannot be read", hint="look at the disk")

    monkeypatch.setattr(app.memories["notes"].indexer.index, "stats", failed)
    level, text = await app.row("index of notes")
    assert level == "RED"
    assert "look at the disk" in text


@each_case(
    ("free", "level"), [(LITTLE_ROOM, "GREEN"), (LITTLE_ROOM - 1, "YELLOW"), (NO_ROOM, "YELLOW"), (NO_ROOM - 1, "RED")]
)
async def test_a_disk_with_little_room_is_said_before_writes_fail(
    app: Looked, monkeypatch: pytest.MonkeyPatch, free: int, level: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=free))
    assert (await app.row("disk"))[0] == level


async def test_a_state_folder_that_takes_no_files_is_red(app: Looked) -> None:
    app.state = app.state / "gone"
    level, text = await app.row("state folder")
    assert level == "RED"
    assert str(app.state) in text


async def test_a_database_that_was_replaced_or_is_away_is_red(
    app: Looked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "symbiont.db").rename(tmp_path / "away.db")
    level, text = await app.row("database")
    assert level == "RED"
    assert "removed or replaced" in text


async def test_many_reasons_are_not_all_listed(app: Looked) -> None:
    app.program_state.kept_secrets = [f"env KEY_{number} is not set" for number in range(9)]
    level, text = await app.row("secrets")
    assert level == "YELLOW"
    assert "KEY_4" in text
    assert "KEY_5" not in text
    assert text.endswith("and 4 more")


async def test_a_damaged_record_is_named_once_with_what_is_wrong_with_it(
    tmp_path: Path, database: Database, clock: ManualClock
) -> None:
    declared = Memory(name="notes", store=Variant(name="records"), embedding=Variant(name="hashing"))
    memory = await open_memory(declared, tmp_path, index_folder=None, clock=clock)
    app = Looked(tmp_path, database, {"notes": memory}, clock)
    await memory.store.append([fact("kept for good")])
    assert memory.folder is not None
    (record,) = memory.folder.glob("*/2*.json")
    record.write_text(record.read_text().replace("good", "bad!"))
    await memory.store.verify()
    level, text = await app.row("memory notes")
    assert level == "YELLOW"
    assert text.count(record.name) == 1
    assert "its checksum is not that of its content" in text
    await memory.close()


async def test_a_folder_that_cannot_be_looked_at_keeps_no_other_check_from_being_made(
    tmp_path: Path, database: Database, clock: ManualClock
) -> None:
    app = await look(tmp_path, database, clock, None)
    memory = app.memories["notes"]
    memory.folder = tmp_path / ("x" * 300) / "notes"
    status, _ = await app.row("disk")
    assert status in {"GREEN", "YELLOW", "RED"}
    await memory.close()


async def test_what_the_environment_says_in_vain_is_told(app: Looked) -> None:
    app.program_state.environment_notes = ("EMBEDDING_MODEL has no effect: EMBEDDING_PROVIDER is not set",)
    level, text = await app.row("environment")
    assert level == "YELLOW"
    assert "EMBEDDING_MODEL has no effect" in text


async def test_an_embedding_that_the_environment_turns_off_is_well(app: Looked) -> None:
    memory = app.memories["notes"]
    memory.block = Memory(name="notes", embedding=Variant(name="none"))
    memory._embedder = None
    assert await app.row("embedding of notes") == (
        "GREEN",
        "none, because of EMBEDDING_PROVIDER: searches use keywords",
    )


async def summaries(
    tmp_path: Path, database: Database, clock: ManualClock, model: Variant | None, summarizer: ModelClient | None = None
) -> tuple[str, str]:
    """Return the details about a collection's summaries."""
    declared = Memory(name="notes", store=Variant(name="collection"), summarize=Summarize(model=model))
    memory = await open_memory(declared, tmp_path, index_folder=None, clock=clock, database=database)
    memory.summarizer = memory.summarizer or summarizer
    try:
        return await Looked(tmp_path, database, {"notes": memory}, clock).row("summaries of notes")
    finally:
        await memory.close()


async def test_who_writes_the_summaries_of_a_collection_is_told(
    tmp_path: Path, database: Database, clock: ManualClock
) -> None:
    async with serving("ollama") as service:
        there = Variant(name="ollama", options={"url": service.url})
        assert await summaries(tmp_path, database, clock, there) == ("GREEN", "ollama, llama3.1:8b")
    away = Variant(name="ollama", options={"url": "http://localhost:1"})
    level, text = await summaries(tmp_path, database, clock, away)
    assert (level, "the model ollama does not answer" in text) == ("YELLOW", True)
    level, text = await summaries(tmp_path, database, clock, Variant(name="openai"))
    assert (level, "needs a key for OpenAI" in text) == ("YELLOW", True)


async def test_that_nobody_writes_them_is_well_where_nobody_was_asked_to(
    tmp_path: Path, database: Database, clock: ManualClock
) -> None:
    away = await open_client(Variant(name="ollama"), {"url": "http://localhost:1"})
    for model, summarizer in ((Variant(name="none"), None), (None, None), (None, away)):
        level, text = await summaries(tmp_path, database, clock, model, summarizer)
        assert (level, text.partition(":")[0]) == ("GREEN", "built from sentences of the items")


async def opened(row: str, **options: str) -> ModelClient:
    """Return a client of a model, without a program."""
    client = await open_client(Variant(name=row), options)
    assert client is not None
    return client


AWAY = "the model ollama is unavailable: localhost:1 cannot be reached: connection refused (check that it is running)"


async def test_each_model_is_shown_with_what_keeps_it_from_being_used(app: Looked) -> None:
    async with serving("openai") as service:
        there = await opened("openai", url=service.url, model="m-1")
        away = await opened("ollama", url="http://localhost:1")
        app.program_state.models = [
            ModelStatus("quick", there),
            ModelStatus("halved", there, ("its fallback big is off: KEY is not set",)),
            ModelStatus("gone", away),
            ModelStatus("keyless", None, ("KEY is not set",)),
            ModelStatus("none", None),
        ]
        assert await app.row("model quick") == ("GREEN", "openai, m-1")
        level, text = await app.row("model halved")
        assert (level, "its fallback big is off" in text) == ("YELLOW", True)
        assert await app.row("model gone") == ("YELLOW", f"ollama, llama3.1:8b: {AWAY}")
        assert await app.row("model keyless") == ("YELLOW", "it cannot be used: KEY is not set")
        assert await app.row("model none") == ("GREEN", "none")
        app.program_state.models.append(ModelStatus("idle", away, ("KEY is not set",), used=False))
        app.program_state.missing_secrets = ["KEY is not set"]
        assert await app.row("model idle") == ("GREEN", "not checked: no enabled agent uses it")
        assert await app.row("secrets") == ("YELLOW", "not resolved: KEY is not set")
        assert model_availability(app.program_state.models) == {"quick": 1, "halved": 1, "gone": 0, "keyless": 0}
        for client in (there, away):
            await client.close()


async def test_a_model_that_agents_answer_with_and_that_cannot_be_had_is_red(app: Looked) -> None:
    without = "; agents without a model: helper, reviewer"
    async with serving("openai") as service, serving("ollama") as other:
        away = await opened("ollama", url="http://localhost:1")
        keyless = await opened("mistral")
        unknown = await opened("ollama", url=other.url, model="absent")
        service.looks += [says(401)] * 9
        closed = await opened("openai", url=service.url, api_key="wrong")
        agents = ("helper", "reviewer")
        app.program_state.models = [
            ModelStatus("gone", away, (), agents),
            ModelStatus("keyless", keyless, (), agents),
            ModelStatus("unknown", unknown, (), agents),
            ModelStatus("closed", closed, (), agents),
            ModelStatus("unset", None, ("KEY is not set",), agents),
        ]
        assert await app.row("model gone") == ("RED", f"ollama, llama3.1:8b: {AWAY}{without}")
        assert await app.row("model unset") == ("RED", f"it cannot be used: KEY is not set{without}")
        level, text = await app.row("model keyless")
        assert (level, "the model mistral needs a key" in text) == ("RED", True)
        level, text = await app.row("model unknown")
        assert (level, "has no model absent (ollama pull absent)" in text) == ("RED", True)
        level, text = await app.row("model closed")
        assert (level, "does not accept the key of the model openai" in text) == ("RED", True)
        for client in (away, keyless, unknown, closed):
            await client.close()


async def test_a_model_whose_last_call_was_refused_is_red_until_one_is_answered(app: Looked) -> None:
    async with serving("openai") as service:
        client = await opened("openai", url=service.url, model="m-1", api_key="k")
        app.program_state.models = [ModelStatus("quick", client, (), ("helper",))]
        service.answers.append(says(403))
        with pytest.raises(ModelRefused):
            await client.generate("Hello.", max_tokens=10, owner=BACKGROUND, purpose="chat")
        level, text = await app.row("model quick")
        assert (level, "its last call was refused: " in text) == ("RED", True)
        await client.generate("Hello.", max_tokens=10, owner=BACKGROUND, purpose="chat")
        assert await app.row("model quick") == ("GREEN", "openai, m-1")
        await client.close()


async def test_a_model_whose_last_call_failed_is_not_said_to_refuse_it(
    app: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving("openai") as service:
        client = await opened("openai", url=service.url, model="m-1", api_key="k")
        app.program_state.models = [ModelStatus("quick", client, (), ("helper",))]
        service.answers += [says(403), says(503, **{"Retry-After": "60"})]
        for error in (ModelRefused, ModelUnavailable):
            with pytest.raises(error):
                await client.generate("Hello.", max_tokens=10, owner=BACKGROUND, purpose="chat")
        level, text = await app.row("model quick")
        assert (level, "answered 503" in text, "refused" in text) == ("RED", True, False)
        # When that is long ago, it is not known that the model is asked successfully.
        monkeypatch.setattr(service_calls, "RECENT_SECONDS", -1.0)
        level, text = await app.row("model quick")
        assert (level, "answered 403" in text) == ("RED", True)
        await client.close()


async def test_a_model_whose_fallback_answers_is_yellow_unless_a_person_must_fix_it(app: Looked) -> None:
    async with serving("ollama") as service:
        there, away = await opened("ollama", url=service.url), await opened("ollama", url="http://localhost:1")
        keyless = await opened("mistral")
        app.program_state.models = [
            ModelStatus("gone", ModelClient(away._first, [keyless._first, there._first]), (), ("helper",)),
            ModelStatus("lost", ModelClient(away._first, [keyless._first]), (), ("helper",)),
            ModelStatus("closed", ModelClient(keyless._first, [there._first]), (), ("helper",)),
        ]
        level, text = await app.row("model gone")
        assert (level, text.endswith("; its fallback ollama answers")) == ("YELLOW", True)
        level, text = await app.row("model lost")
        assert (level, "; its fallback mistral: the model mistral needs a key" in text) == ("RED", True)
        assert (await app.row("model closed"))[0] == "RED"
        for client in (there, away, keyless):
            await client.close()


async def test_where_users_have_no_sql_tables_it_says_why(app: Looked) -> None:
    assert (await app.row("tables"))[0] == "GREEN"
    app.no_tables = "the role may not create roles"
    assert await app.row("tables") == ("YELLOW", "there are no SQL tables: the role may not create roles")
