"""What Ollama is asked by, and how its answers are read."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dslc.blocks.variant import Variant
from runtime.models.calls.call import BACKGROUND
from runtime.models.client import open_client
from runtime.models.model import ModelRefused, ModelUnavailable, Window
from runtime.models.ollama import OllamaModel, OllamaOptions
from runtime.models.request import Message, Request, ToolCall, ToolSchema
from tests.runtime.models.services import SAID, Service, refuses, says, sends, serving
from tests.runtime.models.wires import Said

SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}}
CALL = ToolCall("call_1", "note", '{"x": 1}')


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serving("ollama") as running:
        yield running


@pytest.fixture
async def model(service: Service) -> AsyncIterator[OllamaModel]:
    opened = OllamaModel(OllamaOptions(url=service.url, model="qwen3:4b", context=4096))
    yield opened
    await opened.close()


async def test_everything_of_a_request_is_asked(model: OllamaModel, service: Service) -> None:
    messages = (
        Message("user", "Hi."),
        Message("assistant", "", calls=(CALL,)),
        Message("tool", "done", call_id="call_1"),
    )
    tools = (ToolSchema("note", "Note it.", SCHEMA),)
    await model.reply(
        Request(messages=messages, max_tokens=50, tools=tools, schema=SCHEMA, temperature=0.7, stop=("END",))
    )

    assert service.bodies == [
        {
            "model": "qwen3:4b",
            "messages": [
                {"role": "user", "content": "Hi."},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"function": {"name": "note", "arguments": {"x": 1}}}],
                },
                {"role": "tool", "content": "done", "tool_name": "note"},
            ],
            "stream": False,
            "truncate": False,
            "tools": [
                {"type": "function", "function": {"name": "note", "description": "Note it.", "parameters": SCHEMA}}
            ],
            "format": SCHEMA,
            "options": {"num_predict": 50, "num_ctx": 4096, "temperature": 0.7, "stop": ["END"]},
        }
    ]


async def test_an_answer_to_a_prompt_is_asked_without_reasoning(service: Service) -> None:
    client = await open_client(Variant(name="ollama"), {"url": service.url})
    assert client is not None
    await client.generate("What happened?", max_tokens=9, owner=BACKGROUND, purpose="summary")
    await client.close()

    assert (service.bodies[0]["think"], service.bodies[0]["options"]["temperature"]) == (False, 0)
    assert not client.schema_in_prompt


async def test_the_window_is_that_of_the_options(model: OllamaModel) -> None:
    assert await model.window() == Window(4096, "program")


async def test_the_window_is_not_more_than_the_model_was_trained_on(model: OllamaModel, service: Service) -> None:
    info = {"general.architecture": "qwen3", "qwen3.context_length": 2048}
    service.pages["/api/show"] = says(200, {"model_info": info})
    assert await model.window() == Window(2048, "service")


@pytest.mark.parametrize("shown", [{}, {"model_info": {"general.architecture": "qwen3"}}, {"model_info": []}])
async def test_an_ollama_that_does_not_say_it_has_the_default(service: Service, shown: object) -> None:
    service.pages["/api/show"] = says(200, shown)
    model = OllamaModel(OllamaOptions(url=service.url))
    assert await model.window() == Window(8192, "default")
    await model.close()


@pytest.mark.parametrize(
    ("parameter", "explanation"),
    [
        ("format", 'invalid format: expected "json" or a JSON schema'),
        ("think", '"qwen3:4b" does not support thinking'),
    ],
)
async def test_an_older_ollama_is_asked_without_what_it_does_not_know(
    model: OllamaModel, service: Service, parameter: str, explanation: str
) -> None:
    service.answers.append(refuses(400, explanation))
    request = Request(messages=(Message("user", "Hi."),), max_tokens=50, schema=SCHEMA, reasoning=False)

    assert (await model.reply(request)).text == SAID
    assert [parameter in body for body in service.bodies] == [True, False]
    assert model.holds_schema == (parameter != "format")


async def test_tools_that_a_model_does_not_support_are_refused(model: OllamaModel, service: Service) -> None:
    service.answers.append(refuses(400, "registry.ollama.ai/library/gemma:2b does not support tools"))
    request = Request(messages=(Message("user", "Hi."),), max_tokens=50, tools=(ToolSchema("note", "Note.", SCHEMA),))

    with pytest.raises(ModelRefused, match="does not support tools") as caught:
        await model.reply(request)
    assert caught.value.hint == "write `tool_calling json` in the agent's block"


async def test_an_error_in_the_middle_of_a_stream_is_told(model: OllamaModel, service: Service) -> None:
    error = b'{"error": "an error was encountered while running the model: CUDA error"}\n'
    service.answers.append(sends(*service.wire.parts(Said(SAID))[:3], error))

    with pytest.raises(ModelUnavailable, match="CUDA error"):
        [part async for part in model.stream(Request(messages=(Message("user", "Hi."),), max_tokens=50))]
