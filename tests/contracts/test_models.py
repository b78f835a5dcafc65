"""The contract of language models, for every row of the table."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta

import pytest

from dslc.blocks.setting import settings_of
from dslc.blocks.variant import Variant
from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.diagnostics.diagnostic import Severity
from dslc.source import Source
from runtime.models import MODELS, ModelRow, open_model
from runtime.models.model import Model, ModelRefused, ModelUnavailable, WindowExceeded
from runtime.models.request import Message, Reply, Request, ToolCall, ToolSchema, Usage
from runtime.secrets.secret import Secret
from tests.clocks import until
from tests.lanes import LONG
from tests.runtime.models.services import (
    SAID,
    WIRES,
    Answer,
    Service,
    compressed,
    endless,
    half,
    never,
    refuses,
    says,
    serving,
    speaks,
    stalls,
    stops_short,
)
from tests.runtime.models.wires import Said

KEY = "sk-" + "9Wn3Rt7Vb1Y8Gx2Lm5Qz"
SCHEMA = {
    "type": "object",
    "properties": {"weather": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["weather", "degrees"],
    "additionalProperties": False,
}
TOOL = ToolSchema("memory_append", "Append text to a block.", SCHEMA)
CALLS = (
    ToolCall("call_1a2b3c4d", "memory_append", '{"weather":"rain","degrees":7}'),
    ToolCall("call_5e6f7a8b", "memory_append", '{"weather":"sun","degrees":21}'),
)
MESSAGES = (Message("system", "Be brief."), Message("user", "What happened?"))
_FIRST = ("openai", "ollama", "anthropic")
"""The rows that `make test` tries: those of our own clients, and one of the direct layer."""
QUESTION = Request(messages=MESSAGES, max_tokens=50, temperature=0.5)


@pytest.fixture(params=MODELS.values(), ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> ModelRow:
    """Every row of the table."""
    found = request.param
    assert isinstance(found, ModelRow)
    return found


@pytest.fixture(params=[*_FIRST, *(pytest.param(each, marks=LONG) for each in WIRES if each not in _FIRST)])
def kind(request: pytest.FixtureRequest) -> str:
    """Every row that calls a service."""
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
async def service(kind: str) -> AsyncIterator[Service]:
    async with serving(kind) as running:
        yield running


@pytest.fixture
async def model(service: Service) -> AsyncIterator[Model]:
    """The opened row, with a local service."""
    async with opened(service) as model:
        yield model


@asynccontextmanager
async def opened(service: Service, **options: object) -> AsyncIterator[Model]:
    """Open the row of a service with options."""
    found = await open_model(Variant(name=service.kind), {**given(service.kind, service.url), **options})
    assert found is not None
    try:
        yield found
    finally:
        await found.close()


def given(name: str, url: str) -> dict[str, object]:
    """Return options with which a row can be opened."""
    settings = settings_of(MODELS[name].options)
    secrets = {each.name: Secret(KEY.encode(), "env KEY") for each in settings if each.type == "secret"}
    if "access_key_id" in secrets:
        # An API key is only sent over TLS, which a local service does not have.
        del secrets["api_key"]
    return {**secrets, **({"url": url} if name in WIRES else {})}


async def ask(model: Model, *, stream: bool, request: Request = QUESTION) -> Reply:
    """Return the reply; the text of a streamed one has arrived before in parts."""
    if not stream:
        return await model.reply(request)
    *parts, reply = [part async for part in model.stream(request)]
    assert isinstance(reply, Reply)
    assert "".join(part for part in parts if isinstance(part, str)) == reply.text
    return reply


async def collect(model: Model, parts: list[str | Reply]) -> None:
    """Add the parts of a streamed reply to `parts` as they arrive."""
    async for part in model.stream(QUESTION):
        parts.append(part)  # noqa: PERF401 - each is seen when it arrives


async def failure(model: Model, *, stream: bool, request: Request = QUESTION) -> ModelRefused | ModelUnavailable:
    """Return the error of a question; neither it nor its causes may contain the key or the path of the URL."""
    with pytest.raises((ModelRefused, ModelUnavailable)) as caught:
        await ask(model, stream=stream, request=request)
    found = caught.value
    assert isinstance(found, ModelRefused | ModelUnavailable)
    error: BaseException | None = found
    while error is not None:
        told = f"{error!r} {error} {getattr(error, 'hint', '')} {getattr(error, 'detail', '')}"
        assert KEY not in told
        assert "http://" not in told
        error = error.__cause__ or error.__context__
    assert "\n" not in found.line()
    return found


# Rows.


async def test_only_none_opens_nothing(row: ModelRow) -> None:
    opened = await open_model(Variant(name=row.name), given(row.name, "http://localhost:1"))
    assert (opened is None) == (row.name == "none")
    if opened is not None:
        await opened.close()


async def test_it_is_called_what_the_program_calls_it_and_knows_its_model(kind: str, model: Model) -> None:
    assert model.name == kind
    assert model.model
    assert model.with_model("another").model == "another"


async def test_its_options_and_secrets_are_not_in_its_repr(model: Model) -> None:
    assert KEY not in repr(model)
    assert KEY not in repr(vars(model))


def test_no_option_is_required_so_that_an_agent_may_name_it_alone(row: ModelRow) -> None:
    assert not any(setting.required for setting in settings_of(row.options))
    # The only diagnostic: a model has no effect yet.
    assert _said_of_an_agent_with(row.name) <= {"R303"}


def test_an_agent_names_no_model_that_is_not_in_the_table() -> None:
    assert _said_of_an_agent_with("anything-else") == {"R301"}
    assert _said_of_an_agent_with('anything-else { url "http://example.org" }') == {"T403"}


def _said_of_an_agent_with(model: str) -> set[str]:
    found = analyse([Source("agents", f"agent reader {{ model {model} }}\n")], Catalog.installed()).diagnostics
    return {each.code for each in found if each.severity is not Severity.NOTE}


def test_it_is_described(row: ModelRow) -> None:
    assert row.title
    assert row.doc.endswith(".")
    assert all(setting.doc.endswith(".") for setting in settings_of(row.options))


def test_the_table_loads_neither_a_client_nor_numbers() -> None:
    names = ("aiohttp", "numpy", "onnxruntime", "pydantic_ai", "botocore")
    code = f"import sys, runtime.models; print([m for m in {names} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Replies.


async def test_it_answers_and_says_that_it_is_there(model: Model) -> None:
    assert await model.reachable()
    assert await model.generate("What happened?", system="Be brief.", max_tokens=20) == SAID


async def test_a_reply_has_the_text_the_reason_of_its_end_and_the_tokens(
    model: Model, service: Service, stream: bool
) -> None:
    cached = 20 if service.wire.cached else None
    service.answers.append(speaks(Said(SAID, cached=cached)))

    reply = await ask(model, stream=stream)

    assert reply == Reply(text=SAID, finish="stop", usage=Usage(tokens_in=31, tokens_out=11, cached=cached))
    assert service.prompts == ["What happened?"]


async def test_a_streamed_reply_arrives_in_parts(model: Model) -> None:
    parts = [part async for part in model.stream(QUESTION)]

    assert len(parts) > 3
    assert all(isinstance(part, str) for part in parts[:-1])
    assert isinstance(parts[-1], Reply)


async def test_a_reply_that_is_cut_off_at_its_limit_says_so(model: Model, service: Service, stream: bool) -> None:
    service.answers.append(speaks(Said("The deploy", finish="length")))

    assert (await ask(model, stream=stream)).finish == "length"


async def test_a_reply_may_be_empty(model: Model, service: Service, stream: bool) -> None:
    service.answers.append(speaks(Said("")))

    assert (await ask(model, stream=stream)).text == ""


async def test_reasoning_that_is_returned_separately_is_not_in_the_text(
    model: Model, service: Service, stream: bool
) -> None:
    if not service.wire.reasons:
        pytest.skip("the service returns no reasoning")
    service.answers.append(speaks(Said(SAID, reasoning="Which disk was it?")))
    reply = await ask(model, stream=stream)

    assert (reply.text, reply.reasoning) == (SAID, "Which disk was it?")


async def test_reasoning_in_the_text_stays_in_a_reply_and_is_no_answer(
    model: Model, service: Service, stream: bool
) -> None:
    said = f"<think>Which disk?</think>\n{SAID}"
    service.answers += [speaks(Said(said))] * 2

    reply = await ask(model, stream=stream)

    # The libraries of some providers separate it.
    assert (reply.text, reply.reasoning) in {(said, ""), (f"\n{SAID}", "Which disk?"), (SAID, "Which disk?")}
    assert await model.generate("What happened?", max_tokens=20) == SAID


async def test_a_schema_reaches_a_service_that_can_hold_a_model_to_it(
    model: Model, service: Service, stream: bool
) -> None:
    service.answers.append(speaks(Said('{"weather": "rain", "degrees": 7}')))
    await ask(model, stream=stream, request=Request(messages=MESSAGES, max_tokens=50, schema=SCHEMA))

    sent = service.wire.schema(service.bodies[0])
    assert (sent is not None) == model.holds_schema
    if sent is not None:
        assert set(sent["properties"]) == {"weather", "degrees"}


async def test_a_model_calls_the_tools_that_are_offered(model: Model, service: Service, stream: bool) -> None:
    service.answers.append(speaks(Said("I shall note it.", calls=CALLS, finish="calls")))
    request = Request(messages=MESSAGES, max_tokens=50, tools=(TOOL,))
    reply = await ask(model, stream=stream, request=request)

    assert model.native_calls
    assert service.wire.tools(service.bodies[0]) == ["memory_append"]
    assert reply.finish == "calls"
    assert [(call.name, _plain(call.arguments)) for call in reply.calls] == [
        (call.name, _plain(call.arguments)) for call in CALLS
    ]
    assert all(call.id for call in reply.calls)
    assert len({call.id for call in reply.calls}) == 2


async def test_calls_and_their_outputs_are_part_of_the_next_request(
    model: Model, service: Service, stream: bool
) -> None:
    broken = ToolCall("call_9c8d7e6f", "memory_append", '{"weather": ')
    outputs = [Message("tool", f"output {call.id}", call_id=call.id) for call in (*CALLS, broken)]
    messages = (*MESSAGES, Message("assistant", "I shall note it.", calls=(*CALLS, broken)), *outputs)
    reply = await ask(model, stream=stream, request=Request(messages=messages, max_tokens=50, tools=(TOOL,)))

    assert reply.text == SAID
    sent = str(service.bodies[0])
    assert all(message.text in sent for message in messages)


async def test_a_conversation_keeps_its_order(model: Model, service: Service) -> None:
    told = ("one", "two", "three", "four")
    messages = tuple(Message("assistant" if number % 2 else "user", text) for number, text in enumerate(told))
    await model.reply(Request(messages=(Message("system", "zero"), *messages, Message("user", "five")), max_tokens=50))

    sent = str(service.bodies[0])
    assert sorted(told, key=sent.index) == list(told)
    assert service.prompts == ["five"]


async def test_the_limits_of_a_request_reach_the_service(model: Model, service: Service) -> None:
    await model.reply(Request(messages=MESSAGES, max_tokens=77, temperature=0.25, stop=("END",)))

    sent = str(service.bodies[0])
    assert "77" in sent
    assert "0.25" in sent
    assert "END" in sent


def _plain(arguments: str) -> str:
    return arguments.replace(" ", "")


# A service that is away or overloaded.


async def test_a_service_that_is_not_there_is_unavailable(kind: str, stream: bool) -> None:
    async with opened(Service(kind, port=1)) as model:
        told = await failure(model, stream=stream)
        assert isinstance(told, ModelUnavailable)
        assert "localhost:1" in str(told)
        assert f"the model {kind} is unavailable" in str(told)
        assert not await model.reachable()


async def test_a_service_that_takes_too_long_is_unavailable(service: Service, stream: bool) -> None:
    service.answers.append(never)
    async with opened(service, timeout=timedelta(seconds=1)) as model:
        assert isinstance(await failure(model, stream=stream), ModelUnavailable)
    assert len(service.bodies) == 1


async def test_a_stream_that_stops_in_the_middle_is_unavailable(service: Service) -> None:
    service.answers.append(stalls())
    parts: list[str | Reply] = []
    async with opened(service, timeout=timedelta(seconds=1)) as model:
        with pytest.raises(ModelUnavailable):
            await collect(model, parts)
    assert parts
    assert SAID.startswith("".join(map(str, parts)))


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_a_service_that_cannot_just_now_is_asked_once(
    model: Model, service: Service, status: int, stream: bool
) -> None:
    service.answers.append(refuses(status, "please wait"))
    told = await failure(model, stream=stream)

    assert isinstance(told, ModelUnavailable)
    assert str(status) in str(told)
    assert len(service.bodies) == 1


async def test_the_time_that_a_service_asks_to_wait_is_told(model: Model, service: Service, stream: bool) -> None:
    service.answers.append(refuses(429, "please wait", **{"Retry-After": "7"}))
    told = await failure(model, stream=stream)

    assert isinstance(told, ModelUnavailable)
    assert told.retry_after == 7.0


@pytest.mark.parametrize("answer", [half(), stops_short()], ids=["closed", "ended"])
async def test_a_stream_that_breaks_in_the_middle_is_unavailable(
    model: Model, service: Service, answer: Answer
) -> None:
    service.answers.append(answer)

    assert isinstance(await failure(model, stream=True), ModelUnavailable)


async def test_half_an_answer_is_unavailable(model: Model, service: Service) -> None:
    service.answers.append(half())

    assert isinstance(await failure(model, stream=False), ModelUnavailable)


# What a person must correct.


@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_is_not_accepted_is_refused_and_not_shown(
    model: Model, service: Service, status: int, stream: bool
) -> None:
    service.answers.append(refuses(status, f"Incorrect API key provided: {KEY}"))
    told = await failure(model, stream=stream)

    assert isinstance(told, ModelRefused)
    assert not isinstance(told, WindowExceeded)
    assert len(service.bodies) == 1


@pytest.mark.parametrize("body", ["<html>", '{"choices": [{"mess', "", "null", "[]", "{}", '{"a": 5}'])
async def test_an_answer_that_is_no_reply_is_an_error(model: Model, service: Service, body: str, stream: bool) -> None:
    service.answers.append(says(200, body))

    assert "html" not in str(await failure(model, stream=stream))


async def test_a_request_that_is_larger_than_the_window_is_told_as_that(
    model: Model, service: Service, stream: bool
) -> None:
    service.answers.append(refuses(400, service.wire.window))

    assert isinstance(await failure(model, stream=stream), WindowExceeded)
    assert len(service.bodies) == 1


async def test_an_answer_without_an_end_is_not_read_to_its_end(model: Model, service: Service, stream: bool) -> None:
    if not service.wire.bounded:
        pytest.skip("the provider's library reads an answer to its end")
    service.answers.append(endless)

    await failure(model, stream=stream)
    await until(service.connections[0].is_closing)


async def test_a_compressed_answer_is_refused_before_it_is_unpacked(
    model: Model, service: Service, stream: bool
) -> None:
    if not service.wire.bounded:
        pytest.skip("the provider's library unpacks answers itself")
    service.answers.append(compressed)

    assert "sent a compressed answer, which was not requested" in str(await failure(model, stream=stream))
    assert len(service.bodies) == 1


# Connections.


async def test_a_stream_that_is_left_in_the_middle_leaves_no_open_connection(model: Model, service: Service) -> None:
    service.answers.append(stalls())
    stream = model.stream(QUESTION)
    assert isinstance(stream, AsyncGenerator)
    async with aclosing(stream):
        await anext(stream)

    await until(service.connections[0].is_closing)
    assert await model.generate("What happened?", max_tokens=20) == SAID


async def test_a_question_that_is_cancelled_leaves_no_open_connection(
    model: Model, service: Service, stream: bool
) -> None:
    if not service.wire.bounded and not stream:
        pytest.skip("the provider's library waits for the answer")
    service.answers.append(stalls() if stream else never)
    parts: list[str | Reply] = []
    asked = asyncio.ensure_future(collect(model, parts) if stream else ask(model, stream=False))
    await until(lambda: bool(parts if stream else service.bodies))
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked

    await until(service.connections[0].is_closing)
    assert await model.generate("What happened?", max_tokens=20) == SAID
