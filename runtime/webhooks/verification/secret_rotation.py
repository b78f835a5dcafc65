"""Secret rotation: the previous secret stays valid until a given time.

Pass secrets with an `until` to `prepare` (or `bind`): `Secret(value, origin, until=seconds)`. `secret://generated/…`
has them after `symbi webhook rotate`, as do webhooks created through the API. Nothing has to be removed later: each
check compares the time with the few times at which a secret ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runtime.secrets.secret import Secret
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.schemes.scheme import Check, Match, Scheme


class IndexedSecrets(NamedTuple):
    """Secrets to verify with, and the index that a match reports for each."""

    secrets: tuple[Secret, ...]
    places: tuple[int, ...]


def index_secrets(secrets: Sequence[Secret | str]) -> IndexedSecrets:
    """Return the resolved `secrets`, each with its index among all, followed by their previous secrets.

    So the index in the audit is the position in the program's list, even if other secrets cannot be resolved.
    """
    there = [(at, secret) for at, secret in enumerate(secrets) if isinstance(secret, Secret)]
    before = [secret.previous for _, secret in there if secret.previous is not None]
    all_ = [*there, *enumerate(before, len(secrets))]
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
        return _among(scheme, keys, range(len(keys)), named)
    steps = [
        (end, _among(scheme, keys, [at for at, until in enumerate(untils) if until is None or until >= end], named))
        for end in ends
    ]
    lasting = [at for at, until in enumerate(untils) if until is None]
    if not lasting:
        raise ValueError("every secret ends: at least one must have no end")
    last = _among(scheme, keys, lasting, named)

    def check(request: WebhookRequest, now: float) -> Match:
        for end, good in steps:
            if now < end:
                return good(request, now)
        return last(request, now)

    return check


def _among(scheme: Scheme, keys: Sequence[bytes], chosen: Sequence[int], named: Sequence[int]) -> Check:
    """Return the check with the `chosen` keys, whose matches report the indexes `named`."""
    check = scheme.check([keys[at] for at in chosen])
    names = [named[at] for at in chosen]
    if names == list(range(len(names))):
        return check

    def renamed(request: WebhookRequest, now: float) -> Match:
        match = check(request, now)
        return match._replace(secret_index=names[match.secret_index])

    return renamed
