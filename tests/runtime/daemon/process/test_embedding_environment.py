"""Embeddings and summaries set by environment variables: mistakes are reported, and a program takes precedence."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dslc.blocks.memory import Memory, Summarize
from dslc.blocks.variant import Variant
from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.source import Source
from runtime.clock import SYSTEM
from runtime.crypto import MasterKey
from runtime.daemon.opening.memories import MemoryOpener, ResourcePools
from runtime.daemon.process.embedding_environment import VARIABLES, Environment
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program.generation import COLLECTION, Generation, build
from runtime.database.connection import Database
from runtime.errors import UsageError
from runtime.models.client import ModelClient
from runtime.search.errors import EmbeddingMismatch
from runtime.secrets.backend import SecretContext
from tests.databases import migrated
from tests.runtime.daemon.running import GITHUB, running, symbi, write_program
from tests.runtime.search.embedding.services import DIMENSION, serving

KEY = "sk-" + "Hs1K5Tq8Zr2Lw9Yp4Vd7"
EVERYTHING = {
    "EMBEDDING_PROVIDER": "ollama",
    "EMBEDDING_MODEL": "mxbai",
    "EMBEDDING_DIMENSION": "1024",
    "OLLAMA_URL": "http://gpu:11434",
    "SUMMARIZATION_PROVIDER": "ollama",
    "SUMMARIZATION_MODEL": "mistral",
    "SUMMARIZATION_MAX_WORDS": "80",
}


def embedding(environ: dict[str, str], said: Variant | None = None) -> tuple[str, dict[str, Any]] | None:
    filled = Environment.read(environ).with_defaults(Memory(name="notes", embedding=said)).embedding
    return None if filled is None else (filled.name, dict(filled.options))


def summarizer(environ: dict[str, str], said: Variant | None = None) -> tuple[str, dict[str, Any]] | None:
    memory = Memory(name="notes", summarize=Summarize(model=said))
    filled = Environment.read(environ).with_defaults(memory).summarize.model
    return None if filled is None else (filled.name, dict(filled.options))


# Defaults that it sets.


def test_without_any_variable_a_block_stays_as_it_is() -> None:
    block = Memory(name="notes", embedding=Variant(name="ollama", options={"model": "m"}))

    assert Environment.read({}).with_defaults(block) == block
    assert Environment.read(dict.fromkeys(VARIABLES, "  ")).with_defaults(block) == block


def test_what_a_block_does_not_say_is_what_the_variables_say() -> None:
    filled = Environment.read(EVERYTHING).with_defaults(Memory(name="notes"))

    assert filled.embedding == Variant(
        name="ollama", options={"url": "http://gpu:11434", "model": "mxbai", "dimension": 1024}
    )
    assert filled.summarize.model == Variant(name="ollama", options={"url": "http://gpu:11434", "model": "mistral"})
    assert filled.summarize.max_words == 80


def test_filling_in_twice_changes_nothing_more() -> None:
    read = Environment.read(EVERYTHING)
    filled = read.with_defaults(Memory(name="notes"))

    assert read.with_defaults(filled) == filled


def test_a_program_wins_option_by_option_where_the_provider_is_the_same() -> None:
    said = Variant(name="ollama", options={"model": "mine", "batch": 4})

    assert embedding(EVERYTHING, said) == (
        "ollama",
        {"model": "mine", "batch": 4, "url": "http://gpu:11434", "dimension": 1024},
    )
    assert summarizer(EVERYTHING, Variant(name="ollama", options={"url": "http://here:1"})) == (
        "ollama",
        {"url": "http://here:1", "model": "mistral"},
    )
    block = Memory(name="notes", summarize=Summarize(max_words=7))
    assert Environment.read(EVERYTHING).with_defaults(block).summarize.max_words == 7


def test_a_program_that_names_another_provider_is_left_alone_but_for_where_ollama_is() -> None:
    environ = {**EVERYTHING, "EMBEDDING_PROVIDER": "openai", "SUMMARIZATION_PROVIDER": "none"}

    assert embedding(environ, Variant(name="hashing")) == ("hashing", {})
    assert embedding(environ, Variant(name="ollama")) == ("ollama", {"url": "http://gpu:11434"})
    assert summarizer(environ, Variant(name="ollama")) == ("ollama", {"url": "http://gpu:11434"})
    assert summarizer(EVERYTHING, Variant(name="none")) == ("none", {})


def test_the_design_names_ollamas_address_twice_and_the_first_one_wins() -> None:
    both = {"EMBEDDING_PROVIDER": "ollama", "OLLAMA_URL": "http://a", "OLLAMA_BASE_URL": "http://b"}

    assert embedding(both) == ("ollama", {"url": "http://a"})
    assert embedding({**both, "OLLAMA_URL": ""}) == ("ollama", {"url": "http://b"})
    assert summarizer(both) == ("ollama", {"url": "http://a"})
    assert Environment.read(both).without_effect == ("OLLAMA_BASE_URL has no effect: OLLAMA_URL is set too",)
    assert Environment.read({**both, "OLLAMA_BASE_URL": "http://a"}).without_effect == ()


def test_a_model_for_summaries_alone_is_ollamas() -> None:
    environ = {"SUMMARIZATION_MODEL": "mistral"}

    assert summarizer(environ) == ("ollama", {"model": "mistral"})
    assert summarizer(environ, Variant(name="ollama")) == ("ollama", {"model": "mistral"})
    assert summarizer(environ, Variant(name="hashing")) == ("hashing", {})


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"EMBEDDING_PROVIDER": "local"}, ("local", {})),
        ({"EMBEDDING_PROVIDER": "local", "EMBEDDING_DIMENSION": "384"}, ("local", {})),
        ({"EMBEDDING_PROVIDER": "hashing", "EMBEDDING_DIMENSION": "64"}, ("hashing", {"dimension": 64})),
        ({"EMBEDDING_PROVIDER": "none"}, ("none", {})),
        ({"EMBEDDING_PROVIDER": " Ollama "}, ("ollama", {})),
        ({"EMBEDDING_MODEL": "x"}, None),
    ],
    ids=str,
)
def test_each_provider_gets_what_it_takes(environ: dict[str, str], expected: tuple[str, dict[str, Any]] | None) -> None:
    assert embedding(environ) == expected


def test_openais_key_goes_to_openai_alone() -> None:
    environ = {"EMBEDDING_PROVIDER": "openai", "SUMMARIZATION_PROVIDER": "openai", "OPENAI_API_KEY": KEY}
    reference = {"api_key": "secret://env/OPENAI_API_KEY"}
    elsewhere = Variant(name="openai", options={"url": "https://example.org/v1"})

    assert embedding(environ) == ("openai", reference)
    assert summarizer(environ) == ("openai", reference)
    assert embedding(environ, elsewhere) == ("openai", dict(elsewhere.options))
    assert summarizer(environ, elsewhere) == ("openai", dict(elsewhere.options))
    own = Variant(name="openai", options={"api_key": "secret://env/MINE"})
    assert embedding(environ, own) == ("openai", dict(own.options))
    for itself in (Variant(name="openai"), Variant(name="openai", options={"url": "https://api.openai.com/v1/"})):
        expected = ("openai", {**itself.options, **reference})
        assert embedding({}, itself) == summarizer({}, itself) == expected
    assert KEY not in repr(Environment.read(environ))


# Wrong values, and values without effect.


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("EMBEDDING_PROVIDER", "olama", "it is none of ollama, openai, local, hashing, none"),
        ("SUMMARIZATION_PROVIDER", "local", "it is none of ollama, openai, none"),
        ("EMBEDDING_DIMENSION", "0", "it is not a whole number from 1 to 16384"),
        ("EMBEDDING_DIMENSION", "-1", "it is not a whole number from 1 to 16384"),
        ("EMBEDDING_DIMENSION", "768.0", "it is not a whole number from 1 to 16384"),
        ("EMBEDDING_DIMENSION", "9" * 5000, "it is not a whole number from 1 to 16384"),
        ("EMBEDDING_DIMENSION", "²", "it is not a whole number from 1 to 16384"),
        ("SUMMARIZATION_MAX_WORDS", "none", "it is not a whole number from 1 to 5000"),
        ("SUMMARIZATION_MAX_WORDS", "5001", "it is not a whole number from 1 to 5000"),
        ("OLLAMA_URL", "localhost:11434", "not an http or https URL"),
        ("OLLAMA_URL", "http://me:hunter2@host", "must not have a user name or password"),
        ("OLLAMA_BASE_URL", "ftp://host", "not an http or https URL"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_variable(name: str, value: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        Environment.read({name: value})
    line = caught.value.line()

    assert line.startswith(f"{name}: ")
    assert what in line
    assert "\n" not in line
    assert "hunter2" not in line
    assert len(line) < 200


@pytest.mark.parametrize(
    ("provider", "dimension", "what"),
    [("local", "768", "have 384 numbers"), ("hashing", "4", "have 8 to 4096 numbers")],
)
def test_a_dimension_that_the_provider_never_has_is_wrong(provider: str, dimension: str, what: str) -> None:
    with pytest.raises(UsageError, match="EMBEDDING_DIMENSION: ") as caught:
        Environment.read({"EMBEDDING_PROVIDER": provider, "EMBEDDING_DIMENSION": dimension})
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "notes"),
    [
        (EVERYTHING, 0),
        ({"EMBEDDING_MODEL": "m", "EMBEDDING_DIMENSION": "3"}, 2),
        ({"EMBEDDING_PROVIDER": "local", "EMBEDDING_MODEL": "m"}, 1),
        ({"EMBEDDING_PROVIDER": "none", "EMBEDDING_MODEL": "m", "EMBEDDING_DIMENSION": "3"}, 2),
        ({"SUMMARIZATION_PROVIDER": "none", "SUMMARIZATION_MODEL": "m"}, 1),
        ({"SUMMARIZATION_MODEL": "m"}, 0),
    ],
    ids=str,
)
def test_what_has_no_effect_is_said(environ: dict[str, str], notes: int) -> None:
    told = Environment.read(environ).without_effect

    assert len(told) == notes
    assert all(" has no effect: " in line for line in told)


def test_what_the_fifth_design_says_by_a_variable_and_a_program_says_here_is_told() -> None:
    qdrant, port = Environment.read({"QDRANT_URL": "http://localhost:6333", "SERVER_PORT": "4100"}).without_effect

    assert "QDRANT_URL has no effect by itself" in qdrant
    assert "index qdrant" in qdrant
    assert "--admin-listen" in port


def test_it_is_read_with_the_settings_and_with_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in EVERYTHING.items():
        monkeypatch.setenv(name, value)

    assert ProcessSettings.read({}).environment == Environment.read(EVERYTHING)
    assert ProcessSettings().environment == Environment()


# The opened embeddings and models.


@pytest.fixture
async def opening(tmp_path: Path) -> AsyncIterator[MemoryOpener]:
    database = await Database.open(migrated(tmp_path / "symbiont.db"), MasterKey(bytes(32)))
    context = SecretContext({"OPENAI_API_KEY": KEY}, tmp_path, database, database.keys, SYSTEM)
    yield MemoryOpener(tmp_path, tmp_path / "index", context, ResourcePools())
    await database.close()


async def built(opening: MemoryOpener, environ: dict[str, str], text: str = "memory notes {}") -> Generation:
    program = analyse([Source("m.symbiont", text.encode())], Catalog.installed()).program
    assert program is not None
    given = MemoryOpener(opening.root, opening.index_folder, opening.context, opening.pools, Environment.read(environ))
    return await build(1, program, None, opening=given)


def service_of(client: ModelClient | None) -> str | None:
    """Return the row of the model."""
    return None if client is None else client.name


async def test_memories_are_opened_with_what_the_variables_say(opening: MemoryOpener) -> None:
    running = await built(opening, EVERYTHING)
    notes = running.memories["notes"]

    assert notes.embedder is not None
    assert (notes.embedder.name, notes.embedder.model) == ("ollama", "ollama/mxbai:latest")
    assert service_of(notes.summarizer) == "ollama"
    assert notes.summarizer is not None
    assert notes.summarizer.model == "mistral"
    assert notes.problems == ()
    await running.retire()
    assert len(opening.pools.models) == 0


async def test_the_built_in_collection_goes_by_them_too(opening: MemoryOpener) -> None:
    environ = {"EMBEDDING_PROVIDER": "openai", "SUMMARIZATION_PROVIDER": "openai", "OPENAI_API_KEY": KEY}
    running = await built(opening, environ, "")
    found = await running.memories.collection()

    assert found.name == COLLECTION.name
    assert found.embedding == "openai"
    assert service_of(found.summarizer) == "openai"
    assert found.problems == ()
    assert KEY not in repr(found.block)
    await running.retire()


async def test_a_model_is_open_once_for_all_memories_that_name_the_same(opening: MemoryOpener) -> None:
    text = """
    memory one { path "one" }
    memory two { path "two" summarize { model ollama } }
    memory three { path "three" summarize { model none } }
    """
    running = await built(opening, {}, text)
    one, two, three = (running.memories[name] for name in ("one", "two", "three"))

    assert service_of(one.summarizer) == service_of(two.summarizer) == "ollama"
    assert three.summarizer is None
    assert len(opening.pools.models) == 1
    await running.retire()


async def test_a_model_whose_key_is_missing_is_off_and_the_memory_says_why(opening: MemoryOpener) -> None:
    text = 'memory notes { summarize { model openai { api_key "secret://env/NOT_SET" } } }'
    running = await built(opening, {}, text)
    notes = running.memories["notes"]

    assert notes.summarizer is None
    assert notes.summarizer_problem is not None
    assert "summaries are written without a model" in notes.summarizer_problem
    assert "NOT_SET" in notes.summarizer_problem
    assert notes.summarizer_problem in " ".join(running.warnings)
    await running.retire()


async def test_openai_without_a_key_in_the_program_asks_with_that_of_the_environment(opening: MemoryOpener) -> None:
    text = "memory notes { embedding openai summarize { model openai } }"
    running = await built(opening, {}, text)
    notes = running.memories["notes"]

    assert notes.embedder is not None
    assert service_of(notes.summarizer) == "openai"
    assert notes.problems == ()
    await running.retire()


async def test_openai_without_any_key_is_off_and_says_which_variable_is_not_set(opening: MemoryOpener) -> None:
    keyless = replace(opening, context=replace(opening.context, environ={}))
    running = await built(keyless, {}, "memory notes { embedding openai summarize { model openai } }")
    told = running.memories["notes"].not_opened

    assert len(told) == 2
    assert all("OPENAI_API_KEY" in reason for reason in told)
    await running.retire()


async def test_a_model_whose_key_is_given_asks_with_it(opening: MemoryOpener) -> None:
    text = 'memory notes { summarize { model openai { api_key "secret://env/OPENAI_API_KEY" } } }'
    running = await built(opening, {}, text)

    assert service_of(running.memories["notes"].summarizer) == "openai"
    await running.retire()


async def test_no_embedding_is_none(opening: MemoryOpener) -> None:
    running = await built(opening, {"EMBEDDING_PROVIDER": "none"})

    assert running.memories["notes"].embedder is None
    assert running.memories["notes"].problems == ()
    await running.retire()


async def test_an_embedding_of_another_dimension_than_is_set_is_refused_with_what_to_do(opening: MemoryOpener) -> None:
    async with serving("ollama") as service:
        environ = {"EMBEDDING_PROVIDER": "ollama", "OLLAMA_URL": service.url, "EMBEDDING_DIMENSION": "768"}
        running = await built(opening, environ)
        embedder = running.memories["notes"].embedder
        assert embedder is not None
        with pytest.raises(EmbeddingMismatch) as caught:
            await embedder.embed(["a text"])
        await running.retire()

    assert f"a vector of {DIMENSION} numbers, not of 768 as declared" in str(caught.value)


# In a real process.


def test_a_wrong_variable_keeps_the_daemon_from_starting_and_no_root_is_made(tmp_path: Path) -> None:
    write_program(tmp_path, GITHUB)
    done = symbi("up", "program", root=tmp_path, EMBEDDING_PROVIDER="olama")

    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "EMBEDDING_PROVIDER: it is none of ollama, openai, local, hashing, none" in line
    assert not (tmp_path / ".symbi").exists()


def test_readiness_and_every_command_say_what_is_wrong_and_what_has_no_effect(tmp_path: Path) -> None:
    write_program(tmp_path, GITHUB)
    with running(tmp_path, "program", EMBEDDING_PROVIDER="", EMBEDDING_MODEL="m") as daemon:
        told = json.loads(daemon.symbi("readiness", "--json").stdout)
        (row,) = [row for row in told["checks"] if row["check"] == "environment"]
        assert row["status"] == "YELLOW"
        assert "EMBEDDING_MODEL has no effect: EMBEDDING_PROVIDER is not set" in row["text"]

    done = symbi("readiness", "--json", root=tmp_path, OLLAMA_URL="localhost")
    (row,) = json.loads(done.stdout)["checks"]
    assert done.returncode == 1
    assert row["status"] == "RED"
    assert "OLLAMA_URL: not an http or https URL" in row["text"]
    done = symbi("webhook", "list", root=tmp_path, SUMMARIZATION_MAX_WORDS="many")
    assert done.returncode == 2
    assert "SUMMARIZATION_MAX_WORDS: it is not a whole number" in done.stderr
    assert "Traceback" not in done.stderr
