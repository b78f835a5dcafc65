"""The vendors' own libraries: each decides whether it accepts a request."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.contracts.provider_cases import OPTIONS, SECRETS, URL, certificate, published


class Attempt(NamedTuple):
    """A request as a library gets it. `headers`: by their names in lower case."""

    headers: Mapping[str, str]
    body: bytes
    secret: str
    url: str

    @property
    def text(self) -> str:
        return self.body.decode()


class Library(NamedTuple):
    """`module`: the module to import. `takes(module, attempt)`: true if it accepts the request; it may also raise.

    `lax`: requests that it accepts and we refuse on purpose. `strict`: the opposite. Both by the name
    of the variation, with the reason. `random`: its signatures are other ones each time, some without padding.
    """

    provider: str
    module: str
    takes: Callable[[Any, Attempt], object]
    lax: Mapping[str, str] = {}
    strict: Mapping[str, str] = {}
    random: bool = False


_FUTURE = {"from the future": "it looks at one side only; a clock may be wrong to both"}
_NUMBER = "one number has one text, so that one signed request has one replay key"
_INT = dict.fromkeys(("full-width digits", "an underscore", "a plus sign", "a leading zero"), _NUMBER)
_FLOAT = {**_INT, "a fraction": _NUMBER}
_PADDED = "it skips what stands behind the padding; here one MAC has one text"
_BASE64 = dict.fromkeys(("one letter more", "rubbish behind a semicolon"), _PADDED)
_UNLABELLED = {"another version": "it never looks at the label; a later version may mean something else"}


def _ok(outcome: object) -> bool:
    """Return whether a library accepts the request, if it raises for a refusal and else returns None or the event."""
    return outcome is not False


def _github(module: Any, attempt: Attempt) -> object:
    signature = attempt.headers["x-hub-signature-256"]
    return _ok(module.validate_event(attempt.body, signature=signature, secret=attempt.secret))


def _stripe(module: Any, attempt: Attempt) -> object:
    header = attempt.headers["stripe-signature"]
    return module.WebhookSignature.verify_header(attempt.text, header, attempt.secret, tolerance=300)


def _slack(module: Any, attempt: Attempt) -> object:
    return module.SignatureVerifier(attempt.secret).is_valid_request(attempt.body, dict(attempt.headers))


class _Fields(dict[str, list[str]]):
    """Return a form as web frameworks pass it to Twilio's library."""

    def getlist(self, name: str) -> list[str]:
        return self[name]


def _twilio(module: Any, attempt: Attempt) -> object:
    fields = _Fields(parse_qs(attempt.text, keep_blank_values=True))
    return module.RequestValidator(attempt.secret).validate(attempt.url, fields, attempt.headers["x-twilio-signature"])


def _standard(module: Any, attempt: Attempt) -> object:
    return _ok(module.Webhook(attempt.secret).verify(attempt.body, dict(attempt.headers)))


def _workos(module: Any, attempt: Attempt) -> object:
    header = attempt.headers["workos-signature"]
    return _ok(module.verify_header(event_body=attempt.body, event_signature=header, secret=attempt.secret))


def _razorpay(module: Any, attempt: Attempt) -> object:
    signature = attempt.headers["x-razorpay-signature"]
    return module.Utility().verify_webhook_signature(attempt.text, signature, attempt.secret)


def _square(module: Any, attempt: Attempt) -> object:
    return module.verify_signature(
        request_body=attempt.text,
        signature_header=attempt.headers["x-square-hmacsha256-signature"],
        signature_key=attempt.secret,
        notification_url=attempt.url,
    )


def _line(module: Any, attempt: Attempt) -> object:
    return module.SignatureValidator(attempt.secret).validate(attempt.text, attempt.headers["x-line-signature"])


