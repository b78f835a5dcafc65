"""The contract of indexes, for every row of the table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dslc.blocks.setting import settings_of
from dslc.blocks.variant import Variant
from runtime.errors import UsageError
from runtime.search.entry import ALL_SUBJECTS, EntryFilter
from runtime.search.errors import EmbeddingMismatch, IndexFailed
from runtime.search.index import INDEXES, IndexRow, open_index
from runtime.search.index.index import AppendedEntries, Index, IndexChange, IndexStats, PendingEntry
from tests.cases import Failures, each_case
from tests.lanes import LONG
from tests.runtime.search.index.entries import (
    DIMENSION,
    EVERYTHING,
    TOKEN_BITS,
    WHEN,
    append,
    bits,
    embed,
    embed_with_tokens,
    entry,
    everything,
    ids,
    near,
    said,
    talk,
    tokens,
    vector,
    vectors,
)
from tests.runtime.search.index.postgres import postgres_server
from tests.runtime.search.index.qdrant import qdrant_server

SEALED = tuple(row for row in INDEXES.values() if row.name == "embedded")
"""The rows that have a local file, which may be sealed."""


# What seals the local file changes nothing else: in `make test` only the laws about opening it again have it sealed.
ROWS = [*INDEXES, *(f"{row.name} sealed" for row in SEALED)]
EACH_ROW = [pytest.param(name, marks=[LONG] * (name not in INDEXES)) for name in ROWS]


@pytest.fixture(params=EACH_ROW)
def row(request: pytest.FixtureRequest) -> IndexRow:
    """Every row of the table."""
    return INDEXES[request.param.removesuffix(" sealed")]


@pytest.fixture
def key(row: IndexRow, request: pytest.FixtureRequest) -> bytes | None:
    """Return the key that seals the index's local file."""
    return b"k" * 32 if request.node.callspec.params["row"] != row.name else None


Options = dict[str, Any]


@pytest.fixture(scope="module")
def qdrant() -> Iterator[qdrant_server.Served]:
    """A Qdrant server for all tests: each has a collection of its own."""
    with qdrant_server.Served() as served:
        yield served


@pytest.fixture
def server(row: IndexRow, request: pytest.FixtureRequest) -> AbstractAsyncContextManager[Options]:
    """The options of the row's index, on a server that is started outside of the test's event loop."""
    match row.name:
        case "postgres":
            return postgres_server.options(postgres_server.server(request))
        case "qdrant":
            return qdrant_server.options(request.getfixturevalue("qdrant"))
    return nullcontext({})


@pytest.fixture
async def options(server: AbstractAsyncContextManager[Options]) -> AsyncIterator[Options]:
    """Return the options of the row's index, which is empty."""
    async with server as given:
        yield given


@pytest.fixture
async def index(row: IndexRow, options: Options, tmp_path: Path, key: bytes | None) -> AsyncIterator[Index]:
    opened = await open_index(Variant(name=row.name), tmp_path / "index" / "memory.db", options, key=key)
    yield opened
    await opened.close()


def test_a_row_says_what_it_is_and_what_options_it_takes(row: IndexRow) -> None:
    assert row.title
    assert row.doc.endswith(".")
    assert all(setting.doc for setting in settings_of(row.options))


async def test_an_index_or_option_that_there_is_not_is_named(row: IndexRow) -> None:
    with pytest.raises(UsageError, match="no index nothing") as no_such:
        await open_index(Variant(name="nothing"), None, {})
    assert row.name in no_such.value.line()
    with pytest.raises(UsageError) as unknown:
        await open_index(Variant(name=row.name), None, {"colour": "red"})
    assert "colour" in unknown.value.line()
    assert "red" not in unknown.value.line()


async def test_an_index_that_holds_nothing_finds_nothing(index: Index) -> None:
    await index.use_model("m", DIMENSION)
    assert await index.parts() == {}
    assert (await index.stats())[:4] == (0, 0, None, None)
    assert await index.authors(EVERYTHING) == []
    assert await index.pending(10) == []
    assert await said(index, "anything") == []
    assert await near(index, "anything") == []
    assert await index.entries([1, 2**40, 0, -1]) == {}
    assert await index.drop(["log"]) == 0


async def test_an_entry_comes_back_exactly(index: Index) -> None:
    one = entry(
        "id-1", "Zwei 日本\n\n\tlines\0", agent="a", user="bob", project="p", type="semantic", source="file:///x?y#1",
        time=datetime(2023, 5, 8, 13, 56, 1, 123457, UTC), tags=("b", "a", "ü,\""), author="Zoë", group="g", order=-7,
        part="facts", line=12, rest='{"confidence": 0.5}', other_sources=("file:///ü?#\"{2}", "x" * 4000),
    )  # fmt: skip
    other = entry("id-2", "", part="facts", time=datetime(1, 1, 1, tzinfo=UTC))
    await index.put("facts", "a", "1", [one, other])
    await index.use_model("m", DIMENSION)
    await embed(index)
    assert await everything(index) == {"id-1": one, "id-2": other}


async def test_times_are_the_same_in_every_zone(index: Index) -> None:
    here = WHEN.astimezone(timezone(timedelta(hours=9)))
    await index.put("log", "reviewer", "1", [entry("e", "word", time=here)])
    assert await said(index, "word", EntryFilter(since=WHEN)) == ["e"]
    assert await said(index, "word", EntryFilter(until=WHEN)) == []
    assert await said(index, "8 May 2023") == ["e"]


async def test_putting_a_part_says_what_changed(index: Index) -> None:
    assert await index.put("log", "reviewer", "1", talk("one", "two", "three")) == IndexChange(3, 0, 0)
    assert await index.put("log", "reviewer", "2", talk("one", "two", "three")) == IndexChange(0, 3, 0)
    moved = [replace(one, line=7, order=one.order + 1, rest="x") for one in talk("one", "two", "three")]
    assert await index.put("log", "reviewer", "3", moved) == IndexChange(0, 3, 0)
    assert await index.put("log", "reviewer", "4", [moved[0], replace(moved[1], text="zwei", hash="z")]) == (1, 1, 1)
    assert sorted(await said(index, "one two three zwei")) == ["e0", "e1"]
    assert await index.parts() == {"log": "4"}
    assert (await index.stats()).entries == 2


