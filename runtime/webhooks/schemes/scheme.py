"""The interface of signature schemes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runtime.webhooks.request.request import WebhookRequest


class Match(NamedTuple):
    """A valid signature.

    `mac`: the matched signature's canonical bytes, independent of the text that carried it. `timestamp`: signed Unix
    seconds, None for a scheme without. `secret_index`: the secret that matched.
    """

    mac: bytes
    timestamp: int | None
    secret_index: int
    key_url: str | None = None
    """The URL of the key that the request named."""


Check = Callable[[WebhookRequest, float], Match]
"""Takes a request and the time (Unix seconds); returns the match, or raises only `RefusedRequest` or `KeyNeeded`."""


class KeyNeeded(Exception):  # noqa: N818 - named for what the caller does next
    """The check needs the document at `url`, which `WebhookRequest.keys` did not have: fetch it, then check again.

    `outdated`: the document is present, but does not contain the key that the request names. `configured`: the
    webhook's owner wrote the URL, so it may lead to a private address. `named`: the request named the URL, and the
    scheme has checked that it belongs to the sender.
    """

    def __init__(self, url: str, *, outdated: bool = False, configured: bool = False, named: bool = False) -> None:
        super().__init__(url)
        self.url = url
        self.outdated = outdated
        self.configured = configured
        self.named = named

    @property
    def reason(self) -> str:
        """The reason for refusing a request that still needs the document after it was fetched."""
        return "unknown_key" if self.outdated else "key_unavailable"


class CannotSign(ValueError):  # noqa: N818
    """The secret verifies but cannot sign: only the sender has the private key. The message is one line."""


@dataclass(frozen=True, slots=True)
class UnsignedRequest:
    """A request to sign. `now`: Unix seconds. `delivery_id`: for schemes that sign one. `headers`: those that it has
    already."""

    body: bytes
    now: float
    delivery_id: str
    method: str = "POST"
    url: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


class Scheme(ABC):
    """One way to sign, with its parameters: an immutable value, shared by any number of webhooks."""

    __slots__ = ()

    @property
    def signed(self) -> tuple[str, ...]:
        """The parts of a request that the signature covers: `body`, `timestamp`, `id`, `url`, `method`, or
        `header:NAME`. Only these may influence decisions."""
        return ()

    @property
    def tolerance(self) -> float | None:
        """Seconds that a signed timestamp may differ from now; None if the scheme has no timestamp."""
        return None

    @property
    def headers(self) -> tuple[str, ...]:
        """The names of the headers with proof, time and id; empty if they are in the body."""
        return tuple(name for each in _HEADERS if (name := getattr(self, each, None)))

    @property
    def words(self) -> str | None:
        """A description of the proof, for people, for a scheme that only one sender uses."""
        return None

    @abstractmethod
    def check(self, secrets: Sequence[bytes]) -> Check:
        """Bind the secrets: at least one and none blank, or none at all for a row without secrets. Raises ValueError,
        without the secret, if one cannot be a key. The check compares every secret, in constant time, and checks
        freshness after the match."""

    def sign(self, secret: bytes, unsigned: UnsignedRequest) -> list[tuple[str, str]]:
        """Return the headers that make `unsigned` pass the check. Raises `CannotSign` for a secret that only
        verifies."""
        return []

    def query(self, secret: bytes) -> str:
        """Return the query with the proof, for a sender that puts it there."""
        return ""

    def embed(self, secret: bytes, unsigned: UnsignedRequest) -> bytes:
        """Return the body as its sender would write it, with the proof or time in it if the scheme puts them there.

        Raises ValueError for a body that has no place for them."""
        return unsigned.body


_HEADERS = ("header", "timestamp_header", "id_header")
