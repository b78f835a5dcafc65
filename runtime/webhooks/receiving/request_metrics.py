"""Metrics and debug log of incoming requests.

Refusals are recorded by the audit. They have no log line each, so that refused senders cannot fill the log.
"""

from __future__ import annotations

import logging
from typing import Final

import structlog

from runtime.clock import Clock
from runtime.metrics.metrics import DYNAMIC, Metrics
from runtime.webhooks.deliveries.delivery import Candidate, Decision, RejectedRequest
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.routing.dynamic_routes import PREFIX
from runtime.webhooks.routing.route import Route

LOGGER: Final = "symbiont.receiver"
log = structlog.get_logger(LOGGER)

TRACES: Final = ("traceparent", "x-request-id")
"""Headers with the sender's own name of its request; not trusted as an id."""

LONGEST_TRACE: Final = 128


class RequestMetrics:
    """Counts and logs the requests of one receiver."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._logger = logging.getLogger(LOGGER)

    def record_decision(
        self, route: Route, candidate: Candidate, decision: Decision, headers: Headers, began: float
    ) -> None:
        """Count and log the decision about a verified, wanted delivery. `began`: when its head was complete, in
        monotonic seconds."""
        seconds = self._clock.monotonic() - began
        if decision.verdict == "accepted":
            self._metrics.deliveries.add(_webhook(route), "accepted")
            self._metrics.delivery_seconds.observe(seconds)
            self._metrics.body_bytes.observe(len(candidate.body))
        # Checked first: building an unused log line costs as much as a signature.
        if self._logger.isEnabledFor(logging.DEBUG):
            log.debug(
                "delivery_received",
                # The id of a repeat or a replay is that of the first delivery.
                delivery_id=decision.delivery_id or None,
                verdict=decision.verdict,
                webhook=route.name,
                sent_event=candidate.event,
                provider_delivery_id=candidate.provider_delivery_id,
                source=candidate.source,
                bytes=len(candidate.body),
                seconds=round(seconds, 6),
                **_traces(headers),
            )

    def record_rejection(self, route: Route | None, rejected: RejectedRequest) -> None:
        """Count a request that the audit records."""
        if route is not None:
            self._metrics.deliveries.add(_webhook(route), rejected.verdict)
        if rejected.verdict == "refused":
            self.record_refusal(rejected.reason)

    def record_refusal(self, reason: str) -> None:
        """Count a refusal, also of a malformed request."""
        self._metrics.refusals.add(reason)


def _webhook(route: Route) -> str:
    return DYNAMIC if route.path.startswith(PREFIX) else route.name


def _traces(headers: Headers) -> dict[str, str]:
    found = {name.replace("-", "_"): headers.get(name) for name in TRACES}
    return {name: value[:LONGEST_TRACE] for name, value in found.items() if value}