async def test_entries_may_change_in_any_order(index: Index) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two", "three", "four"))
    zero, one, two, three = talk("null", "eins", "zwei", "drei")
    assert await index.put("log", "reviewer", "2", [zero, three, one, replace(two, text="three")]) == (4, 0, 0)
    for word, name in (("null", "e0"), ("eins", "e1"), ("three", "e2"), ("drei", "e3")):
        assert (await said(index, word))[0] == name


async def test_of_two_entries_with_one_id_the_later_counts(index: Index) -> None:
    assert await index.put("log", "reviewer", "1", [entry("e", "first"), entry("e", "second")]) == IndexChange(1, 0, 0)
    assert await said(index, "first second") == ["e"]
    assert await said(index, "first") == []


async def test_an_entry_that_is_put_in_another_part_moves_there(index: Index) -> None:
    await index.use_model("m", DIMENSION)
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await embed(index)
    assert await index.put("facts", "reviewer", "1", [entry("e0", "one", part="facts", group="talk")]) == (0, 1, 0)
    assert await index.put("more", "reviewer", "1", [entry("e0", "one", part="more", group="talk")]) == (0, 1, 0)
    assert await index.pending(10) == []
    assert await index.put("log", "reviewer", "2", talk("two", start=1)) == (0, 1, 0)
    assert (await everything(index))["e0"].part == "more"
    assert await index.drop(["log", "facts"]) == 1
    assert await said(index, "one two") == ["e0"]


async def test_a_part_grows_only_from_the_revision_it_has(index: Index) -> None:
    first, second, third = ([one] for one in talk("one", "two", "three"))
    assert not await append(index, "log", "reviewer", "1", "2", first)
    assert await append(index, "log", "reviewer", None, "1", first)
    assert not await append(index, "log", "reviewer", None, "2", second)
    assert not await append(index, "log", "reviewer", "0", "2", second)
    assert await index.parts() == {"log": "1"}
    assert await append(index, "log", "reviewer", "1", "2", [*second, *third])
    assert await index.parts() == {"log": "2"}
    assert (await said(index, "two"))[0] == "e1"


async def test_parts_that_grow_together_each_grow_from_the_revision_they_have(index: Index) -> None:
    one, two, three, four = talk("one", "two", "three", "four")
    assert await append(index, "log", "reviewer", None, "1", [one])
    more = replace(two, part="more"), replace(four, part="more")
    grown = [
        AppendedEntries("more", "reviewer", None, "1", [more[0]]),
        AppendedEntries("log", "reviewer", "0", "9", [replace(two, id="not put")]),
        AppendedEntries("log", "reviewer", "1", "2", [three]),
        AppendedEntries("more", "reviewer", "1", "2", [more[1]]),
    ]
    assert await index.append(grown) == [True, False, True, True]
    assert await index.parts() == {"log": "2", "more": "2"}
    assert sorted(await said(index, "one two three four")) == ["e0", "e1", "e2", "e3"]
    assert await index.drop(["more"]) == 2
    assert sorted(await said(index, "one two three four")) == ["e0", "e2"]
    assert await index.append([]) == []


async def test_parts_are_listed_by_agent(index: Index) -> None:
    await index.put("a/log", "a", "1", [entry("1", "x", agent="a", part="a/log")])
    await index.put("b/log", "b", "7", [])
    assert await index.parts() == {"a/log": "1", "b/log": "7"}
    assert await index.parts("b") == {"b/log": "7"}
    assert await index.parts("nobody") == {}


async def test_the_revisions_of_some_parts_are_those_of_the_ones_that_exist(index: Index) -> None:
    for part in ("a/1", "a/2", "b/1"):
        await index.put(part, part[0], f"revision of {part}", [])
    assert await index.parts(names={"a/2", "b/1", "b/2"}) == {"a/2": "revision of a/2", "b/1": "revision of b/1"}
    assert await index.parts(names=[]) == {}


async def test_dropped_parts_and_what_was_in_them_are_gone(index: Index) -> None:
    await index.use_model("m", DIMENSION)
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await index.put("other", "reviewer", "1", [entry("x", "one more", part="other")])
    await embed(index)
    assert await index.drop(["log", "never there"]) == 2
    assert await index.parts() == {"other": "1"}
    assert await said(index, "one two") == ["x"]
    assert await near(index, "one") == ["x"]
    assert (await index.stats())[:2] == (1, 1)


async def test_an_index_that_was_cleared_is_as_new(index: Index) -> None:
    await index.use_model("m", DIMENSION)
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await embed(index)
    await index.clear()
    assert await index.parts() == {}
    assert (await index.stats())[:4] == (0, 0, None, None)
    await index.put("log", "reviewer", "1", talk("one", "two"))
    assert len(await index.pending(10)) == 2
    assert (await said(index, "two"))[0] == "e1"


async def test_words_are_found_by_their_stem_and_in_any_case_and_accent(index: Index) -> None:
    await index.put("log", "reviewer", "1", [entry("1", "She RUNS daily at the café"), entry("2", "Walking")])
    for words in ("running", "run", "Runs", "cafe", "CAFÉ", "daily walks"):
        assert "1" in await said(index, words)
    assert await said(index, "runner's swimming") == []


async def test_a_word_is_found_by_what_it_is_derived_from_and_the_other_way_round(index: Index) -> None:
    texts = ("Deploy strategy", "The deployment deploys", "enjoyment", "a re-deploy button")
    await index.put("log", "reviewer", "1", [entry(str(n), text, group=str(n)) for n, text in enumerate(texts)])
    for words in ("deployment", "deploy", "Deploying", "deploys deployment"):
        assert sorted(await said(index, words)) == ["0", "1", "3"]
    assert await said(index, "they enjoyed") == ["2"]
    assert await said(index, "re-deployment") == ["3"]
    changed = [entry(str(n), text.replace("Deploy ", "Ship "), group=str(n)) for n, text in enumerate(texts)]
    await index.put("log", "reviewer", "2", changed)
    assert sorted(await said(index, "deployment")) == ["1", "3"]


async def test_author_and_date_are_searched_too(index: Index) -> None:
    await index.put("log", "reviewer", "1", [entry("1", "Hello", author="Caroline Miller"), entry("2", "Hello")])
    assert await said(index, "miller") == ["1"]
    assert sorted(await said(index, "May")) == ["1", "2"]
    assert sorted(await said(index, "2023")) == ["1", "2"]


