"""Opening of a program's MCP servers: the pool holds connections, the generation the policy. What nobody approved has
no connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dslc.blocks.mcp import McpServer
from dslc.blocks.values.secret import is_reference, valid_secret
from dslc.program import Program
from dslc.setting import names_secret
from runtime.daemon.opening.resource_pool import Lease, Pool
from runtime.daemon.opening.secrets import Resolution
from runtime.secrets.secret import Secret
from runtime.tool_servers.approvals import secrets_of
from runtime.tool_servers.connection import ServerConnection
from runtime.tool_servers.definition import digest_of
from runtime.tool_servers.server import ProgramServer, ServerRegistry
from runtime.tool_servers.server_address import ServerAddress

FOLDERS: Final = "mcp-servers"
"""Folder of the state folder in which each server that is a program has its working folder."""


@dataclass(frozen=True, slots=True)
class ServerOpener:
    """Opens servers from pooled connections."""

    pool: Pool[ServerConnection]
    registry: ServerRegistry
    state: Path
    """The state folder."""
    root: Path
    """Of relative paths."""

    async def open_all(self, program: Program, resolution: Resolution, lease: Lease) -> dict[str, ProgramServer]:
        """Return the servers of `program`. Connections are added to `lease`, and none is opened yet."""
        approved = self.registry.approvals.all() if program.mcp_servers else {}
        servers = {}
        for name, block in program.mcp_servers.items():
            missing = resolution.missing(secrets_of(block))
            address = None if missing else self.address(block, resolution.values)
            if address is not None and (wrong := _invalid_headers(address)):
                address, missing = None, wrong
            facts = self.registry.approvals.facts_of(block)
            approval, connection = approved.get(name), None
            if address is not None and approval is not None and approval.facts == facts:
                connection = await self._connection(block, address, lease)
            servers[name] = ProgramServer(block, facts, approval, connection, missing, address)
        return servers

    def address(self, block: McpServer, values: Mapping[str, Secret]) -> ServerAddress:
        """Return the address of the server, with its secrets."""
        known: list[str] = []

        def text(name: str, value: str) -> str:
            found = _text(values[valid_secret(value)]) if is_reference(value) else value
            if is_reference(value) or names_secret(name):
                known.append(found)
            return found

        headers = {name: text(name, value) for name, value in block.headers.items()}
        if block.token is not None:
            headers["Authorization"] = f"Bearer {text('token', block.token)}"
        return ServerAddress(
            name=block.name,
            command=None if block.command is None else self._command(block.command),
            env={name: text(name, value) for name, value in block.env.items()},
            folder=self.state / FOLDERS / block.name,
            url=block.url,
            headers=headers,
            secrets=tuple(known),
        )

    def _command(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command; a relative path of a program is under the root."""
        program, *arguments = command
        return (str(self.root / program) if "/" in program else program, *arguments)

    async def _connection(self, block: McpServer, address: ServerAddress, lease: Lease) -> ServerConnection:
        seconds = block.start_timeout.total_seconds()

        async def opening() -> ServerConnection:
            return ServerConnection(address, start_seconds=seconds, authentication=self.registry.authentication(block))

        # What a running server was given; other settings are the generation's. Hashed, because it has secrets.
        given = [address.command, dict(address.env), address.url, dict(address.headers)]
        connection = await lease.take(self.pool, (block.name, digest_of(given)), opening)
        connection.start_seconds = seconds
        return connection


def _invalid_headers(address: ServerAddress) -> tuple[str, ...]:
    """Return the headers with characters that no header has (RFC 9110 section 5.5), a line each."""
    return tuple(
        f"the header {name} contains invalid characters"
        for name, value in address.headers.items()
        if any(each != "\t" and not " " <= each <= "~" for each in value)
    )


def _text(secret: Secret) -> str:
    # A file or a variable often ends with a line end.
    return secret.reveal().decode("utf-8", "replace").strip()
