"""The daemon and a real OpenBao that changes a secret, stops and starts again."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from tests.lanes import LONG
from tests.runtime.daemon.running import GITHUB, Daemon, running, write_program
from tests.runtime.secrets.openbao import ROOT_TOKEN, OpenBao, openbao
from tests.signatures import sign

pytestmark = LONG


def put(server: OpenBao, value: str) -> None:
    server.client().secrets.kv.v2.create_or_update_secret("hooks/github", {"key": value})


def post(daemon: Daemon, secret: str) -> int:
    headers = sign("github", secret, b"{}", now=time.time(), delivery_id=uuid4().hex, event="push")
    return daemon.request("POST", "/hooks/github", b"{}", headers).status


def test_a_vault_that_goes_away_takes_nothing_with_it(tmp_path: Path) -> None:
    write_program(tmp_path, GITHUB.replace("secret://env/GITHUB_SECRET", "vault://hooks/github#key"))
    with openbao(tmp_path) as server:
        put(server, "first-secret")
        environ = server.environ(VAULT_TOKEN=ROOT_TOKEN)
        with running(tmp_path, "program", wait=True, **environ) as daemon:
            assert [post(daemon, "first-secret"), post(daemon, "second-secret")] == [202, 401]
            put(server, "second-secret")
            assert post(daemon, "second-secret") == 401  # until a delivery needs it
            daemon.hang_up()
            assert [post(daemon, "first-secret"), post(daemon, "second-secret")] == [401, 202]
            server.process.kill()
            server.process.wait()
            daemon.hang_up()
            told = f"Vault at {server.address} cannot be reached; its last value is still used"
            assert daemon.readyz().json()["warnings"] == [told]
            daemon.until_logged(told)
            assert post(daemon, "second-secret") == 202
    with running(tmp_path, "program", wait=True, **environ) as daemon:
        (missing,) = daemon.readyz().json()["not_mounted"]
        assert missing["reason"] == f"Vault at {server.address} cannot be reached"
        assert post(daemon, "second-secret") == 404
        with openbao(tmp_path, port=urlsplit(server.address).port) as back:
            put(back, "third-secret")
            daemon.hang_up()
            assert daemon.readyz().json()["not_mounted"] == []
            assert post(daemon, "third-secret") == 202
