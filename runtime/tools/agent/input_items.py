"""The input of a chat: a text, or input items of the Responses API (platform.openai.com/docs/api-reference/responses,
`input`), of which messages of the user with text are supported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import Field, WithJsonSchema

from runtime.tools.failure import wrong
from runtime.tools.tool import ParameterAlias

_EXAMPLE: Final = [{"role": "user", "content": [{"type": "input_text", "text": "What did we decide about the API?"}]}]
_TEXT: Final = {
    "type": "object",
    "properties": {"type": {"const": "input_text"}, "text": {"type": "string"}},
    "required": ["type", "text"],
    "additionalProperties": False,
}
_ITEM: Final = {
    "type": "object",
    "properties": {
        "type": {"const": "message"},
        "role": {"const": "user"},
        "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": _TEXT}]},
    },
    "required": ["role", "content"],
    "additionalProperties": False,
}

Input = Annotated[
    Any,
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": _ITEM}]}),
    Field(
        description="The message: a text, or a list of input items of the Responses API with the role `user` and "
        "contents of the type `input_text`. Several are one message, in paragraphs.",
        examples=["What did we decide about the API?"],
    ),
    ParameterAlias(("message",)),
]


def text_of_input(given: Any) -> str:
    """Return the text of an input. Raises WrongParameters, which names the part that is not supported."""
    if isinstance(given, str):
        return given
    if not isinstance(given, list):
        raise wrong("input", "it is neither a text nor a list of input items", example=_EXAMPLE)
    return "\n\n".join(text for place, item in enumerate(given) for text in _texts(f"input.{place}", item))


def _texts(path: str, item: Any) -> Iterator[str]:
    known = _object(path, item, ("type", "role", "content"))
    if known.get("type", "message") != "message":
        raise _unsupported(f"{path}.type", known["type"], "message")
    if known.get("role") != "user":
        raise _unsupported(f"{path}.role", known.get("role"), "user")
    content = known.get("content")
    if isinstance(content, str):
        yield content
        return
    if not isinstance(content, list):
        raise wrong(f"{path}.content", "it is neither a text nor a list of contents", example=_EXAMPLE)
    for place, part in enumerate(content):
        inside = f"{path}.content.{place}"
        found = _object(inside, part, ("type", "text"))
        if found.get("type") != "input_text":
            raise _unsupported(f"{inside}.type", found.get("type"), "input_text")
        if not isinstance(found.get("text"), str):
            raise wrong(f"{inside}.text", "it is no text", example=_EXAMPLE)
        yield found["text"]


def _object(path: str, given: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise wrong(path, "it is no object", example=_EXAMPLE)
    kind = given.get("type")
    if isinstance(kind, str) and kind not in ("message", "input_text"):
        # More useful than the first name that only such an item has.
        raise _unsupported(f"{path}.type", kind, "input_text" if "text" in names else "message")
    for name in given:
        if name not in names:
            raise wrong(f"{path}.{name}", "it is not supported", hint=f"supported are {', '.join(names)}")
    return given


def _unsupported(path: str, given: object, supported: str) -> Exception:
    what = f"{given[:40]!r} is not supported" if isinstance(given, str) else "it is missing"
    return wrong(path, f"{what}; only {supported!r} is", example=_EXAMPLE)
