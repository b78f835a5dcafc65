"""The backend `vault` against a real OpenBao: every login, both versions of KV, and refusals."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import hvac
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from runtime.clock import SYSTEM
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.secrets import resolve
from runtime.secrets.backend import SecretContext, Unresolved
from runtime.secrets.vault import backend
from tests.cases import each_case
from tests.clocks import ManualClock, until
from tests.databases import migrated
from tests.runtime.outbound.https import authority
from tests.runtime.secrets.openbao import ROOT_TOKEN, OpenBao, openbao
from tests.runtime.secrets.vault_server import Answer, scripted

READER = """
path "secret/data/hooks/*" { capabilities = ["read"] }
path "old/hooks/*" { capabilities = ["read"] }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenBao]:
    with openbao(tmp_path_factory.mktemp("openbao")) as started:
        client = started.client()
        client.sys.create_or_update_policy("reader", READER)
        client.sys.enable_secrets_engine("kv", path="old", options={"version": "1"})
        client.sys.enable_secrets_engine("transit", path="transit")
        client.sys.enable_auth_method("approle")
        client.secrets.kv.v1.create_or_update_secret("hooks/one", {"value": "from version 1"}, mount_point="old")
        put(client, "hooks/one", {"value": "from version 2", "other": "and another"})
        put(client, "elsewhere", {"value": "not for the reader"})
        put(client, "hooks/gone", {"value": "x"})
        client.secrets.kv.v2.delete_latest_version_of_secret("hooks/gone")
        put(client, "hooks/destroyed", {"value": "x"})
        client.secrets.kv.v2.destroy_secret_versions("hooks/destroyed", [1])
        put(client, "hooks/with space ü", {"value": "quoted"})
        put(client, "hooks/rotated", {"value": "first"})
        put(client, "hooks/rotated", {"value": "second"})
        yield started


def put(client: Any, path: str, fields: dict[str, str]) -> None:
    client.secrets.kv.v2.create_or_update_secret(path, fields)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(migrated(tmp_path / "vault.db"), MasterKey(bytes(32)))
    yield opened
    await opened.close()


@pytest.fixture
async def reader(server: OpenBao) -> dict[str, str]:
    """Return the environment of a user who may read hooks."""
    token = server.client().auth.token.create(policies=["reader"], ttl="1h")["auth"]["client_token"]
    return server.environ(VAULT_TOKEN=token)


async def ask(text: str, environ: dict[str, str], database: Database) -> str:
    context = SecretContext(environ, Path("/"), database, database.keys, SYSTEM)
    try:
        return (await resolve(text, context)).reveal().decode()
    finally:
        context.close()


@each_case(
    ("text", "mount", "value"),
    [
        ("secret://vault/hooks/one", "", "from version 2"),
        ("secret://vault/hooks/one#other", "secret", "and another"),
        ("secret://vault/hooks/one#value", "old", "from version 1"),
        ("secret://vault/hooks/with space ü", "/secret/", "quoted"),
        ("secret://vault/hooks/rotated", "", "second"),
    ],
)
async def test_both_versions_of_kv_are_read_without_being_told_which(
    text: str, mount: str, value: str, reader: dict[str, str], database: Database
) -> None:
    assert await ask(text, {**reader, "SYMBIONT_VAULT_MOUNT": mount}, database) == value


async def test_the_version_may_be_told(reader: dict[str, str], database: Database) -> None:
    told = {**reader, "SYMBIONT_VAULT_KV": "2"}
    assert await ask("secret://vault/hooks/one", told, database) == "from version 2"
    wrong = {**reader, "SYMBIONT_VAULT_KV": "2", "SYMBIONT_VAULT_MOUNT": "old"}
    with pytest.raises(Unresolved, match="does not permit to read old/data/hooks/one"):
        await ask("secret://vault/hooks/one", wrong, database)


@each_case(
    ("text", "reason"),
    [
        ("secret://vault/elsewhere", r"does not permit to read secret/data/elsewhere .the policy must allow"),
        ("secret://vault/hooks/none", "cannot read secret/data/hooks/none: there is nothing"),
        ("secret://vault/hooks/gone", "newest version of secret/hooks/gone in Vault was deleted"),
        ("secret://vault/hooks/destroyed", "newest version of secret/hooks/destroyed in Vault was deleted"),
        ("secret://vault/hooks/one#nothing", "secret/hooks/one in Vault has no field 'nothing'"),
    ],
)
async def test_what_is_not_given_says_why(text: str, reason: str, reader: dict[str, str], database: Database) -> None:
    with pytest.raises(Unresolved) as caught:
        await ask(text, reader, database)
    assert re.search(reason, caught.value.line())
    assert reader["VAULT_TOKEN"] not in caught.value.line()