async def test_what_stands_around_an_entry_is_told_in_order_of_time_then_order(index: Index) -> None:
    later = WHEN + timedelta(seconds=1)
    texts = [("b", WHEN, 2), ("c", later, 0), ("a", WHEN, 1), ("d", later, 5)]
    await index.put("log", "reviewer", "1", [
        entry(name, f"word {name}", time=time, order=order, group="g", author=None if name == "b" else name.upper())
        for name, time, order in texts
    ])  # fmt: skip
    found = await index.keyword(["word"], EVERYTHING, 10)
    neighbours = await index.neighbours(found.keys)
    names = {key: one.id for key, one in (await index.entries(found.keys.tolist())).items()} | {0: None}
    told = {
        names[key]: (names[before], names[after])
        for key, before, after in zip(
            *(a.tolist() for a in (found.keys, neighbours.before, neighbours.after)), strict=True
        )
    }
    assert told == {"a": (None, "b"), "b": ("a", "c"), "c": ("b", "d"), "d": ("c", None)}
    authors = [None if number < 0 else neighbours.authors[number] for number in neighbours.author.tolist()]
    assert authors == [None if names[key] == "b" else str(names[key]).upper() for key in found.keys.tolist()]
    since = [datetime.fromtimestamp(time / 1e6, UTC) for time in neighbours.time.tolist()]
    assert since == [WHEN if names[key] in ("a", "b") else later for key in found.keys.tolist()]


ODD_WORDS = [
    '"', "'", "text:", "NEAR(", "*", "^one", "one*", "one AND", "OR", "-one", "one) OR (two", "{text about}: one",
    'one" OR "two', "one; DROP TABLE entries", "\0", "\ud800", "é" * 5000, "a-b" * 3000, "(", "+", "one + two", ":",
]  # fmt: skip


@each_case("words", ODD_WORDS)
async def test_any_text_is_only_words(index: Index, words: str) -> None:
    await index.put("log", "reviewer", "1", [entry("1", "nothing of that kind")])
    assert (await index.keyword([words], EVERYTHING, 10)).keys.tolist() == []
    assert (await index.keyword([words, "kind"], EVERYTHING, 10)).keys.size == 1


async def test_a_text_that_is_several_words_is_looked_for_as_they_stand_together(index: Index) -> None:
    texts = ("an e-mail came", "mail with an e", "E MAIL", "e and mail")
    await index.put("log", "reviewer", "1", [entry(str(n), text) for n, text in enumerate(texts)])
    assert sorted(await said(index, "e-mail")) == ["0", "2"]
    assert await said(index, "e-mail-mail") == []
    assert sorted(await said(index, "with-an came")) == ["0", "1"]


async def test_words_without_letters_or_digits_are_skipped(index: Index) -> None:
    await index.put("log", "reviewer", "1", [entry("1", "something !!! ?")])
    assert await said(index, "!!! ? …") == []
    assert (await index.keyword([], EVERYTHING, 10)).scores.tolist() == []
    assert await said(index, "!!! something") == ["1"]


async def test_rarer_words_and_shorter_texts_weigh_more(index: Index) -> None:
    texts = ["common"] * 20 + ["common rare", "rare and a good many other words beside it"]
    await index.put("log", "reviewer", "1", [entry(f"{n:02}", text) for n, text in enumerate(texts)])
    found = await index.keyword(["rare", "common"], EVERYTHING, 10)
    assert (await ids(index, found))[:2] == ["20", "21"]
    assert len(found.keys) == 10
    assert (np.diff(found.scores) <= 0).all()
    assert (found.scores > 0).all()


async def test_what_others_remember_changes_nothing_in_the_search_of_one(index: Index) -> None:
    own = talk("the red house", "the blue house", "a red car by the house")
    await index.put("log", "reviewer", "1", own)
    whose = EntryFilter(agent="reviewer"), EntryFilter(user="owner")
    found = [await index.keyword(["red", "house"], wanted, 10) for wanted in whose]
    others = [entry(f"x{n}", "red " * (n % 5) + "words " * n, agent="other", user="other", part="o") for n in range(60)]
    await index.put("o", "other", "1", others)
    for wanted, before in zip(whose, found, strict=True):
        after = await index.keyword(["red", "house"], wanted, 10)
        assert await ids(index, after) == await ids(index, before)
        assert after.scores.tolist() == before.scores.tolist()
        assert after.shares.tolist() == before.shares.tolist()


async def shares(index: Index, *words: str, wanted: EntryFilter = EVERYTHING) -> dict[str, float]:
    """Return the share of these words in each entry, by id."""
    found = await index.keyword(words, wanted, 100)
    return dict(zip(await ids(index, found), found.shares.tolist(), strict=True))


async def test_a_share_says_how_much_of_the_words_an_entry_has(index: Index) -> None:
    texts = ["alpha beta", "alpha beta", "alpha gamma", "delta epsilon", "delta zeta"]
    await index.put("log", "reviewer", "1", [entry(str(n), text) for n, text in enumerate(texts)])
    one, both = await shares(index, "gamma"), await shares(index, "alpha", "gamma")
    assert one == {"2": pytest.approx(1, abs=1e-6)}
    assert both["2"] == pytest.approx(1, abs=1e-6)
    # "gamma" is rarer, so "alpha" alone is less than half of the two.
    assert 0 < both["0"] == both["1"] < 0.5
    # A word that occurs nowhere has the highest weight.
    assert 0 < (await shares(index, "gamma", "nowhere"))["2"] < 0.5


@each_case("count", [1, 2, 3])
async def test_a_share_says_something_however_few_entries_there_are(index: Index, count: int) -> None:
    agent = f"agent{count}"
    entries = [entry(f"{agent} {n}", "the alpha house", agent=agent, part=agent) for n in range(count)]
    await index.put(agent, agent, "1", entries)
    whole = await shares(index, "alpha", "house", wanted=EntryFilter(agent=agent))
    half = await shares(index, "alpha", "nowhere", wanted=EntryFilter(agent=agent))
    assert list(whole.values()) == pytest.approx([1] * count, abs=1e-6)
    assert all(0.05 < share < 0.5 for share in half.values())


async def test_a_word_that_is_repeated_is_no_more_of_the_words(index: Index) -> None:
    await index.put("log", "reviewer", "1", [entry("1", "alpha " * 5), entry("2", "beta beta beta beta gamma")])
    assert (await shares(index, "alpha", "gamma"))["1"] < 0.6


