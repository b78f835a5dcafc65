"""The CloudEvents handshake: a sender requests permission to deliver."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runtime.webhooks.handshakes.handshake import HandshakeResponder
from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.request.static_response import StaticAnswer

# A DNS name, since it is echoed in a header.
_ORIGIN = re.compile(r"[A-Za-z0-9._-]{1,253}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Permission:
    """Allow the host that an OPTIONS request names in `WebHook-Request-Origin` to send, at any rate.

    HTTP 1.1 Web Hooks for Event Delivery, section 4. This grants nothing: each delivery is still verified, and limits
    are enforced with 429. `WebHook-Request-Callback` is never called, since anyone may name any URL there.
    """

    signed: bool = False
    methods: tuple[str, ...] = ("OPTIONS",)

    @property
    def words(self) -> str:
        return "OPTIONS: `WebHook-Request-Origin` is allowed"

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        def respond(request: WebhookRequest, payload: Payload) -> StaticAnswer | None:
            origin = request.headers.one("webhook-request-origin", repeated="ambiguous_header")
            if origin is None or not _ORIGIN.fullmatch(origin):
                return None
            fields = (("Allow", "POST"), ("WebHook-Allowed-Origin", origin), ("WebHook-Allowed-Rate", "*"))
            return StaticAnswer(fields=fields)

        return respond
