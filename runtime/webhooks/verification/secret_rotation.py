"""Secrets that are good for a while: after a rotation the one before stays good until a moment, and not longer.

Give `prepare` (or `bind`) secrets with an `until`, as `secret://generated/…` has them after `symbi webhook rotate`, and
as whoever keeps a `previous_secret` and a `previous_until` makes them: `Secret(value, origin, until=seconds)`. Nothing
has to be taken away later: each check is told the time, and compares it with the few moments at which something ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runtime.secrets.secret import Secret
from runtime.webhooks.request.request import Request
from runtime.webhooks.schemes.scheme import Check, Match, Scheme


class IndexedSecrets(NamedTuple):
    """Secrets to verify with, and what a match calls each of them."""

    secrets: tuple[Secret, ...]
    places: tuple[int, ...]


def index_secrets(secrets: Sequence[Secret | str]) -> IndexedSecrets:
    """Those of `secrets` that are there, each called by its place among all, and behind them the ones before.

    So the number in the audit is the place in the program's list, whatever of that cannot be resolved today.
    """
    there = [(at, secret) for at, secret in enumerate(secrets) if isinstance(secret, Secret)]
    before = [secret.previous for _, secret in there if secret.previous is not None]
    all_ = [*there, *enumerate(before, len(secrets))]
    return IndexedSecrets(tuple(secret for _, secret in all_), tuple(at for at, _ in all_))


def bind(
    scheme: Scheme, keys: Sequence[bytes], untils: Sequence[float | None], places: Sequence[int] | None = None
) -> Check:
    """The check of `scheme` with those of `keys` that are good at the time of each request.

    `untils`: for each key the Unix time in seconds from which it is no good; None: it is good for ever. `places`: what
    a match calls each key; their order when absent. Raises ValueError as the scheme does, and when every key ends.
    """
    named = tuple(range(len(keys)) if places is None else places)
    ends = sorted({until for until in untils if until is not None})
    if not ends:
        return _among(scheme, keys, range(len(keys)), named)
    steps = [
        (end, _among(scheme, keys, [at for at, until in enumerate(untils) if until is None or until >= end], named))
        for end in ends
    ]
    lasting = [at for at, until in enumerate(untils) if until is None]
    if not lasting:
        raise ValueError("every secret ends: one has to be good for ever")
    last = _among(scheme, keys, lasting, named)

    def check(request: Request, now: float) -> Match:
        for end, good in steps:
            if now < end:
                return good(request, now)
        return last(request, now)

    return check


def _among(scheme: Scheme, keys: Sequence[bytes], chosen: Sequence[int], named: Sequence[int]) -> Check:
    """The check with the `chosen` keys, whose matches say what each is `named`."""
    check = scheme.check([keys[at] for at in chosen])
    names = [named[at] for at in chosen]
    if names == list(range(len(names))):
        return check

    def renamed(request: Request, now: float) -> Match:
        match = check(request, now)
        return match._replace(secret_index=names[match.secret_index])

    return renamed
