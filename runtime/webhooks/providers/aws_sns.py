"""Amazon SNS: topics that deliver over HTTP."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import msgspec
import structlog
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import BeforeValidator, Field

from dslc.blocks.options import Options
from dslc.blocks.values.types import SINGLE, Form
from runtime.webhooks.handshakes import Handshake
from runtime.webhooks.keys.certificate import is_valid, private_key, read_signature, signing_key, write_signature
from runtime.webhooks.providers.custom import as_tuple
from runtime.webhooks.providers.provider import MIB, Provider
from runtime.webhooks.request.payload import Payload, decode_json
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import StaticAnswer, WebhookRequest
from runtime.webhooks.schemes.scheme import CannotSign, Check, KeyNeeded, Match, Scheme, UnsignedRequest
from runtime.webhooks.schemes.timestamp import check_fresh, read_time, write_time

log = structlog.get_logger("symbiont.webhooks")

_TOPIC = re.compile(r"arn:(aws|aws-cn|aws-us-gov):sns:([a-z0-9-]{3,32}):[0-9]{12}:[A-Za-z0-9_.-]{1,256}")
_FILE = re.compile(r"/[A-Za-z0-9_-]{1,128}\.pem")
# `sns.amazonaws.com`, or with the region, before or after a dot or a hyphen.
_NAMES = re.compile(r"sns([.-][a-z0-9-]+)?\.amazonaws\.com(\.cn)?")

_NOTIFICATION = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_CONFIRMATION = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
_SIGNED = {
    "Notification": _NOTIFICATION,
    "SubscriptionConfirmation": _CONFIRMATION,
    "UnsubscribeConfirmation": _CONFIRMATION,
}


def _host(topic: str) -> str:
    """Return the host of the topic's region."""
    match = _TOPIC.fullmatch(topic)
    partition, region = match.groups() if match else ("aws", "invalid")
    return f"sns.{region}.amazonaws.com{'.cn' if partition == 'aws-cn' else ''}"


def canonical(message: Mapping[str, Any]) -> bytes:
    """Return the signed text of a message: names and values, a line each, in the order of the names.

    A line break in a value would move the borders between them. Only `Message` may contain line breaks, since it is the
    first. Raises `RefusedRequest`.
    """
    names = _SIGNED.get(str(message.get("Type")), ())
    lines: list[str] = []
    for name in names:
        value = message.get(name)
        if name == "Subject" and value is None:
            continue
        if not isinstance(value, str) or (name != "Message" and "\n" in value):
            raise RefusedRequest("malformed_signature")
        lines += (name, value)
    if not lines:
        raise RefusedRequest("malformed_signature")
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsSignature(Scheme):
    """An RSA signature over some members of the body, verified with the certificate at the URL in it.

    `topics`: the topics whose messages are accepted. Any AWS account can have messages of its own topic signed, so a
    signature alone proves nothing; and a certificate is only fetched from the host of the topic's own region. Version 1
    of the signature uses SHA-1 and is refused: the topic's attribute `SignatureVersion` selects version 2.
    """

    topics: tuple[str, ...] = ()
    tolerance: float = 3600  # for retries: the timestamp is that of the publication
    _hosts: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hosts", {topic: _host(topic) for topic in self.topics})

    signed = ("id", "timestamp", "body")
    words = "RSA with Amazon's certificate, of the message's fields"

    def check(self, secrets: Sequence[bytes]) -> Check:
        def verify(request: WebhookRequest, now: float) -> Match:
            message = decode_json(request.body)
            if not isinstance(message, dict) or not message.get("Signature"):
                raise RefusedRequest("missing_signature")
            text = canonical(message)
            if message.get("SignatureVersion") != "2":
                raise RefusedRequest("outdated_signature")
            host = self._hosts.get(message["TopicArn"])
            if host is None:
                raise RefusedRequest("unwanted_sender")
            signature, url = read_signature(message["Signature"]), _certificate_url(message.get("SigningCertURL"), host)
            document = request.keys(url)
            if document is None:
                raise KeyNeeded(url, named=True)
            if not is_valid(signing_key(document, now, _NAMES), signature, text):
                raise RefusedRequest("signature_mismatch")
            time = read_time(message["Timestamp"], "rfc3339")
            check_fresh(time, now, self.tolerance)
            return Match(hashlib.sha256(text).digest(), int(time), 0, url)

        return verify

    def sign(self, secret: bytes, unsigned: UnsignedRequest) -> list[tuple[str, str]]:
        _private_key(secret)
        return []

    def embed(self, secret: bytes, unsigned: UnsignedRequest) -> bytes:
        """Return the body as the `Message` of a notification, signed with a private key given as PEM."""
        key, topic = _private_key(secret), next(iter(self.topics), "")
        message = {
            "Type": "Notification",
            "MessageId": unsigned.delivery_id,
            "TopicArn": topic,
            "Message": unsigned.body.decode("utf-8", "replace"),
            "Timestamp": write_time(unsigned.now, "rfc3339"),
            "SignatureVersion": "2",
            "SigningCertURL": f"https://{_host(topic)}/SimpleNotificationService-{'0' * 32}.pem",
        }
        return msgspec.json.encode({**message, "Signature": write_signature(key, canonical(message))})


