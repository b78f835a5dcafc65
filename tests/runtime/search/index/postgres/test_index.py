"""The index in PostgreSQL: HNSW, the schema that it creates, and refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from dslc.blocks.variant import Variant
from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.source import Source
from runtime.errors import UsageError
from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.errors import IndexFailed
from runtime.search.index import open_index
from runtime.search.index.index import Index, ScoredEntries
from runtime.search.index.postgres import schema, vector_search
from runtime.search.index.postgres.index import PostgresIndex
from runtime.secrets.secret import Secret
from tests.lanes import examples
from tests.runtime.search.index.entries import (
    DIMENSION,
    EVERYTHING,
    TOKEN_BITS,
    embed,
    entry,
    ids,
    said,
    talk,
    vector,
)
from tests.runtime.search.index.entries import vectors as vectors_of
from tests.runtime.search.index.model import Plain, filters, steps
from tests.runtime.search.index.postgres import postgres_server
from tests.runtime.search.index.test_model import compare, take

Options = dict[str, Any]


@pytest.fixture
async def index(options: Options) -> AsyncIterator[Index]:
    opened = await opened_with(options)
    yield opened
    await opened.close()


async def opened_with(options: Options, **others: Any) -> PostgresIndex:
    opened = await open_index(Variant(name="postgres"), None, {**options, **others})
    assert isinstance(opened, PostgresIndex)
    return opened


async def asked(options: Options, statement: str, *values: Any) -> Any:
    """Return the first value of a statement's first row, in the index's schema."""
    connection = await asyncpg.connect(options["url"], server_settings={"search_path": f"{options['schema']}, public"})
    try:
        return await connection.fetchval(statement, *values)
    finally:
        await connection.close()


@settings(max_examples=examples(5), deadline=None, suppress_health_check=list(HealthCheck))
@given(taken=st.lists(steps, max_size=8), wanted=filters)
async def test_any_steps_lead_to_what_the_plain_model_says(
    options: Options, taken: list[tuple[Any, ...]], wanted: EntryFilter
) -> None:
    index: Index = await opened_with(options, schema=f"test_{uuid4().hex}")
    plain = Plain()
    try:
        await index.use_model("m", DIMENSION, TOKEN_BITS)
        for number, step in enumerate(taken):
            index = await take(step, number, index, plain, None)
        await compare(index, plain, wanted, context=False)
    finally:
        await index.close()


async def test_the_words_of_a_very_long_text_are_found(index: Index) -> None:
    text = " ".join([f"w{number}" for number in range(30_000)] + ["often"] * 3000 + ["x" * 3000])
    await index.put("log", "reviewer", "1", [entry("long", text), entry("short", "often")])
    assert await said(index, "w29999") == ["long"]
    assert sorted(await said(index, "often")) == ["long", "short"]
    assert await said(index, "x" * 99) == []


async def test_names_and_tags_of_any_length_and_sign_are_taken(index: Index) -> None:
    long = "n\0\x1a" + "ü\"',{}\\" * 2000
    one = entry("1", "word", source=long, tags=(long,), group=long, project=long, author=long, part=long)
    await index.put(long, "reviewer", long, [one])
    wanted = EntryFilter(source=long, project=long, tags_all=frozenset({long}))
    found = await index.keyword(["word"], wanted, 10)
    assert list((await index.entries(found.keys.tolist())).values()) == [one]
    assert await index.parts() == {long: long}
    assert await index.authors(wanted) == [long]


# HNSW


class Explained:
    """A connection that records PostgreSQL's plan of each search by vector."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.plans: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def fetch(self, sql: str, *values: Any) -> Any:
        if "<#>" in sql and "ANY" not in sql:
            rows = await self._connection.fetch(f"EXPLAIN {sql}", *values)
            self.plans.append("\n".join(row[0] for row in rows))
        return await self._connection.fetch(sql, *values)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the plan of each vector search."""
    plans: list[str] = []
    nearest = vector_search.nearest

    async def explained(connection: Any, *arguments: Any) -> ScoredEntries:
        explaining = Explained(connection)
        found = await nearest(explaining, *arguments)
        plans.extend(explaining.plans)
        return found

    monkeypatch.setattr(vector_search, "nearest", explained)
    return plans


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limit above which entries count as many."""
    monkeypatch.setattr(vector_search, "FEW", 50)


def many(count: int = 600) -> list[IndexEntry]:
    return [
        entry(
            f"{number}",
            f"text {number}",
            tags=("narrow",) if number < 8 else (),
            type="episodic" if number % 2 else "semantic",
        )
        for number in range(count)
    ]


async def exactly(index: Index, text: str, wanted: EntryFilter, limit: int, entries: list[IndexEntry]) -> bool:
    """Return whether the nearest entries were found."""
    found = await index.nearest(vector(text), wanted, limit)
    cosines = sorted((float(vector(one.text) @ vector(text)) for one in entries if wanted.wants(one)), reverse=True)
    return bool(found.scores.tolist() == pytest.approx(cosines[:limit], abs=1e-5))


