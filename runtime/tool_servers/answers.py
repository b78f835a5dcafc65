"""Answers of servers, in a form that the SDK reads. It refuses a whole list of tools, or a whole result, for one part
that the protocol does not allow."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

SCHEMA: Final = "schema"
"""Key of the `_meta` of a tool that has its schema as the server gave it."""
_OF_A_CALL: Final = frozenset({"content", "structuredContent", "isError"})
"""Some servers leave out the content of a call that has none."""
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint")


@asynccontextmanager
async def valid_answers(transport: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
    """Connect by a transport, and yield its streams with such answers."""
    async with transport as (reads, writes):
        yield _Readable(reads), writes


class _Readable:
    """A stream of messages of a server."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        message: SessionMessage | Exception = await self._inner.receive()
        if isinstance(message, SessionMessage) and isinstance(message.message, JSONRPCResponse):
            result = message.message.result
            if isinstance(result.get("tools"), list):
                _mend_list(result)
            elif not result or result.keys() & _OF_A_CALL:
                _mend_result(result)
        return message

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _mend_list(result: dict[str, Any]) -> None:
    result["tools"] = [_tool_fields(_object(each)) for each in result["tools"]]
    if not isinstance(result.get("nextCursor"), str):
        result.pop("nextCursor", None)


def _tool_fields(tool: dict[str, Any]) -> dict[str, Any]:
    """Return what is used of a tool."""
    schema = tool.get("inputSchema")
    # The SDK makes headers of some parameters.
    parameters = _object(_object(schema).get("properties"))
    hints = _object(tool.get("annotations"))
    return {
        **{key: tool[key] if isinstance(tool.get(key), str) else "" for key in ("name", "description")},
        "inputSchema": {
            "type": "object",
            "properties": {name: part for name, part in parameters.items() if isinstance(part, dict)},
        },
        "annotations": {key: hints[key] for key in _HINTS if isinstance(hints.get(key), bool)},
        "_meta": {SCHEMA: schema},
    }


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _mend_result(result: dict[str, Any]) -> None:
    content, structured = result.get("content"), result.get("structuredContent")
    parts = content if isinstance(content, list) else [] if content is None else [content]
    texts = [text for text in map(_text, parts) if text]
    if not isinstance(structured, dict | None):
        # Older versions of the protocol allow objects only.
        del result["structuredContent"]
        texts = texts or [json.dumps(structured, ensure_ascii=False)]
    result["content"] = [{"type": "text", "text": "\n".join(texts)}] if texts else []


def _text(part: Any) -> str:
    """Return a part of a result as text; what is no text is named."""
    match part:
        case str():
            return part
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image" | "audio" as kind, "mimeType": str(mime), "data": str(data)}:
            return f"[{kind} {mime}, {len(data) * 3 // 4} bytes]"
        case {"type": "resource_link", "uri": str(uri)}:
            return f"[resource {uri}]"
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(blob)}}:
            return f"[resource {uri}, {len(blob) * 3 // 4} bytes]"
        case {"type": str(kind)}:
            return f"[{kind[:64]}, which is not shown]"
    return "[a part without a type]"
