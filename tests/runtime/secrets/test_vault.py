"""Vault, against a scripted server that speaks KV version 2 over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runtime.clock import SYSTEM
from runtime.crypto import MasterKey
from runtime.database import Database
from runtime.secrets import Context, Unresolved, resolve

SECRETS = {"hook": {"value": "s3cret"}, "one": {"only": "lonely"}, "two": {"a": "1", "b": "2"}, "odd": {"value": 7}}


class _Vault(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path.removeprefix("/v1/secret/data/")
        if self.headers.get("X-Vault-Token") != "good":
            self._answer(403, {"errors": ["permission denied"]})
        elif name in SECRETS:
            self._answer(200, {"data": {"data": SECRETS[name], "metadata": {"version": 1}}})
        else:
            self._answer(404, {"errors": []})

    def _answer(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Vault) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def ask(text: str, tmp_path: Path, **environ: str) -> bytes:
    key = MasterKey(bytes(32))
    database = await Database.open(tmp_path / "vault.db", key)
    try:
        return (await resolve(text, Context(environ, tmp_path, database, key, SYSTEM))).reveal()
    finally:
        await database.close()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("secret://vault/hook", b"s3cret"),
        ("secret://vault/hook#value", b"s3cret"),
        ("secret://vault/one", b"lonely"),
        ("secret://vault/two#b", b"2"),
    ],
)
async def test_a_field_of_a_kv2_secret_is_read(text: str, value: bytes, address: str, tmp_path: Path) -> None:
    assert await ask(text, tmp_path, VAULT_ADDR=address, VAULT_TOKEN="good") == value


@pytest.mark.parametrize(
    ("text", "token", "reason"),
    [
        ("secret://vault/missing", "good", "no secret/missing for us"),
        ("secret://vault/hook", "bad", "Forbidden"),
        ("secret://vault/two", "good", "has 2 fields"),
        ("secret://vault/hook#nothing", "good", "no text in the field 'nothing'"),
        ("secret://vault/odd", "good", "no text in the field 'value'"),
    ],
)
async def test_what_vault_does_not_give_is_unresolved(
    text: str, token: str, reason: str, address: str, tmp_path: Path
) -> None:
    with pytest.raises(Unresolved, match=reason) as caught:
        await ask(text, tmp_path, VAULT_ADDR=address, VAULT_TOKEN=token)
    assert "good" not in str(caught.value)


async def test_no_vault_is_unresolved(tmp_path: Path) -> None:
    with pytest.raises(Unresolved, match="VAULT_ADDR is not set"):
        await ask("secret://vault/hook", tmp_path)
    with pytest.raises(Unresolved, match="cannot be asked"):
        await ask("secret://vault/hook", tmp_path, VAULT_ADDR="http://127.0.0.1:9", VAULT_TOKEN="t")
    with pytest.raises(Unresolved, match="cannot be asked"):
        await ask("secret://vault/hook", tmp_path, VAULT_ADDR="https://127.0.0.1:9", VAULT_CACERT="/no/such/file")
