"""Logins to servers with OAuth (the protocol's authorization, on RFC 6749, 7591, 8414, 8707 and 9728), by the SDK's
flow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

import httpx2
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from runtime.errors import SymbiontError, UsageError
from runtime.tool_servers.errors import ServerAway
from runtime.tool_servers.logins import Logins

LOGIN_SECONDS: Final = 600.0
"""Seconds that a person has to log in."""
Kind = TypeVar("Kind", bound=BaseModel)
_EARLY_SECONDS: Final = 30.0
"""A token is refreshed this long before it ends."""


class LoginNeeded(ServerAway):
    """Nobody has logged in, or the login has ended."""

    def __init__(self, server: str) -> None:
        super().__init__(f"{server} wants a login", hint=f"symbi mcp-server login {server}")


class _LoginStorage(TokenStorage):
    """The SDK's storage, for one server. `content`: as in the database; everything is written with the tokens."""

    def __init__(self, logins: Logins, server: str, url: str, content: dict[str, Any]) -> None:
        self._logins = logins
        self._server = server
        self._url = url
        self.content = content
        self.provider: OAuthClientProvider | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return _validate(OAuthToken, self.content.get("tokens"))

    async def set_tokens(self, tokens: OAuthToken) -> None:
        assert self.provider is not None
        context = self.provider.context
        self.content |= {
            "tokens": tokens.model_dump(mode="json"),
            "expires_at": None if tokens.expires_in is None else time.time() + tokens.expires_in,
            "server_metadata": _json(context.oauth_metadata),
            "resource_metadata": _json(context.protected_resource_metadata),
            "auth_server_url": context.auth_server_url,
        }
        await self._logins.put(self._server, self._url, self.content)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return _validate(OAuthClientInformationFull, self.content.get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.content["client"] = client_info.model_dump(mode="json")


def _json(model: BaseModel | None) -> Any:
    return None if model is None else model.model_dump(mode="json")


def _validate(kind: type[Kind], value: Any) -> Kind | None:
    return None if value is None else kind.model_validate(value)


class StoredLogin(OAuthClientProvider):
    """Authenticates with a stored login, and refreshes its token. It asks nobody: without a valid login it raises
    LoginNeeded, and registers nothing."""

    def __init__(self, logins: Logins, server: str, url: str, content: dict[str, Any]) -> None:
        stored = _LoginStorage(logins, server, url, content)
        super().__init__(url, OAuthClientMetadata(redirect_uris=[AnyUrl("http://127.0.0.1/")]), stored)
        stored.provider = self
        self._server = server
        self._content = content

    async def _initialize(self) -> None:
        await super()._initialize()
        context, content = self.context, self._content
        context.oauth_metadata = _validate(OAuthMetadata, content.get("server_metadata"))
        context.protected_resource_metadata = _validate(ProtectedResourceMetadata, content.get("resource_metadata"))
        context.auth_server_url = content.get("auth_server_url")
        if content.get("expires_at") is not None:
            context.token_expiry_time = content["expires_at"] - _EARLY_SECONDS

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        async with self.context.lock:
            if not self._initialized:
                await self._initialize()
            if not self.context.is_token_valid():
                await self._store_refresh((yield await self._refreshing()))
            self._add_auth_header(request)
            if (yield request).status_code != 401:
                return
            # It was revoked, or ends earlier than the server said.
            await self._store_refresh((yield await self._refreshing()))
            self._add_auth_header(request)
            if (yield request).status_code == 401:
                raise LoginNeeded(self._server)

    async def _refreshing(self) -> httpx2.Request:
        if not self.context.can_refresh_token():
            raise LoginNeeded(self._server)
        return await self._refresh_token()

    async def _store_refresh(self, response: httpx2.Response) -> None:
        if not await self._handle_refresh_response(response):
            self._initialized = False
            raise LoginNeeded(self._server)


Use = Callable[[httpx2.Auth], AbstractAsyncContextManager[object]]
"""Connects to the server with this authentication; connected when it is entered."""


class LoginAttempt:
    """One login by a person: `begin` returns the address for the browser, `end` takes what comes back from there."""

    def __init__(self, logins: Logins, server: str, url: str, redirect_uri: str) -> None:
        stored = _LoginStorage(logins, server, url, {})
        metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(redirect_uri)], client_name="Symbiont")
        self._provider = OAuthClientProvider(url, metadata, stored, self._redirect, self._callback)
        stored.provider = self._provider
        self._server = server
        self._address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._answer: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    async def begin(self, use: Use) -> str:
        """Return the address at which the person logs in. Raises SymbiontError."""
        self._task = asyncio.create_task(self._run(use), name=f"login to mcp server {self._server}")
        waiting: set[asyncio.Future[Any]] = {self._task, self._address}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if self._address.done():
            return self._address.result()
        await self._task
        raise UsageError(f"{self._server} wants no login")

    async def end(self, code: str, state: str | None, issuer: str | None) -> None:
        """Finish with what the browser brought. Raises SymbiontError."""
        if self._task is None or self._answer.done():
            raise UsageError(f"no login to {self._server} has begun", hint=f"symbi mcp-server login {self._server}")
        self._answer.set_result(AuthorizationCodeResult(code=code, state=state, iss=issuer))
        await self._task

    async def close(self) -> None:
        """End an attempt that is not needed any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, use: Use) -> None:
        try:
            async with use(self._provider):
                pass
        except SymbiontError:
            raise
        except Exception as error:
            raise SymbiontError(f"the login to {self._server} failed: {reason_of(error)}") from None

    async def _redirect(self, address: str) -> None:
        self._address.set_result(address)

    async def _callback(self) -> AuthorizationCodeResult:
        async with asyncio.timeout(LOGIN_SECONDS):
            return await self._answer


def reason_of(error: BaseException) -> str:
    """Return the reason of an error of the SDK in one line, that of the first one in a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, SymbiontError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, ValidationError):
        # Its own text quotes what was sent.
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"it sent what is not valid: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    text = " ".join(str(error).split())
    return text[:300] or type(error).__name__
