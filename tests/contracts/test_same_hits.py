"""Every index returns the same hits for the same items and questions, under every filter."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from dslc.blocks.variant import Variant
from runtime.search.engine import SearchAnswer, search
from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.index import INDEXES, open_index
from runtime.search.index.embedded import in_memory
from runtime.search.index.index import Index
from runtime.search.question import Question
from tests.contracts.test_indexes import SERVERS, no_options
from tests.lanes import repeated
from tests.runtime.search.index.entries import entry
from tests.runtime.search.index.postgres import postgres_server
from tests.runtime.search.word_tokens import HashedWords, embed_all

NOW = datetime(2026, 2, 14, tzinfo=UTC)
WORDS = (
    *("harbour", "boat", "garden", "tomato", "server", "deploy", "walnut", "invoice", "customer", "release"),
    *("night", "morning", "repair", "broken", "paint", "music", "letter", "answer", "river", "bridge"),
)
ITEMS = 400
EMBEDDER = HashedWords(64)

FILTERS = {
    "nothing": EntryFilter(),
    "an agent": EntryFilter(agent="keeper"),
    "a user": EntryFilter(user="bob"),
    "a project": EntryFilter(project="shop"),
    "a type": EntryFilter(type="semantic"),
    "a source": EntryFilter(source="file:///notes/3.md"),
    "one of some tags": EntryFilter(tags_any=frozenset({"red", "blue"})),
    "all of some tags": EntryFilter(tags_all=frozenset({"red", "blue"})),
    "tags of both kinds": EntryFilter(tags_all=frozenset({"red"}), tags_any=frozenset({"blue", "green"})),
    "since": EntryFilter(since=NOW - timedelta(days=30)),
    "until": EntryFilter(until=NOW - timedelta(days=30)),
    "a time range": EntryFilter(since=NOW - timedelta(days=60), until=NOW - timedelta(days=30)),
    "all at once": EntryFilter(
        agent="keeper", user="owner", project="shop", type="episodic", tags_any=frozenset({"red", "blue"}),
        since=NOW - timedelta(days=90), until=NOW,
    ),
    "what nobody has": EntryFilter(project="nobody's"),
}  # fmt: skip
QUESTIONS = ("Which boat was broken in the harbour?", "tomato garden", "who answers the letter", "deploy", "zzz")


def entries() -> list[IndexEntry]:
    """Return four hundred items of two agents and two users, some without project, source, tags or author, and some
    that depend on their neighbours less than short ones or not at all."""
    chance = random.Random(11)
    return [
        entry(
            f"id-{number}",
            " ".join(chance.choices(WORDS, k=chance.randrange(3, 15) if number % 7 else chance.randrange(70, 170))),
            agent=chance.choice(["keeper", "reviewer"]),
            user=chance.choice(["owner", "bob"]),
            project=chance.choice([None, "shop", "", "site"]),
            type=chance.choice(["episodic", "semantic", "procedural"]),
            time=NOW - timedelta(days=chance.randrange(120), microseconds=number),
            source=chance.choice([None, *(f"file:///notes/{n}.md" for n in range(5))]),
            other_sources=tuple(f"file:///notes/{n}.md" for n in range(5) if number % (7 + n) == 0),
            tags=tuple(sorted(chance.sample(["red", "green", "blue", "ü,\"'"], chance.randrange(4)))),
            author=chance.choice([None, "Ada", "Zoë Müller"]),
            group=chance.choice(["", "a", "b"]),
            order=number,
        )
        for number in range(ITEMS)
    ]


async def fill(index: Index) -> None:
    """Put every item, in parts, with some changes, moves and deletions in between."""
    made = entries()
    for agent in ("keeper", "reviewer"):
        own = [one for one in made if one.agent == agent]
        await index.put(agent, agent, "1", [*own[:150], *[entry(f"old-{n}", "boat harbour") for n in range(20)]])
        await embed_all(index, EMBEDDER)
        await index.put(agent, agent, "2", own[:-20])
        await index.grow(agent, agent, "2", "3", own[-20:])
    await embed_all(index, EMBEDDER)


@pytest.fixture(scope="module")
def postgresql(request: pytest.FixtureRequest) -> str:
    """A PostgreSQL server, started outside of an event loop."""
    return postgres_server.server(request)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def indexes(tmp_path_factory: pytest.TempPathFactory, postgresql: str) -> AsyncIterator[dict[str, Index]]:
    """An index of every kind with the same content, and a large one; exact search where an index has that option."""
    folder: Path = tmp_path_factory.mktemp("indexes")
    async with AsyncExitStack() as stack:
        made: dict[str, Index] = {}
        for name in INDEXES:
            own = {"postgres": lambda: postgres_server.options(postgresql)} | SERVERS
            options = await stack.enter_async_context(own.get(name, no_options)())
            index = await open_index(Variant(name=name), folder / f"{name}.db", options)
            stack.push_async_callback(index.close)
            await fill(index)
            made[name] = index
        large = await open_index(None, folder / "large.db", {})
        stack.push_async_callback(large.close)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(in_memory, "LARGE", 0)
            await fill(large)
        made["large"] = large
        yield made


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", FILTERS)
@repeated("questions", 2, len(QUESTIONS))
async def test_every_index_has_the_same_hits(case: str, questions: int, indexes: dict[str, Index]) -> None:
    wanted = FILTERS[case]
    for text in QUESTIONS[:questions]:
        for weights in ((0.7, 0.3), (1.0, 0.0), (0.0, 1.0)):
            question = Question(
                text=text, now=NOW, limit=ITEMS, wanted=wanted, vector_weight=weights[0], keyword_weight=weights[1]
            )
            answers = {name: await search(index, EMBEDDER, question) for name, index in indexes.items()}
            reference = answers.pop("embedded")
            assert all(wanted.wants(hit.entry) for hit in reference.hits)
            for name, answer in answers.items():
                same = [(name, ids_of(answer), answer.notes), (name, ids_of(reference), reference.notes)]
                assert same[0] == same[1]
                assert scores_of(answer) == pytest.approx(scores_of(reference), abs=2e-4), (name, text)
                entries_ = {hit.entry.id: hit.entry for hit in reference.hits}
                assert {hit.entry.id: hit.entry for hit in answer.hits} == entries_


def ids_of(answer: SearchAnswer) -> set[str]:
    return {hit.entry.id for hit in answer.hits}


def scores_of(answer: SearchAnswer) -> dict[str, float]:
    return {hit.entry.id: hit.score for hit in answer.hits}


@pytest.mark.asyncio(loop_scope="module")
async def test_every_index_says_the_same_of_what_it_holds(indexes: dict[str, Index]) -> None:
    for agent, user in ((None, None), ("keeper", None), (None, "bob"), ("keeper", "bob")):
        # The bytes are of each.
        said = {name: (await index.stats(agent, user))._replace(bytes=0) for name, index in indexes.items()}
        assert len(set(said.values())) == 1, said
        assert all(stats.tokenized == stats.embedded == stats.entries > 0 for stats in said.values())
    authors = {name: tuple(await index.authors(FILTERS["a project"])) for name, index in indexes.items()}
    assert len(set(authors.values())) == 1, authors