async def test_a_wrong_mount_or_token_says_so(server: OpenBao, reader: dict[str, str], database: Database) -> None:
    for mount, told in (("nowhere", "check that the mount nowhere exists"), ("transit", "transit")):
        with pytest.raises(Unresolved) as caught:
            await ask("secret://vault/x", {**reader, "SYMBIONT_VAULT_MOUNT": mount}, database)
        assert told in caught.value.line()
    environ = server.environ(VAULT_TOKEN=ROOT_TOKEN, SYMBIONT_VAULT_MOUNT="transit")
    with pytest.raises(Unresolved, match="the mount transit of Vault is not a KV store"):
        await ask("secret://vault/x", environ, database)
    with pytest.raises(Unresolved, match=r"refuses the token|does not permit"):
        await ask("secret://vault/hooks/one", server.environ(VAULT_TOKEN="s.never"), database)


async def test_the_token_may_be_in_a_file(
    server: OpenBao, reader: dict[str, str], database: Database, tmp_path: Path
) -> None:
    (tmp_path / ".vault-token").write_text(reader["VAULT_TOKEN"])
    assert await ask("secret://vault/hooks/one", server.environ(HOME=str(tmp_path)), database) == "from version 2"
    sink = tmp_path / "sink"
    sink.write_text("s.old\n")
    context = SecretContext(
        server.environ(SYMBIONT_VAULT_TOKEN_FILE=str(sink)), Path("/"), database, database.keys, SYSTEM
    )
    with pytest.raises(Unresolved):
        await resolve("secret://vault/hooks/one", context)
    sink.write_text(f"{reader['VAULT_TOKEN']}\n")  # as an agent beside us renews it
    assert (await resolve("secret://vault/hooks/one", context)).reveal() == b"from version 2"
    context.close()


@pytest.mark.parametrize("mount", ["approle", "machines"])
async def test_approle_logs_in_from_values_and_from_files(
    mount: str, server: OpenBao, database: Database, tmp_path: Path
) -> None:
    client = server.client()
    if mount != "approle":
        client.sys.enable_auth_method("approle", path=mount)
    client.auth.approle.create_or_update_approle("hooks", token_policies=["reader"], mount_point=mount)
    role_id = client.auth.approle.read_role_id("hooks", mount_point=mount)["data"]["role_id"]
    secret_id = client.auth.approle.generate_secret_id("hooks", mount_point=mount)["data"]["secret_id"]
    (tmp_path / "role").write_text(role_id + "\n")
    (tmp_path / "secret").write_text(secret_id + "\n")
    values = {"SYMBIONT_VAULT_ROLE_ID": role_id, "SYMBIONT_VAULT_SECRET_ID": secret_id}
    files = {
        "SYMBIONT_VAULT_ROLE_ID_FILE": str(tmp_path / "role"),
        "SYMBIONT_VAULT_SECRET_ID_FILE": str(tmp_path / "secret"),
    }
    for given in (values, files):
        environ = server.environ(**given, SYMBIONT_VAULT_AUTH_MOUNT=mount if mount != "approle" else "")
        assert await ask("secret://vault/hooks/one", environ, database) == "from version 2"
    environ = server.environ(**{**values, "SYMBIONT_VAULT_SECRET_ID": "hunter2"}, SYMBIONT_VAULT_AUTH_MOUNT=mount)
    with pytest.raises(Unresolved, match=f"refuses to log in at auth/{mount}"):
        await ask("secret://vault/hooks/one", environ, database)


async def test_a_login_is_asked_for_again_when_its_token_has_ended(
    server: OpenBao, database: Database, clock: ManualClock
) -> None:
    client = server.client()
    client.auth.approle.create_or_update_approle("short", token_policies=["reader"], token_ttl="1h", token_max_ttl="2h")
    role_id = client.auth.approle.read_role_id("short")["data"]["role_id"]
    secret_id = client.auth.approle.generate_secret_id("short")["data"]["secret_id"]
    environ = server.environ(SYMBIONT_VAULT_ROLE_ID=role_id, SYMBIONT_VAULT_SECRET_ID=secret_id)
    context = SecretContext(environ, Path("/"), database, database.keys, clock)
    keeping = asyncio.create_task(backend.keep(context))
    for _ in range(3):
        assert (await resolve("secret://vault/hooks/one", context)).reveal() == b"from version 2"
        client.sys.revoke_prefix("auth/approle/login")
        clock.advance(3601)
    assert (await resolve("secret://vault/hooks/one", context)).reveal() == b"from version 2"
    keeping.cancel()
    context.close()


async def test_a_renewable_token_outlives_its_first_time(
    server: OpenBao, database: Database, clock: ManualClock
) -> None:
    client = server.client()
    token = client.auth.token.create(policies=["reader"], ttl="1h", renewable=True)["auth"]["client_token"]
    context = SecretContext(server.environ(VAULT_TOKEN=token), Path("/"), database, database.keys, clock)
    keeping = asyncio.create_task(backend.keep(context))
    await resolve("secret://vault/hooks/one", context)
    await until(lambda: clock.sleepers == 1)
    assert client.auth.token.lookup(token)["data"].get("last_renewal") is None
    clock.advance(2401)
    async with asyncio.timeout(60):
        while client.auth.token.lookup(token)["data"].get("last_renewal") is None:
            await asyncio.sleep(0.05)
    clock.advance(1300)
    assert (await resolve("secret://vault/hooks/one", context)).reveal() == b"from version 2"
    keeping.cancel()
    context.close()


