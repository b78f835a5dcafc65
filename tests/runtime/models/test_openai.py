"""What services with OpenAI's API differ in: parameters, headers, windows, and the forms of their answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dslc.blocks.variant import Variant
from runtime.errors import UsageError
from runtime.models import open_model
from runtime.models.model import Model, ModelRefused, ModelUnavailable, RequestRefused, Window, WindowExceeded
from runtime.models.openai import OpenAIModel, OpenAIOptions
from runtime.models.openai_chat import response_format
from runtime.models.reachability import REACHABLE_SECONDS
from runtime.models.remote import WINDOW_SECONDS
from runtime.models.request import Message, Reply, Request
from runtime.secrets.secret import Secret
from tests.clocks import ManualClock
from tests.runtime.models.services import SAID, Service, refuses, says, sends, serving, speaks
from tests.runtime.models.wires import Said, events

KEY = "sk-" + "7Zr2Lw9Yp4Vd5Tq8Hs1K"
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"], "additionalProperties": False}
QUESTION = Request(messages=(Message("user", "What happened?"),), max_tokens=50, schema=SCHEMA, stop=("END",))


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serving("openai") as running:
        yield running


@pytest.fixture
async def model(service: Service, clock: ManualClock) -> AsyncIterator[OpenAIModel]:
    opened = OpenAIModel(OpenAIOptions(url=service.url, model="m-1"), Secret(KEY.encode(), "env KEY"), clock=clock)
    yield opened
    await opened.close()


async def streamed(model: Model, request: Request = QUESTION) -> Reply:
    *_, reply = [part async for part in model.stream(request)]
    assert isinstance(reply, Reply)
    return reply


# Parameters that a service does not know.


@pytest.mark.parametrize(
    ("parameter", "explanation"),
    [
        ("temperature", "Unsupported value: 'temperature' does not support 0.7 with this model."),
        ("stop", "Unsupported parameter: 'stop' is not supported with this model."),
        ("stream_options", "Unknown parameter: 'stream_options'."),
        ("response_format", "Invalid parameter: 'response_format' of type 'json_schema' is not supported."),
        ("response_format", "This response_format type is unavailable now"),
    ],
)
async def test_a_parameter_that_is_refused_by_name_is_left_out_from_then_on(
    model: OpenAIModel, service: Service, parameter: str, explanation: str
) -> None:
    service.answers.append(refuses(400, explanation))

    assert [(await streamed(model)).text for _ in range(2)] == [SAID, SAID]
    assert [parameter in body for body in service.bodies] == [True, False, False]
    assert model.holds_schema == (parameter != "response_format")
    assert all(body["max_tokens"] == 50 for body in service.bodies)


async def test_the_limit_is_told_by_its_other_name_where_that_is_refused(model: OpenAIModel, service: Service) -> None:
    explanation = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    service.answers.append(refuses(400, explanation))
    await model.reply(QUESTION)

    assert [(body.get("max_tokens"), body.get("max_completion_tokens")) for body in service.bodies] == [
        (50, None),
        (None, 50),
    ]


async def test_several_parameters_are_left_out_one_after_the_other(model: OpenAIModel, service: Service) -> None:
    service.answers += [refuses(400, f"Unsupported parameter: '{name}'.") for name in ("stop", "temperature")]
    await model.reply(QUESTION)

    assert len(service.bodies) == 3
    assert not {"stop", "temperature"} & set(service.bodies[2])


async def test_a_refusal_that_stays_is_told(model: OpenAIModel, service: Service) -> None:
    service.answers += [refuses(400, "'temperature' is not supported")] * 2

    with pytest.raises(ModelRefused, match="'temperature' is not supported"):
        await model.reply(QUESTION)
    assert len(service.bodies) == 2


async def test_a_limit_that_is_too_large_is_refused(model: OpenAIModel, service: Service) -> None:
    service.answers.append(refuses(400, "max_tokens is too large: 50. This model supports at most 10 tokens"))

    with pytest.raises(ModelRefused):
        await model.reply(QUESTION)
    assert len(service.bodies) == 1


async def test_what_one_model_does_not_know_another_is_asked(model: OpenAIModel, service: Service) -> None:
    service.answers.append(refuses(400, "'response_format' is not supported"))
    await model.reply(QUESTION)
    other = model.with_model("m-2")
    await other.reply(QUESTION)

    assert "response_format" in service.bodies[2]
    assert (other.holds_schema, model.with_model("m-1").holds_schema) == (True, False)


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (SCHEMA, True),
        ({"type": "array", "items": SCHEMA}, True),
        ({**SCHEMA, "required": []}, False),
        ({**SCHEMA, "properties": {"x": {"type": "object"}}}, False),
        ({"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}, False),
        ({"anyOf": [SCHEMA, {"type": "object"}]}, False),
    ],
)
def test_a_schema_is_strict_where_openai_accepts_it_as_strict(schema: dict[str, Any], strict: bool) -> None:
    assert response_format(schema)["json_schema"]["strict"] is strict


# Headers.


@asynccontextmanager
async def with_headers(service: Service, **headers: object) -> AsyncIterator[Model]:
    options = {"url": service.url, "api_key": Secret(KEY.encode(), "env KEY"), "headers": headers}
    model = await open_model(Variant(name="openai"), options)
    assert model is not None
    yield model
    await model.close()


async def test_further_headers_are_sent_with_every_request(service: Service) -> None:
    async with with_headers(service, **{"X-Team": "core", "X-Gate": Secret(b"open-sesame\n", "env GATE")}) as model:
        await model.reply(QUESTION)
        await model.reachable()

    for headers in service.headers:
        assert (headers["X-Team"], headers["X-Gate"]) == ("core", "open-sesame")
        assert headers["Authorization"] == f"Bearer {KEY}"


async def test_a_header_cannot_take_the_place_of_the_keys(service: Service) -> None:
    with pytest.raises(UsageError, match="invalid options"):
        async with with_headers(service, authorization="Basic eDp5"):
            pass


async def test_a_secret_header_is_in_no_error(service: Service) -> None:
    service.answers.append(refuses(400, "X-Gate: open-sesame is not known here"))
    async with with_headers(service, **{"X-Gate": Secret(b"open-sesame", "env GATE")}) as model:
        with pytest.raises(ModelRefused) as caught:
            await model.reply(QUESTION)
    assert "open-sesame" not in caught.value.line()


@pytest.mark.parametrize("value", ["secret://env/GATE", Secret(b"a\nb", "env GATE")])
async def test_a_header_that_cannot_be_sent_is_refused_by_its_name(service: Service, value: object) -> None:
    with pytest.raises(UsageError, match="the header X-Gate of the model openai"):
        async with with_headers(service, **{"X-Gate": value}):
            pass


# The window.


@pytest.mark.parametrize(
    ("row", "window"),
    [
        ({"id": "m-1", "max_model_len": 4096}, 4096),
        ({"id": "m-1", "context_length": 131072}, 131072),
        ({"id": "m-1", "context_window": 8192}, 8192),
        ({"id": "m-1", "max_context_length": 32768}, 32768),
        ({"id": "m-1", "max_context": 524288}, 524288),
        # OpenRouter: what the model could, and what its provider serves.
        ({"id": "m-1", "context_length": 131072, "top_provider": {"context_length": 32768}}, 32768),
        ({"id": "m-1", "context_length": 131072, "top_provider": {"context_length": None}}, 131072),
        ({"id": "/models/some.gguf", "meta": {"n_ctx_train": 131072, "n_ctx": 16384}}, 16384),
        ({"id": "m-1", "meta": None, "max_model_len": None}, None),
        ({"id": "m-1", "max_model_len": "many", "context_length": -1}, None),
        ("m-1", None),
    ],
)
async def test_the_window_is_what_the_service_says(
    model: OpenAIModel, service: Service, row: object, window: int | None
) -> None:
    service.looks += [says(200, {"data": [row]})]

    said = None if window is None else Window(window, "service")
    assert [await model.window() for _ in range(3)] == [said] * 3
    assert service.looked == 1


async def test_the_window_of_another_model_is_not_taken(model: OpenAIModel, service: Service) -> None:
    rows = [{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}]
    service.looks += [says(200, {"data": rows})] * 2

    assert [await model.window(), await model.with_model("b").window()] == [None, Window(2, "service")]


async def test_lm_studio_says_the_window_with_which_it_has_loaded_a_model(model: OpenAIModel, service: Service) -> None:
    names = {"id": "m-1", "object": "model", "owned_by": "organization_owner"}
    rows = [{"id": "n", "max_context_length": 9}, {"id": "m-1", "max_context_length": 131072}]
    service.looks += [says(200, {"data": [names]})] * 2
    service.pages["/api/v0/models"] = says(200, {"data": rows})
    assert await model.window() == Window(131072, "service")

    loaded = {"id": "m-1", "loaded_context_length": 4096, "max_context_length": 131072}
    service.pages["/api/v0/models"] = says(200, {"data": [loaded]})
    assert await model.with_model("m-1").window() == Window(131072, "service")
    model._windows.clear()
    assert await model.window() == Window(4096, "service")


async def test_the_window_is_asked_for_again_after_some_time(
    model: OpenAIModel, service: Service, clock: ManualClock
) -> None:
    for answer, seconds, window in (
        (says(503), 0.0, None),
        (says(200, {"data": [{"max_model_len": 4096}]}), REACHABLE_SECONDS, 4096),
        (says(500), WINDOW_SECONDS, 4096),
        (says(200, {"data": [{"max_model_len": 8192}]}), REACHABLE_SECONDS, 8192),
    ):
        service.looks.append(answer)
        clock.advance(seconds)
        assert await model.window() == (None if window is None else Window(window, "service"))


# Answers.


async def test_the_last_part_may_lack_its_end(model: OpenAIModel, service: Service) -> None:
    parts = service.wire.parts(Said(SAID))
    service.answers.append(sends(*parts[:-1]))
    assert (await streamed(model)).text == SAID

    service.answers.append(sends(*(part.replace(b"\n", b"\r\n") for part in parts[:-2]), b": ping\n", parts[-2][:-2]))
    assert (await streamed(model)).usage.tokens_in == 31


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "Upstream is away", "code": 502}, ModelUnavailable),
        ({"message": "Something broke"}, ModelUnavailable),
        ("Something broke", ModelUnavailable),
        ({"message": "No such thing", "code": 400}, RequestRefused),
        ({"message": "This model's maximum context length is 10 tokens.", "code": 400}, WindowExceeded),
        (
            {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "raw": '{"error":{"message":"context window exceeds limit (2013)"}}',
                    "provider_name": "X",
                },
            },
            WindowExceeded,
        ),
    ],
)
async def test_an_error_in_the_middle_of_a_stream_is_told(
    model: OpenAIModel, service: Service, error: object, kind: type[Exception]
) -> None:
    service.answers += [sends(*service.wire.parts(Said(SAID))[:4], *events({"error": error}))]
    with pytest.raises(kind) as caught:
        await streamed(model)
    assert type(caught.value) is kind

    service.answers.append(says(200, {"error": error}))
    with pytest.raises(kind):
        await model.reply(QUESTION)


async def test_a_part_without_a_choice_adds_nothing(model: OpenAIModel, service: Service) -> None:
    filtered = {"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]}
    service.answers += [sends(*events(filtered), *service.wire.parts(Said(SAID))), says(200, filtered)]

    assert (await streamed(model)).text == SAID
    with pytest.raises(ModelRefused, match="not text"):
        await model.reply(QUESTION)


@pytest.mark.parametrize("part", [b"data: {\n\n", b"<html>\n", b"data: 5\n\n", b"data: [[\n\n"])
async def test_a_part_that_is_none_is_refused(model: OpenAIModel, service: Service, part: bytes) -> None:
    service.answers.append(sends(*service.wire.parts(Said(SAID))[:4], part))

    with pytest.raises(ModelRefused, match="not text"):
        await streamed(model)


async def test_text_in_several_parts_is_joined(model: OpenAIModel, service: Service) -> None:
    content = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "It "}, {"type": "text", "text": "is."}]
    service.answers.append(says(200, {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}))

    assert (await model.reply(QUESTION)).text == "It is."


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_read_by_both_of_its_names(model: OpenAIModel, service: Service, field: str) -> None:
    message = {"content": "It is.", field: "Is it?"}
    service.answers.append(says(200, {"choices": [{"message": message, "finish_reason": "stop"}]}))

    assert (await model.reply(QUESTION)).reasoning == "Is it?"


async def test_a_refusal_by_the_model_is_told_as_its_text(model: OpenAIModel, service: Service) -> None:
    message = {"content": None, "refusal": "I cannot help with that."}
    service.answers.append(says(200, {"choices": [{"message": message, "finish_reason": "stop"}]}))
    reply = await model.reply(QUESTION)

    assert (reply.text, reply.finish) == ("I cannot help with that.", "filtered")


@pytest.mark.parametrize(
    ("reason", "finish"), [("content_filter", "filtered"), ("eos", "stop"), (None, "stop"), ("function_call", "calls")]
)
async def test_the_reason_of_an_end_is_read(
    model: OpenAIModel, service: Service, reason: str | None, finish: str
) -> None:
    service.answers.append(says(200, {"choices": [{"message": {"content": "x"}, "finish_reason": reason}]}))

    assert (await model.reply(QUESTION)).finish == finish


@pytest.mark.parametrize("usage", [None, [], {}, {"prompt_tokens": "many", "completion_tokens": -1}, 5])
async def test_a_usage_that_makes_no_sense_is_unknown(model: OpenAIModel, service: Service, usage: object) -> None:
    answer = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage}
    service.answers.append(says(200, answer))
    used = (await model.reply(QUESTION)).usage

    assert (used.tokens_in, used.tokens_out, used.cached) == (None, None, None)


async def test_a_very_long_part_arrives_whole(model: OpenAIModel, service: Service) -> None:
    said = json.dumps(["x" * 500_000])
    service.answers += [speaks(Said(said)), speaks(Said(said))]

    assert (await streamed(model)).text == said
    assert (await model.reply(QUESTION)).text == said
