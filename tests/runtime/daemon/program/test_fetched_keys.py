"""A real daemon that verifies with keys that it fetches from a real HTTPS server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.lanes import LONG
from tests.runtime.daemon.running import Answer, Daemon, running, write_program
from tests.runtime.outbound.https import authority

pytestmark = LONG

KEY = ec.generate_private_key(ec.SECP256R1())
LATER = ec.generate_private_key(ec.SECP256R1())


class Issuer:
    """Serves a JWK set over https, and counts the requests."""

    def __init__(self, folder: Path) -> None:
        context, _ = authority(folder)
        self.asked = 0
        self.status = 200
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                body = json.dumps({"keys": [{**ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "one"}]})
                self.send_response(issuer.status)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=[0.01], daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    folder = tmp_path / "issuer"
    folder.mkdir()
    issuer = Issuer(folder)
    yield issuer
    issuer.close()


@pytest.fixture
def daemon(issuer: Issuer, tmp_path: Path) -> Iterator[Daemon]:
    root = tmp_path / "root"
    root.mkdir()
    url = f"https://localhost:{issuer.port}/jwks.json"
    write_program(
        root,
        f"""\
webhook logins {{
    path "/hooks/logins"
    provider jwt {{ jwks_url "{url}" algorithms ES256 audience "symbi" }}
    agent recorder
}}
webhook pushed {{
    path "/hooks/pushed"
    provider google-pubsub {{ audience "a" service_account "push@example.org" }}
    agent recorder
}}
webhook try {{ path "/hooks/try" provider discord secret "{"1f" * 32}" agent recorder }}
agent recorder {{ instruction "Remember." }}
""",
    )
    with running(root, SSL_CERT_FILE=str(tmp_path / "issuer" / "server.pem")) as daemon:
        yield daemon


def post(daemon: Daemon, key: ec.EllipticCurvePrivateKey, kid: str = "one", **claims: object) -> Answer:
    token = jwt.encode({"exp": time.time() + 60, "aud": "symbi", **claims}, key, "ES256", headers={"kid": kid})
    return daemon.request("POST", "/hooks/logins", b"{}", [("Authorization", f"Bearer {token}")])


def test_a_delivery_is_verified_with_a_key_that_is_fetched_once(daemon: Daemon, issuer: Issuer) -> None:
    assert [post(daemon, KEY).status for _ in range(3)] == [202, 202, 202]
    assert issuer.asked == 1
    assert post(daemon, LATER).status == 401
    assert post(daemon, KEY, aud="other").status == 401
    # A key that is not in a document this fresh does not exist; invented names cause no fetch.
    assert [post(daemon, KEY, kid=f"k{n}").json()["error"] for n in range(9)] == ["invalid_signature"] * 9
    assert issuer.asked == 1


def test_while_a_key_cannot_be_had_the_sender_is_asked_to_try_again(daemon: Daemon, issuer: Issuer) -> None:
    issuer.status = 500
    assert [(answer.status, answer.json()["error"]) for answer in (post(daemon, KEY), post(daemon, KEY))] == [
        (503, "unavailable")
    ] * 2
    assert issuer.asked == 1


def test_a_webhook_without_a_secret_says_where_its_keys_are_from(daemon: Daemon) -> None:
    shown = daemon.symbi("webhook", "list", "--json").stdout
    rows = {row["name"]: row for row in json.loads(shown)["webhooks"]}
    assert rows["logins"]["secret"] == "none: the sender's keys are fetched"
    assert rows["logins"]["mounted"]


@pytest.mark.parametrize(
    ("name", "why"), [("pushed", "only the sender can sign"), ("try", "a public key verifies and cannot sign")]
)
def test_a_test_delivery_that_only_the_sender_can_sign_is_one_clear_line(daemon: Daemon, name: str, why: str) -> None:
    done = daemon.symbi("webhook", "test", name, "--payload", "{}")
    assert done.returncode == 1
    assert why in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_who_names_keys_that_are_not_there_is_not_listened_to_for_ever(tmp_path: Path) -> None:
    write_program(
        tmp_path, 'webhook pay { path "/hooks/pay" provider paypal { webhook_id "8PT597110X687430LKGECATA" } }'
    )

    def forged(daemon: Daemon, number: int) -> int:
        headers = [
            ("Paypal-Transmission-Id", "b1c2"),
            ("Paypal-Transmission-Time", "2026-02-14T10:30:00Z"),
            ("Paypal-Transmission-Sig", "AAAA"),
            ("Paypal-Auth-Algo", "SHA256withRSA"),
            ("Paypal-Cert-Url", f"https://api.paypal.com/v1/notifications/certs/CERT-{number}"),
        ]
        return daemon.request("POST", "/hooks/pay", b"{}", headers).status

    with running(tmp_path, "program", wait=True, SYMBIONT_ADDRESS_PER_MINUTE="10") as daemon:
        assert [forged(daemon, number) for number in range(12)] == [503] * 10 + [429] * 2
        assert daemon.log.read_text().count("keys are fetched too often") <= 1
