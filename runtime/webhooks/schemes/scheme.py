"""What a signature scheme is: the interface of every way to sign a request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runtime.webhooks.request.request import Request


class Match(NamedTuple):
    """A signature that held.

    `mac`: the matched signature's canonical bytes, whatever text carried it. `timestamp`: signed Unix seconds, None
    for a scheme without. `secret_index`: which of the secrets matched.
    """

    mac: bytes
    timestamp: int | None
    secret_index: int
    key_url: str | None = None
    """The URL that the request named for its key."""


Check = Callable[[Request, float], Match]
"""Takes a request and the time (Unix seconds); returns the match or raises `Refused`, or `KeyNeeded`, nothing else."""


class KeyNeeded(Exception):  # noqa: N818 - named for what the caller does next
    """The check needs the document at `url`, which `Request.keys` did not have: fetch it, then check again.

    `outdated`: the document is there, but does not hold the key that the request names. `configured`: the webhook's
    owner wrote the URL, so it may lead to a private address. `named`: the request named the URL, and the scheme has
    made sure that it is one of the sender's own.
    """

    def __init__(self, url: str, *, outdated: bool = False, configured: bool = False, named: bool = False) -> None:
        super().__init__(url)
        self.url = url
        self.outdated = outdated
        self.configured = configured
        self.named = named

    @property
    def reason(self) -> str:
        """What a request is refused for that still needs the document after it was fetched."""
        return "unknown_key" if self.outdated else "key_unavailable"


class CannotSign(ValueError):  # noqa: N818
    """This secret verifies and does not sign: only the sender has the private key. The message is one line."""


@dataclass(frozen=True, slots=True)
class UnsignedRequest:
    """A request to be signed. `now`: Unix seconds. `delivery_id`: for schemes that sign one."""

    body: bytes
    now: float
    delivery_id: str
    method: str = "POST"
    url: str | None = None


class Scheme(ABC):
    """One way to sign, with its parameters: a frozen value, good for any number of webhooks."""

    __slots__ = ()

    @property
    def signed(self) -> tuple[str, ...]:
        """The parts of a request that the signature covers: `body`, `timestamp`, `id`, `url`, `method`, or
        `header:NAME`. Only these may decide anything."""
        return ()

    @property
    def tolerance(self) -> float | None:
        """How far a signed timestamp may be from now, in seconds; None when the scheme has no timestamp."""
        return None

    @property
    def headers(self) -> tuple[str, ...]:
        """The names of the headers that hold proof, time and id; none where they are in the body."""
        return tuple(name for each in _HEADERS if (name := getattr(self, each, None)))

    @property
    def words(self) -> str | None:
        """How a request is proved, in words for people, for a scheme that one sender has alone."""
        return None

    @abstractmethod
    def check(self, secrets: Sequence[bytes]) -> Check:
        """Bind the secrets: at least one and none blank, or none at all for a row without secrets. Raises ValueError,
        without the secret, when one of them can't be a key. The check compares every secret, in constant time, and
        judges freshness after the match."""

    def sign(self, secret: bytes, unsigned: UnsignedRequest) -> list[tuple[str, str]]:
        """The headers that make `unsigned` pass the check: its inverse. Raises `CannotSign` for a secret that only
        verifies."""
        return []

    def embed(self, secret: bytes, unsigned: UnsignedRequest) -> bytes:
        """Return the body as its sender would write it, with the proof or time in it if the scheme puts them there.

        Raises ValueError for a body that has no place for them."""
        return unsigned.body


_HEADERS = ("header", "timestamp_header", "id_header")