FILTERS = {
    "agent": (EntryFilter(agent="other"), ["3"]),
    "project": (EntryFilter(project="p"), ["1", "2"]),
    "type": (EntryFilter(type="semantic"), ["2", "3"]),
    "user": (EntryFilter(user="bob"), ["1"]),
    "source": (EntryFilter(source="s"), ["1", "2"]),
    "another source": (EntryFilter(source="s2"), ["1"]),
    "one of the tags": (EntryFilter(tags_any=frozenset({"a", "c", "none"})), ["1", "2", "3"]),
    "all of the tags": (EntryFilter(tags_all=frozenset({"a", "b"})), ["1", "2"]),
    "both kinds of tags": (EntryFilter(tags_all=frozenset({"a"}), tags_any=frozenset({"c"})), ["2"]),
    "a tag that is not there": (EntryFilter(tags_any=frozenset({"none"})), []),
    "since": (EntryFilter(since=WHEN + timedelta(days=1)), ["1", "2", "3"]),
    "until": (EntryFilter(until=WHEN + timedelta(days=1)), ["0"]),
    "a range of time": (EntryFilter(since=WHEN + timedelta(days=1), until=WHEN + timedelta(days=3)), ["1", "2"]),
    "a subject": (EntryFilter(subject="s"), ["2"]),
    "no subject": (EntryFilter(subject=None), ["0", "1"]),
    "every subject": (EntryFilter(subject=ALL_SUBJECTS), ["0", "1", "2", "3"]),
    "changes of an entry": (EntryFilter(changes_of=frozenset({"0", "x"})), ["1", "3"]),
    "several": (EntryFilter(agent="reviewer", project="p", type="episodic"), ["1"]),
    "what contradicts itself": (EntryFilter(agent="other", user="bob"), []),
}


FILTERED = [
    entry("0", "word zero", author="A"),
    entry("1", "word one", author="B", project="p", user="bob", tags=("a", "b"), other_sources=("s", "s2"),
          replaces="x", time=WHEN + timedelta(days=1)),
    entry("2", "word two", author="C", project="p", type="semantic", source="s", tags=("a", "b", "c"), subject="s",
          time=WHEN + timedelta(days=2)),
    entry("3", "word three", author="D", agent="other", project="q", type="semantic", source="", tags=("c",),
          subject="t", retracts="x", part="other", time=WHEN + timedelta(days=3)),
]  # fmt: skip


async def test_a_filter_holds_for_words_vectors_and_authors(index: Index) -> None:
    await index.put("log", "reviewer", "1", FILTERED[:3])
    await index.put("other", "other", "1", FILTERED[3:])
    await index.use_model("m", DIMENSION)
    await embed(index)
    failures = Failures()
    for label, (wanted, expected) in FILTERS.items():
        with failures.case(label):
            assert [one.id for one in FILTERED if wanted.wants(one)] == expected
            assert sorted(await said(index, "word", wanted)) == expected
            assert sorted(await near(index, "word", wanted)) == expected
            assert await index.authors(wanted) == ["ABCD"[int(name)] for name in expected]
    failures.end()


CHAIN = {
    "lyon": entry("lyon", "word lyon"),
    "oslo": entry("oslo", "word oslo", replaces="lyon"),
    "rome": entry("rome", "word rome", replaces="oslo"),
}
CURRENT = EntryFilter(current=True)


async def current(index: Index, wanted: EntryFilter = CURRENT) -> list[str]:
    """Return the entries that are not hidden, which words, vectors and lists must agree about."""
    await embed(index)
    found = sorted(await said(index, "word", wanted))
    assert sorted(await near(index, "word", wanted)) == found
    assert sorted(await newest(index, wanted=wanted)) == found
    return found


@each_case("order", list(permutations(CHAIN)), "-".join)
async def test_only_the_newest_of_a_chain_is_current_whichever_is_put_first(
    index: Index, order: tuple[str, ...]
) -> None:
    await index.use_model("m", DIMENSION)
    agent = "".join(order)
    of_agent = EntryFilter(agent=agent, current=True)
    for name in order:
        one = CHAIN[name]
        replaced = one.replaces and f"{agent} {one.replaces}"
        part = f"{agent} {name}"
        await index.put(part, agent, "1", [replace(one, id=part, replaces=replaced, agent=agent, part=part)])
        await embed(index)
    assert await current(index, of_agent) == [f"{agent} rome"]
    assert len(await newest(index, wanted=EntryFilter(agent=agent))) == 3
    await index.drop([f"{agent} rome"])
    assert await current(index, of_agent) == [f"{agent} oslo"]
    await index.drop([f"{agent} oslo"])
    assert await current(index, of_agent) == [f"{agent} lyon"]


async def test_a_retraction_hides_both_and_gives_back_what_was_replaced(index: Index) -> None:
    await index.use_model("m", DIMENSION)
    await index.put("log", "reviewer", "1", [CHAIN["lyon"], CHAIN["oslo"]])
    assert await current(index) == ["oslo"]
    withdrawn = [entry("no", "word no", retracts="oslo", part="more")]
    await append(index, "more", "reviewer", None, "1", withdrawn)
    assert await current(index) == ["lyon"]
    await index.put("log", "reviewer", "2", list(CHAIN.values()))
    assert await current(index) == ["lyon", "rome"]
    await index.drop(["more"])
    assert await current(index) == ["rome"]


@each_case("other", [{"user": "eve"}, {"agent": "eve"}, {"subject": "eve"}])
async def test_what_another_user_agent_or_subject_says_hides_nothing(index: Index, other: dict[str, str]) -> None:
    await index.use_model("m", DIMENSION)
    entries = [
        CHAIN["lyon"],
        entry("1", "word", replaces="lyon", **other),
        entry("2", "other", retracts="lyon", **other),
    ]
    await index.put("log", "reviewer", "1", entries)
    assert await current(index) == ["1", "lyon"]
    await index.put("log", "reviewer", "2", [*entries[:2], replace(CHAIN["oslo"], id="2")])
    assert await current(index) == ["1", "2"]


async def test_as_many_are_found_as_are_wanted_however_many_are_hidden(index: Index) -> None:
    await index.use_model("m", DIMENSION)
    old = [entry(f"old{n}", "word", tags=("t",)) for n in range(50)]
    new = [entry(f"new{n}", f"word {n}", replaces=f"old{n}") for n in range(50)]
    await index.put("log", "reviewer", "1", [*old, *new])
    await embed(index)
    for found in (await said(index, "word", CURRENT, 10), await near(index, "word", CURRENT, 10)):
        assert len(found) == 10
        assert all(name.startswith("new") for name in found)
    assert await said(index, "word", EntryFilter(current=True, tags_any=frozenset("t"))) == []


