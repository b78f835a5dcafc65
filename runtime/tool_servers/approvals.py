"""Approvals of the servers by a person: command or address, and tools. A program file is reloaded when it changes, so
what stands in it is not enough to start anything."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import structlog

from dslc.blocks.mcp import McpServer
from dslc.blocks.values.secret import is_reference, valid_secret
from dslc.setting import names_secret
from runtime.tool_servers.definition import ToolDefinition, digest_of

log = structlog.get_logger("symbiont.mcp")

LITERAL: Final = "[literal {}]"
"""Shown in place of a secret that is written in the program, with a code that only who has the master key can make, and
that is another one for another secret."""

Facts = Mapping[str, Any]
"""Approved facts of a server besides its tools, as JSON data: every part of its block that decides what is started,
with which variables, or which address gets which secret."""


class Approval(NamedTuple):
    """The approval of one server. `at`: Unix milliseconds."""

    facts: Facts
    tools: tuple[ToolDefinition, ...]
    at: int


class Approvals:
    """The approvals of one root. They are stored with a code that only who has the master key can make: what else can
    write files in the root approves nothing."""

    def __init__(
        self, read: Callable[[], Mapping[str, Any]], write: Callable[[Mapping[str, Any]], None], key: bytes
    ) -> None:
        """`read` returns the stored JSON object, empty without one; `write` replaces it. `key`: 32 bytes that only a
        process with the master key has."""
        self._read = read
        self._write = write
        self._key = key

    def all(self) -> dict[str, Approval]:
        """Return the approvals by server. None counts if the file was changed by something else."""
        stored = self._read()
        servers = stored.get("servers", {})
        if not stored:
            return {}
        if not hmac.compare_digest(str(stored.get("code")), self._code(servers)):
            log.error("mcp_approvals_invalid")
            return {}
        return {
            name: Approval(each["facts"], tuple(map(ToolDefinition.from_json, each["tools"])), each["at"])
            for name, each in servers.items()
        }

    def store(self, name: str, approval: Approval) -> None:
        """Replace the approval of a server. Raises OSError."""
        servers = {
            each: {"facts": one.facts, "tools": [tool.to_json() for tool in one.tools], "at": one.at}
            for each, one in {**self.all(), name: approval}.items()
        }
        self._write({"servers": servers, "code": self._code(servers)})

    def facts_of(self, block: McpServer) -> dict[str, Any]:
        """Return what a person approves of a block. It contains references to secrets, and no secret."""
        if block.command is not None:
            return {"command": list(block.command), "env": self._values(block.env)}
        token = {} if block.token is None else {"token": self._value("token", block.token)}
        return {"url": block.url, **token, "headers": self._values(block.headers)}

    def _values(self, values: Mapping[str, str]) -> dict[str, str]:
        return {name: self._value(name, values[name]) for name in sorted(values)}

    def _value(self, name: str, text: str) -> str:
        if is_reference(text):
            return valid_secret(text)
        return LITERAL.format(self._code([name, text])[:16]) if names_secret(name) else text

    def _code(self, content: Any) -> str:
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hmac.new(self._key, text.encode(), sha256).hexdigest()


def identity(facts: Facts, tools: Sequence[ToolDefinition]) -> str:
    """Return what identifies everything that is approved of a server."""
    return digest_of([facts, sorted(tool.digest for tool in tools)])


def changed_facts(before: Facts, after: Facts) -> list[str]:
    """Return the differences of a block to what was approved, a line each."""
    return list(_changes("", before, after))


def _changes(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if isinstance(old, Mapping) or isinstance(new, Mapping):
            yield from _changes(f"{path}{key} ", old or {}, new or {})
        elif old != new:
            yield f"{path}{key}: {_text(old)} → {_text(new)}"


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return " ".join(map(quoted, value)) if isinstance(value, list) else str(value)


def quoted(argument: str) -> str:
    """Return an argument of a command as a shell would need it."""
    from shlex import quote

    return quote(argument)


class ToolChanges(NamedTuple):
    """The tools of a server, compared with the approved ones, by name."""

    unchanged: tuple[str, ...]
    new: tuple[str, ...]
    changed: tuple[str, ...]
    gone: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """Return the differences, a line for each kind."""
        kinds = {"new": self.new, "changed": self.changed, "gone": self.gone}
        return [f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names]


def tool_changes(approved: Sequence[ToolDefinition], live: Sequence[ToolDefinition]) -> ToolChanges:
    """Compare what a server has with what was approved."""
    before = {tool.name: tool.digest for tool in approved}
    now = {tool.name: tool.digest for tool in live}
    return ToolChanges(
        unchanged=tuple(name for name in now if before.get(name) == now[name]),
        new=tuple(name for name in now if name not in before),
        changed=tuple(name for name in now if name in before and before[name] != now[name]),
        gone=tuple(name for name in before if name not in now),
    )


def secrets_of(block: McpServer) -> tuple[str, ...]:
    """Return the references to secrets in a block, each once."""
    texts = (*block.env.values(), *block.headers.values(), block.token or "")
    return tuple(dict.fromkeys(valid_secret(text) for text in texts if is_reference(text)))
