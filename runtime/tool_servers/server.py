"""A server of a program: its block, what is approved of it, its connection, and the tools that agents may call;
and what a root keeps of its servers beside the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from dslc.blocks.mcp import McpServer
from runtime.tool_servers.approvals import Approval, Approvals, Facts, ToolChanges, changed_facts, tool_changes
from runtime.tool_servers.connection import Authentication, ServerConnection
from runtime.tool_servers.definition import ToolDefinition
from runtime.tool_servers.errors import ServerAway
from runtime.tool_servers.logins import Logins
from runtime.tool_servers.server_address import ServerAddress

if TYPE_CHECKING:
    from runtime.tool_servers.login import LoginAttempt
    from runtime.tool_servers.session import CallResult

State = Literal["unapproved", "changed", "no secret", "connecting", "connected", "away"]
"""`changed`: the block is not what was approved. `no secret`: one cannot be resolved. `connecting`: also before a
daemon has started it."""


@dataclass(frozen=True, slots=True)
class ProgramServer:
    """`facts`: what a person approves of the block, as it is now. `connection` is None for a server that is not
    started. `missing`: why secrets of the block are missing, a line each. `address`: how it is reached, for a person
    who looks at it before it is approved; None without its secrets."""

    block: McpServer
    facts: Facts
    approval: Approval | None
    connection: ServerConnection | None
    missing: tuple[str, ...]
    address: ServerAddress | None

    @property
    def differences(self) -> list[str]:
        """Return the differences of the block to what was approved, a line each."""
        return [] if self.approval is None else changed_facts(self.approval.facts, self.facts)

    @property
    def changes(self) -> ToolChanges | None:
        """Return the differences of the tools to those that were approved; None before they were listed."""
        listing = None if self.connection is None else self.connection.listing
        if self.approval is None or listing is None:
            return None
        return tool_changes(self.approval.tools, listing.tools)

    @property
    def refused(self) -> tuple[str, ...]:
        """Return why tools of the server are not offered at all, a line each."""
        return () if self.connection is None or self.connection.listing is None else self.connection.listing.refused

    @property
    def state(self) -> State:
        """Return the state in one word."""
        if self.approval is None:
            return "unapproved"
        if self.differences:
            return "changed"
        if self.connection is None:
            return "no secret"
        if self.connection.connected:
            return "connected"
        return "connecting" if self.connection.problem is None else "away"

    @property
    def offered(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that agents may call: the approved ones, as they were approved, except those that the server
        has changed or has no more. A server that is away keeps its tools: their calls fail until it is back."""
        if self.approval is None or self.connection is None:
            return ()
        changes = self.changes
        kept = None if changes is None else set(changes.unchanged)
        return tuple(tool for tool in self.approval.tools if kept is None or tool.name in kept)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> CallResult:
        """Call a tool. Raises ServerAway if nothing was sent, CallUncertain, and ToolFailed."""
        if self.connection is None:
            raise ServerAway(f"{self.block.name} is not started")
        return await self.connection.call(name, arguments, self.block.timeout.total_seconds())


ProgramServers = Mapping[str, ProgramServer]
"""The servers of a program, by name."""


@dataclass(frozen=True, slots=True)
class ServerRegistry:
    """The approvals and logins of an open root. `inspected`: facts and tools that were shown of servers to be approved.
    `attempts`: logins that have begun."""

    approvals: Approvals
    logins: Logins
    inspected: dict[str, tuple[Facts, tuple[ToolDefinition, ...]]] = field(default_factory=dict)
    attempts: dict[str, LoginAttempt] = field(default_factory=dict)

    def authentication(self, block: McpServer) -> Authentication:
        """Return what reads the stored login to a server; without one, and with a token, there is none."""

        async def read_login() -> Any:
            if block.url is None or block.token is not None:
                return None
            content = await self.logins.get(block.name, block.url)
            if content is None:
                return None
            from runtime.tool_servers.login import StoredLogin

            return StoredLogin(self.logins, block.name, block.url, content)

        return read_login

    async def close(self) -> None:
        """End the logins that have begun."""
        for attempt in self.attempts.values():
            await attempt.close()
        self.attempts.clear()
