"""Senders with several signature schemes, selected by the prefix of the secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.schemes.scheme import Check, Match, Scheme, UnsignedRequest


@dataclass(frozen=True, slots=True)
class SecretPrefixScheme(Scheme):
    """The scheme of the first of `choices` whose prefix the secret has, else `otherwise`.

    The secret decides, never the request: a sender with a signing key cannot use a weaker scheme. A list of secrets of
    several kinds, during a change from one to the other, accepts each with its own scheme.
    """

    choices: tuple[tuple[bytes, Scheme], ...]
    otherwise: Scheme

    @property
    def signed(self) -> tuple[str, ...]:
        """The parts of a request that every scheme covers."""
        parts = [scheme.signed for _, scheme in self.choices]
        return tuple(part for part in self.otherwise.signed if all(part in other for other in parts))

    @property
    def tolerance(self) -> float | None:
        return self.otherwise.tolerance

    @property
    def schemes(self) -> tuple[Scheme, ...]:
        """All schemes."""
        return (*(scheme for _, scheme in self.choices), self.otherwise)

    @property
    def headers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for each in self.schemes for name in each.headers))

    def narrow(self, secrets: Sequence[bytes]) -> Scheme:
        """Return the one scheme of all `secrets`, or this object if they differ."""
        schemes = [self.of(secret) for secret in secrets]
        return schemes[0] if schemes and all(scheme is schemes[0] for scheme in schemes) else self

    def of(self, secret: bytes) -> Scheme:
        """Return the scheme of this secret."""
        text = secret.strip()
        return next((scheme for prefix, scheme in self.choices if text.startswith(prefix)), self.otherwise)

    def check(self, secrets: Sequence[bytes]) -> Check:
        checks = [self.of(secret).check((secret,)) for secret in secrets]

        def verify(request: WebhookRequest, now: float) -> Match:
            refusals: list[RefusedRequest] = []
            found: Match | None = None
            for index, check in enumerate(checks):
                try:
                    match = check(request, now)
                except RefusedRequest as refused:
                    refusals.append(refused)
                else:
                    found = found or match._replace(secret_index=index)
            if found is not None:
                return found
            # The most specific refusal: a wrong header rather than a missing one.
            raise max(refusals, key=lambda refused: refused.reason != "missing_signature")

        return verify

    def sign(self, secret: bytes, unsigned: UnsignedRequest) -> list[tuple[str, str]]:
        return self.of(secret).sign(secret, unsigned)
