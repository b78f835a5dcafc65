"""Refusals of providers, read by their own libraries: what ends one run, what is a reply to correct, and what a person
must fix.

The bodies are those of the providers' documentation and of public reports, such as
https://github.com/anthropics/claude-code/issues/58367, https://github.com/strands-agents/harness-sdk/issues/649,
https://github.com/aws-samples/sample-multi-agent-orchestration-chat-on-agentcore/issues/15,
https://github.com/NousResearch/hermes-agent/pull/83886 and
https://github.com/cohere-ai/cohere-developer-experience/pull/189.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import structs

from runtime.errors import SymbiontError
from runtime.models.model import Model
from runtime.models.request import Reply, Request
from tests.contracts.test_models import QUESTION, TOOL, opened
from tests.lanes import first_of
from tests.runtime.models.provider_wires import bedrock_event, bedrock_exception
from tests.runtime.models.services import Answer, says, sends, serving, speaks
from tests.runtime.models.wires import Said, events, typed_events

_BLOCKED = "Output blocked by content filtering policy"
_NO_CALL = (
    "Model produced invalid sequence as part of ToolUse. Please refer to the model tool use troubleshooting guide."
)
_BAD_CALL = '{"name": "memory_append", "arguments": {"weather": 1}}'
_USAGE = {"input_tokens": 1, "output_tokens": 0}
_HEAD: Mapping[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [],
    "stop_reason": None,
}
_BEGUN = {"type": "message_start", "message": {**_HEAD, "usage": _USAGE}}
_DECLINED = {"type": "refusal", "category": "cyber", "explanation": "This could enable cyber harm."}


class Case(NamedTuple):
    """What a provider answers, whole or as a stream, and what becomes of it."""

    answer: Answer
    outcome: str
    streamed: bool | None = None
    """None: the same however it is asked."""


def anthropic(status: int, kind: str, message: str) -> Answer:
    return says(status, {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})


def google(**answer: Any) -> Answer:
    """Return an answer that is whole, and the only part of a stream."""
    usage = {"promptTokenCount": 9, "totalTokenCount": 9}
    return _either({**answer, "usageMetadata": usage, "modelVersion": "gemini"})


def google_end(reason: str, **more: Any) -> Answer:
    return google(candidates=[{"content": {}, "finishReason": reason, "index": 0, **more}])


def google_error(status: int, kind: str, message: str) -> Answer:
    return says(status, {"error": {"code": status, "message": message, "status": kind}})


def bedrock(status: int, kind: str, message: str) -> Answer:
    return says(status, {"message": message}, **{"x-amzn-errortype": kind})


def bedrock_end(reason: str, text: str = "") -> Answer:
    content = [{"text": text}] if text else []
    message = {"role": "assistant", "content": content}
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    whole = {"output": {"message": message}, "stopReason": reason, "usage": usage, "metrics": {"latencyMs": 5}}
    return says(200, whole)


def groq(code: str, generation: str) -> dict[str, Any]:
    error = {"message": "Failed.", "type": "invalid_request_error", "code": code, "failed_generation": generation}
    return {"error": error}


def _either(answer: Mapping[str, Any]) -> Answer:
    async def respond(question: Any) -> Any:
        return await (sends(*events(answer)) if question.stream else says(200, answer))(question)

    return respond


CASES: Mapping[str, list[Case]] = {
    "anthropic": [
        Case(
            anthropic(400, "invalid_request_error", _BLOCKED),
            f"RequestRefused: HOST refuses what the request says: {_BLOCKED}",
        ),
        Case(
            sends(
                *typed_events(
                    _BEGUN, {"type": "error", "error": {"type": "invalid_request_error", "message": _BLOCKED}}
                )
            ),
            f"RequestRefused: HOST refuses what the request says: {_BLOCKED}",
            streamed=True,
        ),
        Case(
            anthropic(400, "invalid_request_error", "messages.1: text content blocks must be non-empty"),
            "RequestRefused: the model anthropic is refused: HOST answered 400: "
            "messages.1: text content blocks must be non-empty",
        ),
        Case(
            says(200, {**_HEAD, "stop_reason": "refusal", "stop_details": _DECLINED, "usage": _USAGE}),
            "RequestRefused: HOST refuses what the request says: This could enable cyber harm",
            streamed=False,
        ),
        Case(speaks(Said("Hello", finish="filtered")), "RequestRefused: HOST refuses what the request says: a policy"),
        Case(
            anthropic(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
            "AccessRefused: ",
        ),
        Case(anthropic(403, "permission_error", "Your API key may not use this resource."), "AccessRefused: "),
        Case(anthropic(404, "not_found_error", "model: claude-9"), "NoSuchModel: "),
        Case(anthropic(529, "overloaded_error", "Overloaded"), "ModelUnavailable: "),
    ],
    "google": [
        Case(
            google(promptFeedback={"blockReason": "PROHIBITED_CONTENT"}),
            "RequestRefused: HOST refuses what the request says: PROHIBITED_CONTENT",
        ),
        Case(google_end("SAFETY"), "filtered"),
        Case(google_end("LANGUAGE"), "filtered"),
        Case(
            google_end("MALFORMED_FUNCTION_CALL", finishMessage="Malformed function call: print(default_api.f(x=1))"),
            "malformed",
        ),
        Case(google_end("UNEXPECTED_TOOL_CALL"), "malformed"),
        Case(google_end("OTHER"), "stop"),
        Case(
            google_error(400, "INVALID_ARGUMENT", "Please use a valid role: user, model."),
            "RequestRefused: the model google is refused: HOST answered 400: Please use a valid role: user, model",
        ),
        Case(
            google_error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."), "AccessRefused: "
        ),
        Case(
            google_error(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
            "AccessRefused: ",
        ),
    ],
    "bedrock": [
        Case(bedrock(424, "ModelErrorException", _NO_CALL), "malformed"),
        Case(
            sends(
                bedrock_event("messageStart", {"role": "assistant"}),
                bedrock_exception("modelStreamErrorException", {"message": _NO_CALL}),
            ),
            "malformed",
            streamed=True,
        ),
        Case(bedrock_end("malformed_tool_use"), "malformed", streamed=False),
        Case(bedrock_end("malformed_model_output", "{"), "malformed {", streamed=False),
        Case(bedrock_end("content_filtered"), "filtered", streamed=False),
        Case(
            bedrock_end("guardrail_intervened", "Sorry, I cannot answer this."),
            "RequestRefused: HOST refuses what the request says: Sorry, I cannot answer this",
            streamed=False,
        ),
        Case(
            bedrock(
                400, "ValidationException", "The content field at messages.2.content.0.toolResult cannot be empty."
            ),
            "RequestRefused: the model bedrock is refused: HOST answered 400: "
            "The content field at messages.2.content.0.toolResult cannot be empty",
        ),
        Case(bedrock(400, "ValidationException", "The provided model identifier is invalid."), "NoSuchModel: "),
        Case(bedrock(403, "AccessDeniedException", "You don't have access to the model."), "AccessRefused: "),
        Case(bedrock(429, "ThrottlingException", "Too many requests"), "ModelUnavailable: "),
    ],
    "cohere": [
        Case(says(498, {"message": "the request may violate the usage guidelines"}), "RequestRefused: "),
        Case(
            says(400, {"message": "invalid request: message must be at least 1 token long."}),
            "RequestRefused: the model cohere is refused: HOST answered 400: "
            "invalid request: message must be at least 1 token long",
        ),
        Case(
            says(402, {"message": "Please add a payment method at https://dashboard.cohere.com/billing"}),
            "AccessRefused: ",
        ),
        Case(says(404, {"message": "model 'x' not found, make sure the correct model ID was used."}), "NoSuchModel: "),
        Case(
            speaks(Said("Hello", finish="filtered")),
            "ModelUnavailable: the model cohere is unavailable: HOST ended its answer with an error: ERROR",
        ),
    ],
    "groq": [
        Case(says(400, groq("tool_use_failed", _BAD_CALL)), f"malformed {_BAD_CALL}"),
        Case(says(400, groq("json_validate_failed", "{")), "malformed {"),
        Case(sends(*events(groq("tool_use_failed", _BAD_CALL))), f"malformed {_BAD_CALL}", streamed=True),
    ],
    "mistral": [
        Case(
            says(400, {"object": "error", "message": "Expected last role User or Tool", "code": "3230"}),
            "RequestRefused: the model mistral is refused: HOST answered 400: Expected last role User or Tool",
        ),
    ],
}


async def _reply(model: Model, request: Request, *, stream: bool) -> Reply:
    if not stream:
        return await model.reply(request)
    last = [part async for part in model.stream(request)][-1]
    assert isinstance(last, Reply)
    return last


@first_of("row", list(CASES), 2)
async def test_each_refusal_is_what_the_provider_means(row: str) -> None:
    asked = structs.replace(QUESTION, tools=(TOOL,))
    outcomes, expected = [], []
    async with serving(row) as service, opened(service) as model:
        for case in CASES[row]:
            for stream in (False, True) if case.streamed is None else (case.streamed,):
                service.answers[:] = [case.answer]
                try:
                    reply = await _reply(model, asked, stream=stream)
                    outcome = f"{reply.finish} {reply.text}".strip()
                except SymbiontError as error:
                    outcome = f"{type(error).__name__}: {error}".replace(service.host, "HOST")
                cut = case.outcome.endswith(": ")
                outcomes.append(outcome[: len(case.outcome)] if cut else outcome)
                expected.append(case.outcome)
    assert outcomes == expected
