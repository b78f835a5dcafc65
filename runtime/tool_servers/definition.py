"""The definition of a server's tool as a person approves it and as a model sees it: bounded, in plain text, with a
schema that refers to nothing."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple, Self

from runtime.tool_servers.schema import plain_schema

LONGEST_DESCRIPTION: Final = 4000
"""Maximum characters of a description; the rest is cut."""
LARGEST_SCHEMA: Final = 64 * 1024
"""Maximum bytes of a schema as JSON; a tool with a larger one is refused."""
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
# Controls, marks of direction, invisible characters: what a person does not see must not reach a model.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})


class InvalidTool(ValueError):  # noqa: N818
    """A tool is not offered, for the reason in the message."""


class ToolDefinition(NamedTuple):
    """A tool of a server. `schema`: of its parameters, an object. The last three are what the server says about it;
    None if it does not say."""

    name: str
    description: str
    schema: Mapping[str, Any]
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None

    @property
    def digest(self) -> str:
        """Identifies everything that is approved of the tool."""
        return digest_of(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the definition as JSON data."""
        return self._asdict()

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Read the result of `to_json`. Raises TypeError for other data."""
        return cls(**given)


def digest_of(value: Any) -> str:
    """Return the SHA-256 of JSON data, in hexadecimal digits, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def defined(
    name: str,
    description: str | None,
    schema: Any,
    *,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
) -> ToolDefinition:
    """Return the definition of a tool as a server gave it. Raises InvalidTool."""
    if _NAME.fullmatch(name) is None:
        raise InvalidTool("its name is not 1 to 128 letters, digits, `_`, `-` and `.`")
    try:
        plain = _visible(plain_schema(schema))
    except ValueError as error:
        raise InvalidTool(f"its schema {error}") from None
    if len(json.dumps(plain)) > LARGEST_SCHEMA:
        raise InvalidTool(f"its schema has more than {LARGEST_SCHEMA} bytes")
    said = visible(description or "").strip()
    if len(said) > LONGEST_DESCRIPTION:
        said = f"{said[:LONGEST_DESCRIPTION]} …"
    return ToolDefinition(name, said, plain, read_only, destructive, idempotent)


def visible(text: str) -> str:
    """Return a text without characters that are not shown, except line ends and tabs."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each for each in text if each in "\n\t" or unicodedata.category(each) not in _UNSEEN)


def _visible(part: Any) -> Any:
    """Return a schema whose texts for readers are `visible`."""
    if isinstance(part, list):
        return [_visible(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        key: visible(value) if key in {"description", "title"} and isinstance(value, str) else _visible(value)
        for key, value in part.items()
    }
