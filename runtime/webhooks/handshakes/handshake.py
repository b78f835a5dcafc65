"""The interface of handshakes: requests a provider sends to check an address. They are answered and not stored.

An echoed text cannot be a page or a script: it is sent as plain text and consists of letters, digits and a few other
characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.request.static_response import StaticAnswer

HandshakeResponder = Callable[[WebhookRequest, Payload], StaticAnswer | None]
"""Answers a handshake; None if the request is not one. Raises only `Refused`."""

# Providers send fewer than 100 characters; the bound keeps a sender from having a document echoed.
_CHALLENGE = re.compile(r"[A-Za-z0-9._~=+/:-]{1,256}", re.ASCII)


class Handshake(Protocol):
    """One kind of handshake, with its parameters.

    `signed`: the request carries the provider's signature and is answered only after verification. Otherwise it is
    answered before, and must not change or reveal anything. `methods`: the HTTP methods it uses.
    """

    @property
    def signed(self) -> bool: ...

    @property
    def methods(self) -> tuple[str, ...]: ...

    @property
    def words(self) -> str:
        """A short description of request and answer, for people."""

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        """Return the function that answers; `secrets` are for handshakes that answer with a signature."""


def safe_challenge(text: object) -> bytes | None:
    """Return a challenge that is safe to echo as plain text, else None."""
    return text.encode() if isinstance(text, str) and _CHALLENGE.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class ByMethod:
    """Several handshakes of one sender, each with its own methods; all signed or all unsigned."""

    each: tuple[Handshake, ...]

    def __post_init__(self) -> None:
        if len({handshake.signed for handshake in self.each}) != 1 or len(set(self.methods)) != len(self.methods):
            raise ValueError("handshakes of one sender must have different methods and be all signed or all unsigned")

    @property
    def signed(self) -> bool:
        return self.each[0].signed

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(method for handshake in self.each for method in handshake.methods)

    @property
    def words(self) -> str:
        return "; ".join(each.words for each in self.each)

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        responders = {method: each.responder(secrets) for each in self.each for method in each.methods}
        return lambda request, payload: responders[request.method](request, payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceCheck:
    """Answer every request with one of `methods` with 200 and an empty body."""

    signed: bool = False
    methods: tuple[str, ...] = ("HEAD",)

    @property
    def words(self) -> str:
        return f"{', '.join(self.methods)}: 200"

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        return lambda request, payload: StaticAnswer()
