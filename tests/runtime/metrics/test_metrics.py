"""The metrics, their exposition, and that requests cannot add series."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from runtime.http.error import ERRORS
from runtime.metrics.exposition import Exposition
from runtime.metrics.instruments import OTHER, Histogram
from runtime.metrics.metrics import DYNAMIC, VERDICTS, Metrics
from runtime.webhooks.request.refusal import REASONS
from tests.cases import each_case

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


def complete() -> Metrics:
    """Return metrics with a value for each."""
    metrics = Metrics(dict.fromkeys((*REASONS, *ERRORS)))
    metrics.deliveries.declare(["github-events"])
    metrics.inbox_depth.ask = lambda: {"queued": 2, "running": 1, "agent_gone": 0}
    metrics.webhooks.ask = lambda: {"mounted": 1, "not_mounted": 0}
    for gauge in (metrics.inbox_oldest, metrics.dead_letters, metrics.reload_successful, metrics.generation):
        gauge.ask = lambda: 1
    metrics.connections.ask = metrics.storage_up.ask = lambda: 1
    metrics.model_called("quick", "answered", 1.5, (31, 11, None))
    metrics.model_cost.add("quick", "chat", 0.25)
    metrics.agent_budget_used.ask = lambda: {"helper": 0.5}
    metrics.red_checks.ask = lambda: {"runs of helper": 1}
    metrics.model_waiting.ask = metrics.model_available.ask = lambda: {"quick": 1, "embedding/openai": 1}
    metrics.tool_calls.add("agent_memory_sql", "done")
    metrics.sql_connections.ask = lambda: 3
    return metrics


def scraped(metrics: Metrics) -> dict[str, Metric]:
    """Return the families by name, as Prometheus parses them; names of counters without `_total`."""
    text, _ = Exposition(metrics).render(None)
    return {family.name: family for family in prometheus(text.decode())}


def value(metrics: Metrics, sample: str, **labels: str) -> float | None:
    """Return the sample's value, None if there is no such series."""
    found = [
        each.value
        for family in scraped(metrics).values()
        for each in family.samples
        if each.name == sample and each.labels == labels
    ]
    assert len(found) < 2
    return found[0] if found else None


# The rules of `promtool check metrics` and of https://prometheus.io/docs/practices/naming/.

_KINDS = re.compile(r"(?:^|_)(?:counter|gauge|histogram|summary)(?:_|$)")
_NO_BASE_UNIT = re.compile(
    r"_(?:ms|us|ns|milliseconds|microseconds|nanoseconds|minutes|hours|days|kb|mb|gb|kilobytes|megabytes|bits|percent"
    r"|sec|secs|min|mins)(?:_|$)"
)


@each_case("name", scraped(complete()))
def test_every_name_is_as_prometheus_wants_it(name: str) -> None:
    family = scraped(complete())[name]
    assert re.fullmatch(r"(?:symbiont|process)_[a-z_]*[a-z]", name)
    assert family.documentation.endswith(".")
    assert not _KINDS.search(name)
    assert not _NO_BASE_UNIT.search(name)
    assert not name.endswith(
        ("_total", "_count", "_sum", "_bucket", "_info") if family.type != "gauge" else ("_total",)
    )
    for sample in family.samples:
        assert (sample.name == f"{name}_total") == (family.type == "counter"), sample
        assert all(re.fullmatch(r"[a-z]+", label) for label in sample.labels)
        assert not {"job", "instance"} & set(sample.labels)


def test_every_family_is_written_in_both_formats_and_reads_back() -> None:
    exposition = Exposition(complete())
    text, kind = exposition.render(None)
    assert kind.startswith("text/plain; version=0.0.4")
    plain = {family.name for family in prometheus(text.decode())}
    text, kind = exposition.render(OPEN_METRICS)
    assert kind.startswith("application/openmetrics-text")
    families = {family.name: family for family in open_metrics(text.decode())}  # type: ignore[no-untyped-call]
    assert {name.removesuffix("_info") for name in plain} == set(families)
    assert families["symbiont_delivery_seconds"].unit == "seconds"


