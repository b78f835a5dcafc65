"""The formats of the providers with an API of their own."""

from __future__ import annotations

import json
import struct
from binascii import crc32
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.runtime.models.wires import (
    OPENAI,
    Body,
    Said,
    Wire,
    events,
    openai_calls,
    openai_parts,
    openai_usage,
    openai_whole,
    typed_events,
)


def _text(content: Any) -> str:
    """Return the last text of a content that is text or a list of parts."""
    return content if isinstance(content, str) else str(content[-1].get("text", content[-1]))


# https://docs.anthropic.com/en/api/messages, https://docs.anthropic.com/en/api/messages-streaming

_ANTHROPIC_FINISHES = {"stop": "end_turn", "length": "max_tokens", "calls": "tool_use", "filtered": "refusal"}


def _anthropic_usage(said: Said) -> Body:
    cached = said.cached or 0
    return {
        "input_tokens": said.tokens_in - cached,
        "output_tokens": said.tokens_out,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
    }


def _anthropic_head(said: Said) -> Body:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _anthropic_usage(said),
    }


def _anthropic_whole(said: Said) -> Body:
    content: list[Body] = []
    if said.reasoning:
        content.append({"type": "thinking", "thinking": said.reasoning, "signature": "c2ln"})
    if said.text:
        content.append({"type": "text", "text": said.text})
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
        for call in said.calls
    ]
    return {**_anthropic_head(said), "content": content, "stop_reason": _ANTHROPIC_FINISHES[said.finish]}


def _anthropic_parts(said: Said) -> list[bytes]:
    blocks: list[tuple[Body, list[Body]]] = []
    if said.reasoning:
        thinking = {"type": "thinking", "thinking": "", "signature": ""}
        signature = {"type": "signature_delta", "signature": "c2ln"}
        blocks.append((thinking, [{"type": "thinking_delta", "thinking": said.reasoning}, signature]))
    if said.text:
        words = [{"type": "text_delta", "text": word} for word in said.words() if word]
        blocks.append(({"type": "text", "text": ""}, words))
    for call in said.calls:
        half = len(call.arguments) // 2
        halves = (call.arguments[:half], call.arguments[half:])
        start = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        blocks.append((start, [{"type": "input_json_delta", "partial_json": each} for each in halves]))
    told: list[Mapping[str, Any]] = [{"type": "message_start", "message": _anthropic_head(said)}]
    for index, (start, deltas) in enumerate(blocks):
        told.append({"type": "content_block_start", "index": index, "content_block": start})
        told += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        told.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": _ANTHROPIC_FINISHES[said.finish], "stop_sequence": None}
    told.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": said.tokens_out}})
    told.append({"type": "message_stop"})
    return typed_events(*told)


ANTHROPIC = Wire(
    path="/v1/messages",
    whole=_anthropic_whole,
    parts=_anthropic_parts,
    tools=lambda body: [tool["name"] for tool in body.get("tools", ())],
    schema=lambda body: body.get("output_config", {}).get("format", {}).get("schema"),
    asked=lambda body: _text(body["messages"][-1]["content"]),
    error=lambda text: {"type": "error", "error": {"type": "invalid_request_error", "message": text}},
    window="prompt is too long: 210000 tokens > 200000 maximum",
)


# https://ai.google.dev/api/generate-content

_GOOGLE_FINISHES = {"stop": "STOP", "length": "MAX_TOKENS", "calls": "STOP", "filtered": "SAFETY"}


def _google_answer(said: Said, parts: list[Body], *, end: bool) -> Body:
    candidate: Body = {"content": {"role": "model", "parts": parts}, "index": 0}
    if end:
        candidate["finishReason"] = _GOOGLE_FINISHES[said.finish]
    usage = {
        "promptTokenCount": said.tokens_in,
        "candidatesTokenCount": said.tokens_out,
        "totalTokenCount": said.tokens_in + said.tokens_out,
        **({} if said.cached is None else {"cachedContentTokenCount": said.cached}),
    }
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini", "responseId": "r-1"}


def _google_calls(said: Said) -> list[Body]:
    # The first of several calls is signed.
    signed = [{"thoughtSignature": "c2ln"}, *[{}] * len(said.calls)]
    return [
        {"functionCall": {"id": call.id, "name": call.name, "args": json.loads(call.arguments)}, **sign}
        for call, sign in zip(said.calls, signed, strict=False)
    ]


def _google_thoughts(said: Said) -> list[Body]:
    return [{"text": said.reasoning, "thought": True}] if said.reasoning else []


def _google_whole(said: Said) -> Body:
    text = [{"text": said.text}] if said.text else []
    return _google_answer(said, [*_google_thoughts(said), *text, *_google_calls(said)], end=True)


def _google_parts(said: Said) -> list[bytes]:
    parts = [*_google_thoughts(said), *({"text": word} for word in said.words() if word), *_google_calls(said)]
    answers = [_google_answer(said, [part], end=False) for part in parts]
    return events(*answers, _google_answer(said, [{"text": ""}], end=True))


