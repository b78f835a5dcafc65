"""The handshake of CloudEvents over HTTP: a sender asks whether it may send here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runtime.webhooks.handshakes.handshake import HandshakeResponder
from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.request import Request
from runtime.webhooks.request.static_response import Answer

# A name in the DNS: what is given back stands in a header.
_ORIGIN = re.compile(r"[A-Za-z0-9._-]{1,253}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Permission:
    """An OPTIONS whose `WebHook-Request-Origin` names a host: it may send, as often as it likes.

    HTTP 1.1 Web Hooks for Event Delivery, section 4. It grants nothing: each delivery still has to prove itself, and
    limits are kept by answering 429. `WebHook-Request-Callback` is never called, since anybody may name any URL there.
    """

    signed: bool = False
    methods: tuple[str, ...] = ("OPTIONS",)

    @property
    def words(self) -> str:
        return "OPTIONS: `WebHook-Request-Origin` is allowed"

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        def respond(request: Request, payload: Payload) -> Answer | None:
            origin = request.headers.one("webhook-request-origin", repeated="ambiguous_header")
            if origin is None or not _ORIGIN.fullmatch(origin):
                return None
            fields = (("Allow", "POST"), ("WebHook-Allowed-Origin", origin), ("WebHook-Allowed-Rate", "*"))
            return Answer(fields=fields)

        return respond
