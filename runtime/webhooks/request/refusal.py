"""Refusals of requests: one exception, one table of reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Reason:
    """The internal and external description of a refusal.

    `status`: the HTTP status. `shown`: the code in the answer. All signature failures that a sender without the secret
    can cause have the same code, so the answer never reveals which part failed. `message`: one sentence for the answer,
    without anything from the request or the secret.
    """

    status: int
    shown: str
    message: str


_WRONG = Reason(401, "invalid_signature", "the request's signature is not valid")

# The audit records the key. Freshness is checked after the signature, so only a holder of the secret can get `stale`
# and `future`. A missing header is reported as such: the sender knows what it sent.
REASONS: Mapping[str, Reason] = MappingProxyType(
    {
        "missing_signature": Reason(401, "missing_signature", "the request carries no signature"),
        "malformed_signature": _WRONG,  # not the format or encoding of this scheme
        "uppercase_signature": _WRONG,  # hexadecimal in capital letters, which this sender does not write
        "ambiguous_signature": _WRONG,  # a header that the signature depends on was sent twice
        "missing_timestamp": _WRONG,
        "malformed_timestamp": _WRONG,  # not a canonical decimal integer
        "missing_id": _WRONG,  # the scheme signs an id that was not sent
        "malformed_id": _WRONG,
        "signature_mismatch": _WRONG,
        "unknown_key": _WRONG,  # the sender publishes no key with the name in the request
        "untrusted_certificate": _WRONG,  # not the sender's, not valid now, or too weak
        "outdated_signature": _WRONG,  # a signature version with a broken hash
        "unwanted_sender": _WRONG,  # the proof is valid, but of another issuer, audience, account or topic
        "wrong_verify_token": Reason(403, "wrong_verify_token", "the verify token is not that of this webhook"),
        "stale": Reason(401, "stale", "the request's timestamp is too old"),
        "future": Reason(401, "future", "the request's timestamp is in the future"),
        "replayed": Reason(401, "replayed", "the request was received before"),
        "ambiguous_header": Reason(400, "ambiguous_header", "a header used for a decision was sent twice"),
        "malformed_event": Reason(400, "malformed_event", "the event is not short printable text"),
        "malformed_delivery_id": Reason(400, "malformed_delivery_id", "the delivery id is not short printable text"),
        "invalid_json": Reason(400, "invalid_json", "the body is not JSON"),
        "invalid_form": Reason(400, "invalid_form", "the body is not the form this provider sends"),
        "duplicate_key": Reason(400, "duplicate_key", "the body has a key twice in one object"),
        "too_deep": Reason(400, "too_deep", "the body is nested too deeply"),
        "too_complex": Reason(400, "too_complex", "the body has more parts than a filter may examine"),
        "not_a_handshake": Reason(
            400, "not_a_handshake", "this method is only for the sender's handshakes, and the request is not one"
        ),
        "malformed_encoding": Reason(400, "malformed_encoding", "the body is not compressed as its header says"),
        "incomplete_body": Reason(400, "incomplete_body", "the body ended too early"),
        "address_not_allowed": Reason(403, "forbidden", "this address is not allowed"),
        "not_found": Reason(404, "not_found", "not found"),
        "method_not_allowed": Reason(405, "method_not_allowed", "the method is not allowed"),
        "timeout": Reason(408, "timeout", "the request took too long to arrive"),
        "body_too_large": Reason(413, "body_too_large", "the body is too large"),
        "compressed_body": Reason(415, "compressed_body", "a compressed body is not accepted"),
        "rate_limited": Reason(429, "rate_limited", "too many requests"),
        "address_limited": Reason(429, "rate_limited", "too many requests"),  # before the body is read
        "inbox_full": Reason(503, "overloaded", "too many deliveries wait; try again"),
        "overloaded": Reason(503, "overloaded", "too many deliveries wait; try again"),
        "unavailable": Reason(503, "unavailable", "deliveries cannot be stored now; try again"),
        "key_unavailable": Reason(503, "unavailable", "the sender's key cannot be fetched now; try again"),
        "internal": Reason(500, "internal_error", "internal error; try again later"),
    }
)


class RefusedRequest(Exception):  # noqa: N818 - named for what happened to the request
    """A request that is not accepted. `reason` is a key of `REASONS`; any other raises KeyError immediately.

    `fields`: header lines for the answer, each with its line end.
    """

    def __init__(self, reason: str, *, fields: bytes = b"") -> None:
        known = REASONS[reason]
        super().__init__(reason)
        self.reason = reason
        self.status = known.status
        self.shown = known.shown
        self.message = known.message
        self.fields = fields
