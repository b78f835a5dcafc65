"""A request never decides how it is verified."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.runtime.attacks.conftest import JWT_SECRET, STRIPE_SECRET
from tests.runtime.attacks.wire import github_headers, github_mac, swarmlet_headers
from tests.runtime.daemon.running import SECRET, Answer, Daemon, running, write_program

BODY = b'{"id":"evt_1","type":"thing.made"}'


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_a_weaker_hash_beside_a_wrong_strong_one_counts_for_nothing(daemon: Daemon) -> None:
    weak = hmac.new(SECRET.encode(), BODY, hashlib.sha1).hexdigest()
    md5 = hmac.new(SECRET.encode(), BODY, hashlib.md5).hexdigest()
    wrong = ("X-Hub-Signature-256", f"sha256={github_mac(BODY, b'other')}")
    for headers in (
        [("X-Hub-Signature", f"sha1={weak}")],
        [wrong, ("X-Hub-Signature", f"sha1={weak}")],
        [("X-Hub-Signature", f"sha1={weak}"), wrong],
        [("X-Hub-Signature-256", f"sha1={weak}")],
        [("X-Hub-Signature-256", f"md5={md5}")],
        [("X-Hub-Signature-256", weak)],
        [("X-Hub-Signature", f"sha256={github_mac(BODY)}")],
        [("X-Hub-Signature-512", f"sha256={github_mac(BODY)}")],
    ):
        assert daemon.request("POST", "/hooks/github", BODY, headers).status == 401, headers


@pytest.mark.parametrize("algorithm", ["none", "sha1", "md5", "plain", ""])
def test_a_header_that_names_an_algorithm_is_not_looked_at(daemon: Daemon, algorithm: str) -> None:
    names = ("X-Signature-Algorithm", "X-Hub-Signature-Algorithm", "X-Algorithm", "Signature-Algorithm", "Digest")
    named = [(name, algorithm) for name in names]
    weak = hmac.new(SECRET.encode(), BODY, hashlib.sha1).hexdigest()
    for signature in ("", "sha256=", f"sha256={weak}", f"sha1={weak}", "none", f"{algorithm}={weak}"):
        headers = [*named, ("X-Hub-Signature-256", signature)]
        assert daemon.request("POST", "/hooks/github", BODY, headers).status == 401
    assert daemon.request("POST", "/hooks/github", BODY, [*named, *github_headers(BODY)]).status == 202


def test_an_older_version_of_a_signature_counts_for_nothing(daemon: Daemon) -> None:
    signed = swarmlet_headers(BODY, STRIPE_SECRET.encode())
    when, mac = signed["t"], signed["v1"]
    wrong = "0" * 64
    for value in (
        *(f"t={when},v0={mac}", f"t={when},v0={mac},v1={wrong}", f"t={when},v2={mac}", f"t={when},V1={mac}"),
        *(f"t={when},v1 ={mac}", f"t={when};v1={mac}", f"v1={mac}", f"t={when},{mac}", f"t={when},v1={mac.upper()}"),
        *(f"t={when},v1=", f"t={when},v1={wrong},v0={mac}", f"t={when},v1:{mac}"),
    ):
        assert daemon.request("POST", "/hooks/stripe", BODY, [("Stripe-Signature", value)]).status == 401, value


def test_a_token_without_a_signature_is_none(daemon: Daemon) -> None:
    claims = {"exp": int(time.time()) + 60}
    good = jwt.encode(claims, JWT_SECRET, "HS256")
    body = good.rpartition(".")[0].partition(".")[2]

    def post(token: str) -> int:
        return daemon.request("POST", "/hooks/jwt", BODY, [("Authorization", f"Bearer {token}")]).status

    assert post(good) == 202
    for algorithm in ("none", "None", "NONE", "nOnE", "", "HS384", "HS512", "RS256", None, 0, ["HS256"], {"a": 1}):
        head = part({"typ": "JWT", "alg": algorithm})
        mac = hmac.new(JWT_SECRET.encode(), f"{head}.{body}".encode(), hashlib.sha256).digest()
        signed = base64.urlsafe_b64encode(mac).rstrip(b"=").decode()
        for token in (f"{head}.{body}.", f"{head}.{body}", f"{head}.{body}.{signed}"):
            assert post(token) == 401, (algorithm, token)
    for key in ("", "\0" * 32, "null"):
        head = part({"typ": "JWT", "alg": "HS256"})
        mac = hmac.new(key.encode(), f"{head}.{body}".encode(), hashlib.sha256).digest()
        assert post(f"{head}.{body}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}") == 401


def test_a_public_key_is_never_the_key_of_an_hmac(tmp_path: Path) -> None:
    """A public key is public: a token that is signed with its text must be refused."""
    private = rsa.generate_private_key(65537, 2048)
    public = private.public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(pem)
    blocks = "".join(
        f'webhook {name} {{ path "/hooks/{name}", provider jwt {{ algorithms {algorithms} }}\n'
        f'    secret "secret://file/key.pem", agent reviewer }}\n'
        for name, algorithms in (("right", "RS256"), ("wrong", "HS256"))
    )
    write_program(tmp_path, blocks + 'agent reviewer { instruction "Remember." }\n')
    claims = {"exp": int(time.time()) + 60}
    with running(tmp_path, "program") as daemon:

        def post(name: str, token: str) -> Answer:
            return daemon.request("POST", f"/hooks/{name}", BODY, [("Authorization", f"Bearer {token}")])

        assert post("right", jwt.encode(claims, private, "RS256")).status == 202
        # A webhook that is configured so is not mounted.
        assert [row["webhook"] for row in daemon.readyz().json()["not_mounted"]] == ["wrong"]
        for algorithm, digest in (("HS256", "sha256"), ("HS384", "sha384"), ("HS512", "sha512")):
            signed = f"{part({'alg': algorithm, 'typ': 'JWT'})}.{part(claims)}"
            for key in (pem, pem.strip(), pem.replace(b"\n", b"\r\n"), der):
                mac = base64.urlsafe_b64encode(hmac.new(key, signed.encode(), digest).digest()).rstrip(b"=").decode()
                assert post("right", f"{signed}.{mac}").status == 401
                assert post("wrong", f"{signed}.{mac}").status == 404