async def test_an_entry_that_no_longer_replaces_another_hides_it_no_more(index: Index) -> None:
    await index.use_model("m", DIMENSION)
    await index.put("log", "reviewer", "1", [CHAIN["lyon"], CHAIN["oslo"]])
    assert await current(index) == ["oslo"]
    await index.put("log", "reviewer", "2", [CHAIN["lyon"], replace(CHAIN["oslo"], replaces=None)])
    assert await current(index) == ["lyon", "oslo"]


async def test_a_source_that_an_entry_gains_or_loses_is_found_or_not_from_then_on(index: Index) -> None:
    one = entry("1", "word", source="a")
    await index.use_model("m", DIMENSION)
    for revision, others in enumerate([(), ("b", "c"), ("c",), ("c", "d")]):
        await index.put("log", "reviewer", str(revision), [replace(one, other_sources=others)])
        await embed(index)
        for source in "abcd":
            expected = ["1"] if source in ("a", *others) else []
            assert await said(index, "word", EntryFilter(source=source)) == expected
            assert await near(index, "word", EntryFilter(source=source)) == expected
            assert [each.id for each in await index.newest(EntryFilter(source=source), 5)] == expected
    await index.drop(["log"])
    assert await said(index, "word", EntryFilter(source="d")) == []


async def test_the_nearest_are_exactly_those_with_the_highest_cosine(index: Index) -> None:
    texts = [f"text number {n}" for n in range(300)]
    await index.put("log", "reviewer", "1", [entry(f"{n}", text) for n, text in enumerate(texts)])
    await index.use_model("m", DIMENSION)
    long = [(one, 3 * vector(one.text)) for one in await index.pending(1000)]
    assert await index.embed(long) == 300
    query = vector("a question")
    cosines = np.stack([vector(text) for text in texts]).astype(float) @ query
    expected = np.argsort(-cosines)[:20]
    found = await index.nearest(5 * query, EVERYTHING, 20)
    assert await ids(index, found) == [str(n) for n in expected]
    assert found.scores == pytest.approx(cosines[expected], abs=1e-5)


async def test_entries_that_are_asked_for_besides_get_their_cosine_too(index: Index) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two", "three", "four"))
    await index.put("o", "other", "1", [entry("x", "five", agent="other", part="o")])
    await index.use_model("m", DIMENSION)
    waiting = [one for one in await index.pending(10) if one.id != "e3"]
    await index.embed(vectors(waiting))
    every = (await index.keyword(["May"], EVERYTHING, 10)).keys
    found = await index.nearest(vector("two"), EntryFilter(agent="reviewer"), 1, every)
    assert (await ids(index, found))[0] == "e1"
    assert sorted(await ids(index, found)) == ["e0", "e1", "e2"]
    texts = {"e0": "one", "e1": "two", "e2": "three"}
    cosines = [float(vector(texts[name]) @ vector("two")) for name in await ids(index, found)]
    assert found.scores.tolist() == pytest.approx(cosines, abs=1e-5)


async def test_it_is_told_which_entries_ask_something(index: Index) -> None:
    await index.put("log", "reviewer", "1", talk("Why is that? Say it.", "Because", "什么？"))
    found = await index.keyword(["May"], EVERYTHING, 10)
    asks = dict(zip(await ids(index, found), (await index.neighbours(found.keys)).asks.tolist(), strict=True))
    assert asks == {"e0": True, "e1": False, "e2": True}


async def test_a_limit_of_none_or_of_more_than_there_are_is_kept_to(index: Index) -> None:
    await index.put("log", "reviewer", "1", talk("one", "one two", "one three"))
    await index.use_model("m", DIMENSION)
    await embed(index)
    assert [len(await said(index, "one", limit=n)) for n in (0, 1, 2, 3, 50)] == [0, 1, 2, 3, 3]
    assert [len(await near(index, "one", limit=n)) for n in (0, 1, 2, 3, 50)] == [0, 1, 2, 3, 3]
    assert len(await index.pending(0)) == 0


async def test_entries_without_a_vector_are_found_by_words_and_wait_newest_first(index: Index) -> None:
    assert await index.pending(10) in ([], ())
    await index.put("log", "reviewer", "1", talk("one", "two", "three"))
    await index.use_model("m", DIMENSION)
    waiting = await index.pending(2)
    assert [(one.id, one.text) for one in waiting] == [("e2", "three"), ("e1", "two")]
    assert await index.embed(vectors(waiting)) == 2
    assert [one.id for one in await index.pending(10)] == ["e0"]
    assert sorted(await near(index, "one")) == ["e1", "e2"]
    assert "e0" in await said(index, "one")
    assert (await index.stats())[:4] == (3, 2, "m", DIMENSION)
    assert (await index.stats(EntryFilter(agent="nobody")))[:4] == (0, 0, None, None)
    assert (await index.stats(EntryFilter(user="owner")))[:2] == (3, 2)
    assert (await index.stats(EntryFilter(agent="reviewer", user="somebody else")))[:4] == (0, 0, None, None)


async def test_a_vector_for_what_is_gone_or_says_something_else_is_passed_over(index: Index) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two", "three"))
    await index.use_model("m", DIMENSION)
    waiting = await index.pending(10)
    await index.put("log", "reviewer", "2", talk("one", "zwei"))
    assert await index.embed(vectors(waiting)) == 1
    assert [one.text for one in await index.pending(10)] == ["zwei"]
    assert await near(index, "one") == ["e0"]
    assert await index.embed([(PendingEntry("never", "there", "was"), vector("was"))]) == 0


async def test_what_says_what_it_said_keeps_its_vector_and_what_does_not_loses_it(index: Index) -> None:
    await index.use_model("m", DIMENSION)
    await index.put("log", "reviewer", "1", talk("one", "two", "three"))
    await embed(index)
    one, two, _ = talk("one", "two", "three")
    await index.put("log", "reviewer", "2", [replace(one, line=9, tags=("new",)), replace(two, text="zwei", hash="z")])
    assert [waiting.id for waiting in await index.pending(10)] == ["e1"]
    assert await near(index, "one") == ["e0"]


