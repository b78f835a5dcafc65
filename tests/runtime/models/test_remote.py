"""Language models over HTTP: the requests, and the errors if a service is away, wrong or returns nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from dslc.blocks.variant import Variant
from runtime.errors import Retry, UsageError
from runtime.models import MODELS, open_model
from runtime.models.model import Model, ModelRefused, ModelUnavailable, NoSuchModel
from runtime.models.ollama import OllamaModel, OllamaOptions
from runtime.models.openai import OpenAIModel, OpenAIOptions
from runtime.models.reachability import KNOWN_SECONDS, REACHABLE_SECONDS
from runtime.models.request import Request
from runtime.outbound.model_service import OPENAI
from runtime.secrets.secret import Secret
from tests.clocks import ManualClock
from tests.runtime.models.services import PATHS, SAID, Service, never, says, serving, text

KEY = "sk-" + "5Tq8Zr2Lw9Yp4Vd7Hs1K"

TOLD = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What happened?"}]

Open = Callable[..., Model]


@pytest.fixture(params=PATHS)
def kind(request: pytest.FixtureRequest) -> str:
    """Both kinds of service."""
    return str(request.param)


@pytest.fixture
async def service(kind: str) -> AsyncIterator[Service]:
    async with serving(kind) as running:
        yield running


@pytest.fixture
async def opened(service: Service, clock: ManualClock) -> AsyncIterator[Open]:
    """Return a function that opens the model with the options of a test."""
    found: list[Model] = []

    def make(*, url: str = service.url, **options: Any) -> Model:
        if service.kind == "ollama":
            made: Model = OllamaModel(OllamaOptions(url=url, **options), clock=clock)
        else:
            key = Secret(KEY.encode(), "env OPENAI_API_KEY")
            made = OpenAIModel(OpenAIOptions(url=url, **options), key, clock=clock)
        found.append(made)
        return made

    yield make
    for model in found:
        await model.close()


async def refusal(model: Model) -> ModelRefused:
    with pytest.raises(ModelRefused) as caught:
        await model.generate("What happened?", max_tokens=10)
    assert KEY not in f"{caught.value.line()} {caught.value.__cause__!r} {caught.value.__context__!r}"
    assert "\n" not in caught.value.line()
    return caught.value


async def absence(model: Model) -> ModelUnavailable:
    with pytest.raises(ModelUnavailable) as caught:
        await model.generate("What happened?", max_tokens=10)
    assert KEY not in f"{caught.value.line()} {caught.value.__cause__!r} {caught.value.__context__!r}"
    assert f"the model {model.name} is unavailable" in str(caught.value)
    assert isinstance(caught.value, Retry)
    return caught.value


# Requests and responses.


async def test_the_answer_is_the_models(opened: Open) -> None:
    assert await opened().generate("What happened?", system="Be brief.", max_tokens=10) == SAID


@pytest.mark.parametrize("kind", ["ollama"])
async def test_ollama_is_asked_once_without_a_stream_and_with_the_least_chance(opened: Open, service: Service) -> None:
    await opened(model="mistral", context=4096).generate("What happened?", system="Be brief.", max_tokens=77)

    assert service.bodies == [
        {
            "model": "mistral",
            "messages": TOLD,
            "stream": False,
            "think": False,
            "truncate": False,
            "options": {"num_predict": 77, "num_ctx": 4096, "temperature": 0},
        }
    ]


@pytest.mark.parametrize("kind", ["openai"])
async def test_openai_is_asked_by_a_chat_with_the_key_in_its_header(opened: Open, service: Service) -> None:
    await opened(model="m-1").generate("What happened?", system="Be brief.", max_tokens=77)

    assert service.bodies == [{"model": "m-1", "messages": TOLD, "max_tokens": 77, "stream": False, "temperature": 0.0}]
    assert service.headers[0]["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("kind", ["openai"])
async def test_openai_is_told_nothing_before_the_question_where_there_is_nothing(
    opened: Open, service: Service
) -> None:
    await opened().generate("What happened?", max_tokens=1)

    assert [message["role"] for message in service.bodies[0]["messages"]] == ["user"]


async def test_openai_itself_is_told_the_most_by_its_newer_name() -> None:
    model = OpenAIModel(OpenAIOptions(url=f"{OPENAI}/"), Secret(KEY.encode(), "env KEY"))
    asked = model._body(Request(messages=(), max_tokens=5), frozenset(), stream=False)

    assert asked["max_completion_tokens"] == 5
    assert "max_tokens" not in asked


@pytest.mark.parametrize(
    "said", ["<think>Hm.\nWell.</think>\n\nIt rained.", "  It rained.\n", "<think></think>It rained."]
)
async def test_what_a_model_thought_before_is_no_answer(opened: Open, service: Service, said: str) -> None:
    service.answers.append(text(said))

    assert await opened().generate("?", max_tokens=9) == "It rained."


async def test_a_model_that_only_thought_answers_nothing(opened: Open, service: Service) -> None:
    service.answers += [text("<think>I had not finished"), text("")]
    model = opened()

    assert [await model.generate("?", max_tokens=9) for _ in range(2)] == ["", ""]


async def test_another_model_of_the_same_service_shares_what_is_open(opened: Open, service: Service) -> None:
    model = opened(model="first")
    other = model.with_model("second")
    await model.generate("?", max_tokens=9)
    await other.generate("?", max_tokens=9)

    assert [body["model"] for body in service.bodies] == ["first", "second"]
    assert (model.model, other.model, other.name) == ("first", "second", model.name)


async def test_an_address_with_a_slash_at_its_end_is_the_same(opened: Open, service: Service) -> None:
    assert await opened(url=f"{service.url}/").generate("?", max_tokens=9) == SAID


# The service is away.


async def test_a_service_that_is_not_there_is_unavailable(opened: Open, service: Service) -> None:
    model = opened(url="http://localhost:1/v1")
    told = await absence(model)

    assert "localhost:1" in str(told)
    assert told.hint == "check that it is running"


async def test_a_service_that_takes_too_long_is_unavailable(opened: Open, service: Service) -> None:
    service.answers.append(never)
    told = await absence(opened(timeout=timedelta(seconds=1)))

    assert "did not begin its answer within 1 s" in str(told)
    assert len(service.bodies) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_a_service_that_cannot_just_now_is_asked_once(opened: Open, service: Service, status: int) -> None:
    service.answers.append(says(status, {"error": "server busy"}))
    told = await absence(opened())

    assert f"answered {status}" in str(told)
    assert len(service.bodies) == 1


# An error that a person must correct.


@pytest.mark.parametrize("kind", ["ollama"])
async def test_a_model_that_ollama_does_not_have_is_to_be_pulled(opened: Open, service: Service) -> None:
    service.answers.append(says(404, {"error": "model 'mistral' not found"}))
    told = await refusal(opened(model="mistral"))

    assert isinstance(told, NoSuchModel)
    assert str(told) == f"Ollama at {service.host} has no model mistral"
    assert told.hint == "ollama pull mistral"


@pytest.mark.parametrize("kind", ["ollama"])
async def test_what_is_not_ollama_is_told_so(opened: Open, service: Service) -> None:
    told = await refusal(opened(url=f"{service.url}/other"))

    assert not isinstance(told, NoSuchModel)
    assert "/api/chat" in str(told)


@pytest.mark.parametrize("kind", ["ollama"])
async def test_a_model_for_embeddings_says_that_it_does_not_write(opened: Open, service: Service) -> None:
    service.answers.append(says(400, {"error": '"nomic-embed-text" does not support chat'}))

    assert "does not support chat" in str(await refusal(opened(model="nomic-embed-text")))


@pytest.mark.parametrize("kind", ["openai"])
@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_is_not_accepted_is_named_and_not_shown(opened: Open, service: Service, status: int) -> None:
    service.answers.append(says(status, {"error": {"message": f"Incorrect API key provided: {KEY}"}}))
    told = await refusal(opened())

    assert "env OPENAI_API_KEY" in str(told.hint)
    assert service.host in str(told)


@pytest.mark.parametrize("kind", ["openai"])
async def test_a_model_that_the_service_does_not_have_is_said(opened: Open, service: Service) -> None:
    service.answers.append(says(404, {"error": {"message": "The model `m` does not exist"}}))

    assert isinstance(await refusal(opened(model="m")), NoSuchModel)


@pytest.mark.parametrize(
    "body", [{}, [], {"response": 5}, {"choices": []}, {"choices": [{"message": {"content": 5}}]}, "null"], ids=str
)
async def test_an_answer_that_holds_no_text_is_refused(opened: Open, service: Service, body: Any) -> None:
    service.answers.append(says(200, body))

    assert "not text" in str(await refusal(opened()))


async def test_an_answer_that_is_no_json_is_refused(opened: Open, service: Service) -> None:
    service.answers.append(says(200, "<html>"))

    assert "not text" in str(await refusal(opened()))


# The check whether the service is there.


async def test_whether_it_is_there_is_believed_for_some_seconds(
    opened: Open, service: Service, clock: ManualClock
) -> None:
    model = opened()
    assert [await model.reachable() for _ in range(3)] == [True, True, True]
    assert service.looked == 1

    service.looks.append(says(503))
    clock.advance(REACHABLE_SECONDS)
    assert [await model.reachable() for _ in range(3)] == [False, False, False]
    assert service.looked == 2

    clock.advance(REACHABLE_SECONDS)
    assert await model.reachable()


async def test_many_that_ask_at_once_look_once(opened: Open, service: Service) -> None:
    model = opened()

    assert all(await asyncio.gather(*(model.reachable() for _ in range(10))))
    assert service.looked == 1


async def test_what_is_not_there_is_not_reachable(opened: Open) -> None:
    assert not await opened(url="http://localhost:1").reachable()


async def test_a_failed_question_is_known_when_it_is_asked_whether_it_is_there(opened: Open, service: Service) -> None:
    model = opened(timeout=timedelta(seconds=1))
    assert await model.reachable()
    service.answers.append(never)
    await absence(model)

    assert not await model.reachable()


@pytest.mark.parametrize("kind", ["openai"])
@pytest.mark.parametrize("status", [401, 404, 429])
async def test_a_service_that_does_not_list_its_models_is_there(opened: Open, service: Service, status: int) -> None:
    service.looks.append(says(status))

    assert await opened().reachable()


async def test_what_was_seen_is_known_for_a_while_and_nothing_is_asked(
    opened: Open, service: Service, clock: ManualClock
) -> None:
    model = opened()
    assert model.known_problem is None
    service.looks.append(says(503))
    problem = await model.problem()
    assert problem is not None
    clock.advance(KNOWN_SECONDS - 1)
    assert model.known_problem == problem
    clock.advance(1)
    assert model.known_problem is None
    assert service.looked == 1


# Opening.


async def test_a_model_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no model claude") as caught:
        await open_model(Variant(name="claude"), {})
    assert caught.value.hint == f"there are {', '.join(sorted(MODELS))}"


@pytest.mark.parametrize("name", MODELS)
async def test_options_that_it_does_not_take_are_named(name: str) -> None:
    with pytest.raises(UsageError, match=f"the model {name} has invalid options") as caught:
        await open_model(Variant(name=name), {"temprature": 1})
    assert "temprature" in str(caught.value.hint)


async def test_openai_without_a_key_says_how_to_give_one() -> None:
    with pytest.raises(UsageError, match="needs a key for OpenAI") as caught:
        await open_model(Variant(name="openai"), {})
    assert "secret://env/OPENAI_API_KEY" in str(caught.value.hint)


async def test_a_key_that_was_not_resolved_is_not_sent() -> None:
    with pytest.raises(UsageError, match="the key of the model openai could not be resolved"):
        await open_model(Variant(name="openai"), {"api_key": "secret://env/OPENAI_API_KEY"})


async def test_a_key_that_no_header_may_hold_is_refused_and_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        await open_model(Variant(name="openai"), {"api_key": Secret(b"two words", "env KEY")})
    assert caught.value.line() == "the key of the model openai, env KEY, contains characters that are invalid in a key"
