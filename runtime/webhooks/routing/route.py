"""Routes: declared webhooks prepared to check requests. A reload replaces the table."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from types import MappingProxyType

from dslc.blocks.webhook import Webhook
from runtime.database.schema import OWNER
from runtime.secrets.secret import Secret
from runtime.webhooks.audit.audit import noted_names
from runtime.webhooks.filters.filter import Filters, compile_filters
from runtime.webhooks.providers import find_provider
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.field_source import FieldReader, compile_sources, header_name
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.jwt import Jwt
from runtime.webhooks.schemes.scheme import Scheme
from runtime.webhooks.schemes.secret_prefix import SecretPrefixScheme
from runtime.webhooks.schemes.token import Token
from runtime.webhooks.verification import (
    IndexedSecrets,
    Verifier,
    index_secrets,
    prepare,
    prepare_unverified,
    sign_request,
)


@dataclass(frozen=True, slots=True)
class Route:
    """One mounted webhook, with everything computed in advance that can be."""

    name: str
    path: str
    agent: str | None
    """The agent that its deliveries run; None: they are only stored."""
    methods: frozenset[str]
    verifier: Verifier
    secrets: tuple[Secret, ...]
    filters: Filters | None
    noted_headers: tuple[str, ...]
    body_limit: int
    public_url: str | None
    keep_body: bool
    verified: bool
    user_id: str = OWNER
    allow_from: tuple[IPv4Network | IPv6Network, ...] = ()
    """The networks that may send; empty: any address."""
    per_minute: int | None = None
    """Accepted deliveries of this webhook per minute; None: unlimited."""
    user_per_minute: int | None = None
    """Accepted deliveries per minute of all webhooks of `user_id` together; None: unlimited."""
    concurrency: int | None = None
    """Deliveries of this webhook that run at the same time; None: unlimited."""
    shown_secrets: tuple[str, ...] = field(default=(), repr=False)
    """Secrets that the sender puts into a header instead of signing with them; removed from stored requests."""
    credentials: tuple[str, ...] = ()
    """Headers, in lower case, whose value is valid with any body; also removed."""

    @property
    def query(self) -> str:
        """The query with the proof, for a sender that puts it there; a secret."""
        return self.verifier.provider.scheme.query(self.secrets[0].reveal()) if self.secrets else ""

    def sign(self, body: bytes, now: float, delivery_id: str, event: str | None) -> tuple[list[tuple[str, str]], bytes]:
        """Return headers and body as this webhook's sender would send `body` at `now` (Unix seconds).

        Raises ValueError, in one line, if only the sender can sign, or if such a body has no place for its proof.
        """
        secret = self.secrets[0] if self.secrets else b"unverified"
        row = self.verifier.provider
        name = event or row.sample_event
        return sign_request(row, secret, body, now=now, delivery_id=delivery_id, event=name, url=self.public_url)


@dataclass(frozen=True, slots=True)
class MountedWebhook:
    """A webhook with its route, or the reason why it has none.

    `secret_origins`: the origins of its secrets, safe to show, or why one is missing. `missing`: why some of its
    secrets are missing, while it is mounted with the others. `origin`: `file:line` of the declaration. A webhook
    created through the API has its id as name, and the `title` that its user gave it.
    """

    name: str
    path: str
    agent: str | None
    provider: str
    origin: str
    secret_origins: tuple[str, ...]
    route: Route | None
    problem: str | None
    user_id: str = OWNER
    title: str | None = None
    missing: tuple[str, ...] = ()

    notes: tuple[str, ...] = ()
    """Properties of its secrets that are probably mistakes."""

    decoded: bool = False
    """True if what runs needs the decoded payload, so one that cannot be decoded is refused."""

    declared: Webhook | None = None
    """Its declaration, also if it is not mounted; None if it was created through the API."""

    @property
    def secret_from(self) -> str:
        """The origins of its secrets, or why it has none."""
        return secret_from(self.secret_origins, verified=self.route is not None and self.route.verified)


def secret_from(origins: Iterable[str], *, verified: bool) -> str:
    """Return the origins of a webhook's secrets, or why it has none. `verified`: True if its requests are verified."""
    none = "none: the sender's keys are fetched" if verified else "none: unverified requests are accepted"
    return ", ".join(origins) or none


def build_route(
    webhook: Webhook,
    *,
    origin: str,
    secrets: Sequence[Secret | str],
    problem: str | None,
    options: Mapping[str, object] | None = None,
    decoded: bool = False,
) -> MountedWebhook:
    """Build the route of `webhook`. `secrets`: each resolved, or the reason why it is not; one resolved secret is
    enough. `decoded`: as in `MountedWebhook`.

    There is no route if no secret is resolved or can be a key, or if `problem` gives another reason. `options`: the
    provider's, with secrets in place of references; as in the program when None.
    """
    row = _provider_row(webhook.provider.name, webhook.provider.options if options is None else options)
    if isinstance(row, Provider):
        secrets = _usable_secrets(row, secrets)
    missing = tuple(secret for secret in secrets if isinstance(secret, str))
    if problem is None and missing and len(missing) == len(secrets):
        problem = "; ".join(missing)
    if problem is None and isinstance(row, str):
        problem = row
    route = None
    if problem is None and isinstance(row, Provider):
        try:
            route = _route(webhook, row, index_secrets(secrets), decoded=decoded)
        except ValueError as error:
            problem = str(error)
    shown = [f"not there: {secret}" if isinstance(secret, str) else secret.origin for secret in secrets]
    return MountedWebhook(
        name=webhook.name,
        path=webhook.path,
        agent=webhook.wakes,
        provider=webhook.provider.name,
        origin=origin,
        secret_origins=(
            *shown,
            *(secret.origin for secret in index_secrets(secrets).secrets if secret.until is not None),
        ),
        route=route,
        problem=problem,
        missing=missing,
        notes=() if route is None or isinstance(row, str) else tuple(_notes(row, secrets)),
        decoded=decoded,
        declared=webhook,
    )