async def test_another_model_makes_all_wait_again_while_words_are_found(index: Index) -> None:
    await index.use_model("small", DIMENSION)
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await embed(index)
    await index.use_model("small", DIMENSION)
    await index.use_model("small", None)
    assert await index.pending(10) == []
    await index.use_model("large", 3)
    assert len(await index.pending(10)) == 2
    assert (await index.stats())[:4] == (2, 0, None, None)
    assert (await index.nearest(vector("one", 3), EVERYTHING, 10)).keys.size == 0
    assert (await said(index, "one"))[0] == "e0"
    assert await index.embed(vectors(await index.pending(10), 3)) == 2
    assert (await index.stats())[:4] == (2, 2, "large", 3)


async def test_another_dimension_of_the_same_model_makes_all_wait_again(index: Index) -> None:
    await index.use_model("m", DIMENSION)
    await index.put("log", "reviewer", "1", talk("one"))
    await embed(index)
    await index.use_model("m", 4)
    assert len(await index.pending(10)) == 1


async def test_without_a_model_nothing_waits_and_what_is_there_stays(index: Index) -> None:
    await index.use_model("m", None)
    await index.put("log", "reviewer", "1", talk("one"))
    waiting = await index.pending(10)
    await index.use_model(None, None)
    assert len(await index.pending(10)) == 0
    assert await index.embed(vectors(waiting)) == 0
    await index.use_model("m", None)
    assert await embed(index) == 1
    await index.use_model(None, None)
    assert (await index.stats()).embedded == 1
    await index.use_model("m", None)
    assert await index.pending(10) == []


async def test_a_vector_of_another_dimension_or_without_numbers_is_refused(index: Index) -> None:
    shapes = np.ones(DIMENSION + 1), np.ones(0), np.ones((2, 4)), np.full(DIMENSION, np.nan), np.full(DIMENSION, np.inf)
    wrong = [shape.astype(np.float32) for shape in shapes]
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await index.use_model("m", DIMENSION)
    one, two = await index.pending(2)
    for each in wrong:
        with pytest.raises(EmbeddingMismatch):
            await index.embed([(one, vector(one.text)), (two, each)])
    assert len(await index.pending(10)) == 2
    assert await embed(index) == 2
    for each in wrong:
        with pytest.raises(EmbeddingMismatch):
            await index.nearest(each, EVERYTHING, 10)


async def test_the_first_vector_says_the_dimension_where_nobody_did(index: Index) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await index.use_model("m", None)
    one, two = await index.pending(2)
    assert await index.embed([(one, vector("one", 5))]) == 1
    with pytest.raises(EmbeddingMismatch, match="5"):
        await index.embed([(two, vector("two", 6))])
    assert (await index.stats()).dimension == 5


async def test_a_vector_of_zeros_is_near_to_nothing(index: Index) -> None:
    await index.put("log", "reviewer", "1", talk("one"))
    await index.use_model("m", DIMENSION)
    await index.embed([(one, 0 * vector("one")) for one in await index.pending(1)])
    found = await index.nearest(vector("one"), EVERYTHING, 10)
    assert found.scores.tolist() == [0]
    assert (await index.nearest(0 * vector("one"), EVERYTHING, 10)).scores.tolist() == [0]


async def test_token_bits_are_kept_with_the_entry(index: Index) -> None:
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    await index.put("log", "reviewer", "1", [*talk("one two", "two", "three"), entry("empty", "")])
    assert await embed_with_tokens(index) == 4
    assert await index.pending(10) == []
    assert await tokens(index, "e2", "e0", "empty", "e1") == [bits("three"), bits("one two"), b"", bits("two")]
    stats = await index.stats()
    assert (stats.entries, stats.embedded, stats.tokenized) == (4, 4, 4)
    assert (await index.stats(EntryFilter(agent="reviewer", user="somebody else"))).tokenized == 0


async def test_token_bits_are_given_in_the_order_of_the_keys_with_none_for_what_has_none(index: Index) -> None:
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await embed_with_tokens(index)
    await index.put("more", "reviewer", "1", [entry("x", "one", part="more")])
    await embed(index)
    found = await index.nearest(vector("one"), EVERYTHING, 10)
    keys = {one.id: key for key, one in (await index.entries(found.keys.tolist())).items()}
    asked = np.array([keys["e1"], 2**40, keys["x"], 0, keys["e0"], keys["e1"]], np.int64)
    assert list(await index.tokens(asked)) == [bits("two"), None, None, None, bits("one"), bits("two")]
    assert list(await index.tokens(np.zeros(0, np.int64))) == []


async def test_what_says_what_it_said_keeps_its_token_bits_and_what_does_not_loses_them(index: Index) -> None:
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    await index.put("log", "reviewer", "1", talk("one", "two", "three"))
    await embed_with_tokens(index)
    assert await tokens(index, "e0", "e1") == [bits("one"), bits("two")]
    one, two, _ = talk("one", "two", "three")
    await index.put("log", "reviewer", "2", [replace(one, line=9, tags=("new",)), replace(two, text="zwei", hash="z")])
    assert [waiting.id for waiting in await index.pending(10)] == ["e1"]
    assert (await index.stats())[1::4] == (1, 1)
    await embed(index)  # without bits
    assert await tokens(index, "e0", "e1") == [bits("one"), None]
    await embed_with_tokens(index)
    assert await tokens(index, "e0", "e1") == [bits("one"), bits("zwei")]


async def test_token_bits_of_what_is_gone_are_nobody_elses(index: Index) -> None:
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await embed_with_tokens(index)
    stale = (await index.nearest(vector("one"), EVERYTHING, 10)).keys
    assert list(await index.tokens(stale)) == [bits("one"), bits("two")]
    await index.drop(["log"])
    await index.put("other", "other", "1", [entry("x", "three", agent="other"), entry("y", "four", agent="other")])
    await embed(index)
    assert list(await index.tokens(stale)) == [None, None]
    assert await tokens(index, "x", "y") == [None, None]
    assert (await index.stats()).tokenized == 0
    await embed_with_tokens(index)
    assert list(await index.tokens(stale)) == [None, None]
    assert await tokens(index, "x", "y") == [bits("three"), bits("four")]


async def test_entries_without_token_bits_wait_after_those_without_a_vector_newest_first(index: Index) -> None:
    await index.use_model("m", DIMENSION)
    await index.put("log", "reviewer", "1", talk("one", "two", "three", "four"))
    await index.embed(vectors(await index.pending(2)))
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    assert [one.id for one in await index.pending(10)] == ["e1", "e0", "e3", "e2"]
    assert [one.id for one in await index.pending(3)] == ["e1", "e0", "e3"]
    assert await embed(index, 2) == 2
    assert [one.id for one in await index.pending(10)] == ["e3", "e2", "e1", "e0"]
    assert await embed_with_tokens(index, 3) == 3
    assert [(one.id, one.text) for one in await index.pending(10)] == [("e0", "one")]
    assert await tokens(index, "e0", "e1") == [None, bits("two")]
    assert (await index.stats())[:2] == (4, 4)
    assert (await index.stats()).tokenized == 3


