"""Every provider's row as a case that can sign, with secrets and bodies of the kind that the provider uses."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import RSAAlgorithm

from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import Keys
from runtime.webhooks.schemes.hmac import Hmac, Signing
from runtime.webhooks.schemes.scheme import Scheme, UnsignedRequest
from runtime.webhooks.schemes.template import Template, TemplateValues
from runtime.webhooks.schemes.timestamp import write_time
from runtime.webhooks.verification import VerifiedRequest
from tests.cases import each_case
from tests.signatures import matched, sign_request, verify

NOW = 1_700_000_000
URL = "https://hooks.example/hooks/here?from=there"
BODY = b'{"id": "evt_1", "type": "thing.made", "n": 1}'
EVENT, DELIVERY = "made", "delivery-1"

Pairs = list[tuple[str, str]]


def _pem(key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()


# Two secrets of each kind; a row is tried with the first kind that it can sign with. New kinds come at the end.
SECRETS = (
    ("a secret of some length, so that it may be any key", "another secret of some length, which is not that key"),
    ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"),
    ("44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056", "00" * 31 + "01"),
    ("somebody:a password", "somebody:another password"),
    (_pem(ed25519.Ed25519PrivateKey.generate()), _pem(ed25519.Ed25519PrivateKey.generate())),
    (_pem(ec.generate_private_key(ec.SECP256R1())), _pem(ec.generate_private_key(ec.SECP256R1()))),
    (_pem(rsa.generate_private_key(65537, 2048)), _pem(rsa.generate_private_key(65537, 2048))),
)

# Needs of single rows: bodies of another form than `BODY`, and required options.
_ITEM = (
    b'{"pspReference": "7914073381342284", "originalReference": "", "merchantAccountCode": "Shop", "merchantReference":'
    b' "order:1", "amount": {"value": 1130, "currency": "EUR"}, "eventCode": "AUTHORISATION", "success": "true"}'
)
BODIES: Mapping[str, bytes] = {
    "adyen": b'{"live": "false", "notificationItems": [{"NotificationRequestItem": ' + _ITEM + b"}]}",
    "microsoft-graph": b'{"value": [{"id": "evt_1", "changeType": "created"}, {"id": "evt_2", "n": 2}]}',
    "twilio": b"MessageSid=SM1&Body=Hello+world%21&From=%2B4930123&To=%2B4930456&To=%2B4930789&Empty=",
}
OPTIONS: Mapping[str, Mapping[str, object]] = {
    "aws-sns": {"topic": "arn:aws:sns:eu-central-1:123456789012:orders"},
    "google-pubsub": {"audience": URL, "service_account": "push@project.iam.gserviceaccount.com"},
    "paypal": {"webhook_id": "8PT597110X687430LKGECATA"},
}


@cache
def published(url: str) -> bytes:
    """Return the document that a sender publishes at `url`: the RSA secret's public half, as certificate or JWK set."""
    key = serialization.load_pem_private_key(SECRETS[-1][0].encode(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    if "amazonaws" in url or "paypal" in url:
        return certificate(key, "sns.amazonaws.com" if "amazonaws" in url else "messages.paypal.com")
    return json.dumps({"keys": [RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)]}).encode()


def certificate(key: rsa.RSAPrivateKey, name: str, *, start: float = NOW - 1e7, end: float = NOW + 1e7) -> bytes:
    """Return a self-signed certificate of `key` for the host `name`, as PEM."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    built = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    built = built.not_valid_before(datetime.fromtimestamp(start, UTC)).not_valid_after(datetime.fromtimestamp(end, UTC))
    return built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@dataclass(frozen=True)
class Case:
    """A row with its options. `keys`: the documents that it would fetch."""

    name: str
    options: Mapping[str, object] = field(default_factory=dict)
    keys: Keys = published

    @cached_property
    def row(self) -> Provider:
        return PROVIDERS[self.name].with_options(self.options)

    @cached_property
    def body(self) -> bytes:
        return BODIES.get(self.name, BODY)

    @cached_property
    def secrets(self) -> tuple[str, str] | None:
        """Return a secret that signs and another one; None for a row for which no secret here can sign."""
        return next((pair for pair in SECRETS if self._signs(pair[0]) and self._signs(pair[1])), None)

    @property
    def secret(self) -> str:
        assert self.secrets is not None
        return self.secrets[0]

    @property
    def other(self) -> str:
        assert self.secrets is not None
        return self.secrets[1]

    @property
    def timed(self) -> bool:
        return self.row.scheme.tolerance is not None

    @cached_property
    def in_header(self) -> bool:
        """Whether the proof is in a header."""
        assert self.secrets is not None
        return self.sent()[0] != self.sent(secret=self.other)[0]

    def sent(
        self, *, now: float = NOW, secret: str | None = None, body: bytes | None = None, url: str = URL
    ) -> tuple[Pairs, bytes]:
        """Return headers and body as the row's sender sends them."""
        return sign_request(
            self.name,
            self.secret if secret is None else secret,
            self.body if body is None else body,
            now=now,
            delivery_id=DELIVERY,
            event=EVENT,
            url=url,
            options=self.options,
        )

    def verify(
        self,
        headers: Pairs,
        body: bytes,
        *,
        now: float = NOW,
        secrets: tuple[str, ...] | None = None,
        method: str = "POST",
        url: str | None = URL,
        query: str = "",
    ) -> VerifiedRequest:
        given = () if self.row.keyless else (self.secret,) if secrets is None else secrets
        more = {"now": now, "method": method, "url": url, "query": query, "keys": self.keys}
        return verify(self.name, given, headers, body, options=self.options, **more)  # type: ignore[arg-type]

    def is_signed(self, headers: Pairs, body: bytes, *, now: float = NOW) -> bool:
        """Whether the signature alone is right, whatever is read from the body."""
        given = () if self.row.keyless else (self.secret,)
        try:
            matched(self.name, given, headers, body, now=now, url=URL, options=self.options, keys=self.keys)
        except RefusedRequest:
            return False
        return True

    def refusal(self, headers: Pairs, body: bytes, **changes: object) -> RefusedRequest:
        with pytest.raises(RefusedRequest) as caught:
            self.verify(headers, body, **changes)  # type: ignore[arg-type]
        return caught.value

    def proof(self, headers: Pairs) -> int:
        """Return the index of the header with the proof, which is the one that another secret changes."""
        other = self.sent(secret=self.other)[0]
        return next(index for index, (mine, theirs) in enumerate(zip(headers, other, strict=True)) if mine != theirs)

    def _signs(self, secret: str) -> bool:
        try:
            self.row.scheme.check([secret.encode()])
            self.sent(secret=secret)
        except ValueError:
            return False
        return True


def signed_at(case: Case, text: str, now: float = NOW) -> tuple[Pairs, bytes]:
    """Return a correctly signed request of an HMAC row whose timestamp is `text`."""
    scheme = case.row.scheme
    assert isinstance(scheme, Hmac)
    headers, body = case.sent(now=now)
    written = write_time(now, scheme.unit)
    if scheme.timestamp_path is not None:
        body = body.replace(written.encode(), text.encode("utf-8", "surrogatepass"))
        return scheme.sign(case.secret.encode(), UnsignedRequest(body, now, DELIVERY, "POST", URL)), body
    message = Template(scheme.payload, scheme.id_border).compile()(TemplateValues(body, text, DELIVERY, URL, "POST"))
    mac = Signing(scheme.algorithm, scheme.encoding).write(scheme.key(case.secret.encode()), message)
    proof = {scheme.header.lower(): scheme.form.write(mac, text), (scheme.timestamp_header or "").lower(): text}
    return [(name, proof.get(name.lower(), value)) for name, value in headers], body


def changed(headers: Pairs, index: int, change: Callable[[str], str]) -> Pairs:
    """Return the headers with another value at `index`."""
    name, value = headers[index]
    return [*headers[:index], (name, change(value)), *headers[index + 1 :]]


def label(case: Case) -> str:
    return "-".join((case.name, *map(str, case.options.values())))


ALL = [
    *(Case(name, OPTIONS.get(name, {})) for name in PROVIDERS),
    Case("custom", {"header": "X-Sig", "prefix": "v1=", "encoding": "base64", "algorithm": "sha512"}),
    Case("custom", {"payload": "{timestamp}.{body}", "timestamp_header": "X-Time", "tolerance": "1m"}),
    Case(
        "custom",
        {
            "payload": "{id}.{timestamp}.{body}",
            "id_header": "X-Id",
            "timestamp_header": "X-Time",
            "event_header": "X-Event",
            "algorithm": "sha1",
        },
    ),
    Case("custom", {"payload": "{timestamp}.{body}", "timestamp_header": "X-Time", "timestamp_unit": "ms"}),
    Case("custom", {"payload": "{timestamp}{body}", "timestamp_header": "X-Time", "timestamp_unit": "rfc3339"}),
    Case("custom", {"payload": "{header:X-Request-Id};{json:$.type};{body}", "prefix": "sha256="}),
    Case("twilio", {"algorithm": "sha256"}),
    Case("token", {"header": "Authorization", "prefix": "Bearer ", "id_header": "X-Id", "event_header": "X-Event"}),
    Case("okta", {"header": "X-Okta"}),
    Case("jwt", {"algorithms": ["HS256"], "audience": ["symbi"], "issuer": "https://issuer.example"}),
    Case("jwt", {"algorithms": ["EdDSA"], "header": "X-Token", "body_claim": "sha256", "max_age": "5m"}),
    Case("jwt", {"algorithms": ["RS256"], "jwks_url": "https://issuer.example/jwks.json", "body_claim": "sha256"}),
    Case("azure-event-grid", {"tenant": "0a1b2c3d-0000-4000-8000-000000000000", "audience": "api://hooks"}),
]
CASES = [case for case in ALL if case.secrets is not None]
UNSIGNABLE = [case for case in ALL if case.secrets is None]

every = each_case("case", CASES, label)
timed = each_case("case", [case for case in CASES if case.timed], label)
headed = each_case("case", [case for case in CASES if case.in_header], label)
# A signature among the body's members covers only members, not white space or other members.
bodied = each_case(
    "case", [case for case in CASES if "body" in case.row.signed and type(case.row.scheme).embed is Scheme.embed], label
)
hashed = each_case("case", [case for case in CASES if isinstance(case.row.scheme, Hmac)], label)
addressed = each_case("case", [case for case in CASES if "url" in case.row.signed], label)