def _paddle(module: Any, attempt: Attempt) -> object:
    class Request:
        body = attempt.body
        content = None
        data = None
        headers = {"Paddle-Signature": attempt.headers["paddle-signature"]}  # noqa: RUF012

    return module.Verifier(300).verify(Request(), module.Secret(attempt.secret))


def _hubspot(module: Any, attempt: Attempt) -> object:
    return module.Signature.is_valid(
        signature=attempt.headers["x-hubspot-signature-v3"],
        client_secret=attempt.secret,
        request_body=attempt.text,
        http_uri=attempt.url,
        http_method="POST",
        signature_version="v3",
        timestamp=attempt.headers["x-hubspot-request-timestamp"],
    )


def _openai(module: Any, attempt: Attempt) -> object:
    client = module.OpenAI(api_key="none")
    client.webhooks.verify_signature(attempt.body, dict(attempt.headers), secret=attempt.secret)
    return True


def _resend(module: Any, attempt: Attempt) -> object:
    headers = {name: attempt.headers[f"svix-{name}"] for name in ("id", "timestamp", "signature")}
    options = {"payload": attempt.text, "headers": headers, "webhook_secret": attempt.secret}
    return _ok(module.Webhooks.verify(options))


def _polar(module: Any, attempt: Attempt) -> object:
    types = frozenset({json.loads(attempt.body).get("type")})
    return _ok(module.validate_event(attempt.body, dict(attempt.headers), attempt.secret, types, dict))


def _adyen(module: Any, attempt: Attempt) -> object:
    return module.is_valid_hmac_notification(json.loads(attempt.body), attempt.secret)


def _box(module: Any, attempt: Attempt) -> object:
    headers = {**attempt.headers, "box-signature-version": "1", "box-signature-algorithm": "HmacSHA256"}
    return module.WebhooksManager.validate_message(attempt.text, headers, attempt.secret)


def _coinbase(module: Any, attempt: Attempt) -> object:
    header = attempt.headers["x-cc-webhook-signature"]
    return module.WebhookSignature.verify_sig_header(attempt.text, header, attempt.secret)


def _elevenlabs(module: Any, attempt: Attempt) -> object:
    header = attempt.headers["elevenlabs-signature"]
    return _ok(module.WebhooksClient.construct_event(None, attempt.text, header, attempt.secret))


def _replicate(module: Any, attempt: Attempt) -> object:
    secret = module.WebhookSigningSecret(key=attempt.secret)
    return _ok(module.Webhooks.validate(headers=dict(attempt.headers), body=attempt.text, secret=secret, tolerance=300))


def _discord(module: Any, attempt: Attempt) -> object:
    signature, timestamp = (attempt.headers[f"x-signature-{name}"] for name in ("ed25519", "timestamp"))
    with contextlib.redirect_stdout(None):  # it prints the reason
        return module.verify_key(attempt.body, signature, timestamp, _public(attempt.secret, raw=True).hex())


def _telnyx(module: Any, attempt: Attempt) -> object:
    key = base64.b64encode(_public(attempt.secret, raw=True)).decode()
    return _ok(module.verify_webhook_signature(attempt.text, dict(attempt.headers), key))


class _Answer(NamedTuple):
    """Return the keys that a library gets instead of fetching them."""

    content: bytes
    status: int = 200

    @property
    def data(self) -> bytes:
        return self.content


def _sns(module: Any, attempt: Attempt) -> object:
    # It knows the first version, which differs from the second only by its hash.
    module.SHA1 = hashes.SHA256
    validator = module.SNSMessageValidator(signature_version="2")
    validator._cert_session.get = lambda url: _Answer(_certificate(attempt.secret))
    return _ok(validator.validate_message(json.loads(attempt.body)))


def _google(module: Any, attempt: Attempt) -> object:
    # As in Google's example: the library verifies, then the account is compared.
    certificates = json.dumps({"1": _certificate(attempt.secret).decode()}).encode()
    token = attempt.headers["authorization"].partition(" ")[2]
    claims = module.verify_oauth2_token(token, lambda url, method: _Answer(certificates), audience=URL)
    return claims["email"] == OPTIONS["google-pubsub"]["service_account"] and claims["email_verified"]