async def test_another_version_of_token_bits_makes_all_wait_again_and_keeps_the_vectors(index: Index) -> None:
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await embed_with_tokens(index)
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    assert await index.pending(10) == []
    assert await tokens(index, "e0", "e1") == [bits("one"), bits("two")]
    await index.use_model("m", DIMENSION, "another")
    assert [one.id for one in await index.pending(10)] == ["e1", "e0"]
    assert (await index.stats())[:4] == (2, 2, "m", DIMENSION)
    assert (await index.stats()).tokenized == 0
    assert await tokens(index, "e0", "e1") == [None, None]
    assert await embed_with_tokens(index) == 2
    assert await tokens(index, "e0", "e1") == [bits("one"), bits("two")]


async def test_another_model_makes_all_token_bits_wait_again(index: Index) -> None:
    await index.use_model("small", DIMENSION, TOKEN_BITS)
    await index.put("log", "reviewer", "1", talk("one"))
    await embed_with_tokens(index)
    await index.use_model("large", DIMENSION, TOKEN_BITS)
    assert (await index.stats()).tokenized == 0
    assert await embed(index) == 1
    assert await tokens(index, "e0") == [None]
    assert [one.id for one in await index.pending(10)] == ["e0"]


async def test_where_no_token_bits_are_wanted_none_are_given_or_stored_and_those_there_stay(index: Index) -> None:
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    await index.put("log", "reviewer", "1", talk("one"))
    await embed_with_tokens(index)
    await index.use_model("m", DIMENSION)
    await index.put("more", "reviewer", "1", [entry("x", "two", part="more")])
    assert [one.id for one in await index.pending(10)] == ["x"]
    assert await embed_with_tokens(index) == 1
    assert await index.pending(10) == []
    assert await tokens(index, "e0", "x") == [None, None]
    await index.use_model(None, None, TOKEN_BITS)
    assert len(await index.pending(10)) == 0
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    assert await tokens(index, "e0", "x") == [bits("one"), None]
    assert [one.id for one in await index.pending(10)] == ["x"]


async def test_token_bits_for_what_is_gone_or_says_something_else_are_passed_over(index: Index) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two", "three"))
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    waiting = await index.pending(10)
    await index.put("log", "reviewer", "2", talk("one", "zwei"))
    assert await index.embed(vectors(waiting), [bits(one.text) for one in waiting]) == 1
    assert (await index.stats()).tokenized == 1
    assert await tokens(index, "e0") == [bits("one")]
    assert [one.text for one in await index.pending(10)] == ["zwei"]


async def test_where_a_vector_is_refused_no_token_bits_are_stored(index: Index) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    one, two = await index.pending(2)
    with pytest.raises(EmbeddingMismatch):
        await index.embed([(one, vector("one")), (two, vector("two", DIMENSION + 1))], [b"1", b"2"])
    assert (await index.stats()).tokenized == 0
    assert len(await index.pending(10)) == 2


async def test_an_index_that_was_cleared_has_no_token_bits(index: Index) -> None:
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    await index.put("log", "reviewer", "1", talk("one"))
    await embed_with_tokens(index)
    await index.clear()
    assert (await index.stats()).tokenized == 0
    await index.put("log", "reviewer", "1", talk("one"))
    assert await embed(index) == 1
    assert await tokens(index, "e0") == [None]


async def test_the_key_of_what_is_gone_is_nobody_elses(index: Index) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two", author="A"))
    stale = (await index.keyword(["May"], EVERYTHING, 10)).keys
    await index.put("log", "reviewer", "2", [])
    await index.put("secret", "other", "1", [entry(f"x{n}", "secret", agent="other", part="secret") for n in range(9)])
    assert await index.entries(stale.tolist()) == {}
    neighbours = await index.neighbours(stale)
    assert neighbours.before.tolist() == neighbours.after.tolist() == [0, 0]
    assert neighbours.author.tolist() == [-1, -1]


@pytest.mark.parametrize("row", ROWS, indirect=True)
async def test_all_of_it_is_there_again_when_it_is_opened_again(
    row: IndexRow, options: Options, tmp_path: Path, key: bytes | None
) -> None:
    first = await open_index(Variant(name=row.name), tmp_path / "memory.db", options, key=key)
    await first.use_model("m", None)
    await first.put("log", "reviewer", "1", talk("one", "two", "three", author="A", tags=("t",)))
    await first.put("log", "reviewer", "2", [*talk("one", author="A", tags=("t",)), *talk("three", "four", start=2)])
    await first.embed(vectors(await first.pending(2)))
    words, close = await first.keyword(["three"], EVERYTHING, 10), await first.nearest(vector("x"), EVERYTHING, 10)
    expected = [await ids(first, words), words.scores.tolist(), await ids(first, close), close.scores.tolist()]
    stats = await first.stats()
    await first.close()
    second = await open_index(Variant(name=row.name), tmp_path / "memory.db", options, key=key)
    try:
        await second.use_model("m", None)
        words, close = await second.keyword(["three"], EVERYTHING, 10), await second.nearest(vector("x"), EVERYTHING, 9)
        assert [
            await ids(second, words),
            words.scores.tolist(),
            await ids(second, close),
            close.scores.tolist(),
        ] == expected
        assert await second.parts() == {"log": "2"}
        assert [one.id for one in await second.pending(10)] == ["e0"]
        assert await second.authors(EVERYTHING) == ["A"]
        assert (await second.stats())[:4] == stats[:4]
        assert await said(second, "one", EntryFilter(tags_all=frozenset({"t"}))) == ["e0"]
    finally:
        await second.close()


