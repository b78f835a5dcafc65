"""What a signature scheme is: the interface of every way to sign a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from runtime.webhooks.request import Request


class Match(NamedTuple):
    """A signature that held.

    `mac`: the matched signature's canonical bytes, whatever text carried it. `timestamp`: signed Unix seconds, None
    for a scheme without. `secret_index`: which of the secrets matched.
    """

    mac: bytes
    timestamp: int | None
    secret_index: int


Check = Callable[[Request, float], Match]
"""Takes a request and the time (Unix seconds); returns the match or raises `Refused`, nothing else."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A request to be signed. `now`: Unix seconds. `delivery_id`: for schemes that sign one."""

    body: bytes
    now: float
    delivery_id: str
    method: str = "POST"
    url: str | None = None


class Scheme(Protocol):
    """One way to sign, with its parameters: a frozen value, good for any number of webhooks."""

    @property
    def signed(self) -> tuple[str, ...]:
        """The parts of a request that the signature covers: `body`, `timestamp`, `id`, `url`, `method`, or
        `header:NAME`. Only these may decide anything."""

    @property
    def tolerance(self) -> float | None:
        """How far a signed timestamp may be from now, in seconds; None when the scheme has no timestamp."""

    def check(self, secrets: Sequence[bytes]) -> Check:
        """Bind the secrets, at least one and none blank. Raises ValueError, without the secret, when one of them
        can't be a key. The check compares every secret, in constant time, and judges freshness after the match."""

    def sign(self, secret: bytes, draft: Draft) -> list[tuple[str, str]]:
        """The headers that make `draft` pass the check: its inverse."""