@pytest.mark.usefixtures("small")
async def test_many_vectors_are_searched_by_hnsw_and_a_filter_never_starves_a_search(
    options: Options, plans: list[str]
) -> None:
    index, entries = await opened_with(options), many()
    try:
        await index.use_model("m", DIMENSION)
        await index.put("log", "reviewer", "1", entries)
        await embed(index)
        assert await exactly(index, "a question", EVERYTHING, 10, entries)
        assert "vectors_nearest" in plans[-1]
        # Few are compared one by one; of many the index's candidates suffice; if they are too few, all are compared.
        narrow, half = EntryFilter(tags_any=frozenset({"narrow"})), EntryFilter(type="semantic")
        for number in range(5):
            assert await exactly(index, f"question {number}", narrow, 10, entries)
        assert "vectors_nearest" not in plans[-1]
        assert await exactly(index, "a question", half, 10, entries)
        assert "vectors_nearest" in plans[-1]
        assert await exactly(index, "a question", half, 400, entries)
        assert await exactly(index, "a question", EVERYTHING, 5000, entries)
        await index.put("more", "reviewer", "1", [entry("new", "a question", part="more")])
        await embed(index)
        nearest = await index.nearest(vector("a question"), EVERYTHING, 1)
        assert await ids(index, nearest) == ["new"]
        assert "vectors_nearest" in plans[-1]
    finally:
        await index.close()
    exact = await opened_with(options, exact=True)
    assert await exactly(exact, "a question", EVERYTHING, 10, [*entries, entry("new", "a question")])
    assert "vectors_nearest" not in plans[-1]
    await exact.close()


@pytest.mark.usefixtures("small")
async def test_another_model_needs_no_hnsw_index_of_the_one_before(options: Options, plans: list[str]) -> None:
    index = await opened_with(options)
    try:
        await index.use_model("m", DIMENSION)
        await index.put("log", "reviewer", "1", many(210))
        await embed(index)
        await index.use_model("large", 12)
        while pending := await index.pending(1000):
            await index.embed(vectors_of(pending, 12))
        found = await index.nearest(vector("text 7", 12), EVERYTHING, 1)
        assert await ids(index, found) == ["7"]
        assert "vectors_nearest" in plans[-1]
    finally:
        await index.close()


@pytest.mark.parametrize(
    ("dimension", "version", "expected"),
    [
        (384, (0, 6, 2), "vector"), (2000, (0, 6, 2), "vector"), (2001, (0, 6, 2), None), (2001, (0, 7, 0), "halfvec"),
        (4000, (0, 8, 0), "halfvec"), (4001, (0, 8, 0), None),
    ],
)  # fmt: skip
def test_vectors_of_more_than_2000_numbers_are_halved_where_pgvector_can_else_compared(
    dimension: int, version: tuple[int, ...], expected: str | None
) -> None:
    assert vector_search.indexed_type(dimension, version) == (expected and f"{expected}({dimension})")


async def test_vectors_of_very_many_numbers_are_kept_and_compared(index: Index) -> None:
    await index.use_model("m", 3072)
    await index.put("log", "reviewer", "1", talk("one", "two", "three"))
    await index.embed(vectors_of(await index.pending(10), 3072))
    found = await index.nearest(vector("two", 3072), EVERYTHING, 1)
    assert await ids(index, found) == ["e1"]
    assert found.scores.tolist() == pytest.approx([1], abs=1e-5)


@pytest.mark.usefixtures("small")
async def test_vectors_of_more_than_2000_numbers_are_searched_by_an_index_of_halves(
    options: Options, plans: list[str]
) -> None:
    index, entries = await opened_with(options), many(201)
    try:
        await index.use_model("m", 2100)
        if "pgvector 0.6" in await index.versions():
            pytest.skip("this pgvector has no halfvec")
        await index.put("log", "reviewer", "1", entries)
        while pending := await index.pending(1000):
            await index.embed(vectors_of(pending, 2100))
        found = await index.nearest(vector("text 7", 2100), EVERYTHING, 3)
        assert (await ids(index, found))[0] == "7"
        assert found.scores[0] == pytest.approx(1, abs=1e-5)
        assert "vectors_nearest" in plans[-1]
    finally:
        await index.close()


# Creation and refusals


async def test_tables_of_another_version_or_without_one_of_them_are_made_anew_and_the_log_says_so(
    options: Options,
) -> None:
    for breaking in ("UPDATE meta SET value = '0' WHERE name = 'version'", "DROP TABLE tokens"):
        first = await opened_with(options)
        await first.put("log", "reviewer", "1", talk("one"))
        before = (await first.keyword(["one"], EVERYTHING, 1)).keys
        await first.close()
        await asked(options, breaking)
        second = await opened_with(options)
        with capture_logs() as logs:
            assert await second.parts() == {}
        assert [line["log_level"] for line in logs] == ["warning"]
        assert logs[0]["event"] == "index_rebuilt"
        await second.put("log", "reviewer", "1", talk("one"))
        assert (await second.keyword(["one"], EVERYTHING, 1)).keys > before
        await second.close()


