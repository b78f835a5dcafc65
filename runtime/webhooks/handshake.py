"""Handshakes: requests by which a provider asks whether somebody is here, answered and not delivered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from runtime.webhooks.answer import Answer
from runtime.webhooks.json_path import compile_path
from runtime.webhooks.payload import Payload
from runtime.webhooks.request import Request

Greeting = Callable[[Request, Payload], Answer | None]
"""Answers a handshake; None for a request that is none. Raises `Refused` and nothing else."""

# What providers send is under 100 characters; nobody gets to have us echo a document.
_CHALLENGE = 1024


class Handshake(Protocol):
    """One kind of handshake, with its parameters.

    `signed`: the request carries the provider's signature and is answered only once it is verified. Otherwise it is
    answered before, and must not change or reveal anything. `methods`: which it comes by.
    """

    @property
    def signed(self) -> bool: ...

    @property
    def methods(self) -> tuple[str, ...]: ...

    def greeting(self, secrets: tuple[bytes, ...]) -> Greeting:
        """Bind the secrets, for handshakes that answer with a signature of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonEcho:
    """A JSON body whose `where` is `equals` is answered with the text at `echo`, as plain text."""

    where: str
    equals: str
    echo: str
    signed: bool = True
    methods: tuple[str, ...] = ("POST",)

    def greeting(self, secrets: tuple[bytes, ...]) -> Greeting:
        where, echo, equals = compile_path(self.where), compile_path(self.echo), self.equals

        def greet(request: Request, payload: Payload) -> Answer | None:
            body = payload.value_or_none()
            if equals not in where(body):
                return None
            challenge = next(iter(echo(body)), None)
            if not isinstance(challenge, str) or len(challenge) > _CHALLENGE or not challenge.isprintable():
                return None
            return Answer(body=challenge.encode())

        return greet
