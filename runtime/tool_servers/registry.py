"""What a root keeps of its servers beside the program: approvals, logins, and what a person is looking at now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dslc.blocks.mcp import McpServer
from runtime.tool_servers.approvals import Approvals, Facts
from runtime.tool_servers.connection import Authentication
from runtime.tool_servers.definition import ToolDefinition
from runtime.tool_servers.logins import Logins

if TYPE_CHECKING:
    from runtime.tool_servers.login import LoginAttempt


@dataclass(frozen=True, slots=True)
class ServerRegistry:
    """One for each open root. `inspected`: what was shown of servers to be approved, by server. `attempts`: logins that
    have begun."""

    approvals: Approvals
    logins: Logins
    inspected: dict[str, tuple[Facts, tuple[ToolDefinition, ...]]] = field(default_factory=dict)
    attempts: dict[str, LoginAttempt] = field(default_factory=dict)

    def authentication(self, block: McpServer) -> Authentication:
        """Return what reads the stored login to a server; without one, and with a token, there is none."""

        async def stored() -> Any:
            if block.url is None or block.token is not None:
                return None
            content = await self.logins.get(block.name, block.url)
            if content is None:
                return None
            from runtime.tool_servers.login import StoredLogin

            return StoredLogin(self.logins, block.name, block.url, content)

        return stored

    async def close(self) -> None:
        """End the logins that have begun."""
        for attempt in self.attempts.values():
            await attempt.close()
        self.attempts.clear()