def _sendgrid(module: Any, attempt: Attempt) -> object:
    webhook = module.EventWebhook()
    return webhook.verify_signature(
        attempt.text,
        attempt.headers["x-twilio-email-event-webhook-signature"],
        attempt.headers["x-twilio-email-event-webhook-timestamp"],
        webhook.convert_public_key_to_ecdsa(base64.b64encode(_public(attempt.secret)).decode()),
    )


def published_now(url: str) -> bytes:
    """Return the document that a sender publishes at `url`, valid now."""
    return _certificate(SECRETS[-1][0]) if "amazonaws" in url else published(url)


def _certificate(secret: str) -> bytes:
    """Return a certificate of the public half of a private key."""
    key = serialization.load_pem_private_key(secret.encode(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return certificate(key, "sns.amazonaws.com", start=time.time() - 9999, end=time.time() + 9999)


def _public(secret: str, *, raw: bool = False) -> bytes:
    """Return the public half of a private key in the form that senders show."""
    key = serialization.load_pem_private_key(secret.encode(), None).public_key()
    if raw:
        return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


_BESIDE = dict.fromkeys(("rubbish behind a comma", "rubbish behind a space"), _PADDED)
_FOREVER = dict.fromkeys(("an hour old", "from the future"), "it leaves the time to the caller")
_TWILIO = {"a shorter body": "a field without `=` is nothing that Twilio sends"}
_OPENAI = {"no version": "it takes signatures without a label, which could be any version's"}
_REPLICATE = {"rubbish behind a comma": "it looks at the first two parts only"}

LIBRARIES = (
    Library("github", "gidgethub.sansio", _github),
    Library("stripe", "stripe", _stripe, lax=_FUTURE),
    Library("slack", "slack_sdk.signature", _slack, lax=_INT),
    Library("twilio", "twilio.request_validator", _twilio, lax=_TWILIO),
    Library("standard-webhooks", "standardwebhooks", _standard, lax=_BASE64),
    Library("svix", "svix.webhooks", _standard, lax=_BASE64),
    Library("workos", "workos.webhooks._verification", _workos, lax=_INT | _UNLABELLED),
    Library("razorpay", "razorpay", _razorpay),
    Library("square", "square.utils.webhooks_helper", _square),
    Library("line", "linebot.v3.webhook", _line),
    Library("paddle", "paddle_billing.Notifications", _paddle),
    Library("hubspot", "hubspot.utils.signature", _hubspot, lax=_FUTURE | _FLOAT),
    Library("openai", "openai", _openai, lax=_INT | _OPENAI),
    Library("resend", "resend", _resend, lax=_INT | _UNLABELLED),
    Library("polar", "polar.webhooks", _polar),
    Library("adyen", "Adyen.util", _adyen),
    Library("box", "box_sdk_gen.managers.webhooks", _box),
    Library("coinbase-commerce", "coinbase_commerce.webhook", _coinbase),
    Library("elevenlabs", "elevenlabs.webhooks_custom", _elevenlabs, lax=_FUTURE | _INT),
    Library("replicate", "replicate.webhook", _replicate, lax=_INT | _BASE64 | _UNLABELLED | _REPLICATE),
    Library("discord", "discord_interactions", _discord, lax=_FOREVER | {"upper case": "one signature has one text"}),
    Library("telnyx", "telnyx.lib.webhook_verification", _telnyx, lax=_INT | _BASE64 | _BESIDE),
    Library("aws-sns", "sns_message_validator.sns_message_validator", _sns),
    Library("google-pubsub", "google.oauth2.id_token", _google),
    Library("sendgrid", "sendgrid.helpers.eventwebhook", _sendgrid, lax=_FOREVER | _BASE64 | _BESIDE, random=True),
)