def test_two_daemons_in_one_process_share_nothing() -> None:
    one, other = complete(), complete()
    one.deliveries.add("github-events", "accepted")
    assert value(other, "symbiont_deliveries_total", webhook="github-events", verdict="accepted") == 0
    Exposition(one)
    Exposition(other)


def test_a_reason_outside_the_table_makes_no_series() -> None:
    metrics = complete()
    before = len(scraped(metrics)["symbiont_refusals"].samples)
    metrics.refusals.add("github-events\n' or 1=1")
    assert len(scraped(metrics)["symbiont_refusals"].samples) == before
    assert value(metrics, "symbiont_refusals_total", reason=OTHER) == 1


@pytest.mark.parametrize("first", VERDICTS)
def test_a_webhook_has_all_its_series_once_something_came_in_for_it(first: str) -> None:
    metrics = complete()
    assert value(metrics, "symbiont_deliveries_total", webhook="github-events", verdict="accepted") == 0
    assert value(metrics, "symbiont_deliveries_total", webhook="github-events", verdict="refused") is None
    metrics.deliveries.add("github-events", first)
    for verdict in VERDICTS:
        count = value(metrics, "symbiont_deliveries_total", webhook="github-events", verdict=verdict)
        assert count == (verdict == first)


def test_a_webhook_that_a_reload_removed_loses_its_series_and_the_others_keep_theirs() -> None:
    metrics = complete()
    metrics.deliveries.declare(["github-events", "stripe"])
    for webhook in ("github-events", "stripe", DYNAMIC):
        metrics.deliveries.add(webhook, "accepted")
    metrics.deliveries.declare(["github-events", "slack"])
    # A last request was still in progress.
    metrics.deliveries.add("stripe", "accepted")
    shown = {webhook: count for webhook, verdict, count in metrics.deliveries.values() if verdict == "accepted"}
    assert shown == {"github-events": 1, "slack": 0, DYNAMIC: 1}


def test_a_declared_webhook_of_the_shared_name_counts_with_the_shared_ones() -> None:
    metrics = complete()
    metrics.deliveries.declare([DYNAMIC])
    metrics.deliveries.add(DYNAMIC, "accepted")
    metrics.deliveries.declare([])
    assert value(metrics, "symbiont_deliveries_total", webhook=DYNAMIC, verdict="accepted") == 1


def test_what_is_not_known_is_left_out() -> None:
    metrics = complete()
    metrics.dead_letters.ask = metrics.inbox_depth.ask = lambda: None
    assert value(metrics, "symbiont_dead_letters") is None
    assert value(metrics, "symbiont_inbox_depth", state="queued") is None
    assert value(metrics, "symbiont_connections") == 1


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 99.0])))
def test_a_histogram_counts_each_value_in_every_bucket_that_it_is_not_above(values: list[float]) -> None:
    histogram = Histogram("x", "X.", (1.0, 2.0))
    for each in values:
        histogram.observe(each)
    assert histogram.cumulative() == [sum(v <= 1 for v in values), sum(v <= 2 for v in values), len(values)]
    assert histogram.total == sum(values)


def test_calls_of_a_model_are_counted_by_outcome_with_their_tokens() -> None:
    metrics = complete()
    metrics.model_called("quick", "unavailable", 60.0, (None, None, None))
    metrics.model_called("embedding/openai", "answered", 0.1, (8, None, None))

    assert value(metrics, "symbiont_model_calls_total", model="quick", outcome="answered") == 1
    assert value(metrics, "symbiont_model_calls_total", model="quick", outcome="unavailable") == 1
    assert value(metrics, "symbiont_model_calls_total", model="quick", outcome="refused") == 0
    assert value(metrics, "symbiont_model_tokens_total", model="quick", kind="in") == 31
    assert value(metrics, "symbiont_model_tokens_total", model="quick", kind="cached") == 0
    assert value(metrics, "symbiont_model_tokens_total", model="embedding/openai", kind="in") == 8
    assert value(metrics, "symbiont_model_call_seconds_count") == 3
    assert value(metrics, "symbiont_model_cost_dollars_total", model="quick", purpose="chat") == 0.25
    assert value(metrics, "symbiont_agent_budget_used_ratio", agent="helper") == 0.5
    assert value(metrics, "symbiont_model_available", model="quick") == 1
