"""Logins to a server with OAuth; the browser is an HTTP client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from sqlalchemy import select, update

from runtime.clock import SYSTEM
from runtime.crypto import SealedBytes, Unsealable
from runtime.database.connection import Database
from runtime.database.schema import mcp_logins
from runtime.tool_servers import connection as connections
from runtime.tool_servers.connection import ServerConnection, opened
from runtime.tool_servers.errors import ServerAway
from runtime.tool_servers.login import LoginAttempt, StoredLogin
from runtime.tool_servers.logins import Logins
from tests.clocks import ManualClock
from tests.runtime.tool_servers.authorization import Authorization, private_service
from tests.runtime.tool_servers.places import service

BACK = "http://127.0.0.1:1/callback"


@pytest.fixture
def authorization() -> Authorization:
    return Authorization()


@pytest.fixture
def url(authorization: Authorization) -> Iterator[str]:
    with private_service(authorization) as address:
        yield address


@pytest.fixture
async def logins(database: Database) -> Logins:
    return Logins(database, SYSTEM)


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


async def test_an_earlier_login_that_is_put_back_does_not_open(database: Database, clock: ManualClock) -> None:
    logins = Logins(database, clock)
    await logins.put("private", BACK, {"tokens": "first"})
    async with database.read() as connection:
        before = (await connection.execute(select(mcp_logins.c.content))).scalar_one()
    # Within the same millisecond.
    await logins.put("private", BACK, {"tokens": "second"})
    assert (await logins.get("private", BACK) or {})["tokens"] == "second"
    old = update(mcp_logins).values(content=SealedBytes(before))
    await database.transact(lambda connection: connection.execute(old))
    with pytest.raises(Unsealable, match="an older value"):
        await logins.get("private", BACK)
