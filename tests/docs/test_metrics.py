"""The page about metrics: its table agrees with a daemon's metrics, and its alerts use existing ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as prometheus

from runtime.daemon.listeners.metrics_endpoint import FORWARDED
from runtime.metrics.exposition import Exposition
from runtime.metrics.metrics import OUTCOMES, RELOADS, TOOL_CALLS, VERDICTS
from tests.runtime.metrics.test_metrics import complete

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \|([^|]*)\| ?(.*)\|$", PAGE, re.MULTILINE)


def _shown() -> list[tuple[str, str, set[str]]]:
    """Return name, type and labels of each family, in the order of the exposition."""
    text, _ = Exposition(complete()).render(None)
    found = []
    for family in prometheus(text.decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        found.append((name, family.type, labels))
    return found


def test_the_table_is_what_is_shown() -> None:
    page = [(name, kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels, _ in ROWS]
    shown = _shown()
    ours = [row for row in shown if row[0].startswith("symbiont_")]
    assert [row for row in page if row[0].startswith("symbiont_")] == ours
    # Without /proc there are no metrics of the process.
    if Path("/proc/self/stat").exists():
        assert sorted(row[0] for row in page) == sorted(row[0] for row in shown)


@pytest.mark.parametrize(
    ("metric", "values"),
    [
        ("symbiont_deliveries_total", VERDICTS),
        ("symbiont_runs_total", OUTCOMES),
        ("symbiont_reloads_total", RELOADS),
        ("symbiont_tool_calls_total", TOOL_CALLS),
        ("symbiont_inbox_depth", ("queued", "running", "waiting", "agent_gone")),
        ("symbiont_webhooks", ("mounted", "not_mounted")),
    ],
)
def test_every_value_of_a_label_stands_in_its_row(metric: str, values: tuple[str, ...]) -> None:
    [text] = [text for name, _, _, text in ROWS if name == metric]
    assert set(re.findall(r"`(\w+)`", text)) >= set(values)


def test_the_headers_that_tell_of_a_proxy_stand_on_the_page() -> None:
    assert all(f"`{name}`" in PAGE for name in FORWARDED)


def test_alerts_ask_for_metrics_labels_and_values_that_there_are() -> None:
    metrics = complete()
    metrics.deliveries.add("github-events", "accepted")
    samples: dict[str, list[dict[str, str]]] = {}
    for family in prometheus(Exposition(metrics).render(None)[0].decode()):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append(sample.labels)
    asked = [expression for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) for expression in _asked(block)]
    assert len(asked) > 8
    for name, conditions in asked:
        assert name in samples, name
        for label, operator, value in conditions:
            wanted = value.split("|") if operator == "=~" else [value]
            assert set(wanted) <= {labels[label] for labels in samples[name]}, (name, label)


def _asked(block: str) -> list[tuple[str, list[Any]]]:
    """Return each of our metrics in the expressions of a block, with its label filters."""
    expressions = re.findall(r"expr: (?:\|\n((?: {10,}.*\n)+)|(.*))", block)
    return [
        (name, re.findall(r'(\w+)(=~?)"([^"]*)"', narrowed))
        for lines, line in expressions
        for name, narrowed in re.findall(r"(symbiont_\w+)(\{[^}]*\})?", lines or line)
    ]