@pytest.mark.parametrize("row", ROWS, indirect=True)
async def test_token_bits_are_there_again_when_it_is_opened_again(
    row: IndexRow, options: Options, tmp_path: Path, key: bytes | None
) -> None:
    first = await open_index(Variant(name=row.name), tmp_path / "memory.db", options, key=key)
    await first.use_model("m", DIMENSION, TOKEN_BITS)
    await first.put("log", "reviewer", "1", [*talk("one", "two", "three"), entry("empty", "")])
    await embed_with_tokens(first)
    await first.put("log", "reviewer", "2", [*talk("one", "zwei"), entry("empty", "")])
    await first.close()
    second = await open_index(Variant(name=row.name), tmp_path / "memory.db", options, key=key)
    try:
        await second.use_model("m", DIMENSION, TOKEN_BITS)
        assert (await second.stats()).tokenized == 2
        assert [one.id for one in await second.pending(10)] == ["e1"]
        assert await tokens(second, "empty", "e0") == [b"", bits("one")]
        await embed_with_tokens(second)
        assert await tokens(second, "e1") == [bits("zwei")]
    finally:
        await second.close()


async def test_without_a_file_nothing_is_left_on_disk(
    row: IndexRow, options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    index = await open_index(Variant(name=row.name), None, options)
    await index.use_model("m", None)
    await index.put("log", "reviewer", "1", talk("one", "two"))
    assert await embed(index) == 2
    assert (await said(index, "two"))[0] == "e1"
    assert isinstance(await index.stats(), IndexStats)
    await index.close()
    assert list(tmp_path.iterdir()) == []


async def test_searches_and_writes_at_once_see_one_state_each(index: Index) -> None:
    """Every state has `n` entries with the text `n`; a search never finds a mixture of two states."""
    states = [[entry(f"{n}-{i}", f"word number{n}", rest=str(n)) for i in range(n)] for n in range(1, 10)]

    async def write() -> None:
        for n, state in enumerate(states):
            await index.put("log", "reviewer", str(n), state)

    async def search() -> None:
        while len(await index.parts()) == 0 or (await index.parts())["log"] != "8":
            found = await index.keyword(["word"], EVERYTHING, 100)
            entries = await index.entries(found.keys.tolist())
            assert not entries or len({one.rest for one in entries.values()}) == 1
            if len(entries) == len(found.keys) and entries:
                assert len(found.keys) == int(next(iter(entries.values())).rest)

    await asyncio.gather(write(), search(), search())


async def test_a_closed_index_says_so(index: Index) -> None:
    await index.close()
    await index.close()
    with pytest.raises(IndexFailed, match="closed"):
        await index.parts()


async def test_a_text_that_is_no_unicode_is_refused_and_nothing_is_half_written(index: Index) -> None:
    await index.put("log", "reviewer", "1", talk("one"))
    with pytest.raises(IndexFailed):
        await index.put("log", "reviewer", "2", [*talk("zwei"), entry("bad", "\ud800")])
    assert await index.parts() == {"log": "1"}
    assert await said(index, "one zwei") == ["e0"]


async def newest(index: Index, limit: int = 100, wanted: EntryFilter = EVERYTHING, **given: Any) -> list[str]:
    return [one.id for one in await index.newest(wanted, limit, **given)]


async def test_the_newest_entries_come_newest_first_and_whole(index: Index) -> None:
    old = datetime(1901, 2, 3, tzinfo=UTC)
    entries = [
        *talk("one", "two", "three", tags=("a",), author="ada"),
        entry("x", "long ago", time=old, line=3, rest="{}"),
    ]
    await index.put("log", "reviewer", "1", entries)
    assert await newest(index) == ["e2", "e1", "e0", "x"]
    assert await newest(index, 2) == ["e2", "e1"]
    assert list(await index.newest(EVERYTHING, 9)) == [entries[2], entries[1], entries[0], entries[3]]


async def test_every_page_of_the_newest_goes_on_where_the_last_ended(index: Index) -> None:
    # Seven of one time, ordered only by their ids, between an older and a newer one.
    alike = [entry(name, f"text {name}", time=WHEN) for name in ("c", "A", "é", "b", "Z", "a-1", "a1")]
    others = [
        entry("m", "new", time=WHEN + timedelta(microseconds=1)),
        entry("z", "old", time=WHEN - timedelta(days=1)),
    ]
    await index.put("log", "reviewer", "1", [*alike, *others])
    order = ["m", *sorted((one.id for one in alike), reverse=True), "z"]
    for size in (1, 2, 3, 20):
        found: list[str] = []
        before = None
        while page := await index.newest(EVERYTHING, size, before):
            found += [one.id for one in page]
            before = page[-1].time, page[-1].id
        assert found == order


async def test_the_newest_are_those_that_are_wanted(index: Index) -> None:
    of_ada = entry(
        "f", "fact", user="ada", type="semantic", tags=("a", "b"), part="log", time=WHEN + timedelta(hours=1)
    )
    of_bob = entry("b", "by bob", user="bob", agent="other", tags=("b",), part="else", time=WHEN + timedelta(hours=2))
    await index.put("log", "reviewer", "1", [*talk("one", "two", tags=("a",)), of_ada])
    await index.put("else", "other", "1", [of_bob])
    assert await newest(index, wanted=EntryFilter(agent="reviewer")) == ["f", "e1", "e0"]
    assert await newest(index, wanted=EntryFilter(user="ada")) == ["f"]
    assert await newest(index, wanted=EntryFilter(type="episodic"), limit=2) == ["b", "e1"]
    assert await newest(index, wanted=EntryFilter(tags_any=frozenset("ab"))) == ["b", "f", "e1", "e0"]
    assert await newest(index, wanted=EntryFilter(tags_all=frozenset("ab"))) == ["f"]
    assert await newest(index, wanted=EntryFilter(tags_all=frozenset({"none"}))) == []
    assert await newest(index, wanted=EntryFilter(since=WHEN + timedelta(hours=1), until=of_bob.time)) == ["f"]
    await index.drop(["else"])
    assert await newest(index, 1) == ["f"]


async def test_the_newest_may_be_those_whose_id_begins_so(index: Index) -> None:
    first, second = "5f3c1f0e-7c7b-4a55-9a3e-0d6a5f0f7a11", "5f3c1f0e-7c7b-4a55-9a3e-0d6a5f0f7a12"
    await index.put(
        "log", "reviewer", "1", [entry(first, "one"), entry(second, "two"), entry("5F3C", "%"), entry("x", "")]
    )
    assert await newest(index, begins="5f3c") == [second, first]
    assert await newest(index, begins="5f3c", wanted=EntryFilter(user="ada")) == []
    assert await newest(index, begins=first) == [first]
    assert await newest(index, begins=first[:-1] + "0") == []
    for nothing in ("5f_c", "%", "3c1f"):
        assert await newest(index, begins=nothing) == []
