"""Verification of requests: prepared once for a webhook, then one check a request. And its inverse: requests as a
provider would send them.

After a rotation the previous secret stays valid until a given time, `Secret(value, origin, until=seconds)`:
`secret://generated/…` has one after `symbi webhook rotate`, as do webhooks created through the API. Nothing has to be
removed later: each check compares the time with the few times at which a secret ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from runtime.secrets.secret import Secret
from runtime.webhooks.keys.shared_secret import all_secret_bytes, secret_bytes
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.content import Content
from runtime.webhooks.request.field_source import FieldReader, compile_sources
from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.request import StaticAnswer, WebhookRequest
from runtime.webhooks.schemes.scheme import Check, Match, Scheme, UnsignedRequest
from runtime.webhooks.schemes.secret_prefix import SecretPrefixScheme


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

    A receiver calls, in this order: `check` (raises `RefusedRequest`; nothing before it may change state),
    `handshake_response`, `identify`. Each gets the one `payload` of the request, so a body is decoded at most once.
    """

    provider: Provider
    check: Check
    _event: FieldReader
    _delivery_id: FieldReader
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
        """Return the match with event and delivery id. Raises `RefusedRequest`."""
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
    secret, see `index_secrets`; their order when None.

    Raises ValueError, never with the secret in it, if there is no secret, or a secret is empty, blank or not a key of
    this scheme. A row without secrets (`keyless`) takes none.
    """
    if row.keyless and secrets:
        raise ValueError(f"provider {row.name} has no secret here: it fetches the sender's keys; leave `secret` out")
    keys = () if row.keyless else all_secret_bytes(secrets)
    if isinstance(row.scheme, SecretPrefixScheme):
        row = replace(row, scheme=row.scheme.narrow(keys))
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


class IndexedSecrets(NamedTuple):
    """Secrets to verify with, and the index that a match reports for each."""

    secrets: tuple[Secret, ...]
    places: tuple[int, ...]


def index_secrets(secrets: Sequence[Secret | str]) -> IndexedSecrets:
    """Return the resolved `secrets`, each with its index among all, followed by their previous secrets.

    So the index in the audit is the position in the program's list, even if other secrets cannot be resolved.
    """
    resolved = [(at, secret) for at, secret in enumerate(secrets) if isinstance(secret, Secret)]
    before = [secret.previous for _, secret in resolved if secret.previous is not None]
    all_ = [*resolved, *enumerate(before, len(secrets))]
    return IndexedSecrets(tuple(secret for _, secret in all_), tuple(at for at, _ in all_))


def bind(
    scheme: Scheme, keys: Sequence[bytes], untils: Sequence[float | None], places: Sequence[int] | None = None
) -> Check:
    """Return the check of `scheme` with those of `keys` that are valid at the time of each request.

    `untils`: for each key the Unix time in seconds at which it becomes invalid; None: never. `places`: the index that a
    match reports for each key; their order when None. Raises ValueError as the scheme does, and if every key ends.
    """
    named = tuple(range(len(keys)) if places is None else places)
    ends = sorted({until for until in untils if until is not None})
    if not ends:
        return _bind(scheme, keys, range(len(keys)), named)
    steps = [
        (end, _bind(scheme, keys, [at for at, until in enumerate(untils) if until is None or until >= end], named))
        for end in ends
    ]
    lasting = [at for at, until in enumerate(untils) if until is None]
    if not lasting:
        raise ValueError("every secret ends: at least one must have no end")
    last = _bind(scheme, keys, lasting, named)

    def check(request: WebhookRequest, now: float) -> Match:
        for end, good in steps:
            if now < end:
                return good(request, now)
        return last(request, now)

    return check


def _bind(scheme: Scheme, keys: Sequence[bytes], chosen: Sequence[int], named: Sequence[int]) -> Check:
    """Return the check with the `chosen` keys, whose matches report the indexes `named`."""
    check = scheme.check([keys[at] for at in chosen])
    names = [named[at] for at in chosen]
    if names == list(range(len(names))):
        return check

    def check_chosen(request: WebhookRequest, now: float) -> Match:
        match = check(request, now)
        return match._replace(secret_index=names[match.secret_index])

    return check_chosen


def sign_request(
    row: Provider,
    secret: str | bytes | Secret,
    body: bytes,
    *,
    now: float,
    delivery_id: str,
    event: str | None = None,
    method: str = "POST",
    url: str | None = None,
) -> tuple[list[tuple[str, str]], bytes]:
    """Return headers and body as the sender `row` would send `body` at `now` (Unix seconds).

    The headers are content type, event, delivery id and signature. The body contains the proof or the time if the
    provider puts them there. An event or id in the body is written by the caller. `url`: the webhook's public URL, for
    providers that sign it.

    Raises ValueError as `prepare` does and for a body that has no place for the proof, and `CannotSign` for a secret
    that only verifies.
    """
    key = secret_bytes(secret)
    unsigned = UnsignedRequest(body, now, delivery_id, method, url)
    try:
        unsigned = replace(unsigned, body=row.scheme.embed(key, unsigned))
    except RecursionError:
        raise ValueError("the body is nested too deeply to write the proof into it") from None
    return signed_headers(row, key, unsigned, event), unsigned.body


def signed_headers(row: Provider, key: bytes, unsigned: UnsignedRequest, event: str | None) -> list[tuple[str, str]]:
    """Return the headers of `unsigned` as its sender would write them."""
    headers = row.headers(event, unsigned.delivery_id)
    sent = headers + row.scheme.sign(key, replace(unsigned, headers=tuple(headers)))
    return list({name.lower(): (name, value) for name, value in sent}.values())