def _google_tools(body: Body) -> list[str]:
    return [each["name"] for tool in body.get("tools", ()) for each in tool["functionDeclarations"]]


GOOGLE = Wire(
    path="/v1beta/models/",
    whole=_google_whole,
    parts=_google_parts,
    streams=lambda path, _body: "streamGenerateContent" in path,
    tools=_google_tools,
    schema=lambda body: body.get("generationConfig", {}).get("responseJsonSchema"),
    asked=lambda body: _text(body["contents"][-1]["parts"]),
    error=lambda text: {"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}},
    window="The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
)


# https://console.groq.com/docs/api-reference and https://docs.mistral.ai/api are almost OpenAI's.


def _groq_reasoning(told: bytes) -> bytes:
    return told.replace(b'"reasoning_content"', b'"reasoning"')


def _groq_parts(said: Said) -> list[bytes]:
    *parts, _usage, done = openai_parts(said)
    last = json.loads(parts[-1].removeprefix(b"data: "))
    usage = {"x_groq": {"id": "req_1", "usage": openai_usage(said)}}
    return [*map(_groq_reasoning, parts[:-1]), *events({**last, **usage}), done]


GROQ = replace(
    OPENAI,
    base="/openai/v1",
    whole=lambda said: json.loads(_groq_reasoning(json.dumps(openai_whole(said)).encode())),
    parts=_groq_parts,
    window="Please reduce the length of the messages or completion.",
)


def _mistral_parts(said: Said) -> list[bytes]:
    # Calls arrive whole, with the reason of the end.
    *parts, end, usage, done = openai_parts(replace(said, calls=()))
    if said.calls:
        last = json.loads(end.removeprefix(b"data: "))
        calls = [{**call, "index": index} for index, call in enumerate(openai_calls(said))]
        last["choices"][0]["delta"] = {"content": "", "tool_calls": calls}
        end = events(last)[0]
    return [*parts, end, usage, done]


MISTRAL = replace(
    OPENAI,
    parts=_mistral_parts,
    error=lambda text: {"object": "error", "message": text, "type": "invalid_request_error", "code": "1000"},
    window="Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    reasons=False,
)


# https://docs.cohere.com/reference/chat, https://docs.cohere.com/reference/chat-stream

_COHERE_FINISHES = {"stop": "COMPLETE", "length": "MAX_TOKENS", "calls": "TOOL_CALL", "filtered": "ERROR"}


def _cohere_calls(said: Said) -> list[Body]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in said.calls
    ]


def _cohere_usage(said: Said) -> Body:
    tokens = {"input_tokens": said.tokens_in, "output_tokens": said.tokens_out}
    return {"billed_units": tokens, "tokens": tokens}


def _cohere_whole(said: Said) -> Body:
    content: list[Body] = [{"type": "thinking", "thinking": said.reasoning}] if said.reasoning else []
    content += [{"type": "text", "text": said.text}] if said.text else []
    message = {"role": "assistant", "content": content}
    calls = {"tool_calls": _cohere_calls(said)} if said.calls else {}
    return {
        "id": "c-1",
        "finish_reason": _COHERE_FINISHES[said.finish],
        "message": {**message, **calls},
        "usage": _cohere_usage(said),
    }


def _cohere_delta(kind: str, index: int, message: Body) -> Body:
    return {"type": kind, "index": index, "delta": {"message": message}}


def _cohere_parts(said: Said) -> list[bytes]:
    told: list[Body] = [
        {"type": "message-start", "id": "c-1", "delta": {"message": {"role": "assistant", "content": []}}}
    ]
    if said.reasoning:
        told.append(_cohere_delta("content-start", 0, {"content": {"type": "thinking", "thinking": ""}}))
        told.append(_cohere_delta("content-delta", 0, {"content": {"thinking": said.reasoning}}))
        told.append({"type": "content-end", "index": 0})
    if said.text:
        index = 1 if said.reasoning else 0
        told.append(_cohere_delta("content-start", index, {"content": {"type": "text", "text": ""}}))
        told += [_cohere_delta("content-delta", index, {"content": {"text": word}}) for word in said.words() if word]
        told.append({"type": "content-end", "index": index})
    for index, call in enumerate(_cohere_calls(said)):
        arguments = call["function"]["arguments"]
        start = {**call, "function": {**call["function"], "arguments": ""}}
        told.append(_cohere_delta("tool-call-start", index, {"tool_calls": start}))
        halves = (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :])
        told += [
            _cohere_delta("tool-call-delta", index, {"tool_calls": {"function": {"arguments": each}}})
            for each in halves
        ]
        told.append({"type": "tool-call-end", "index": index})
    end = {"finish_reason": _COHERE_FINISHES[said.finish], "usage": _cohere_usage(said)}
    told.append({"type": "message-end", "delta": end})
    return [*typed_events(*told), b"data: [DONE]\n\n"]


