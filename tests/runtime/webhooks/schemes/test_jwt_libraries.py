"""Tokens checked by other libraries, Google's own and Authlib's; every difference is listed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from runtime.webhooks.request.refusal import RefusedRequest
from tests.contracts.provider_cases import certificate
from tests.signatures import verify

google = pytest.importorskip("google.oauth2.id_token", reason="`.[vendors]` has google-auth")
joserfc = pytest.importorskip("joserfc", reason="`.[vendors]` has joserfc")

KEY = rsa.generate_private_key(65537, 2048)
STRANGER = rsa.generate_private_key(65537, 2048)
PUBLIC = KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)  # fmt: skip
BODY = b'{"message": {"messageId": "1"}}'
AUDIENCE, ACCOUNT = "https://hooks.example/hooks/pubsub", "push@project.iam.gserviceaccount.com"
ISSUER = "https://accounts.google.com"

Claims = dict[str, Any]


def claims(**changes: Any) -> Claims:
    """Return the claims of a Google push, with `changes`; None removes a claim."""
    now = int(time.time())
    said = {"iss": ISSUER, "aud": AUDIENCE, "email": ACCOUNT, "email_verified": True, "iat": now - 5, "exp": now + 3600}
    return {name: value for name, value in {**said, **changes}.items() if value is not None}


def signed(said: Claims, key: Any = KEY, algorithm: str = "RS256", **header: object) -> str:
    return jwt.encode(said, key, algorithm, headers=header or None)


def segment(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unsigned() -> str:
    return f"{segment({'alg': 'none', 'typ': 'JWT'})}.{segment(claims())}."


def keyed_by_the_public_key() -> str:
    text = f"{segment({'alg': 'HS256', 'typ': 'JWT'})}.{segment(claims())}"
    return f"{text}.{segment(hmac.digest(PUBLIC, text.encode(), hashlib.sha256))}"


def hour() -> int:
    return int(time.time()) + 3600


TOKENS: Mapping[str, Callable[[], str]] = {
    "as it is sent": lambda: signed(claims()),
    "the issuer's other name": lambda: signed(claims(iss="accounts.google.com")),
    "without a signature": unsigned,
    "keyed by the public key": keyed_by_the_public_key,
    "of a stranger": lambda: signed(claims(), STRANGER),
    "of another hash": lambda: signed(claims(), algorithm="RS512"),
    "of another padding": lambda: signed(claims(), algorithm="PS256"),
    "expired": lambda: signed(claims(exp=hour() - 7200)),
    "without an end": lambda: signed(claims(exp=None)),
    "with an end that is text": lambda: signed(claims(exp=str(hour()))),
    "not good yet": lambda: signed(claims(nbf=hour())),
    "born tomorrow": lambda: signed(claims(iat=hour() + 86400, exp=hour() + 90000)),
    "for somebody else": lambda: signed(claims(aud="https://other.example/")),
    "for nobody": lambda: signed(claims(aud=None)),
    "for several": lambda: signed(claims(aud=["https://other.example/", AUDIENCE])),
    "of another issuer": lambda: signed(claims(iss="https://issuer.example")),
    "of no issuer": lambda: signed(claims(iss=None)),
    "of another account": lambda: signed(claims(email="evil@other.iam.gserviceaccount.com")),
    "of no account": lambda: signed(claims(email=None)),
    "of an address that nobody looked at": lambda: signed(claims(email_verified=False)),
    "with an unknown extension": lambda: signed(claims(), crit=["x"], x=1),
    "with a key of its own": lambda: signed(claims(), STRANGER, jwk={"kty": "oct", "k": "AAAA"}),
    "with an address of keys": lambda: signed(claims(), STRANGER, jku="https://evil.example/jwks.json"),
    "with two headers": lambda: f"{segment({'alg': 'RS256'})}.{signed(claims())}",
    "cut short": lambda: signed(claims())[:-4],
    "padded": lambda: f"{signed(claims())}==",
    "of other claims": lambda: ".".join(
        part if at != 1 else segment(claims(email="x")) for at, part in enumerate(signed(claims()).split("."))
    ),
}


class Judge(NamedTuple):
    """`takes` raises, or says no, for what its library refuses. `lax`: what it takes and we refuse on purpose;
    `strict`: what it refuses and we take. Both by the name of the token, with the reason."""

    takes: Callable[[str], object]
    lax: Mapping[str, str] = {}
    strict: Mapping[str, str] = {}


class _Published(NamedTuple):
    data: bytes
    status: int = 200


def by_google(token: str) -> object:
    document = json.dumps({"1": certificate(KEY, "google").decode()}).encode()
    said = google.verify_oauth2_token(token, lambda url, method: _Published(document), audience=AUDIENCE)
    return said["email"] == ACCOUNT and said["email_verified"] is True


def by_authlib(token: str) -> object:
    from joserfc import jwk
    from joserfc import jwt as jose

    decoded = jose.decode(token, jwk.RSAKey.import_key(PUBLIC), algorithms=["RS256"])
    jose.JWTClaimsRegistry(
        iss={"essential": True, "values": [ISSUER, "accounts.google.com"]},
        aud={"essential": True, "value": AUDIENCE},
        exp={"essential": True},
        email={"essential": True, "value": ACCOUNT},
        email_verified={"essential": True, "value": True},
    ).validate(decoded.claims)
    return True


def here(token: str) -> bool:
    document = json.dumps({"keys": [json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))]}).encode()
    options = {"audience": AUDIENCE, "service_account": ACCOUNT}
    headers = [("Authorization", f"Bearer {token}")]
    try:
        verify("google-pubsub", [], headers, BODY, now=time.time(), options=options, keys=lambda url: document)
    except RefusedRequest:
        return False
    return True


JUDGES = {
    "google-auth": Judge(
        by_google,
        lax={
            "not good yet": "it never looks at `nbf` (RFC 7519 section 4.1.5 has it judged)",
            "with an unknown extension": "it never looks at `crit` (RFC 7515 section 4.1.11 has it refused)",
            "padded": "one token has one text (RFC 7515 section 2: no padding)",
        },
        strict={"for several": "`aud` may be a list (RFC 7519 section 4.1.3)"},
    ),
    "joserfc": Judge(by_authlib),
}


@pytest.mark.parametrize("library", JUDGES)
def test_a_token_is_judged_as_by_others_or_the_difference_is_written_down(library: str) -> None:
    judge, others = JUDGES[library], {}
    for name, make in TOKENS.items():
        token = make()
        try:
            theirs = bool(judge.takes(token))
        except Exception:
            theirs = False  # each library has its own exceptions for refusals
        ours = here(token)
        expected = (name not in judge.strict, name in judge.strict) if name in {*judge.lax, *judge.strict} else None
        if (theirs, ours) != (expected or (theirs, theirs)) or (name == "as it is sent" and not ours):
            others[name] = theirs, ours
    assert others == {}, "(theirs, ours)"
