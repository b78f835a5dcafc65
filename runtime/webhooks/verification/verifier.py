"""Verification of requests: prepared once per webhook, then one check per request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from runtime.secrets.secret import Secret
from runtime.webhooks.keys.shared_secret import all_secret_bytes
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.content import Content
from runtime.webhooks.request.field_source import Read, compile_sources
from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.request.static_response import StaticAnswer
from runtime.webhooks.schemes.scheme import Check, Match
from runtime.webhooks.schemes.secret_prefix import SecretPrefixScheme
from runtime.webhooks.verification.secret_rotation import bind


class VerifiedRequest(NamedTuple):
    """A request whose signature is valid.

    `mac`: the matched signature's canonical bytes (the replay key), never the header's text. `timestamp`: signed Unix
    seconds, None for a provider without. `secret_index`: the secret that matched. `event`, `delivery_id`: None if the
    provider sent none.
    """

    mac: bytes
    timestamp: int | None
    secret_index: int
    event: str | None
    delivery_id: str | None


@dataclass(frozen=True, slots=True)
class Verifier:
    """A provider's row with its options applied and its secrets bound, as a route stores it.

    A receiver calls, in this order: `check` (raises `Refused`; nothing before it may change state),
    `handshake_response`, `identify`. Each gets the one `payload` of the request, so a body is decoded at most once.
    """

    provider: Provider
    check: Check
    _event: Read
    _delivery_id: Read
    _secrets: Mapping[int | None, tuple[bytes, ...]] = field(repr=False)
    """For handshakes: all secrets under None, and each one under the index that a match reports."""

    @property
    def tolerance(self) -> float | None:
        """Seconds for which a MAC must be remembered after its timestamp; None without a timestamp."""
        return self.provider.scheme.tolerance

    def check_mountable(self, public_url: str | None) -> None:
        """Raise ValueError, in one line, if the sender signs the URL but `public_url` is not set: no delivery could be
        verified, since the Host header is not trusted."""
        if public_url is None and "url" in self.provider.signed:
            raise ValueError(
                f"{self.provider.title} signs the URL that it calls: set public_url to exactly the address you gave it"
            )

    def payload(self, request: WebhookRequest, content: Content | None = None) -> Payload:
        """Return the request's content, decoded on demand; its body when None."""
        return self.provider.payload(*(content or Content(request.body, request.headers.get("content-type"))))

    def handshake_response(
        self, request: WebhookRequest, payload: Payload, *, signed: bool, secret_index: int | None = None
    ) -> StaticAnswer | None:
        """Return the answer to a handshake, or None if the request is not one.

        Call with `signed=False` before the check, for handshakes without a signature, and with `signed=True` after it,
        for the others. `secret_index`: the secret that matched. A proof is made with that one, since during a rotation
        the sender may know only one.
        """
        handshake = self.provider.handshake
        if handshake is None or handshake.signed != signed or request.method not in handshake.methods:
            return None
        return handshake.respond(request, payload, self._secrets.get(secret_index, self._secrets[None]))

    def identify(self, match: Match, request: WebhookRequest, payload: Payload) -> VerifiedRequest:
        """Return the match with event and delivery id. Raises `Refused`."""
        headers = request.headers
        return VerifiedRequest(
            match.mac,
            match.timestamp,
            match.secret_index,
            self._event(headers, payload),
            self._delivery_id(headers, payload),
        )


def prepare(row: Provider, secrets: Sequence[str | bytes | Secret], places: Sequence[int] | None = None) -> Verifier:
    """Bind a provider's row, with its options applied, to a webhook's secrets.

    A secret with an `until` is valid for requests before that. `places`: the index that a match reports for each
    secret, see `runtime.webhooks.verification.secret_rotation`; their order when None.

    Raises ValueError, never with the secret in it, if there is no secret, or a secret is empty, blank or not a key of
    this scheme. A row without secrets (`keyless`) takes none.
    """
    if row.keyless and secrets:
        raise ValueError(f"provider {row.name} has no secret here: it fetches the sender's keys; leave `secret` out")
    keys = () if row.keyless else all_secret_bytes(secrets)
    if isinstance(row.scheme, SecretPrefixScheme):
        row = replace(row, scheme=row.scheme.narrowed(keys))
    each = (secrets,) if isinstance(secrets, str | bytes | Secret) else secrets
    untils = [secret.until if isinstance(secret, Secret) else None for secret in each]
    return _verifier(row, bind(row.scheme, keys, untils, places), keys, range(len(keys)) if places is None else places)


def prepare_unverified(row: Provider) -> Verifier:
    """Return a verifier that accepts everything: only for `insecure_allow_unverified true`.

    Its matches have an empty MAC, no timestamp and the secret index -1. Handshakes are answered as usual.
    """
    return _verifier(row, lambda request, now: Match(b"", None, -1), ())


def _verifier(row: Provider, check: Check, secrets: tuple[bytes, ...], places: Sequence[int] = ()) -> Verifier:
    return Verifier(
        provider=row,
        check=check,
        _event=compile_sources(row.event, malformed="malformed_event"),
        _delivery_id=compile_sources(row.delivery_id, malformed="malformed_delivery_id", every=True),
        _secrets={None: secrets, **{at: (secret,) for at, secret in zip(places, secrets, strict=True)}},
    )