def _certificate_url(text: object, host: str) -> str:
    """Return the URL if it is a file of `host` in canonical form. Raises `RefusedRequest`."""
    start = f"https://{host}"
    if not isinstance(text, str) or not text.startswith(start) or not _FILE.fullmatch(text[len(start) :]):
        raise RefusedRequest("malformed_signature")
    return text


def _private_key(secret: bytes) -> rsa.RSAPrivateKey:
    key = private_key(secret)
    if key is None:
        raise CannotSign("only Amazon SNS can sign: it keeps the private key of its certificate; publish to the topic")
    return key


def signed_members(body: bytes, content_type: str) -> object:
    """Return only the signed members of a message: other attributes and URLs are removed."""
    message = decode_json(body)
    if not isinstance(message, dict):
        return message
    names = _SIGNED.get(str(message.get("Type")), ())
    return {name: message[name] for name in names if name in message}


def _confirm(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
    """Log a signed subscription confirmation for the owner; never confirm it automatically.

    Anyone who can subscribe to a topic chooses the endpoint, so this request does not prove that the subscription is
    wanted.
    """
    message = payload.value_or_none()
    if not isinstance(message, dict) or message.get("Type") != "SubscriptionConfirmation":
        return None
    topic, url = str(message.get("TopicArn")), str(message.get("SubscribeURL"))
    ours = url.startswith(f"https://{_host(topic)}/?") and url.isascii() and url.isprintable()
    log.warning(
        "sns_confirmation_requested",
        topic=topic,
        url=url if ours else None,
        hint="open the URL once to confirm" if ours else "the URL is not Amazon's: do not open it",
    )
    return StaticAnswer()


_ARN = Form(_TOPIC.pattern, "the ARN of a topic, such as arn:aws:sns:eu-central-1:123456789012:orders")
Topics = Annotated[tuple[Annotated[str, _ARN], ...], BeforeValidator(as_tuple), SINGLE]


class SnsOptions(Options):
    """The topics whose messages are accepted."""

    topic: Topics = Field(
        description="The topic's ARN; or several. Messages of other topics are refused.",
        examples=[["arn:aws:sns:eu-central-1:123456789012:orders"]],
        min_length=1,
    )


AWS_SNS = Provider(
    name="aws-sns",
    title="Amazon SNS",
    doc="Topics of Amazon SNS, with signature version 2 and without raw message delivery. A subscription is confirmed "
    "by opening the URL that the daemon logs.",
    doc_url="https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html",
    scheme=SnsSignature(),
    content_type="text/plain; charset=UTF-8",
    # https://docs.aws.amazon.com/sns/latest/dg/large-message-payloads.html: 256 KiB of text, quoted in JSON
    body_limit=MIB,
    decoder=signed_members,
    handshake=Handshake("POST of a confirmation: its URL is logged, for you to open", _confirm, signed=True),
    event=("$.Type",),
    delivery_id=("$.MessageId",),
    options=SnsOptions,
    configure=lambda row, options: replace(row, scheme=SnsSignature(topics=options.topic)),
    keyless=True,
)
