"""The metrics in the text formats of Prometheus and OpenMetrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from dslc.version import commit, version
from runtime.metrics.instruments import Counter, DeliveryCounter, Gauge, PairCounter
from runtime.metrics.metrics import Instrument, Metrics

UNITS = ("seconds", "bytes")


class Exposition(Collector):
    """Writes `metrics`, the process metrics (`process_*`, where /proc exists) and the version. It has its own
    registry."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def render(self, accept: str | None) -> tuple[bytes, str]:
        """Return the text in the format that the Accept header asks for, and its content type. May be called in a
        thread."""
        encode, content_type = choose_encoder(accept or "")
        return encode(self.registry), content_type

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family with its present values."""
        for instrument in self._metrics.all:
            yield _family(instrument)
        known = commit()
        build = {"version": version(), **({"commit": known} if known else {})}
        yield InfoMetricFamily("symbiont_build", "The version of Symbiont, and its commit.", value=build)


def _family(instrument: Instrument) -> Metric:
    unit = next((unit for unit in UNITS if instrument.name.endswith(f"_{unit}")), "")
    match instrument:
        case DeliveryCounter() | PairCounter():
            return _pairs(instrument)
        case Counter():
            counter = CounterMetricFamily(instrument.name, instrument.help, labels=[instrument.label])
            for value, count in instrument.values.copy().items():
                counter.add_metric([value], count)
            return counter
        case Gauge():
            return _gauge(instrument, unit)
    histogram = HistogramMetricFamily(instrument.name, instrument.help, unit=unit)
    bounds = (*map(floatToGoString, instrument.bounds), "+Inf")
    histogram.add_metric([], list(zip(bounds, instrument.cumulative(), strict=True)), instrument.total)
    return histogram


def _pairs(instrument: DeliveryCounter | PairCounter) -> Metric:
    counter = CounterMetricFamily(instrument.name, instrument.help, labels=instrument.labels)
    for first, second, count in instrument.values():
        counter.add_metric((first, second), count)
    return counter


def _gauge(instrument: Gauge, unit: str) -> Metric:
    labels = None if instrument.label is None else [instrument.label]
    gauge = GaugeMetricFamily(instrument.name, instrument.help, labels=labels, unit=unit)
    value = instrument.ask()
    if isinstance(value, Mapping):
        for name, number in value.items():
            gauge.add_metric([name], number)
    elif value is not None:
        gauge.add_metric([], value)
    return gauge
