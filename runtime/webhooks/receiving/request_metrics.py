"""What is told about requests while they come in: counts for Prometheus, and a line of the log for who debugs.

Refusals are the audit's; the log has no line for each of them, or whoever is refused would write it full.
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
"""What a sender calls its request. It is no name of ours: anybody may send anything."""

LONGEST_TRACE: Final = 128


class RequestMetrics:
    """Of one receiver."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._logger = logging.getLogger(LOGGER)

    def decided(self, route: Route, candidate: Candidate, decision: Decision, headers: Headers, began: float) -> None:
        """What became of a verified, wanted delivery. `began`: when its head was whole, in monotonic seconds."""
        seconds = self._clock.monotonic() - began
        if decision.verdict == "accepted":
            self._metrics.deliveries.add(_webhook(route), "accepted")
            self._metrics.delivery_seconds.observe(seconds)
            self._metrics.body_bytes.observe(len(candidate.body))
        # Asked first, for a line that nobody wants costs as much as a signature.
        if self._logger.isEnabledFor(logging.DEBUG):
            log.debug(
                "a delivery came in",
                # A repeat's and a replay's is that of the first one.
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

    def not_admitted(self, route: Route | None, rejected: RejectedRequest) -> None:
        """What the audit is told too."""
        if route is not None:
            self._metrics.deliveries.add(_webhook(route), rejected.verdict)
        if rejected.verdict == "refused":
            self.refused(rejected.reason)

    def refused(self, reason: str) -> None:
        """A refusal, also of what never became a request."""
        self._metrics.refusals.add(reason)


def _webhook(route: Route) -> str:
    return DYNAMIC if route.path.startswith(PREFIX) else route.name


def _traces(headers: Headers) -> dict[str, str]:
    found = {name.replace("-", "_"): headers.get(name) for name in TRACES}
    return {name: value[:LONGEST_TRACE] for name, value in found.items() if value}