def _notes(row: Provider, secrets: Sequence[Secret | str]) -> Iterator[str]:
    """Yield the secrets with white space or a byte-order mark at their ends, which are a part of a key that is text."""
    if not isinstance(row.scheme, Hmac):
        return  # white space around a token is not sent
    for secret in secrets:
        if isinstance(secret, Secret):
            value = secret.reveal()
            bare = value.removeprefix(codecs.BOM_UTF8).strip()
            if bare != value and row.scheme.key(value) != row.scheme.key(bare):
                yield f"{secret.origin}: it begins or ends with white space or a byte-order mark, a part of the key"


def _provider_row(provider: str, options: Mapping[str, object]) -> Provider | str:
    """Return the provider's row with these options, or the reason why they are wrong."""
    try:
        return find_provider(provider).with_options(options)
    except ValueError as error:
        return str(error)


def _usable_secrets(row: Provider, secrets: Sequence[Secret | str]) -> Sequence[Secret | str]:
    """Return `secrets`, replacing each that cannot be a key by the reason, if at least one can."""
    if len(secrets) < 2:
        return secrets
    tried = [_secret_or_problem(row, secret) for secret in secrets]
    return tried if any(isinstance(secret, Secret) for secret in tried) else secrets


def _secret_or_problem(row: Provider, secret: Secret | str) -> Secret | str:
    if isinstance(secret, str):
        return secret
    try:
        prepare(row, [secret])
    except ValueError as error:
        return f"{secret.origin}: {error}"
    return secret


def _route(webhook: Webhook, configured: Provider, bound: IndexedSecrets, *, decoded: bool) -> Route:
    secrets = bound.secrets
    if webhook.insecure_allow_unverified:
        if webhook.secret:
            raise ValueError("`insecure_allow_unverified` and `secret` exclude each other")
        verifier = prepare_unverified(configured)
    else:
        verifier = prepare(configured, secrets, bound.places)
        verifier.check_mountable(webhook.public_url)
    row = verifier.provider
    handshake = row.handshake
    return Route(
        name=webhook.name,
        path=webhook.path,
        agent=webhook.wakes,
        methods=frozenset((*row.methods, *(handshake.methods if handshake else ()))),
        verifier=verifier,
        secrets=secrets,
        filters=compile_filters(webhook.filter, webhook.event, _action(row), decoded=decoded),
        noted_headers=noted_names(*filter(None, map(header_name, (*row.event, *row.delivery_id)))),
        body_limit=webhook.limits.body or row.body_limit,
        public_url=webhook.public_url,
        keep_body=webhook.keep_body,
        verified=not webhook.insecure_allow_unverified,
        allow_from=tuple(map(ip_network, webhook.allow_from)),
        per_minute=webhook.limits.per_minute,
        concurrency=webhook.concurrency,
        shown_secrets=() if row.scheme.signed else tuple(_text(secret) for secret in secrets),
        credentials=_credentials(row.scheme),
    )


def _action(row: Provider) -> FieldReader | None:
    return compile_sources(row.action, malformed="malformed_event") if row.action else None


def _credentials(scheme: Scheme) -> tuple[str, ...]:
    """Return the headers, in lower case, that would let their reader send any body."""
    match scheme:
        case Token() | Jwt(body_claim=None):
            return (scheme.header.lower(),)
        case SecretPrefixScheme():
            return tuple(name for way in scheme.schemes for name in _credentials(way))
    return ()


def _text(secret: Secret) -> str:
    return secret.reveal().decode("utf-8", "surrogateescape").strip()


@dataclass(frozen=True, slots=True)
class RouteTable:
    """Routes by exact path. Read-only: a reload creates another table."""

    by_path: Mapping[str, Route]

    @classmethod
    def of(cls, mounts: Iterable[MountedWebhook]) -> RouteTable:
        """Return the table of the webhooks that have a route."""
        return cls(MappingProxyType({entry.path: entry.route for entry in mounts if entry.route is not None}))

    def union(self, other: RouteTable) -> RouteTable:
        """Return the routes of both tables; for a path in both, that of `other`."""
        return RouteTable(MappingProxyType({**self.by_path, **other.by_path}))

    def __len__(self) -> int:
        return len(self.by_path)


EMPTY_TABLE = RouteTable.of(())
