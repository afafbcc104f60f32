"""A fleet's status as Prometheus reads it. Few labels: region, query and stream, never device or instance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from godwit.observe.status import Status

#: values of labels -> number
Values: TypeAlias = Mapping[Any, float]


class StatusCollector(Collector):
    """One look at a fleet."""

    def __init__(self, status: Status, subscribers: int) -> None:
        self._status, self._subscribers = status, subscribers

    def collect(self) -> Iterator[Metric]:
        status = self._status
        yield _gauge("godwit_epoch", "The newest published epoch.", {(): status.epoch}, ())
        yield _gauge("godwit_subscribers", "Live connections.", {(): self._subscribers}, ())
        yield from self._regions()
        queries = {(q.name,): q for q in status.queries}
        rows = {key: q.rows_out for key, q in queries.items()}
        late = {key: q.rows_late for key, q in queries.items()}
        lags = {key: q.clock_lag_s for key, q in queries.items() if q.clock_lag_s is not None}
        failed = {key: int(q.failed is not None) for key, q in queries.items()}
        suspended = {key: int(q.parked is not None) for key, q in queries.items()}
        yield _counter("godwit_query_results_total", "Results of a query.", rows, ("query",))
        yield _counter("godwit_query_late_rows_total", "Rows that came too late for a query.", late, ("query",))
        yield _gauge("godwit_query_watermark_lag_seconds", "Newest event minus watermark.", lags, ("query",))
        yield _gauge("godwit_query_failed", "1: the query was stopped by an error.", failed, ("query",))
        yield _gauge("godwit_query_suspended", "1: the query has no place now.", suspended, ("query",))
        dead = {(stream,): rows for stream, rows in status.dead.items()}
        yield _counter("godwit_dead_letters_total", "Rows that did not fit their stream.", dead, ("stream",))
        behind = {(s.query, s.sink): s.behind for s in status.sinks}
        yield _gauge("godwit_sink_commits_behind", "Commits that a sink has not taken.", behind, ("query", "sink"))

    def _regions(self) -> Iterator[Metric]:
        regions: dict[tuple[str, ...], dict[str, float]] = {}
        for runner in self._status.runners:
            total = regions.setdefault((runner.region,), {})
            values = {
                "batches": runner.batches,
                "in": runner.rows_in,
                "out": runner.rows_out,
                "unread": runner.unread,
                "state_rows": sum(runner.state_rows.values()),
                "state_bytes": sum(runner.state_bytes.values()),
                "handed": runner.handed_over,
            }
            for name, value in values.items():
                total[name] = total.get(name, 0) + value
            p95 = runner.latency_ms.p95
            if p95 is not None:
                total["p95"] = max(total.get("p95", 0), p95 / 1000)
        for name, what, part in (
            ("godwit_region_batches_total", "Micro-batches.", "batches"),
            ("godwit_region_rows_in_total", "Rows taken in, by all shapes.", "in"),
            ("godwit_region_rows_out_total", "Results.", "out"),
            ("godwit_region_handed_over_bytes_total", "State handed over to other regions.", "handed"),
        ):
            yield _counter(name, what, {key: t[part] for key, t in regions.items()}, ("region",))
        for name, what, part in (
            ("godwit_region_unread_entries", "Entries of logs that are still to be read.", "unread"),
            ("godwit_region_state_rows", "Rows of state.", "state_rows"),
            ("godwit_region_state_bytes", "Bytes of state.", "state_bytes"),
            ("godwit_region_latency_p95_seconds", "Entry of a row to commit of its results, p95.", "p95"),
        ):
            yield _gauge(name, what, {key: t[part] for key, t in regions.items() if part in t}, ("region",))


def _gauge(name: str, what: str, values: Values, labels: tuple[str, ...]) -> Metric:
    family = GaugeMetricFamily(name, what, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _counter(name: str, what: str, values: Values, labels: tuple[str, ...]) -> Metric:
    family = CounterMetricFamily(name, what, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def exposition(status: Status, subscribers: int) -> bytes:
    registry = CollectorRegistry()
    registry.register(StatusCollector(status, subscribers))
    return generate_latest(registry)
