"""Every metric of the daemon, with name and description. `docs/metrics.md` explains how to read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from runtime.metrics.instruments import Counter, DeliveryCounter, Gauge, Histogram, PairCounter

DYNAMIC: Final = "made"
"""Value of the label `webhook` shared by all webhooks created through the API, whose number is not limited."""

VERDICTS: Final = ("accepted", "repeated", "filtered", "handshake", "refused")

OUTCOMES: Final = (
    *("done", "retry", "dead", "agent_gone", "cancelled"),
    *("waiting", "model_unavailable", "awaiting", "budget_exceeded", "switched_off", "interrupted", "superseded"),
)
"""Outcomes of an attempt at a run: `waiting` for its thread, `interrupted` by the daemon's stop or a database outage,
`superseded` by another daemon's attempt."""

LIMITS: Final = ("tokens_per_day", "cost_per_day", "runs_per_hour")
"""Limits of agents and users."""

PURPOSES: Final = ("chat", "summary", "embedding")
"""What models and embeddings are called for."""

CALLS: Final = ("answered", "unavailable", "refused", "cancelled")
"""Outcomes of a call of a language model or an embedding."""

TOKENS: Final = ("in", "out", "cached")
"""Kinds of tokens; `cached` are part of `in`."""

RELOADS: Final = ("loaded", "unchanged", "refused")

TOOL_CALLS: Final = (
    *("done", "invalid_params", "not_found", "forbidden", "conflict", "provider_unavailable", "upsert_failed"),
    *("quota_exceeded", "rate_limited", "cancelled", "failed"),
)
"""Outcomes of a call of a tool: `done`, the kind of its failure, `cancelled`, `failed` by an error of the program."""

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LONG_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 60.0, 300.0, 900.0)
_BYTES: Final = tuple(float(256 * 4**power) for power in range(9))
_PIECES: Final = tuple(float(2**power) for power in range(9))


Instrument = Counter | DeliveryCounter | Gauge | Histogram | PairCounter


class Metrics:
    """The metrics of one daemon, passed to the code that counts; there is no global instance.

    Label values never come from a request. Only the event loop changes metrics; any thread may read them.
    """

    def __init__(self, reasons: Iterable[str] = ()) -> None:
        """`reasons`: every reason for which a request can be refused."""
        self.deliveries = DeliveryCounter(
            "symbiont_deliveries_total", "Requests for a webhook, by verdict.", VERDICTS, DYNAMIC
        )
        self.refusals = Counter(
            "symbiont_refusals_total", "Requests refused on the public listener, by reason.", "reason", reasons
        )
        self.delivery_seconds = Histogram(
            "symbiont_delivery_seconds",
            "Seconds from the complete head of an accepted delivery to its answer.",
            _SECONDS,
        )
        self.body_bytes = Histogram("symbiont_body_bytes", "Sizes of the bodies of accepted deliveries.", _BYTES)
        self.inbox_depth = Gauge(
            "symbiont_inbox_depth", "Deliveries and messages to agents that are not handled yet, by state.", "state"
        )
        self.inbox_oldest = Gauge(
            "symbiont_inbox_oldest_seconds", "Seconds for which the oldest unclaimed delivery or message has been due."
        )
        self.dead_letters = Gauge("symbiont_dead_letters", "Deliveries that are dead letters and still stored.")
        self.runs = Counter("symbiont_runs_total", "Attempts at runs that ended, by outcome.", "outcome", OUTCOMES)
        self.run_seconds = Histogram("symbiont_run_seconds", "Seconds that attempts at runs took.", _LONG_SECONDS)
        self.reloads = Counter(
            "symbiont_reloads_total", "Reads of the program's files after a change, by result.", "result", RELOADS
        )
        self.reload_seconds = Histogram(
            "symbiont_reload_seconds", "Seconds from reading a program's files to serving it.", _LONG_SECONDS
        )
        self.reload_successful = Gauge(
            "symbiont_last_reload_successful", "1 while the program's files are served, 0 while they are invalid."
        )
        self.generation = Gauge("symbiont_generation", "The number of the program that is served, from 1.")
        self.webhooks = Gauge("symbiont_webhooks", "Webhooks, by state: mounted or not.", "state")
        self.red_checks = Gauge("symbiont_red_checks", "What was last seen RED, by check.", "check")
        self.connections = Gauge("symbiont_connections", "Open connections of senders.")
        self.storage_up = Gauge("symbiont_storage_up", "1 while deliveries can be stored, 0 while they are refused.")
        self.commit_seconds = Histogram(
            "symbiont_commit_seconds", "Seconds that transactions took, until they were on disk.", _SECONDS
        )
        self.commit_writes = Histogram(
            "symbiont_commit_writes", "Number of writes stored together in one transaction.", _PIECES
        )

        self.model_calls = PairCounter(
            "symbiont_model_calls_total", "Calls of models and embeddings, by outcome.", ("model", "outcome"), CALLS
        )
        self.model_tokens = PairCounter(
            "symbiont_model_tokens_total",
            "Tokens of models and embeddings, as services say.",
            ("model", "kind"),
            TOKENS,
        )
        self.model_cost = PairCounter(
            "symbiont_model_cost_dollars_total",
            "Cost of models and embeddings in US dollars, where a price is known.",
            ("model", "purpose"),
            PURPOSES,
        )
        self.model_seconds = Histogram(
            "symbiont_model_call_seconds", "Seconds that calls of models and embeddings took.", _LONG_SECONDS
        )
        self.model_waiting = Gauge("symbiont_model_waiting", "Calls that wait for their turn, by model.", "model")
        self.model_available = Gauge(
            "symbiont_model_available", "1 while a model is called, 0 while it is not because it failed.", "model"
        )
        self.budget_exceeded = Counter(
            "symbiont_budget_exceeded_total",
            "Calls of models and begins of runs that a limit did not allow, by limit.",
            "limit",
            LIMITS,
        )
        self.agent_budget_used = Gauge(
            "symbiont_agent_budget_used_ratio",
            "Share of its limits per day that an agent has used or reserved, at its last call today.",
            "agent",
        )
        self.tool_calls = PairCounter(
            "symbiont_tool_calls_total", "Calls of tools, by outcome.", ("tool", "outcome"), TOOL_CALLS
        )
        self.sql_connections = Gauge(
            "symbiont_sql_connections", "Open files of users' SQL tables, or connections of users."
        )

    def committed(self, writes: int, seconds: float) -> None:
        """Record a committed transaction: its number of writes and its duration."""
        self.commit_writes.observe(writes)
        self.commit_seconds.observe(seconds)

    def model_called(self, model: str, outcome: str, seconds: float, tokens: Iterable[int | None]) -> None:
        """Record a call of a model or an embedding. `tokens`: of each of `TOKENS`, None if not known."""
        self.model_calls.add(model, outcome)
        self.model_seconds.observe(seconds)
        for kind, number in zip(TOKENS, tokens, strict=True):
            if number is not None:
                self.model_tokens.add(model, kind, number)

    @property
    def all(self) -> list[Instrument]:
        """All instruments, in the order of their exposition."""
        return list(vars(self).values())
