"""JSON Web Tokens: issuer, audience, expiry, and the signed body."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from runtime.webhooks.providers.custom import JwtOptions
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.schemes.jwt import Jwt
from runtime.webhooks.schemes.scheme import CannotSign, KeyNeeded
from tests.signatures import prepare, sign, verify

NOW = 1_700_000_000
BODY = b'{"n": 1}'
SECRET = "a secret of thirty-two bytes, or more of them"
HS: dict[str, object] = {"algorithms": ["HS256"]}
URL = "https://issuer.example/jwks.json"

RSA = rsa.generate_private_key(65537, 2048)
OTHER_RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())

Claims = dict[str, Any]


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(encoding, form).decode()


def token(claims: Claims, key: Any = SECRET, algorithm: str = "HS256", **header: object) -> str:
    return jwt.encode(claims, key, algorithm, headers=header or None)


def bearer(text: str) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer {text}")]


def accepted(text: str, options: dict[str, object] = HS, *, secret: str = SECRET, now: float = NOW) -> bool:
    return bool(verify("jwt", [secret], bearer(text), BODY, now=now, options=options).mac)


def reason(text: str, options: dict[str, object] = HS, *, secret: str = SECRET, now: float = NOW) -> str:
    with pytest.raises(RefusedRequest) as caught:
        accepted(text, options, secret=secret, now=now)
    return caught.value.reason


GOOD: Claims = {"exp": NOW + 300}


def test_a_token_of_the_secret_is_accepted_until_it_expires() -> None:
    assert accepted(token(GOOD))
    assert accepted(token(GOOD), now=NOW + 299)
    assert reason(token(GOOD), now=NOW + 300) == "stale"
    assert accepted(token(GOOD), {**HS, "leeway": "1m"}, now=NOW + 359)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({}, "missing_timestamp"),
        ({"exp": None}, "missing_timestamp"),
        ({"exp": str(NOW + 9)}, "malformed_timestamp"),
        ({"exp": True}, "malformed_timestamp"),
        ({"exp": 10**30}, "malformed_timestamp"),
        ({"exp": -1}, "malformed_timestamp"),
        ({"exp": NOW - 1}, "stale"),
        ({"exp": NOW + 0.5}, None),
        ({**GOOD, "nbf": NOW + 1}, "future"),
        ({**GOOD, "nbf": NOW}, None),
        ({**GOOD, "iat": "x"}, "malformed_timestamp"),
        ({**GOOD, "iat": NOW + 60}, None),
        ({**GOOD, "iat": NOW + 61}, "future"),
        ({**GOOD, "aud": "x"}, "unwanted_sender"),
        ({**GOOD, "aud": []}, None),
        ({**GOOD, "iss": "anybody"}, None),
    ],
)
def test_the_times_of_a_token_are_judged(claims: Claims, why: str | None) -> None:
    if why is None:
        assert accepted(token(claims))
    else:
        assert reason(json_token(claims)) == why


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def head(header: object, claims: Claims = GOOD) -> str:
    return ".".join(encoded(json.dumps(each).encode()) for each in (header, claims))


def sealed(header: object, claims: Claims = GOOD, key: str = SECRET) -> str:
    """Return a token that PyJWT would not create."""
    text = head(header, claims)
    return f"{text}.{encoded(hmac.digest(key.encode(), text.encode(), 'sha256'))}"


def json_token(claims: Claims) -> str:
    return sealed({"alg": "HS256"}, claims)


@pytest.mark.parametrize(
    ("claims", "good"),
    [
        ({"iss": "https://a", "aud": "me"}, True), ({"iss": "https://b", "aud": ["x", "me2"]}, True),
        ({"iss": "https://c", "aud": "me"}, False), ({"aud": "me"}, False), ({"iss": "https://a"}, False),
        ({"iss": "https://a", "aud": "you"}, False), ({"iss": "https://a", "aud": []}, False),
        ({"iss": ["https://a"], "aud": "me"}, False), ({"iss": "https://a", "aud": {"me": 1}}, False),
        ({"iss": "https://a", "aud": [["me"]]}, False),
    ],
)  # fmt: skip
def test_issuer_and_audience_are_those_that_are_named(claims: Claims, good: bool) -> None:
    options: dict[str, object] = {**HS, "issuer": ["https://a", "https://b"], "audience": ["me", "me2"]}
    text = json_token({**GOOD, **claims})
    assert accepted(text, options) if good else reason(text, options) == "unwanted_sender"


def test_no_algorithm_but_those_that_are_named_is_taken() -> None:
    assert reason(head({"alg": "none"}) + ".") == "malformed_signature"
    assert reason(token(GOOD, SECRET * 2, algorithm="HS512")) == "malformed_signature"
    for alg in ("none", "None", "hs256", None, ["HS256"], 1):
        assert reason(sealed({"alg": alg})) == "malformed_signature"


def test_a_public_key_is_never_the_key_of_an_hmac() -> None:
    for public in (pem(RSA), pem(EC), json.dumps(RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True))):
        with pytest.raises(ValueError, match="not an HMAC key"):
            prepare("jwt", [public], HS)
    # The opposite: the algorithm in the header is not the one of the key.
    forged = sealed({"alg": "HS256"}, key=pem(RSA))
    assert reason(forged, {"algorithms": ["RS256"]}, secret=pem(RSA)) == "malformed_signature"
    with pytest.raises(ValueError, match="one family"):
        Jwt(algorithms=("RS256", "HS256"))
    with pytest.raises(ValueError, match="one family"):
        Jwt(algorithms=("none",))


@pytest.mark.parametrize(
    "algorithms", [["HS256", "RS256"], ["none"], [], ["ES256", "EdDSA"], ["RS256", "PS256"], "HS1"]
)
def test_options_of_several_families_are_one_clear_line(algorithms: object) -> None:
    with pytest.raises(ValueError, match=r"^provider jwt: ") as caught:
        prepare("jwt", [SECRET], {"algorithms": algorithms})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("secret", "algorithms"),
    [
        ("brief", ["HS256"]),
        ("x" * 31, ["HS256"]),
        ("x" * 63, ["HS256", "HS512"]),
        (pem(EC), ["RS256"]),
        (pem(RSA), ["ES256"]),
        ("some text that is long enough for anything", ["RS256"]),
        ('{"kty":"oct","k":"AAAA"}', ["RS256"]),
        ("{}", ["ES256"]),
        (pem(rsa.generate_private_key(65537, 1024)), ["RS256"]),
        (pem(ec.generate_private_key(ec.SECP384R1())), ["ES256"]),
    ],
)
def test_a_key_that_does_not_fit_is_an_error_at_once(secret: str, algorithms: list[str]) -> None:
    with pytest.raises(ValueError, match=r"^the secret is") as caught:
        prepare("jwt", [secret], {"algorithms": algorithms})
    assert secret not in str(caught.value)


@pytest.mark.parametrize("header", [{"crit": ["exp"]}, {"crit": []}, {"crit": ["b64"], "b64": True}, {"b64": False}])
def test_a_token_that_asks_for_an_extension_is_refused(header: dict[str, object]) -> None:
    assert reason(sealed({"alg": "HS256", **header})) == "malformed_signature"


def test_a_key_that_a_token_brings_along_is_not_looked_at() -> None:
    brought = {"jwk": RSAAlgorithm.to_jwk(OTHER_RSA.public_key(), as_dict=True), "jku": "https://evil.example/k",
               "x5u": "https://evil.example/c", "x5c": ["AAAA"]}  # fmt: skip
    forged = token(GOOD, OTHER_RSA, "RS256", **brought)
    asked: list[str] = []

    def keys(url: str) -> bytes:
        asked.append(url)
        return published(RSA)

    with pytest.raises(RefusedRequest, match="signature_mismatch"):
        verify("jwt", [], bearer(forged), BODY, now=NOW, options={"jwks_url": URL}, keys=keys)
    assert asked == [URL]
    assert reason(forged, {"algorithms": ["RS256"]}, secret=pem(RSA)) == "signature_mismatch"


def published(*keys: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, **more: object) -> bytes:
    found = []
    for number, key in enumerate(keys):
        if isinstance(key, rsa.RSAPrivateKey):
            jwk = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
        else:
            jwk = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
        found.append({**jwk, "kid": f"k{number}", **more})
    return json.dumps({"keys": found}).encode()


def fetched(text: str, document: bytes | None, **options: object) -> str:
    try:
        verify("jwt", [], bearer(text), BODY, now=NOW, options={"jwks_url": URL, **options}, keys=lambda url: document)
    except RefusedRequest as refused:
        return refused.reason
    except KeyNeeded as needed:
        return needed.reason if (needed.url, needed.configured) == (URL, True) else "another URL"
    return "accepted"


def test_a_published_key_is_asked_for_and_chosen_by_its_id() -> None:
    text = token(GOOD, OTHER_RSA, "RS256", kid="k1")
    assert fetched(text, None) == "key_unavailable"
    assert fetched(text, published(RSA)) == "unknown_key"
    assert fetched(text, published(RSA, OTHER_RSA)) == "accepted"
    assert fetched(text, published(OTHER_RSA, RSA)) == "signature_mismatch"
    assert fetched(token(GOOD, OTHER_RSA, "RS256"), published(RSA, OTHER_RSA)) == "accepted"


def test_published_keys_of_another_kind_or_purpose_are_passed_over() -> None:
    text = token(GOOD, RSA, "RS256", kid="k0")
    assert fetched(text, published(RSA, use="enc")) == "unknown_key"
    assert fetched(text, published(RSA, alg="RS512")) == "unknown_key"
    assert fetched(text, published(RSA, alg="RS256", use="sig")) == "accepted"
    assert fetched(text, published(EC)) == "unknown_key"
    for nothing in (b"", b"{", b"[]", b"{}", b'{"keys": 1}', b'{"keys": [1, {}, {"kty": "RSA"}]}', b"\xff"):
        assert fetched(text, nothing) == "unknown_key"


def test_a_shared_key_among_published_ones_is_never_used() -> None:
    shared = json.dumps({"keys": [{"kty": "oct", "k": encoded(SECRET.encode()), "kid": "k0", "alg": "HS256"}]}).encode()
    assert fetched(token(GOOD, kid="k0"), shared) == "malformed_signature"


def test_what_is_fetched_is_fetched_by_https_and_needs_no_secret() -> None:
    with pytest.raises(ValueError, match="https"):
        prepare("jwt", [], {"jwks_url": "http://issuer.example/jwks.json"})
    with pytest.raises(ValueError, match="`jwks_url` and `algorithms HS256` exclude each other"):
        prepare("jwt", [], {"jwks_url": URL, **HS})
    with pytest.raises(ValueError, match="leave `secret` out"):
        prepare("jwt", [SECRET], {"jwks_url": URL})
    with pytest.raises(ValueError, match="there is no secret"):
        prepare("jwt", [], HS)
    assert prepare("jwt", [], {"jwks_url": URL}).provider.keyless


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "=",
        lambda text: text + ".",
        lambda text: text.replace(".", "..", 1),
        lambda text: "." + text,
        lambda text: text.rsplit(".", 1)[0],
        lambda text: text.rsplit(".", 1)[0] + ".",
        lambda text: " " + text,
        lambda text: text[:-1] + chr(ord(text[-1]) + 1),
        lambda text: "A" * 9000,
        lambda text: "",
        lambda text: text + "\n",
        lambda text: text.replace(".", "=.", 1),
        lambda text: encoded(b"[]") + "." + text.split(".", 1)[1],
        lambda text: encoded(b'{"alg":"HS256","alg":"none"}') + "." + text.split(".", 1)[1],
    ],
)
def test_a_token_written_otherwise_is_refused(change: Callable[[str], str]) -> None:
    text = token(GOOD)
    # So that its last character has unused bits.
    assert len(text.rsplit(".", 1)[1]) == 43
    assert reason(change(text)) in {"malformed_signature", "missing_signature"}


def test_the_word_before_a_token_is_written_in_any_case_and_is_needed() -> None:
    for word in ("Bearer", "bearer", "BEARER"):
        assert verify("jwt", [SECRET], [("Authorization", f"{word} {token(GOOD)}")], BODY, now=NOW, options=HS).mac
    for value in (token(GOOD), f"Basic {token(GOOD)}", f"Bearer{token(GOOD)}"):
        with pytest.raises(RefusedRequest, match="malformed_signature"):
            verify("jwt", [SECRET], [("Authorization", value)], BODY, now=NOW, options=HS)
    options = {**HS, "header": "X-Token"}
    assert verify("jwt", [SECRET], [("X-Token", token(GOOD))], BODY, now=NOW, options=options).mac


def test_the_hash_of_the_body_is_taken_in_hexadecimal_and_base64() -> None:
    digest = hashlib.sha256(BODY).digest()
    options: dict[str, object] = {**HS, "body_claim": "h"}
    for text in (digest.hex(), base64.b64encode(digest).decode(), encoded(digest)):
        assert accepted(token({**GOOD, "h": text}), options)
    other = hashlib.sha256(b"").hexdigest()
    for wrong in (digest.hex()[:-1], digest.hex().upper(), other, "", None, 1, [digest.hex()]):
        assert reason(token({**GOOD, "h": wrong}), options) == "signature_mismatch"
    assert reason(token(GOOD), options) == "signature_mismatch"
    assert prepare("jwt", [SECRET], options).provider.signed == ("body",)
    assert prepare("jwt", [SECRET], HS).provider.signed == ()


def test_with_an_age_a_token_needs_its_birth_and_no_end() -> None:
    options: dict[str, object] = {**HS, "max_age": "5m"}
    match = verify("jwt", [SECRET], bearer(token({"iat": NOW - 300})), BODY, now=NOW, options=options)
    assert match.timestamp == NOW - 300
    assert reason(token({"iat": NOW - 301}), options) == "stale"
    assert reason(token({"iat": NOW + 301}), options) == "future"
    assert reason(token(GOOD), options) == "missing_timestamp"
    assert reason(token({"iat": NOW, "exp": NOW - 1}), options) == "stale"


def test_one_token_with_two_bodies_is_two_requests_and_twice_with_one_is_one() -> None:
    options: dict[str, object] = {**HS, "max_age": "5m"}
    headers = bearer(token({"iat": NOW}))
    macs = [verify("jwt", [SECRET], headers, body, now=NOW, options=options).mac for body in (b"1", b"2", b"1")]
    assert macs[0] == macs[2] != macs[1]


@pytest.mark.parametrize(
    "options",
    [{"leeway": "6m"}, {"max_age": "0s"}, {"max_age": "25h"}, {"header": "X Y"}, {"audience": 1}, {"kid": "x"}],
)
def test_options_that_do_not_fit_are_one_clear_line(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^provider jwt: ") as caught:
        prepare("jwt", [SECRET], {**HS, **options})
    assert "\n" not in str(caught.value)


def test_a_key_as_json_is_taken_by_its_id() -> None:
    key = {**ECAlgorithm.to_jwk(EC.public_key(), as_dict=True), "kid": "bfbd5111-8e33-4643-8ced-b2e642a72f3c"}
    claims = {"iat": NOW, "request_body_sha256": hashlib.sha256(BODY).hexdigest()}

    def sent(kid: str) -> list[tuple[str, str]]:
        return [("Plaid-Verification", token(claims, EC, "ES256", kid=kid))]

    assert verify("plaid", [json.dumps(key)], sent(str(key["kid"])), BODY, now=NOW).timestamp == NOW
    with pytest.raises(RefusedRequest, match="signature_mismatch"):
        verify("plaid", [json.dumps(key)], sent("another"), BODY, now=NOW)
    with pytest.raises(RefusedRequest, match="stale"):
        verify("plaid", [json.dumps(key)], sent(str(key["kid"])), BODY, now=NOW + 301)


def test_google_is_believed_only_about_the_account_that_was_named() -> None:
    options = {"audience": "https://h.example/", "service_account": "push@p.iam.gserviceaccount.com"}
    claims: Claims = {"iss": "https://accounts.google.com", "aud": "https://h.example/", "exp": NOW + 9, "iat": NOW,
                      "email": "push@p.iam.gserviceaccount.com", "email_verified": True}  # fmt: skip

    def outcome(**changes: object) -> str:
        headers = bearer(token({**claims, **changes}, RSA, "RS256", kid="k0"))
        try:
            verify("google-pubsub", [], headers, BODY, now=NOW, options=options, keys=lambda _: published(RSA))
        except RefusedRequest as refused:
            return refused.reason
        return "accepted"

    assert outcome() == "accepted"
    for wrong in ({"email": "push@evil.iam.gserviceaccount.com"}, {"email_verified": False}, {"email_verified": "true"},
                  {"email_verified": 1}, {"aud": "https://other.example/"}, {"iss": "https://x.example"}):  # fmt: skip
        assert outcome(**wrong) == "unwanted_sender"
    for missing in ({}, {"audience": "https://h.example/"}, {**options, "audience": []}):
        with pytest.raises(ValueError, match="provider google-pubsub: "):
            prepare("google-pubsub", [], missing)


def test_a_published_key_of_the_senders_own_host_is_no_owners_url() -> None:
    options = {"tenant": "0a1b2c3d-0000-4000-8000-000000000000", "audience": "api://hooks"}
    with pytest.raises(KeyNeeded) as caught:
        verify("azure-event-grid", [], bearer(token(GOOD, RSA, "RS256")), BODY, now=NOW, options=options)
    assert not caught.value.configured
    assert caught.value.url.startswith("https://login.microsoftonline.com/0a1b2c3d-")
    for wrong in ({"tenant": "common", "audience": "a"}, {"tenant": options["tenant"]}, {"audience": "a"}):
        with pytest.raises(ValueError, match="provider azure-event-grid: "):
            prepare("azure-event-grid", [], wrong)


def test_what_cannot_sign_says_so() -> None:
    with pytest.raises(CannotSign, match="public key"):
        sign("jwt", pem(RSA), BODY, now=NOW, delivery_id="d")
    with pytest.raises(CannotSign, match="publishes its public keys"):
        sign("jwt", SECRET, BODY, now=NOW, delivery_id="d", options={"jwks_url": URL})


def test_the_defaults_of_the_options_are_those_of_the_scheme() -> None:
    scheme = prepare("jwt", [pem(RSA)], JwtOptions()).provider.scheme
    assert scheme == Jwt()
