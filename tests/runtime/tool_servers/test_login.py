"""Logins to a server with OAuth: the SDK's own authorization server, and a browser that is played by an HTTP client."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from sqlalchemy import select

from runtime.clock import SYSTEM
from runtime.database.connection import Database
from runtime.database.schema import mcp_logins
from runtime.tool_servers import connection as connections
from runtime.tool_servers.connection import ServerConnection, opened
from runtime.tool_servers.errors import ServerAway
from runtime.tool_servers.login import LoginAttempt, StoredLogin
from runtime.tool_servers.logins import Logins
from tests.conftest import KEY
from tests.databases import migrated
from tests.runtime.tool_servers.places import service
from tests.runtime.tool_servers.raw_service import served

BACK = "http://127.0.0.1:1/callback"


class Authorization(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """An authorization server that approves at once. `seconds`: for which its tokens are valid."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshes: dict[str, RefreshToken] = {}
        self.seconds = 3600
        self.resource: str | None = None

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24), client_id=client.client_id, scopes=params.scopes or [],
            expires_at=time.time() + 60, code_challenge=params.code_challenge, redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly, resource=params.resource,
        )  # fmt: skip
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(client.client_id, authorization_code.scopes)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refreshes[refresh_token.token]
        return self._issue(client.client_id, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.tokens.pop(token.token, None)

    def _issue(self, client_id: str, scopes: list[str]) -> OAuthToken:
        access, refresh = f"access-{secrets.token_hex(8)}", f"refresh-{secrets.token_hex(8)}"
        until = int(time.time()) + self.seconds
        self.tokens[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=until, resource=self.resource
        )
        self.refreshes[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes)
        return OAuthToken(
            access_token=access, token_type="Bearer", expires_in=self.seconds, refresh_token=refresh,
            scope=" ".join(scopes) or None,
        )  # fmt: skip


@pytest.fixture
def authorization() -> Authorization:
    return Authorization()


@pytest.fixture
def url(authorization: Authorization) -> Iterator[str]:
    """Yield the address of a server that wants a login."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    issuer, authorization.resource = AnyHttpUrl(f"http://127.0.0.1:{port}"), f"http://127.0.0.1:{port}/mcp"
    server = MCPServer(
        "private",
        auth_server_provider=authorization,
        auth=AuthSettings(
            issuer_url=issuer,
            resource_server_url=AnyHttpUrl(f"http://127.0.0.1:{port}/mcp"),
            validate_token_resource=True,
            client_registration_options=ClientRegistrationOptions(enabled=True),
        ),
    )

    @server.tool()
    def whisper() -> str:
        return "for those who logged in"

    with served(server.streamable_http_app(), port=port) as address:
        yield f"{address}/mcp"


@pytest.fixture
async def logins(tmp_path: Path) -> AsyncIterator[Logins]:
    database = await Database.open(migrated(tmp_path / "symbiont.db"), KEY)
    yield Logins(database, SYSTEM)
    await database.close()


@pytest.fixture
async def server(
    tmp_path: Path, url: str, logins: Logins, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ServerConnection]:
    """Yield a connection with the stored login, if there is one."""
    monkeypatch.setattr(connections, "FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(connections, "SETTLE_SECONDS", 0.0)

    async def stored() -> Any:
        content = await logins.get("private", url)
        return None if content is None else StoredLogin(logins, "private", url, content)

    one = ServerConnection(service(tmp_path, url), start_seconds=60, authentication=stored)
    yield one
    await one.close()


async def log_in(tmp_path: Path, logins: Logins, url: str) -> None:
    """Log in as a person does."""
    place = service(tmp_path, url)
    attempt = LoginAttempt(logins, "private", url, BACK)
    address = await attempt.begin(lambda auth: opened(place, 60, auth))
    async with httpx2.AsyncClient() as browser:
        came = parse_qs(urlsplit((await browser.get(address)).headers["Location"]).query)
    await attempt.end(came["code"][0], came["state"][0], came.get("iss", [None])[0])


async def test_a_login_is_kept_sealed_and_used(
    tmp_path: Path, url: str, logins: Logins, server: ServerConnection, authorization: Authorization
) -> None:
    with pytest.raises(ServerAway, match="it wants a login"):
        await server.call("whisper", {}, 60)
    await log_in(tmp_path, logins, url)
    server.restart()
    while not server.connected:
        await asyncio.sleep(0.005)
    assert (await server.call("whisper", {}, 60)).text == "for those who logged in"
    async with logins._database.read() as connection:
        stored = bytes((await connection.execute(select(mcp_logins.c.content))).scalar_one())
    [access] = authorization.tokens
    assert access.encode() not in stored


async def test_a_token_that_ends_is_refreshed_without_a_person(
    tmp_path: Path, url: str, logins: Logins, server: ServerConnection, authorization: Authorization
) -> None:
    authorization.seconds = 1
    await log_in(tmp_path, logins, url)
    authorization.seconds = 3600
    assert (await server.call("whisper", {}, 60)).text == "for those who logged in"
    content = await logins.get("private", url)
    assert content is not None
    assert content["tokens"]["access_token"] in authorization.tokens
    assert content["expires_at"] > time.time() + 3000


async def test_a_login_that_was_revoked_is_asked_for_again_and_registers_nothing(
    tmp_path: Path, url: str, logins: Logins, server: ServerConnection, authorization: Authorization
) -> None:
    await log_in(tmp_path, logins, url)
    authorization.tokens.clear()
    authorization.refreshes.clear()
    with pytest.raises(ServerAway, match="private wants a login"):
        await server.call("whisper", {}, 60)
    assert len(authorization.clients) == 1


async def test_a_login_to_one_address_is_not_sent_to_another(tmp_path: Path, url: str, logins: Logins) -> None:
    await log_in(tmp_path, logins, url)
    assert await logins.get("private", url.replace("/mcp", "/other")) is None
    assert await logins.get("other", url) is None
