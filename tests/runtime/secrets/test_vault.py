"""A scripted Vault that fails, is slow or unreachable: one line for each kind of failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from runtime.clock import SYSTEM, Clock
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.secrets import resolve
from runtime.secrets.backend import SecretContext, Unresolved
from runtime.secrets.vault import backend
from runtime.secrets.vault import session as vault_session
from runtime.secrets.vault.session import VaultSession
from tests.cases import each_case
from tests.clocks import START, ManualClock, until
from tests.databases import migrated
from tests.runtime.secrets.vault_server import Answer, Script, scripted

TOKEN = "hvs.hunter2"
HOOK_PATH = "secret://vault/hook"
MOUNT: Answer = (200, {"data": {"type": "kv", "options": {"version": "2"}}})
HOOK: Answer = (200, {"data": {"data": {"value": "s3cret"}, "metadata": {"version": 1}}})


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(migrated(tmp_path / "vault.db"), MasterKey(bytes(32)))
    yield opened
    await opened.close()


def context(database: Database, clock: Clock = SYSTEM, **environ: str) -> SecretContext:
    return SecretContext({"VAULT_TOKEN": TOKEN, **environ}, Path("/"), database, database.keys, clock)


@asynccontextmanager
async def kept(
    script: Script, database: Database, clock: ManualClock, environ: Mapping[str, str] = {}, *, keeps: bool = True
) -> AsyncIterator[SecretContext]:
    """Yield a context with a scripted Vault, from which one secret was read; `keeps`: its token is kept valid."""
    with scripted(script) as address:
        given = context(database, clock, VAULT_ADDR=address, **environ)
        keeping = asyncio.create_task(backend.keep(given)) if keeps else None
        await resolve(HOOK_PATH, given)
        try:
            yield given
        finally:
            if keeping is not None:
                keeping.cancel()
            given.close()


async def reason(context: SecretContext, text: str = HOOK_PATH) -> str:
    try:
        with pytest.raises(Unresolved) as caught:
            await resolve(text, context)
    finally:
        context.close()
    line = caught.value.line()
    assert TOKEN not in line
    assert "\n" not in line
    return line


@each_case(
    ("answer", "line"),
    [
        ((503, {"errors": ["Vault is sealed"]}), "is sealed"),
        ((503, {"errors": ["error performing token check: Vault is sealed"]}), "is sealed"),
        ((503, {"errors": ["unavailable\nfor a while"]}), "is not ready (VaultDown)"),
        ((501, {"errors": []}), "is not ready (VaultNotInitialized)"),
        ((502, b"bad gateway"), "is not ready (BadGateway)"),
        ((429, {"errors": []}), "limits the rate of requests"),
        ((473, {"errors": []}), "failed to read secret/data/hook (UnexpectedError)"),
        ((500, {"errors": [f"1 error occurred:\n\t* {TOKEN}"]}), "failed to read secret/data/hook"),
        ((403, {"errors": ["permission denied"]}), "does not permit to read secret/data/hook"),
        ((403, {"errors": ["2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n"]}), "refuses the token"),
        ((404, {"errors": []}), "cannot read secret/data/hook: there is nothing"),
        (
            (404, {"data": {"data": None, "metadata": {"deletion_time": "2026-02-14T10:30:00Z"}}}),
            "newest version of secret/hook in Vault was deleted",
        ),
        ((307, b"http://127.0.0.1:9/v1/elsewhere"), "redirects (status 307): check that it is a Vault"),
        ((200, b"<html>a proxy</html>"), "returned no JSON (status 200)"),
        ((204, b""), "returned no JSON (status 204)"),
        ((200, []), "returned no JSON"),
        ((200, {"data": {"value": "x"}}), "is not a secret of KV version 2"),
        ((200, {"data": {"data": {"a": "1", "b": "2"}}}), "has 2 fields"),
        ((200, {"data": {"data": {"value": 7}}}), "the field 'value' of secret/hook in Vault is not text"),
        ((200, {"data": {"data": {"value": " "}}}), "is blank"),
    ],
)
async def test_each_way_to_fail_has_its_line(answer: Answer, line: str, database: Database) -> None:
    def script(method: str, path: str, headers: dict[str, str], body: object) -> Answer:
        if path.endswith("lookup-self"):
            return 200, {"data": {"ttl": 0, "renewable": False}}
        return MOUNT if "/mounts/" in path else answer

    with scripted(script) as address:
        assert line in await reason(context(database, VAULT_ADDR=address))


async def test_a_vault_that_cannot_be_asked_says_why(database: Database, tmp_path: Path) -> None:
    away = "http://user:pass@127.0.0.1:9"
    assert await reason(context(database, VAULT_ADDR=away)) == "Vault at http://127.0.0.1:9 cannot be reached"
    lines: dict[str, dict[str, str]] = {
        "VAULT_ADDR is not set": {},
        "VAULT_ADDR is not a URL": {"VAULT_ADDR": "vault.example.com"},
        "VAULT_CACERT": {"VAULT_ADDR": "https://127.0.0.1:9", "VAULT_CACERT": "/no/such/file"},
        "no token for Vault": {"VAULT_ADDR": away, "VAULT_TOKEN": "", "HOME": str(tmp_path)},
        "no-token: no such file": {"VAULT_ADDR": away, "VAULT_TOKEN": "", "SYMBIONT_VAULT_TOKEN_FILE": "/no-token"},
        "SYMBIONT_VAULT_KV is neither 1 nor 2": {"VAULT_ADDR": away, "SYMBIONT_VAULT_KV": "3"},
        "contains invalid characters": {"VAULT_ADDR": away, "VAULT_TOKEN": f"{TOKEN}\nx"},
    }
    for line, environ in lines.items():
        assert line in await reason(context(database, SYSTEM, **environ))
    for path in ("", "/", "../sys/raw", "a//b", "a/./b", "#field"):
        with pytest.raises(Unresolved):
            await resolve(f"secret://vault/{path}", context(database, VAULT_ADDR=away))


async def test_a_vault_that_never_answers_is_given_up_once_for_all(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vault_session, "SECONDS", 1.0)
    asked, release = [0], threading.Event()

    def script(method: str, path: str, headers: dict[str, str], body: object) -> Answer:
        asked[0] += 1
        release.wait(120)
        return HOOK

    with scripted(script) as address:
        given = context(database, VAULT_ADDR=address, SYMBIONT_VAULT_KV="2")
        wanted = [resolve(f"secret://vault/hook-{number}", given) for number in range(500)]
        async with asyncio.timeout(60):
            answers = await asyncio.gather(*wanted, return_exceptions=True)
        assert {str(answer) for answer in answers} == {f"Vault at {address} did not respond in 1 s"}
        # All waited for the one login; requests that had not begun do not begin.
        assert asked[0] <= 2 * vault_session.AT_ONCE
        release.set()
        given.close()


class Renewing:
    """A Vault whose tokens live for `seconds`, and that counts its requests."""

    def __init__(self, seconds: int = 60, *, renewable: bool = True) -> None:
        self.seconds = seconds
        self.renewable = renewable
        self.logins = 0
        self.renewals = 0
        self.good: set[str] = {TOKEN}
        self.fails: set[str] = set()

    def __call__(self, method: str, path: str, headers: dict[str, str], body: object) -> Answer:
        token = headers.get("x-vault-token")
        if path.endswith("/login"):
            if "login" in self.fails:
                return 400, {"errors": ["invalid role or secret ID"]}
            assert token is None
            assert body == {"role_id": "role", "secret_id": "id"}
            self.logins += 1
            self.good = {f"login-{self.logins}"}
            return 200, {"auth": {"client_token": f"login-{self.logins}", **self._grant("lease_duration")}}
        if token not in self.good:
            return 403, {"errors": ["permission denied"]}
        if path.endswith("renew-self"):
            if "renew" in self.fails:
                return 503, {"errors": ["Vault is sealed"]}
            self.renewals += 1
            return 200, {"auth": {"client_token": token, **self._grant("lease_duration")}}
        if path.endswith("lookup-self"):
            return 200, {"data": self._grant("ttl")}
        return MOUNT if "/mounts/" in path else HOOK

    def _grant(self, name: str) -> dict[str, object]:
        return {name: self.seconds, "renewable": self.renewable}


ROLE = {"VAULT_TOKEN": "", "SYMBIONT_VAULT_ROLE_ID": "role", "SYMBIONT_VAULT_SECRET_ID": "id"}


def session(given: SecretContext) -> VaultSession:
    found = given.sessions["vault"]
    assert isinstance(found, VaultSession)
    return found


@pytest.mark.parametrize("environ", [{}, ROLE])
async def test_a_renewable_token_is_renewed_when_two_thirds_of_its_time_are_over(
    environ: dict[str, str], database: Database, clock: ManualClock
) -> None:
    server = Renewing(60)
    async with kept(server, database, clock, environ):
        for turn in range(3):
            await until(lambda: clock.sleepers == 1)
            clock.advance(39)
            await until(lambda: clock.sleepers == 1)
            assert server.renewals == turn
            clock.advance(1)
            await until(lambda wanted=turn + 1: server.renewals == wanted)  # type: ignore[misc]
        assert server.logins == (1 if environ else 0)


async def test_what_is_not_renewed_any_more_is_logged_in_to_again(database: Database, clock: ManualClock) -> None:
    server = Renewing(60)
    async with kept(server, database, clock, ROLE) as given:
        server.fails = {"renew"}
        await until(lambda: clock.sleepers == 1)
        clock.advance(40)
        await until(lambda: server.logins == 2)
        # Its maximum lifetime: a renewal does not extend it.
        server.fails = set()
        server.seconds = 15
        await until(lambda: clock.sleepers == 1)
        clock.advance(40)
        await until(lambda: server.logins == 3)
        assert (await resolve(HOOK_PATH, given)).reveal() == b"s3cret"


async def test_a_token_that_cannot_be_renewed_is_reported_once_and_tried_again(
    database: Database, clock: ManualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Renewing(600)
    async with kept(server, database, clock):
        server.fails = {"renew"}
        for seconds in (400, 5, 5):
            await until(lambda: clock.sleepers == 1)
            clock.advance(seconds)
        server.fails = set()
        await until(lambda: clock.sleepers == 1)
        clock.advance(30)
        await until(lambda: server.renewals == 1)
        said = capsys.readouterr().out
        assert said.count("vault_token_not_renewed") == 1
        assert "is sealed" in said
        assert TOKEN not in said


async def test_a_token_that_will_end_and_cannot_be_renewed_is_reported_in_time(
    database: Database, clock: ManualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with kept(Renewing(600, renewable=False), database, clock):
        for seconds in (399, 1, 100, 100, 100):
            await until(lambda: clock.sleepers == 1)
            assert ("it is not renewable" in capsys.readouterr().out) is (seconds == 100 and clock.now() == START + 400)
            clock.advance(seconds)
        await until(lambda: clock.sleepers == 1)


async def test_a_revoked_token_is_replaced_by_a_login_when_it_is_not_fresh(
    database: Database, clock: ManualClock
) -> None:
    server = Renewing(3600)
    async with kept(server, database, clock, ROLE, keeps=False) as given:
        server.good = set()
        with pytest.raises(Unresolved):  # if a fresh token has no permission, neither has another one
            await resolve(HOOK_PATH, given)
        assert server.logins == 1
        clock.advance(60)
        assert (await resolve(HOOK_PATH, given)).reveal() == b"s3cret"
        assert server.logins == 2


async def test_one_login_does_for_all_that_were_asked_with_a_revoked_token(
    database: Database, clock: ManualClock
) -> None:
    server, together, logged_in = Renewing(3600), threading.Barrier(vault_session.AT_ONCE), threading.Event()

    def script(method: str, path: str, headers: dict[str, str], body: object) -> Answer:
        answer = server(method, path, headers, body)
        if answer[0] == 403:
            # All requests use the old token; one is denied late.
            together.wait(20)
            if path.endswith("/0"):
                logged_in.wait(20)
        elif path.endswith("/1"):
            logged_in.set()
        return answer

    async with kept(script, database, clock, ROLE, keeps=False) as given:
        server.good = set()
        clock.advance(60)
        wanted = [resolve(f"secret://vault/{number}", given) for number in range(vault_session.AT_ONCE)]
        assert {found.reveal() for found in await asyncio.gather(*wanted)} == {b"s3cret"}
        assert server.logins == 2


async def test_a_mount_that_became_another_version_is_read_as_that(database: Database) -> None:
    version = ["1"]

    def script(method: str, path: str, headers: dict[str, str], body: object) -> Answer:
        if path.endswith("lookup-self"):
            return 200, {"data": {"ttl": 0, "renewable": False}}
        if "/mounts/" in path:
            return 200, {"data": {"type": "kv", "options": {"version": version[0]}}}
        if path.endswith("/secret/hook" if version == ["1"] else "/secret/data/hook"):
            return (200, {"data": {"value": "s3cret"}}) if version == ["1"] else HOOK
        return 404, {"errors": []}

    with scripted(script) as address:
        given = context(database, VAULT_ADDR=address)
        await resolve(HOOK_PATH, given)
        version[:] = ["2"]
        with pytest.raises(Unresolved):
            await resolve(HOOK_PATH, given)
        assert (await resolve(HOOK_PATH, given)).reveal() == b"s3cret"
        given.close()


async def test_what_is_read_while_another_logs_in_shows_its_token(database: Database, clock: ManualClock) -> None:
    server, waits, may_go_on = Renewing(60), threading.Event(), threading.Event()
    shown: list[str | None] = []

    def script(method: str, path: str, headers: dict[str, str], body: object) -> Answer:
        if path.endswith("/login") and server.logins == 1:
            waits.set()
            may_go_on.wait(60)
        elif "/data/" in path:
            shown.append(headers.get("x-vault-token"))
        return server(method, path, headers, body)

    async with kept(script, database, clock, ROLE) as given:
        client = session(given)._client
        assert client is not None
        server.fails = {"renew"}
        await until(lambda: clock.sleepers == 1)
        clock.advance(40)
        assert await asyncio.to_thread(waits.wait, 60)
        assert await asyncio.to_thread(client.read, "hook", 2) == {"value": "s3cret"}
        may_go_on.set()
        await until(lambda: server.logins == 2)
        assert shown == ["login-1", "login-1"]


async def test_a_token_that_a_read_replaced_is_not_renewed_at_once(database: Database, clock: ManualClock) -> None:
    server = Renewing(60)
    async with kept(server, database, clock, ROLE) as given:
        await until(lambda: clock.sleepers == 1)
        async with session(given)._logging_in:
            reading = asyncio.create_task(resolve(HOOK_PATH, given))
            await asyncio.sleep(0.05)  # it waits first, then the task that renews the token
            clock.advance(61)
            await until(lambda: clock.sleepers == 0)
            await asyncio.sleep(0)
        assert (await reading).reveal() == b"s3cret"
        await until(lambda: clock.sleepers == 1)
        assert (server.logins, server.renewals) == (2, 0)


async def test_an_ended_token_is_replaced_before_it_is_shown(database: Database, clock: ManualClock) -> None:
    server = Renewing(60, renewable=False)
    async with kept(server, database, clock, ROLE, keeps=False) as given:
        clock.advance(61)
        await resolve(HOOK_PATH, given)
        assert server.logins == 2
        server.fails = {"login"}
        clock.advance(61)
        with pytest.raises(Unresolved, match="refuses to log in at auth/approle"):
            await resolve(HOOK_PATH, given)


async def test_a_login_that_fails_is_not_shown(database: Database, clock: ManualClock, tmp_path: Path) -> None:
    server = Renewing()
    server.fails = {"login"}
    (tmp_path / "id").write_text("hunter2-id\n")
    with scripted(server) as address:
        environ = {"SYMBIONT_VAULT_ROLE_ID": "hunter2-role", "SYMBIONT_VAULT_SECRET_ID_FILE": str(tmp_path / "id")}
        line = await reason(context(database, clock, VAULT_ADDR=address, VAULT_TOKEN="", **environ))
        assert "auth/approle" in line
        assert "hunter2" not in line
        given = context(database, clock, VAULT_ADDR=address, VAULT_TOKEN="", **{**environ, "HOME": "/"})
        assert "hunter2" not in repr(given)