COHERE = Wire(
    path="/v2/chat",
    whole=_cohere_whole,
    parts=_cohere_parts,
    tools=lambda body: [tool["function"]["name"] for tool in body.get("tools") or ()],
    schema=lambda body: (body.get("response_format") or {}).get("json_schema"),
    asked=lambda body: _text(body["messages"][-1]["content"]),
    error=lambda text: {"id": "e-1", "message": text},
    window="too many tokens: total number of tokens in the prompt cannot exceed 4081",
    cached=False,
)


# https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html and …_ConverseStream.html, in
# https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html (the binary format of streams)

_BEDROCK_FINISHES = {"stop": "end_turn", "length": "max_tokens", "calls": "tool_use", "filtered": "content_filtered"}


def _bedrock_usage(said: Said) -> Body:
    cached = said.cached or 0
    usage = {"inputTokens": said.tokens_in - cached, "outputTokens": said.tokens_out, "totalTokens": 42}
    return {**usage, **({"cacheReadInputTokens": cached} if cached else {})}


def _bedrock_reasoning(said: Said) -> list[Body]:
    text = {"text": said.reasoning, "signature": "c2ln"}
    return [{"reasoningContent": {"reasoningText": text}}] if said.reasoning else []


def _bedrock_whole(said: Said) -> Body:
    content = [*_bedrock_reasoning(said), *([{"text": said.text}] if said.text else [])]
    content += [
        {"toolUse": {"toolUseId": call.id, "name": call.name, "input": json.loads(call.arguments)}}
        for call in said.calls
    ]
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _BEDROCK_FINISHES[said.finish],
        "usage": _bedrock_usage(said),
        "metrics": {"latencyMs": 5},
    }


def bedrock_event(kind: str, body: Body) -> bytes:
    """Return a part of a stream."""
    return _bedrock_message(body, {":event-type": kind, ":message-type": "event"})


def bedrock_exception(kind: str, body: Body) -> bytes:
    """Return the part that ends a stream with an error."""
    return _bedrock_message(body, {":exception-type": kind, ":message-type": "exception"})


def _bedrock_message(body: Body, kinds: Mapping[str, str]) -> bytes:
    headers = b""
    for name, value in {**kinds, ":content-type": "application/json"}.items():
        headers += struct.pack("!B", len(name)) + name.encode() + b"\x07"
        headers += struct.pack("!H", len(value)) + value.encode()
    payload = json.dumps(body).encode()
    prelude = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack("!I", crc32(prelude)) + headers + payload
    return message + struct.pack("!I", crc32(message))


def _bedrock_parts(said: Said) -> list[bytes]:
    blocks: list[tuple[Body | None, list[Body]]] = []
    if said.reasoning:
        thought = [{"reasoningContent": {"text": said.reasoning}}, {"reasoningContent": {"signature": "c2ln"}}]
        blocks.append((None, thought))
    if said.text:
        blocks.append((None, [{"text": word} for word in said.words() if word]))
    for call in said.calls:
        half = len(call.arguments) // 2
        halves = (call.arguments[:half], call.arguments[half:])
        start = {"toolUse": {"toolUseId": call.id, "name": call.name}}
        blocks.append((start, [{"toolUse": {"input": each}} for each in halves]))
    told = [bedrock_event("messageStart", {"role": "assistant"})]
    for index, (begun, deltas) in enumerate(blocks):
        if begun is not None:
            told.append(bedrock_event("contentBlockStart", {"contentBlockIndex": index, "start": begun}))
        told += [bedrock_event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta}) for delta in deltas]
        told.append(bedrock_event("contentBlockStop", {"contentBlockIndex": index}))
    told.append(bedrock_event("messageStop", {"stopReason": _BEDROCK_FINISHES[said.finish]}))
    told.append(bedrock_event("metadata", {"usage": _bedrock_usage(said), "metrics": {"latencyMs": 5}}))
    return told


def _bedrock_schema(body: Body) -> Any:
    structure = body.get("outputConfig", {}).get("textFormat", {}).get("structure", {})
    schema = structure.get("jsonSchema", {}).get("schema")
    return json.loads(schema) if isinstance(schema, str) else schema


BEDROCK = Wire(
    path="/model/",
    whole=_bedrock_whole,
    parts=_bedrock_parts,
    streams=lambda path, _body: path.endswith("/converse-stream"),
    tools=lambda body: [tool["toolSpec"]["name"] for tool in body.get("toolConfig", {}).get("tools", ())],
    schema=_bedrock_schema,
    asked=lambda body: _text(body["messages"][-1]["content"]),
    streaming="application/vnd.amazon.eventstream",
    error=lambda text: {"message": text},
    window="Input is too long for requested model.",
    bounded=False,
)


PROVIDERS: Mapping[str, Wire] = {
    "anthropic": ANTHROPIC,
    "bedrock": BEDROCK,
    "cohere": COHERE,
    "google": GOOGLE,
    "groq": GROQ,
    "mistral": MISTRAL,
}