async def test_a_schema_that_is_dropped_while_it_is_used_is_made_anew(index: Index, options: Options) -> None:
    await index.put("log", "reviewer", "1", talk("one"))
    await asked(options, f"DROP SCHEMA {options['schema']} CASCADE")
    with capture_logs() as logs:
        assert await index.parts() == {}
    assert logs[0]["event"] == "index_rebuilt"
    await index.put("log", "reviewer", "1", talk("one"))
    assert await said(index, "one") == ["e0"]


async def test_tables_of_another_owner_or_memory_are_left_alone(options: Options) -> None:
    await asked(options, f"CREATE SCHEMA {options['schema']} CREATE TABLE {options['schema']}.parts (mine text)")
    index = await opened_with(options)
    with pytest.raises(IndexFailed, match="not belong to this index") as failed:
        await index.put("log", "reviewer", "1", talk("one"))
    assert "schema" in str(failed.value.hint)
    assert await asked(options, "SELECT count(*) FROM parts") == 0
    await index.close()
    theirs = await open_index(Variant(name="postgres"), None, {**options, "schema": f"{options['schema']}2"}, name="a")
    await theirs.put("log", "reviewer", "1", talk("one"))
    ours = await open_index(Variant(name="postgres"), None, {**options, "schema": f"{options['schema']}2"}, name="b")
    with pytest.raises(IndexFailed, match="another memory, a"):
        await ours.parts()
    assert await said(theirs, "one") == ["e0"]
    await theirs.close()
    await ours.close()


async def test_what_the_user_may_not_do_is_said_with_what_to_do(server: str, options: Options) -> None:
    name = f"limited_{uuid4().hex[:8]}"
    url = await postgres_server.fresh(server)
    await postgres_server.execute(url, f"CREATE ROLE {name} LOGIN")
    user = url.replace("//postgres:", f"//{name}:")
    limited = await opened_with(options, url=user)
    with pytest.raises(IndexFailed, match="may not create it") as failed:
        await limited.parts()
    assert "CREATE EXTENSION vector" in failed.value.line()
    await postgres_server.execute(url, "CREATE EXTENSION vector")
    with pytest.raises(IndexFailed, match="may not create the schema") as failed:
        await limited.parts()
    assert "GRANT CREATE ON DATABASE" in failed.value.line()
    await postgres_server.execute(url, f"CREATE SCHEMA {options['schema']} AUTHORIZATION {name}")
    await limited.put("log", "reviewer", "1", talk("one"))
    assert await said(limited, "one") == ["e0"]
    await limited.close()


async def test_a_server_without_pgvector_is_named_with_what_to_install(
    server: str, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every available server has pgvector, so a missing extension is used in its place.
    monkeypatch.setattr(schema, "_CREATE", "CREATE EXTENSION nothing_of_that_name")
    index = await opened_with(options, url=await postgres_server.fresh(server))
    with pytest.raises(IndexFailed, match="does not have") as failed:
        await index.parts()
    assert "install pgvector" in failed.value.line()
    await index.close()


@pytest.mark.parametrize("url", ["sqlite:///x.db", "mysql://a:hunter2@b/c", "hunter2", "secret://env/NOT_THERE"])
async def test_a_url_that_is_none_is_refused_and_not_shown(url: str) -> None:
    for given_url in (url, Secret(url.encode(), "env X")) if "secret:" not in url else (url,):
        with pytest.raises(UsageError) as refused:
            await open_index(Variant(name="postgres"), None, {"url": given_url})
        assert "hunter2" not in refused.value.line()


@pytest.mark.parametrize("url", ["postgresql://u:hunter2@127.0.0.1:1/notes", "postgresql://u:hunter2@[/notes"])
async def test_a_server_that_is_not_there_is_named_without_the_password(url: str) -> None:
    index = await opened_with({"url": Secret(url.encode(), "env X"), "timeout": "1s"})
    for call in (index.parts(), index.keyword(["x"], EVERYTHING, 1), index.put("p", "a", "1", []), index.reachable()):
        with pytest.raises(IndexFailed) as failed:
            await call
        assert "hunter2" not in failed.value.line()
        assert failed.value.hint
        if "127" in url:
            assert "127.0.0.1:1/notes" in failed.value.line()
    await index.close()


@pytest.mark.parametrize("wrong", [{"schema": "public"}, {"schema": "Notes"}, {"ef_search": 1001}, {"pool": 0}])
async def test_an_option_out_of_bounds_is_named(wrong: Options) -> None:
    with pytest.raises(UsageError) as refused:
        await open_index(Variant(name="postgres"), None, {"url": "postgresql://h/d", **wrong})
    assert next(iter(wrong)) in refused.value.line()


def test_a_url_that_stands_in_the_program_is_warned_of_and_bounds_are_checked_there() -> None:
    def codes(body: str) -> list[str]:
        source = f"memory notes {{\n    index postgres {{\n{body}\n    }}\n}}\n"
        found = analyse([Source("main.symbiont", source)], Catalog.installed()).diagnostics
        return [each.code for each in found if each.code != "R302"]

    assert codes('url "secret://env/URL"') == []
    assert codes('url "postgresql://u:hunter2@h/d"') == ["P501"]
    assert codes('url "secret://env/URL" pool 0') == ["T402"]
    assert codes("exact true") == ["T404"]