async def test_a_service_account_of_kubernetes_logs_in(server: OpenBao, database: Database, tmp_path: Path) -> None:
    """OpenBao has a cluster review the token: here a script that answers like the TokenReview API."""
    jwt = tmp_path / "token"
    jwt.write_text(_jwt("system:serviceaccount:prod:symbiont"))
    reviewed: list[object] = []

    def cluster(method: str, path: str, headers: dict[str, str], body: Any) -> Answer:
        reviewed.append((path, headers.get("authorization")))
        good = body["spec"]["token"] == jwt.read_text()
        user = {"username": "system:serviceaccount:prod:symbiont", "uid": "u-1", "groups": []}
        return 201, {"kind": "TokenReview", "status": {"authenticated": good, "user": user}}

    with scripted(cluster) as host:
        client = server.client()
        client.sys.enable_auth_method("kubernetes")
        client.auth.kubernetes.configure(
            kubernetes_host=host,
            # Any certificate, because the script uses plain HTTP.
            kubernetes_ca_cert=ssl.DER_cert_to_PEM_cert(authority(tmp_path)[1].get_ca_certs(binary_form=True)[0]),
            token_reviewer_jwt=_jwt("reviewer"),
            disable_local_ca_jwt=True,
        )
        client.auth.kubernetes.create_role("symbiont", "symbiont", "prod", policies=["reader"])
        environ = server.environ(SYMBIONT_VAULT_KUBERNETES_ROLE="symbiont", SYMBIONT_VAULT_KUBERNETES_JWT=str(jwt))
        assert await ask("secret://vault/hooks/one", environ, database) == "from version 2"
        assert reviewed
        wrong = {**environ, "SYMBIONT_VAULT_KUBERNETES_ROLE": "another"}
        with pytest.raises(Unresolved, match="refuses to log in at auth/kubernetes"):
            await ask("secret://vault/hooks/one", wrong, database)
        with pytest.raises(Unresolved, match="no-jwt: no such file"):
            await ask("secret://vault/x", {**environ, "SYMBIONT_VAULT_KUBERNETES_JWT": "/no-jwt"}, database)


def _jwt(subject: str) -> str:
    import jwt

    claims = {
        "iss": "kubernetes/serviceaccount",
        "sub": subject,
        "kubernetes.io/serviceaccount/namespace": "prod",
        "kubernetes.io/serviceaccount/service-account.name": "symbiont",
        "kubernetes.io/serviceaccount/service-account.uid": "u-1",
    }
    return jwt.encode(claims, ec.generate_private_key(ec.SECP256R1()), algorithm="ES256")


async def test_a_namespace_is_asked_for(server: OpenBao, database: Database) -> None:
    client = server.client()
    client.sys.create_namespace("team")
    inside = server.client("team")
    inside.sys.enable_secrets_engine("kv", path="secret", options={"version": "2"})
    end = time.monotonic() + 60
    while True:
        try:
            put(inside, "hook", {"value": "of the team"})
            break
        except hvac.exceptions.VaultError:  # it is being upgraded to version 2
            assert time.monotonic() < end
            await asyncio.sleep(0.1)
    environ = server.environ(VAULT_TOKEN=ROOT_TOKEN)
    assert await ask("secret://vault/hook", {**environ, "VAULT_NAMESPACE": "team"}, database) == "of the team"
    with pytest.raises(Unresolved, match="there is nothing at this path"):
        await ask("secret://vault/hook", environ, database)


async def test_a_certificate_is_trusted_when_it_is_said_so_and_never_else(database: Database, tmp_path: Path) -> None:
    with openbao(tmp_path, tls=True) as server:
        put(server.client(), "hook", {"value": "over TLS"})
        environ = server.environ(VAULT_TOKEN=ROOT_TOKEN)
        assert await ask("secret://vault/hook", environ, database) == "over TLS"
        with pytest.raises(Unresolved) as caught:
            await ask("secret://vault/hook", {**environ, "VAULT_CACERT": ""}, database)
        assert "is not trusted (set VAULT_CACERT)" in caught.value.line()


async def test_a_sealed_one_says_so(database: Database, tmp_path: Path) -> None:
    with openbao(tmp_path) as server:
        put(server.client(), "hook", {"value": "x"})
        context = SecretContext(server.environ(VAULT_TOKEN=ROOT_TOKEN), Path("/"), database, database.keys, SYSTEM)
        assert (await resolve("secret://vault/hook", context)).reveal() == b"x"
        server.client().sys.seal()
        with pytest.raises(Unresolved, match="is sealed"):
            await resolve("secret://vault/hook", context)
        context.close()
        with pytest.raises(Unresolved, match="is sealed"):
            await ask("secret://vault/hook", server.environ(VAULT_TOKEN=ROOT_TOKEN), database)
