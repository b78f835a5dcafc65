"""Embeddings over HTTP when their service is down, slow, or answers wrongly."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import struct
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from dslc.blocks.variant import Variant
from runtime.errors import UsageError
from runtime.models.calls.call import BACKGROUND, Call, CallOwner
from runtime.models.calls.counted_calls import CallContext
from runtime.models.calls.service import AWAY_SECONDS, Services
from runtime.outbound.http import HttpCaller
from runtime.outbound.model_service import OPENAI
from runtime.search.embedding import EMBEDDINGS, open_embedding
from runtime.search.embedding import remote as remote_module
from runtime.search.embedding.embedder import Embedder
from runtime.search.embedding.ollama import OllamaEmbedder, OllamaOptions
from runtime.search.embedding.openai import OpenAIEmbedder, OpenAIOptions
from runtime.search.embedding.remote import AT_ONCE
from runtime.search.errors import EmbeddingMismatch, EmbeddingUnavailable
from runtime.secrets.secret import Secret
from tests.cases import each_case
from tests.clocks import until
from tests.runtime.outbound.https import authority
from tests.runtime.outbound.test_http import Sleepless
from tests.runtime.search.embedding.services import (
    DIMENSION,
    PATHS,
    Answer,
    Service,
    never,
    says,
    serving,
    vector,
    vectors,
)

KEY = "sk-" + "8Gx2Lm5Qz9Wn3Rt7Vb1Y"
TEXTS = ["one", "two", "three"]

Open = Callable[..., Embedder]
OLLAMA, OPENAI_API = (pytest.mark.parametrize("kind", [kind], indirect=True) for kind in ("ollama", "openai"))
"""Of one kind of service."""


@pytest.fixture(params=PATHS)
def kind(request: pytest.FixtureRequest) -> str:
    """Both kinds of service."""
    return str(request.param)


@pytest.fixture
async def service(kind: str) -> AsyncIterator[Service]:
    async with serving(kind) as running:
        yield running


@pytest.fixture
def sleepless() -> Sleepless:
    return Sleepless()


@pytest.fixture
async def opened(service: Service, sleepless: Sleepless) -> AsyncIterator[Open]:
    """Return a function that opens the embedding with the options of a test."""
    found: list[Embedder] = []

    def make(
        *,
        url: str = service.url,
        key: bytes | None = KEY.encode(),
        caller: HttpCaller | None = None,
        **options: Any,
    ) -> Embedder:
        if service.kind == "ollama":
            made: Embedder = OllamaEmbedder(OllamaOptions(url=url, **options), caller=caller, clock=sleepless)
        else:
            secret = None if key is None else Secret(key, "env OPENAI_API_KEY")
            made = OpenAIEmbedder(OpenAIOptions(url=url, **options), secret, caller=caller, clock=sleepless)
        found.append(made)
        return made

    yield make
    for embedder in found:
        await embedder.close()


def unit(text: str) -> list[float]:
    """Return the vector of the service for `text`, normalized to length 1."""
    length = math.sqrt(sum(number * number for number in vector(text)))
    return [number / length for number in vector(text)]


async def refusal(embedder: Embedder, texts: list[str] | None = None) -> EmbeddingMismatch:
    with pytest.raises(EmbeddingMismatch) as caught:
        await embedder.embed(TEXTS if texts is None else texts)
    assert KEY not in f"{caught.value.line()} {caught.value.__cause__!r} {caught.value.__context__!r}"
    assert "\n" not in caught.value.line()
    return caught.value


async def absence(embedder: Embedder, texts: list[str] | None = None) -> EmbeddingUnavailable:
    with pytest.raises(EmbeddingUnavailable) as caught:
        await embedder.embed(TEXTS if texts is None else texts)
    assert KEY not in caught.value.line()
    assert f"the embedding {embedder.name} is unavailable" in str(caught.value)
    return caught.value


# Requests and responses.


async def test_the_vectors_are_those_of_the_service_with_length_1(opened: Open, service: Service) -> None:
    embedder = opened()
    assert embedder.dimension is None
    rows = await embedder.embed(TEXTS)

    np.testing.assert_allclose(rows, [unit(text) for text in TEXTS], rtol=1e-5)
    assert embedder.dimension == DIMENSION
    assert service.paths == [PATHS[service.kind]]


async def test_texts_go_in_batches_and_blank_ones_not_at_all(opened: Open, service: Service) -> None:
    rows = await opened(batch=2).embed(["a", "", "b", "c", " ", "d", "e"])

    assert service.inputs == [["a", "b"], ["c", "d"], ["e"]]
    assert [bool(row.any()) for row in rows] == [True, False, True, True, False, True, True]
    np.testing.assert_allclose(rows[6], unit("e"), rtol=1e-5)


async def test_not_too_many_characters_go_at_once(
    opened: Open, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_module, "_REQUEST_CHARACTERS", 1000)
    await opened(max_characters=900).embed(["x" * 600, "y" * 600, "z" * 300, "w" * 2000])

    assert [[len(text) for text in texts] for texts in service.inputs] == [[600], [600, 300], [900]]


async def test_the_first_dimension_is_the_one_until_everything_is_embedded_anew(opened: Open, service: Service) -> None:
    embedder = opened()
    await embedder.embed(["first"])
    service.answers.append(vectors(lambda texts: [vector(text, 7) for text in texts]))
    refused = await refusal(embedder)

    assert "7" in str(refused)
    assert str(DIMENSION) in str(refused)
    assert embedder.dimension == DIMENSION
    assert "symbi memory reindex" in str(refused.hint)

    embedder.renew()
    assert embedder.dimension is None
    service.answers.append(vectors(lambda texts: [vector(text, 7) for text in texts]))
    await embedder.embed(["second"])
    assert embedder.dimension == 7


async def test_another_dimension_than_was_declared_is_refused(opened: Open, service: Service) -> None:
    embedder = opened(dimension=768)
    assert embedder.dimension == 768
    refused = await refusal(embedder)

    assert str(refused) == (
        f"the embedding {service.kind} returned a vector of {DIMENSION} numbers, not of 768 as declared"
    )
    assert f"dimension {DIMENSION}" in str(refused.hint)


async def test_vectors_of_two_dimensions_in_one_answer_are_refused(opened: Open, service: Service) -> None:
    service.answers.append(vectors(lambda texts: [vector(text, 7 + len(text)) for text in texts]))
    embedder = opened()
    refused = await refusal(embedder)

    assert "10" in str(refused)
    assert "12" in str(refused)
    assert embedder.dimension is None


async def test_a_vector_of_zeros_stays_one(opened: Open, service: Service) -> None:
    service.answers.append(vectors(lambda texts: [[0.0, 0.0], [3.0, 4.0], [1e-30, 0.0]]))
    rows = await opened().embed(TEXTS)

    np.testing.assert_allclose(rows, np.array([[0.0, 0.0], [0.6, 0.8], [1.0, 0.0]]), atol=1e-6)


def returning(rows: list[Any]) -> Answer:
    """Answer with these vectors."""
    return vectors(lambda _texts: rows)


ROWS: list[Any] = [None, "x", 5, {}, [[1.0]], [None], ["1.0"], [True], ["a", "b"]]
BODIES: list[Any] = [None, [], "text", {}, {"embeddings": None}, {"data": None}, {"data": [None]}, 5]
WRONG = [
    (returning([[]] * 3), "returned empty vectors"),
    *((returning([[1.0, 2.0]] * count), f"returned {count} vectors for 3 texts") for count in (0, 2, 4)),
    *((returning([[1.0, number]] * 3), "not finite") for number in (1e39, -1e300)),
    *((returning([row] * 3), "that is not vectors") for row in ROWS),
    *((says(200, json.dumps(body)), "that is not vectors") for body in BODIES),
    (says(200, "<html>It works!</html>"), "answered something that is not JSON"),
]
"""Answers of a service to three texts, and what the error says."""


@each_case("answer, message", WRONG, itemgetter(1))
async def test_an_answer_that_is_not_the_vectors_of_the_texts_is_refused(
    opened: Open, service: Service, answer: Answer, message: str
) -> None:
    service.answers.append(answer)
    assert message in str(await refusal(opened()))


@each_case("literal", ["NaN", "Infinity", "1e999"])
async def test_literals_that_are_no_numbers_are_refused(opened: Open, service: Service, literal: str) -> None:
    body = json.dumps(service.shape([[1.0, 4711.0]] * 3)).replace("4711.0", literal)
    service.answers.append(says(200, body))
    await refusal(opened())


async def test_a_huge_answer_is_refused(opened: Open, service: Service, sleepless: Sleepless) -> None:
    caller = HttpCaller(largest_answer=100, clock=sleepless)

    assert "more than 100 bytes" in str(await refusal(opened(caller=caller)))


# Down, slow, busy.


async def test_nobody_there_is_unavailable_and_not_asked_again_for_a_while(
    opened: Open, service: Service, sleepless: Sleepless
) -> None:
    async with serving(service.kind) as gone:
        url = gone.url
    embedder = opened(url=url)
    absent = await absence(embedder)
    assert "cannot be reached: connection refused" in absent.line()
    assert "check that it is running" in absent.line()
    waited = len(sleepless.waits)
    assert waited == 2
    assert (await absence(embedder)).line() == absent.line()
    assert len(sleepless.waits) == waited
    sleepless.advance(AWAY_SECONDS + 1)
    await absence(embedder)
    assert len(sleepless.waits) == 2 * waited


async def test_a_service_that_comes_back_is_used_again(
    opened: Open, service: Service, sleepless: Sleepless, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_module, "QUESTION_SECONDS", 0.05)
    embedder = opened()
    service.answers.append(never)
    await absence(embedder, ["a question"])
    # On a busy machine the question may have been given up before it arrived.
    service.answers.clear()
    sleepless.advance(AWAY_SECONDS + 1)
    monkeypatch.undo()

    np.testing.assert_allclose(await embedder.embed(["one"]), [unit("one")], rtol=1e-5)


async def test_a_question_does_not_wait_long_for_a_slow_one(
    opened: Open, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_module, "QUESTION_SECONDS", 0.05)
    service.answers.append(never)

    assert "did not answer within 0.05 s" in str(await absence(opened(), ["a question"]))


async def test_a_slow_one_is_unavailable_when_its_time_is_over(
    opened: Open, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_module, "_TRIES", 1)
    service.answers.append(never)

    assert "did not answer within 1 s" in str(await absence(opened(timeout=timedelta(seconds=1))))


async def test_a_busy_one_is_asked_again_when_it_says(opened: Open, service: Service, sleepless: Sleepless) -> None:
    service.answers += [says(429, {"error": "slow down"}, headers={"Retry-After": "3"}), says(503, {})]
    rows = await opened().embed(TEXTS)

    np.testing.assert_allclose(rows, [unit(text) for text in TEXTS], rtol=1e-5)
    assert sleepless.waits[0] == 3.0
    assert len(service.bodies) == 3


async def test_one_that_stays_busy_is_unavailable_in_its_own_words(opened: Open, service: Service) -> None:
    service.answers += [says(429, {"error": {"message": "You exceeded your quota"}})] * 3

    assert "answered 429: You exceeded your quota" in str(await absence(opened()))


async def test_a_question_is_tried_once(opened: Open, service: Service, sleepless: Sleepless) -> None:
    service.answers.append(says(503, {}))
    await absence(opened(), ["a question"])

    assert len(service.bodies) == 1
    assert sleepless.waits == []


async def test_other_tasks_go_on_while_a_service_thinks(opened: Open, service: Service) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def think(service: Service, texts: list[str]) -> web.StreamResponse:
        asked.set()
        await answer.wait()
        return web.json_response(service.shape([vector(text) for text in texts]))

    service.answers.append(think)
    embedding = asyncio.create_task(opened().embed(TEXTS))
    await asked.wait()
    answer.set()
    assert len(await embedding) == 3


# Refused.


async def test_a_certificate_that_nobody_vouches_for_is_to_be_mended(kind: str, opened: Open, tmp_path: Path) -> None:
    context, _ = authority(tmp_path)
    async with serving(kind, tls=context) as service:
        refused = await refusal(opened(url=service.url))
        assert service.bodies == []
    assert f"the certificate of {service.host} is invalid" in str(refused)


async def test_a_redirect_is_not_followed(opened: Open, service: Service, kind: str) -> None:
    async with serving(kind) as other:
        service.answers.append(says(307, {}, headers={"Location": f"{other.url}{PATHS[kind]}"}))
        assert "answered 307" in str(await refusal(opened()))
        assert other.bodies == []


async def test_a_bad_request_is_said_in_the_services_words(opened: Open, service: Service) -> None:
    service.answers.append(says(400, {"error": {"message": "this model does not support embeddings"}}))
    refused = await refusal(opened())

    assert "answered 400: this model does not support embeddings" in str(refused)
    assert len(service.bodies) == 1


async def test_a_text_that_is_too_long_is_cut_until_it_is_taken(opened: Open, service: Service) -> None:
    async def limited(service: Service, texts: list[str]) -> web.StreamResponse:
        service.answers.append(limited)
        if any(len(text) > 1500 for text in texts):
            message = "the input length exceeds the context length"
            return web.json_response({"error": {"message": message}}, status=400)
        return web.json_response(service.shape([vector(text) for text in texts]))

    service.answers.append(limited)
    long = "".join(f"{number:05d}" for number in range(1000))
    rows = await opened().embed(["short", long, "end"])

    np.testing.assert_allclose(rows, [unit("short"), unit(long[:1250]), unit("end")], rtol=1e-5)
    service.bodies.clear()
    np.testing.assert_array_equal((await opened().embed([long]))[0], rows[1])


async def test_a_text_that_is_never_short_enough_is_refused(opened: Open, service: Service) -> None:
    service.answers += [says(400, {"error": {"message": "maximum context length is 0 tokens"}})] * 50

    assert "maximum context length is 0 tokens" in str(await refusal(opened(), ["x" * 5000]))
    assert len(service.bodies) < 10


# Each service separately.


@OLLAMA
async def test_ollama_is_asked_as_its_documentation_says(opened: Open, service: Service) -> None:
    await opened(model="all-minilm").embed(["Why is the sky blue?"])

    assert service.bodies == [{"model": "all-minilm", "input": ["Why is the sky blue?"], "truncate": True}]
    assert "Authorization" not in service.headers[0]


@OLLAMA
@pytest.mark.parametrize(("name", "model"), [("all-minilm", "all-minilm:latest"), ("bge-m3:567m", "bge-m3:567m")])
async def test_a_model_of_ollama_without_a_tag_is_the_latest(
    opened: Open, service: Service, name: str, model: str
) -> None:
    assert opened(model=name).model == f"ollama/{model}"


@OLLAMA
async def test_a_model_that_ollama_has_not_is_to_be_pulled(opened: Open, service: Service) -> None:
    service.answers.append(says(404, {"error": 'model "all-minilm" not found, try pulling it first'}))
    refused = await refusal(opened(model="all-minilm"))

    assert refused.line() == f"Ollama at {service.host} has no model all-minilm (ollama pull all-minilm)"


@OLLAMA
async def test_what_is_not_ollama_is_said(opened: Open, service: Service) -> None:
    service.answers.append(says(404, "404 page not found"))
    assert f"{service.host} has no /api/embed" in str(await refusal(opened()))


@OLLAMA
async def test_ollama_that_cannot_write_nan_is_told_from_one_that_is_busy(opened: Open, service: Service) -> None:
    service.answers += [says(500, {"error": "json: unsupported value: NaN"})] * 3
    assert "not finite" in str(await refusal(opened()))


@OPENAI_API
async def test_openai_is_asked_as_its_documentation_says(opened: Open, service: Service) -> None:
    for key, options, body in (
        (KEY.encode() + b"\n", {}, {"model": "text-embedding-3-small"}),
        (None, {"model": "bge-m3", "dimension": DIMENSION}, {"model": "bge-m3", "dimensions": DIMENSION}),
    ):
        embedder = opened(key=key, **options)
        await embedder.embed(["one", "two"])
        assert service.bodies.pop() == {**body, "input": ["one", "two"]}
        assert service.headers.pop().get("Authorization") == (None if key is None else f"Bearer {KEY}")


@OPENAI_API
async def test_embeddings_is_put_behind_the_url_of_openai(opened: Open, service: Service) -> None:
    for base in ("/v1/", "", "/a/b"):
        service.answers.append(vectors(lambda texts: [vector(text) for text in texts]))
        await opened(url=f"http://{service.host}{base}?version=1").embed(["one"])
        assert service.paths.pop() == f"{base.rstrip('/')}/embeddings"


@OPENAI_API
async def test_the_answers_of_openai_may_come_in_any_order_and_as_base64(opened: Open, service: Service) -> None:
    def packed(numbers: list[float]) -> str:
        return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()

    data = [{"index": number, "embedding": packed(vector(TEXTS[number]))} for number in (1, 2, 0)]
    service.answers.append(says(200, json.dumps({"data": data})))
    rows = await opened().embed(TEXTS)

    np.testing.assert_allclose(rows, [unit(text) for text in TEXTS], rtol=1e-5)


@OPENAI_API
async def test_without_an_index_the_order_of_openai_is_that_of_the_texts(opened: Open, service: Service) -> None:
    service.answers.append(says(200, json.dumps({"data": [{"embedding": vector(text)} for text in TEXTS]})))
    rows = await opened().embed(TEXTS)

    np.testing.assert_allclose(rows, [unit(text) for text in TEXTS], rtol=1e-5)


@OPENAI_API
@each_case("indices", [[0, 0, 1], [1, 2, 3], [0, None, 1], [-1, 0, 1]])
async def test_an_index_of_openai_that_is_not_that_of_a_text_is_refused(
    opened: Open, service: Service, indices: list[int | None]
) -> None:
    data = [{"index": index, "embedding": vector("x")} for index in indices]
    service.answers.append(says(200, json.dumps({"data": data})))
    assert "not vectors" in str(await refusal(opened()))


@OPENAI_API
@each_case("text", ["AAAA", "!!!!", "AAAAgH8"])
async def test_base64_of_no_numbers_is_refused(opened: Open, service: Service, text: str) -> None:
    service.answers.append(says(200, json.dumps({"data": [{"index": 0, "embedding": text}]})))
    assert "not vectors" in str(await refusal(opened(), ["one"]))


@OPENAI_API
async def test_nan_in_base64_is_refused(opened: Open, service: Service) -> None:
    packed = base64.b64encode(struct.pack("<2f", 1.0, math.nan)).decode()
    service.answers.append(says(200, json.dumps({"data": [{"index": 0, "embedding": packed}]})))
    assert "not finite" in str(await refusal(opened(), ["one"]))


@OPENAI_API
@each_case("status", [401, 403])
async def test_a_key_that_openai_refuses_is_named_by_its_place(opened: Open, service: Service, status: int) -> None:
    service.answers.append(says(status, {"error": {"message": f"Incorrect API key provided: {KEY[:9]}"}}))
    refused = await refusal(opened())

    assert f"{service.host} does not accept the key" in str(refused)
    assert "env OPENAI_API_KEY" in str(refused.hint)
    assert KEY[:9] not in refused.line()


@OPENAI_API
async def test_a_model_that_openai_has_not_is_said(opened: Open, service: Service) -> None:
    service.answers.append(says(404, {"error": {"message": "The model `x` does not exist"}}))
    assert "The model `x` does not exist" in str(await refusal(opened()))


def test_models_of_two_services_are_two_models(sleepless: Sleepless) -> None:
    names = {
        OpenAIEmbedder(OpenAIOptions(url=url, model="m", dimension=dimension), None, clock=sleepless).model
        for url in (OPENAI, "http://localhost:1234/v1", "http://other:1234/v1")
        for dimension in (None, 512)
    }
    assert len(names) == 6
    assert "openai/m" in names


# Opening.


async def test_openai_itself_needs_a_key() -> None:
    with pytest.raises(UsageError, match="needs a key") as refused:
        await open_embedding(Variant(name="openai"), {})
    assert "secret://" in str(refused.value.hint)


async def test_a_key_that_was_not_resolved_is_not_sent_as_its_own_reference() -> None:
    with pytest.raises(UsageError, match="could not be resolved"):
        await open_embedding(Variant(name="openai"), {"api_key": "secret://env/OPENAI_API_KEY"})


@each_case("key", [b"two words", b"line\nline", b"\xff\xfe", "schlüssel".encode()])
async def test_a_key_that_no_header_may_hold_is_refused_unseen(key: bytes) -> None:
    with pytest.raises(UsageError, match="contains characters that are invalid in a key") as refused:
        await open_embedding(Variant(name="openai"), {"api_key": Secret(key, "env KEY")})
    assert "env KEY" in str(refused.value)
    assert "words" not in refused.value.line()


WRONG_OPTIONS = [
    *({"batch": 0}, {"batch": 5000}, {"dimension": 0}, {"max_characters": 10}, {"timeout": timedelta(0)}),
    *({"url": "localhost:11434"}, {"url": f"http://user:{KEY}@localhost"}, {"model": ""}),
]


@each_case("name, options", product(PATHS, WRONG_OPTIONS))
async def test_options_out_of_bounds_are_refused_by_name(name: str, options: dict[str, object]) -> None:
    with pytest.raises(UsageError) as refused:
        await open_embedding(Variant(name=name), options)
    assert next(iter(options)) in refused.value.line()
    assert KEY not in refused.value.line()


@pytest.mark.parametrize("name", PATHS)
async def test_opening_asks_nobody(name: str) -> None:
    opened = await open_embedding(Variant(name=name), {"url": "http://192.0.2.1/"})
    assert opened is not None
    assert opened.name == EMBEDDINGS[name].name
    await opened.close()


# Counted calls.


class Counting:
    """Records the calls of embeddings that share it."""

    def __init__(self, clock: Sleepless) -> None:
        self.calls: list[Call] = []
        self.context = CallContext(Services(clock), self.calls.append, clock)


async def test_each_call_of_the_service_is_counted_for_its_owner(
    opened: Open, service: Service, sleepless: Sleepless
) -> None:
    counting, ada = Counting(sleepless), CallOwner("ada", "reviewer", None, "run-1")
    embedder = opened(batch=2)
    embedder.count_with(counting.context)
    service.answers.append(says(503, {}))
    await embedder.embed(TEXTS)
    await embedder.embed_question("Where?", owner=ada)

    assert [call.outcome for call in counting.calls] == ["unavailable", "answered", "answered", "answered"]
    assert {call.owner for call in counting.calls[:3]} == {BACKGROUND}
    last = counting.calls[-1]
    assert (last.owner, last.purpose, last.name, last.usage.tokens_in) == (ada, "embedding", service.kind, 8)
    assert last.model == service.bodies[-1]["model"]


async def test_embeddings_of_one_service_share_what_is_known_of_it(
    opened: Open, service: Service, sleepless: Sleepless
) -> None:
    counting = Counting(sleepless)
    async with serving(service.kind) as gone:
        url = gone.url
    embedders = [opened(url=url, batch=batch) for batch in (1, 2)]
    for embedder in embedders:
        embedder.count_with(counting.context)
    await absence(embedders[0])
    calls = len(counting.calls)
    await absence(embedders[1])

    assert len(counting.calls) == calls
    assert counting.context.services.available() == {f"embedding/{service.kind}": 0}


async def test_a_question_does_not_wait_behind_batches(opened: Open, service: Service) -> None:
    going, go = [0], asyncio.Event()

    async def slow(service: Service, texts: list[str]) -> web.StreamResponse:
        going[0] += 1
        await go.wait()
        return await vectors(lambda asked: [vector(text) for text in asked])(service, texts)

    service.answers += [slow] * (AT_ONCE - 1)
    embedder = opened()
    batches = [asyncio.create_task(embedder.embed(TEXTS)) for _ in range(AT_ONCE + 2)]
    await until(lambda: going[0] == AT_ONCE - 1)
    assert (await embedder.embed_question("Where?")).shape == (DIMENSION,)
    go.set()
    await asyncio.gather(*batches)
