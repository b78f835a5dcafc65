"""Models of providers by their own libraries: what is needed to open them, and what is not read."""

from __future__ import annotations

import json
import subprocess
import sys

import msgspec
import pytest
from msgspec import structs

from dslc.blocks.variant import Variant
from runtime import extras
from runtime.errors import UsageError
from runtime.models import MODELS, open_model
from runtime.models.direct import providers
from runtime.models.model import ModelRefused
from runtime.models.request import Message, ToolCall
from runtime.secrets.secret import Secret
from tests.contracts.test_models import CALLS, KEY, MESSAGES, QUESTION, TOOL, ask, opened
from tests.lanes import first_of
from tests.runtime.models.services import SAID, refuses, serving, speaks
from tests.runtime.models.wires import Said

ROWS = [row.name for row in MODELS.values() if row.extra == "models"]


@pytest.mark.parametrize("name", ROWS)
async def test_a_missing_key_is_told_and_not_taken_from_the_environment(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("ANTHROPIC_API_KEY", "CO_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.setenv(variable, KEY)
    model = await open_model(Variant(name=name), {})
    assert model is not None
    assert not await model.reachable()
    with pytest.raises(ModelRefused, match=f"the model {name} needs a key") as caught:
        await model.reply(QUESTION)
    assert "api_key" in str(caught.value.hint)


@pytest.mark.parametrize("name", ROWS)
async def test_a_missing_package_is_told_with_the_command_that_installs_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "find_spec", lambda _package: None)
    with pytest.raises(UsageError, match=f"the model {name} needs packages") as caught:
        await open_model(Variant(name=name), _keys(name))
    assert caught.value.hint == extras.install("models")


@pytest.mark.parametrize("name", ROWS)
async def test_a_key_that_was_not_resolved_or_is_invalid_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="could not be resolved"):
        await open_model(Variant(name=name), {"api_key": "secret://env/KEY"})
    with pytest.raises(UsageError) as caught:
        await open_model(Variant(name=name), {"api_key": Secret(b"two words", "env KEY")})
    assert caught.value.line() == f"the key of the model {name}, env KEY, contains characters that are invalid in a key"


@first_of("name", list(ROWS))
async def test_urls_and_proxies_of_the_environment_are_not_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = "http://localhost:1"
    for variable in (
        "ANTHROPIC_BASE_URL",
        "CO_BASE_URL",
        "GROQ_BASE_URL",
        "GOOGLE_GEMINI_BASE_URL",
        "AWS_ENDPOINT_URL",
    ):
        monkeypatch.setenv(variable, nowhere)
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "AWS_PROFILE"):
        monkeypatch.setenv(variable, nowhere)
    async with serving(name) as service, opened(service) as model:
        assert (await ask(model, stream=False)).text == SAID
        assert (await ask(model, stream=True)).text == SAID


@pytest.mark.parametrize("name", ROWS)
async def test_the_providers_explanation_is_told(name: str) -> None:
    async with serving(name) as service, opened(service) as model:
        service.answers.append(refuses(400, "the moon is not full"))
        with pytest.raises(ModelRefused, match="the moon is not full"):
            await model.reply(QUESTION)


@first_of("name", ["anthropic", "bedrock", "google"])
async def test_signed_thoughts_are_sent_back_with_their_calls_to_the_same_model(name: str) -> None:
    signed = '"c2ln"'
    said = Said(calls=CALLS, finish="calls", reasoning="Hm.")
    async with serving(name) as service, opened(service) as model:
        for stream in (False, True):
            service.answers[:] = [speaks(said)]
            asked = structs.replace(QUESTION, tools=(TOOL,))
            reply = await ask(model, stream=stream, request=asked)
            # As they are read from a thread.
            stored = msgspec.json.decode(msgspec.json.encode(reply.calls), type=tuple[ToolCall, ...])
            calls = tuple(structs.replace(call, id=f"run_{number}") for number, call in enumerate(stored))
            outputs = [Message("tool", "Noted.", call_id=call.id) for call in calls]
            request = structs.replace(asked, messages=(*MESSAGES, Message("assistant", "", calls), *outputs))
            for each, sends in ((model, True), (model.with_model("other"), False)):
                await each.reply(request)
                sent = json.dumps(service.bodies[-1])
                assert (signed in sent) == sends, (stream, sends)
                assert sent.count("run_0") >= (name != "google")


def test_opening_another_row_imports_no_library_of_a_provider() -> None:
    code = (
        "import asyncio, sys; from runtime.models import open_model; from dslc.blocks.variant import Variant;"
        "asyncio.run(open_model(Variant(name='ollama'), {}));"
        "print([m for m in ('pydantic_ai', 'anthropic', 'boto3', 'cohere', 'groq') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _keys(name: str) -> dict[str, object]:
    names = ("access_key_id", "secret_access_key") if name == "bedrock" else ("api_key",)
    return {each: Secret(KEY.encode(), "env KEY") for each in names}
