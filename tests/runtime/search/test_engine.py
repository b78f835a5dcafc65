"""The engine on a real index, with vectors from the meanings that this file assigns to words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray

from runtime.errors import UsageError
from runtime.models.calls.call import BACKGROUND, CallOwner
from runtime.search import fusion
from runtime.search.embedding.embedder import EmbeddedQuestion, Embedder
from runtime.search.engine import SearchAnswer, search
from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.errors import EmbeddingMismatch, EmbeddingUnavailable, IndexFailed
from runtime.search.index import open_index
from runtime.search.index.index import Index
from runtime.search.question import Question
from tests.runtime.search.word_tokens import WordTokens, embed_all

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
HARBOUR_DAY = datetime(2026, 9, 2, 9, tzinfo=UTC)

SAID: list[tuple[str, str, str, int]] = [
    ("a1", "Ada", "Morning! What did you buy at the harbour?", 0),
    ("b1", "Ben", "A little vessel with a red sail, cheap too.", 0),
    ("a2", "Ada", "Lovely. I have planted the tomatoes behind the shed.", 0),
    ("b2", "Ben", "My oven is broken, so there is no bread.", 0),
    ("a3", "Ada", "I painted my boat green last night.", 40),
    ("b3", "Ben", "I painted my boat blue, with white letters.", 40),
    ("a4", "Ada", "The dentist took out a tooth.", 40),
    ("b4", "Ben", "We should bake a cake.", 40),
]
"""The author, text and day (after the first) of each message."""

MEANINGS = [
    {"boat", "vessel", "sail", "ship", "harbour"},
    {"bread", "oven", "bake", "cake", "loaf"},
    {"tomatoes", "planted", "garden", "vegetables"},
    {"dentist", "tooth", "teeth"},
    {"painted", "green", "blue", "red", "colour"},
]


class Concepts(Embedder):
    """An embedder that knows a few meanings and records its requests."""

    name, model = "concepts", "concepts-1"

    def __init__(self, error: Exception | None = None, size: int = len(MEANINGS)) -> None:
        self.error = error
        self.size = size
        self.asked: list[str] = []

    @property
    def dimension(self) -> int:
        return self.size

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        await asyncio.sleep(0)
        self.asked.extend(texts)
        if self.error is not None:
            raise self.error
        rows = np.full((len(texts), self.size), 0.01, np.float32)
        for row, text in zip(rows, texts, strict=True):
            words = set(text.lower().replace("?", "").replace(".", "").replace(",", "").split())
            for at, meaning in enumerate(MEANINGS[: self.size]):
                row[at] += len(words & meaning)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows


class Tokens(WordTokens, Concepts):
    """The same vectors, and a token for each word."""

    def __init__(self) -> None:
        super().__init__(size=64)


def entry(number: int, id_: str, author: str | None, text: str, day: int, **more: Any) -> IndexEntry:
    time = HARBOUR_DAY + timedelta(days=day, minutes=number)
    fields: dict[str, Any] = {
        "id": id_,
        "agent": "keeper",
        "user": "owner",
        "project": None,
        "type": "episodic",
        "time": time,
        "source": None,
        "tags": (),
        "text": text,
        "hash": id_,
        "author": author,
        "group": f"keeper/{day}",
        "order": number,
        "part": "log",
    }
    return IndexEntry(**(fields | more))


@pytest_asyncio.fixture
async def index() -> AsyncIterator[Index]:
    """An index of the dialogue, with vectors."""
    opened = await open_index(None, None, {})
    await opened.put("log", "keeper", "1", [entry(number, *said) for number, said in enumerate(SAID)])
    await embed_all(opened, Concepts())
    yield opened
    await opened.close()


def question(text: str, **more: Any) -> Question:
    fields: dict[str, Any] = {"text": text, "now": NOW}
    return Question(**(fields | more))


def ids(answer: SearchAnswer) -> list[str]:
    return [hit.entry.id for hit in answer.hits]


async def test_what_is_meant_is_found_in_other_words(index: Index) -> None:
    assert ids(await search(index, Concepts(), question("vegetables")))[0] == "a2"


async def test_what_is_said_is_found_by_its_words(index: Index) -> None:
    assert ids(await search(index, None, question("broken")))[0] == "b2"


async def test_the_best_comes_first_and_no_more_than_were_asked_for(index: Index) -> None:
    answer = await search(index, Concepts(), question("painted boat", limit=3))
    scores = [hit.score for hit in answer.hits]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)


async def test_more_can_be_asked_for_than_there_is(index: Index) -> None:
    answer = await search(index, Concepts(), question("boat", limit=5000))
    assert sorted(ids(answer)) == sorted(id_ for id_, *_ in SAID)


async def test_the_parts_of_a_score_add_up_to_it(index: Index) -> None:
    answer = await search(index, Concepts(), question("What did Ada say of the boat in October 2026?"))
    assert {part for hit in answer.hits for part in hit.parts} == {"vector", "keyword", "neighbours", "author", "date"}
    for hit in answer.hits:
        assert sum(hit.parts.values()) == pytest.approx(hit.score, abs=1e-5)
        assert all(hit.parts.values())


async def test_each_hit_tells_how_well_it_fits_by_itself(index: Index) -> None:
    asked = question("What did Ada say of the boat in October 2026?")
    (vector,) = await Concepts().embed(["What did say of the boat in October 2026?"])
    for hit in (await search(index, Concepts(), asked)).hits:
        (own,) = await Concepts().embed([hit.entry.text])
        assert hit.cosine == pytest.approx(float(own @ vector), abs=1e-5)
        assert 0 <= hit.keyword_share <= 1
        assert hit.relevance == pytest.approx(1 - (1 - max(hit.cosine or 0, 0)) * (1 - hit.keyword_share), abs=1e-5)


async def test_relevance_does_not_depend_on_what_else_is_found(index: Index) -> None:
    alone = question("painted boat", wanted=EntryFilter(since=HARBOUR_DAY + timedelta(days=1)))
    every = {hit.entry.id: hit for hit in (await search(index, Concepts(), question("painted boat", limit=99))).hits}
    for hit in (await search(index, Concepts(), alone)).hits:
        assert hit.relevance == every[hit.entry.id].relevance
        assert hit.cosine == every[hit.entry.id].cosine


@pytest.mark.parametrize("embedder", [Concepts(), None], ids=["vectors", "words"])
async def test_only_what_is_as_relevant_as_the_threshold_is_found(index: Index, embedder: Concepts | None) -> None:
    every = (await search(index, embedder, question("painted boat", limit=99))).hits
    least = sorted(hit.relevance for hit in every)[len(every) // 2]
    answer = await search(index, embedder, question("painted boat", limit=99, threshold=least))
    assert answer.hits == tuple(hit for hit in every if hit.relevance >= least)
    assert len(answer.hits) < len(every)
    assert any("below the threshold" in note for note in answer.notes)
    best = max(hit.relevance for hit in every)
    # The limit applies after the filter, and what is beyond the limit is not omitted because of the threshold.
    answer = await search(index, embedder, question("painted boat", limit=1, threshold=best))
    assert answer.hits[0].relevance == best
    assert not any("below the threshold" in note for note in answer.notes)


async def test_a_threshold_that_every_hit_passes_omits_none(index: Index) -> None:
    answer = await search(index, Concepts(), question("painted boat", limit=99, threshold=0.0001))
    assert (len(answer.hits), answer.notes) == (len(SAID), ())


async def test_what_has_nothing_in_common_with_a_question_is_no_hit() -> None:
    index = await open_index(None, None, {})
    await index.use_model(Concepts.model, 2)
    vectors = {"like": (1.0, 0.0), "beside": (-1.0, 0.0), "other": (-0.6, 0.8)}
    said = [entry(at, name, None, name, 0, group="" if name == "other" else "talk") for at, name in enumerate(vectors)]
    await index.put("log", "keeper", "1", said)
    waiting = await index.pending(10)
    await index.embed([(each, np.array(vectors[each.text], np.float32)) for each in waiting])
    hits = {hit.entry.id: hit for hit in (await search(index, Concepts(size=2), question("vessel"))).hits}
    # One of them has nothing in common with the question either, but is next to the answer.
    assert list(hits) == ["like", "beside"]
    assert hits["beside"].relevance == 0 < hits["beside"].parts["neighbours"]
    await index.close()


async def test_a_hit_without_a_vector_is_as_relevant_as_its_words(index: Index) -> None:
    (hit,) = (await search(index, None, question("broken"))).hits[:1]
    assert hit.cosine is None
    assert hit.relevance == hit.keyword_share > 0.5


async def test_numbers_are_told_without_the_noise_of_float32(index: Index) -> None:
    for hit in (await search(index, Concepts(), question("green boat"))).hits:
        for number in (hit.score, hit.relevance, hit.cosine or 0.0, hit.keyword_share, *hit.parts.values()):
            assert number == round(number, 6)


@pytest.mark.parametrize("threshold", [-0.1, 1.01, float("nan"), float("inf")])
def test_a_threshold_that_no_relevance_can_have_is_refused(threshold: float) -> None:
    with pytest.raises(UsageError, match="threshold"):
        question("boat", threshold=threshold)


async def test_weights_say_how_much_each_side_can_add(index: Index) -> None:
    answer = await search(index, Concepts(), question("green boat", vector_weight=0.7, keyword_weight=0.3))
    assert max(hit.parts.get("vector", 0) for hit in answer.hits) == pytest.approx(0.7)
    assert max(hit.parts.get("keyword", 0) for hit in answer.hits) == pytest.approx(0.3)


async def test_without_weight_for_vectors_only_words_count(index: Index) -> None:
    embedder = Concepts()
    answer = await search(index, embedder, question("vegetables shed", vector_weight=0, keyword_weight=1))
    assert ids(answer)[0] == "a2"
    assert not embedder.asked
    assert not any("vector" in hit.parts for hit in answer.hits)
    assert answer.notes == ()


async def test_without_weight_for_keywords_only_meaning_counts(index: Index) -> None:
    answer = await search(index, Concepts(), question("loaf painted", vector_weight=1, keyword_weight=0))
    assert not any("keyword" in hit.parts for hit in answer.hits)
    assert {hit.parts["vector"] for hit in answer.hits[:1]} == {1.0}


async def test_who_is_named_comes_first(index: Index) -> None:
    for name, first in (("Ada", "a3"), ("Ben", "b3")):
        answer = await search(index, Concepts(), question(f"What did {name}'s boat look like, painted?"))
        assert answer.hits[0].entry.id == first
        assert answer.hits[0].parts["author"] == pytest.approx(fusion.AUTHOR)
        assert not any("author" in hit.parts for hit in answer.hits if hit.entry.author != name)


async def test_names_are_not_embedded(index: Index) -> None:
    embedder = Concepts()
    await search(index, embedder, question("What did Ada paint?"))
    assert embedder.asked == ["What did paint?"]


async def test_a_question_is_embedded_for_whom_it_is_searched(index: Index) -> None:
    class Billed(Concepts):
        async def embed_question(self, text: str, *, owner: CallOwner = BACKGROUND) -> NDArray[np.float32]:
            self.owner = owner
            return await super().embed_question(text, owner=owner)

    embedder, owner = Billed(), CallOwner("bob", "keeper")
    await search(index, embedder, question("boat"), owner=owner)
    assert embedder.owner == owner


async def test_where_two_are_named_neither_is_preferred(index: Index) -> None:
    answer = await search(index, Concepts(), question("Did Ada and Ben paint a boat?"))
    assert not any("author" in hit.parts for hit in answer.hits)


async def test_authors_of_what_is_not_wanted_are_no_names(index: Index) -> None:
    other = entry(0, "c1", "Painted", "Nothing.", 0, agent="other", group="other/0", part="other")
    await index.put("other", "other", "1", [other])
    answer = await search(index, None, question("painted", wanted=EntryFilter(agent="keeper")))
    assert set(ids(answer)[:2]) == {"a3", "b3"}


async def test_authors_of_another_subject_are_no_names(index: Index) -> None:
    others = [entry(at, f"c{at}", author, "A tent.", 0, subject=author) for at, author in enumerate(("Boat", "Shed"))]
    await index.put("other", "keeper", "1", others)
    (hit,) = (await search(index, None, question("boat and shed tent", wanted=EntryFilter(subject="Boat")))).hits
    # With both of them as names neither would be preferred.
    assert hit.parts["author"] == pytest.approx(fusion.AUTHOR)


async def test_a_question_without_a_letter_or_digit_finds_nothing_and_says_why(index: Index) -> None:
    embedder = Concepts()
    answer = await search(index, embedder, question("?!"))
    assert answer.hits == ()
    assert "neither letters nor digits" in answer.notes[0]
    assert not embedder.asked


async def test_what_answers_a_question_is_found_by_it(index: Index) -> None:
    answer = await search(index, None, question("buy harbour"))
    assert ids(answer)[:2] == ["a1", "b1"]
    reply = answer.hits[1]
    assert reply.parts["neighbours"] == pytest.approx(fusion.ANSWER * answer.hits[0].parts["keyword"], rel=0.3)


async def test_neighbours_of_another_conversation_are_none(index: Index) -> None:
    answer = await search(index, None, question("oven bread"))
    assert "a3" not in ids(answer), "the next conversation"
    assert "a2" in ids(answer), "beside it"


async def test_a_time_that_is_asked_about_is_preferred_and_nothing_left_out(index: Index) -> None:
    for text, first in (("boat in September 2026", "b1"), ("boat in October 2026", "a3")):
        answer = await search(index, Concepts(), question(text, vector_weight=1, keyword_weight=0))
        dates = {hit.entry.id: hit.parts["date"] for hit in answer.hits if "date" in hit.parts}
        assert max(dates, key=dates.__getitem__)[1] in {"1", "2", "3", "4"}
        assert dates[first] == pytest.approx(fusion.DATE)
        assert len(answer.hits) == len(SAID)


async def test_the_same_question_finds_what_is_nearer_to_its_time(index: Index) -> None:
    await index.put(
        "notes",
        "keeper",
        "1",
        [
            entry(0, "old", None, "Rent was paid.", -400, group="", part="notes"),
            entry(0, "new", None, "Rent was paid.", 74, group="", part="notes"),
        ],
    )
    assert ids(await search(index, None, question("rent paid last week")))[0] == "new"
    assert ids(await search(index, None, question("rent paid in July 2025")))[0] == "old"


async def test_only_what_is_wanted_is_found(index: Index) -> None:
    since = HARBOUR_DAY + timedelta(days=10)
    answer = await search(index, Concepts(), question("boat", wanted=EntryFilter(since=since)))
    assert {hit.entry.id for hit in answer.hits} == {"a3", "b3", "a4", "b4"}
    assert (await search(index, Concepts(), question("boat", wanted=EntryFilter(agent="nobody")))).hits == ()


async def test_an_empty_index_answers_nothing() -> None:
    empty = await open_index(None, None, {})
    assert await search(empty, None, question("boat", vector_weight=0)) == SearchAnswer((), ())
    assert (await search(empty, Concepts(), question("boat"))).hits == ()
    await empty.close()


async def test_without_an_embedding_words_find_and_a_note_says_so(index: Index) -> None:
    answer = await search(index, None, question("green boat"))
    assert ids(answer)[0] == "a3"
    assert answer.hits[0].parts["keyword"] == pytest.approx(1)
    assert answer.notes == ("searched by keyword only: there is no embedding",)


async def test_why_there_is_no_embedding_is_said(index: Index) -> None:
    answer = await search(index, None, question("boat"), without="its model changed")
    assert answer.notes == ("searched by keyword only: its model changed",)


@pytest.mark.parametrize(
    "error", [EmbeddingUnavailable("ollama does not answer"), EmbeddingMismatch("4 numbers, not 5")]
)
@pytest.mark.parametrize("weights", [(0.7, 0.3), (1, 0)])
async def test_an_embedding_that_fails_fails_no_search(
    index: Index, error: Exception, weights: tuple[float, float]
) -> None:
    asked = question("green boat", vector_weight=weights[0], keyword_weight=weights[1])
    answer = await search(index, Concepts(error), asked)
    assert ids(answer)[0] == "a3"
    assert answer.hits[0].parts["keyword"] == pytest.approx(1)
    assert answer.notes == (f"searched by keyword only: {error}",)


@pytest.mark.parametrize("weights", [(0.7, 0.3), (1, 0)])
async def test_vectors_of_another_dimension_fail_no_search(index: Index, weights: tuple[float, float]) -> None:
    asked = question("green boat", vector_weight=weights[0], keyword_weight=weights[1])
    answer = await search(index, Concepts(size=3), asked)
    assert ids(answer)[0] == "a3"
    assert answer.hits[0].parts["keyword"] == pytest.approx(1)
    (note,) = answer.notes
    assert note.startswith("searched by keyword only: ")


async def test_what_has_no_vector_yet_is_found_by_words_and_counted(index: Index) -> None:
    new = [entry(90 + number, id_, "Ada", f"A kite, {id_}.", 60, part="new") for number, id_ in enumerate(("k1", "k2"))]
    await index.put("new", "keeper", "1", new)
    answer = await search(index, Concepts(), question("kite"))
    assert set(ids(answer)[:2]) == {"k1", "k2"}
    assert answer.hits[0].parts["keyword"] == pytest.approx(1), "the words count for the meaning too"
    assert answer.notes == ("2 of 10 items have no vector yet and can be found by keyword only",)


async def test_an_index_without_vectors_is_searched_by_words() -> None:
    bare = await open_index(None, None, {})
    await bare.put("log", "keeper", "1", [entry(number, *said) for number, said in enumerate(SAID[:1])])
    for weights in ((0.7, 0.3), (1.0, 0.0)):
        asked = question("harbour", vector_weight=weights[0], keyword_weight=weights[1])
        answer = await search(bare, Concepts(), asked)
        assert ids(answer) == ["a1"]
        assert answer.hits[0].parts["keyword"] == pytest.approx(1)
        assert answer.notes == ("1 of 1 items has no vector yet and can be found by keyword only",)
    await bare.close()


async def test_nothing_but_stop_words_is_looked_for_and_said(index: Index) -> None:
    answer = await search(index, None, question("with there so"))
    assert set(ids(answer)) >= {"b1", "b2"}
    assert "the question has only stop words, so they were searched for" in answer.notes


async def test_only_the_beginning_of_a_very_long_question_is_read(index: Index) -> None:
    embedder = Concepts()
    answer = await search(index, embedder, question("green boat " + "x" * 5_000_000))
    assert ids(answer)[0] == "a3"
    assert len(embedder.asked[0]) <= 2000
    assert answer.notes == ("only the first 2000 characters of the question were read",)


async def test_an_index_that_fails_is_said_to() -> None:
    closed = await open_index(None, None, {})
    await closed.close()
    with pytest.raises(IndexFailed):
        await search(closed, Concepts(), question("boat"))


async def test_what_goes_while_it_is_searched_for_is_left_out(index: Index) -> None:
    class Going(Concepts):
        async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            vectors = await super().embed(texts)
            await index.drop(["log"])
            return vectors

    assert (await search(index, Going(), question("boat"))).hits == ()


async def test_searches_beside_each_other_answer_as_alone(index: Index) -> None:
    texts = ["green boat", "vegetables", "What did Ben bake?", "teeth", "cheap vessel"]
    alone = [await search(index, Concepts(), question(text)) for text in texts]
    beside = await asyncio.gather(*(search(index, Concepts(), question(text)) for text in texts))
    assert list(beside) == alone


async def test_candidates_beyond_the_bound_are_weighed_by_their_true_cosine(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = await search(index, Concepts(), question("painted green oven boat", limit=2))
    monkeypatch.setattr("runtime.search.engine.CANDIDATES", 2)
    narrow = await search(index, Concepts(), question("painted green oven boat", limit=2))
    assert ids(narrow) == ids(wide)
    assert [hit.parts["vector"] for hit in narrow.hits] == pytest.approx([hit.parts["vector"] for hit in wide.hits])


async def test_what_only_its_words_found_has_its_cosine_too(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.search.engine.CANDIDATES", 1)
    asked = question("vegetables broken", limit=1, vector_weight=0.1, keyword_weight=0.9)
    (hit,) = (await search(index, Concepts(), asked)).hits
    assert hit.entry.id == "b2"
    assert hit.cosine is not None
    assert hit.parts["keyword"] == pytest.approx(0.9)


async def test_a_question_that_asks_nothing_never_reaches_the_engine() -> None:
    with pytest.raises(UsageError):
        question(" ")


@pytest_asyncio.fixture
async def boats() -> AsyncIterator[Index]:
    """An index with token bits, of texts with the same vector: two are alone, the third is beside another."""
    opened = await open_index(None, None, {})
    said = [
        ("pier", "A ship at the pier.", "", 0),
        ("alone", "A ship.", "", 1),
        ("beside", "A ship.", "talk", 2),
        ("next", "By that ship, a pier.", "talk", 3),
    ]
    await opened.put(
        "log", "keeper", "1", [entry(at, id_, None, text, 0, group=group) for id_, text, group, at in said]
    )
    await embed_all(opened, Tokens())
    yield opened
    await opened.close()


def by_meaning(text: str, **more: Any) -> Question:
    return question(text, vector_weight=1, keyword_weight=0, **more)


def vector_parts(answer: SearchAnswer) -> dict[str, float]:
    return {hit.entry.id: hit.parts.get("vector", 0.0) for hit in answer.hits}


async def test_texts_that_are_equally_near_are_told_apart_by_their_tokens(boats: Index) -> None:
    asked = by_meaning("ship pier")
    assert vector_parts(await search(boats, Concepts(size=64), asked)) == dict.fromkeys(
        ("pier", "alone", "beside", "next"), 1.0
    )
    compared = vector_parts(await search(boats, Tokens(), asked))
    assert compared["pier"] == 1 > compared["beside"] > compared["alone"] > 1 - fusion.TOKENS


async def test_a_token_beside_a_text_counts_less_than_one_in_it(boats: Index) -> None:
    compared = vector_parts(await search(boats, Tokens(), by_meaning("ship pier")))
    # All have the same cosine and one of two tokens; the other one counts for less than where it is in the text.
    assert compared["beside"] == pytest.approx(1 - fusion.TOKENS * (1 - fusion.NEIGHBOUR_TOKENS) / 2, abs=1e-5)


async def test_a_text_that_is_beside_no_candidate_has_no_tokens_of_others(boats: Index) -> None:
    asked = by_meaning("vessel pier", wanted=EntryFilter(until=HARBOUR_DAY + timedelta(minutes=3)))
    compared = vector_parts(await search(boats, Tokens(), asked))
    assert compared["beside"] == compared["alone"]


async def test_token_by_token_a_word_counts_more_than_a_stop_word(boats: Index) -> None:
    await boats.put("more", "keeper", "1", [entry(9, "shed", None, "Shed ship.", 0, group="", part="more")])
    await embed_all(boats, Tokens())
    for weights in ((1, 0), (0.9, 0.1)):
        asked = question("by shed", vector_weight=weights[0], keyword_weight=weights[1])
        compared = vector_parts(await search(boats, Tokens(), asked))
        assert compared["shed"] == max(compared.values()) > compared["next"]


@pytest.mark.parametrize("whose", ["keeper", "other"])
async def test_until_all_texts_of_the_asked_have_tokens_they_are_compared_by_cosine(boats: Index, whose: str) -> None:
    await boats.put("new", whose, "1", [entry(9, "new", None, "By a ship.", 0, agent=whose, group="", part="new")])
    waiting = await boats.pending(9)
    vectors = await Tokens().embed([each.text for each in waiting])
    await boats.embed(list(zip(waiting, vectors, strict=True)))
    asked = question("vessel pier", wanted=EntryFilter(agent="keeper"))
    by_cosine = await search(boats, Concepts(size=64), asked)
    assert (await search(boats, Tokens(), asked) == by_cosine) is (whose == "keeper")
    await embed_all(boats, Tokens())
    assert await search(boats, Tokens(), asked) != by_cosine


async def test_a_text_without_tokens_that_is_not_compared_stops_comparisons_too(
    boats: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    await boats.put("new", "keeper", "1", [entry(9, "new", None, "By a ship.", 0, group="", part="new")])
    waiting = await boats.pending(9)
    vectors = await Tokens().embed([each.text for each in waiting])
    await boats.embed(list(zip(waiting, vectors, strict=True)))
    monkeypatch.setattr("runtime.search.engine.COMPARED", 1)
    asked = question("that pier", limit=1)
    assert await search(boats, Tokens(), asked) == await search(boats, Concepts(size=64), asked)


async def test_the_token_of_a_rare_word_weighs_more(boats: Index) -> None:
    asked = question("alone that ship pier", vector_weight=0.99, keyword_weight=0.01)
    await boats.put("rare", "keeper", "1", [entry(9, "rare", None, "Alone: a ship.", 0, group="", part="rare")])
    await embed_all(boats, Tokens())
    compared = vector_parts(await search(boats, Tokens(), asked))
    assert compared["rare"] > compared["pier"]


async def test_bits_of_another_program_are_not_taken_for_texts_without_tokens(boats: Index) -> None:
    asked = question("vessel pier")
    by_cosine = await search(boats, Concepts(size=64), asked)
    # On one database the bits of the other program are counted and cannot be read.
    with pytest.MonkeyPatch.context() as patch:

        async def unreadable(keys: NDArray[np.int64]) -> list[bytes | None]:
            return [None] * len(keys)

        patch.setattr(boats, "tokens", unreadable)
        assert await search(boats, Tokens(), asked) == by_cosine
    assert await search(boats, Tokens(), asked) != by_cosine


async def test_a_question_without_tokens_is_compared_by_cosine(boats: Index) -> None:
    class Mute(Tokens):
        async def embed_question_with_tokens(self, text: str, *, owner: CallOwner = BACKGROUND) -> EmbeddedQuestion:
            return EmbeddedQuestion(await self.embed_question(text, owner=owner), None, ())

    asked = question("vessel pier")
    assert await search(boats, Mute(), asked) == await search(boats, Concepts(size=64), asked)


async def test_only_the_best_candidates_and_their_neighbours_are_compared(
    boats: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = await search(boats, Tokens(), question("vessel pier beside"))
    monkeypatch.setattr("runtime.search.engine.COMPARED", 1)
    few = await search(boats, Tokens(), question("that pier", limit=1))
    assert ids(few) == ["next"]
    assert sorted(ids(await search(boats, Tokens(), question("vessel pier beside", limit=4)))) == sorted(ids(every))


async def test_what_has_no_vector_yet_is_weighted_by_its_words_among_compared_texts(boats: Index) -> None:
    await boats.put("new", "keeper", "1", [entry(9, "new", None, "A pier.", 0, group="", part="new")])
    hits = {hit.entry.id: hit for hit in (await search(boats, Tokens(), question("ship pier"))).hits}
    assert "vector" not in hits["new"].parts
    assert hits["pier"].parts["vector"] == pytest.approx(0.7)
    assert hits["pier"].parts["keyword"] == pytest.approx(0.3)
    assert hits["new"].parts["keyword"] > 0.3


async def test_what_others_have_changes_no_score_of_a_user(boats: Index) -> None:
    asked = question("vessel pier", wanted=EntryFilter(user="owner"))
    before = await search(boats, Tokens(), asked)
    others = [entry(9 + at, f"o{at}", "Vessel", "Pier, pier.", 0, user="bob", group="", part="bob") for at in range(5)]
    await boats.put("bob", "keeper", "1", others)
    assert await search(boats, Tokens(), asked) == before, "without vectors"
    await embed_all(boats, Tokens())
    assert await search(boats, Tokens(), asked) == before


async def test_a_question_of_whoever_asks_prefers_what_the_user_said(index: Index) -> None:
    said = [
        entry(20 + at, role, role, "The train leaves at nine.", 90) for at, role in enumerate(("assistant", "user"))
    ]
    await index.put("chat", "keeper", "1", said)
    for text, first in (
        ("When does my train leave?", {"user": fusion.AUTHOR}),
        ("When does the user's train leave?", {}),
    ):
        answer = await search(index, None, question(text))
        assert {hit.entry.id: hit.parts["author"] for hit in answer.hits if "author" in hit.parts} == (
            pytest.approx(first, abs=1e-6)
        )
