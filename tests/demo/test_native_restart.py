"""The baseline is a fair one: with a watermark that drops nothing, plain Spark queries lose nothing over restarts."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from godwit.api.oracle import compare
from godwit.baselines.native_restart import NativeRestart, NativeStream, plain
from godwit.ids import QueryId
from godwit.mobility.driver import Driver, Feed, WallClock
from godwit.mobility.payloads import SensorReadings
from tests.demo.test_driver import trace_of

SQL = "SELECT sensor, count(*) AS n, window.end AS at FROM readings GROUP BY sensor, window(ts, '1 second')"


def test_restarts_lose_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Two sensors, one of which hops: the query that reads it restarts, the other one does not."""
    stream = NativeStream("readings", "sensor string, value double, ts timestamp", "ts", "sensor", "1 hour")
    native = NativeRestart(spark, tmp_path, stream)
    native.add("both", SQL, ["a", "b"])
    native.add("still", SQL.replace("GROUP", "WHERE sensor = 'b' GROUP"), ["b"])
    trace = trace_of((0, "a", "x"), (0, "b", "x"), (1000, "a", "y"), duration=2000)
    native.start(trace.initial())
    feed = Feed("readings", SensorReadings(period_ms=100, disorder_ms=200), 200)
    driver = Driver(trace, [feed], native, clock=WallClock(), attached=dict(trace.initial()))
    driver.play()
    native.end()
    assert native.restarts >= 1
    both, still = native.queries
    # Each is started once more at the end, to read what is left everywhere.
    assert (both.starts, still.starts) == (3, 2)
    for query in native.queries:
        want = native.oracle(query.sql)
        have = native.results(query)
        assert have is not None
        verdict = compare(QueryId(query.name), want, have)
        assert verdict.equal, str(verdict)
        assert verdict.got > 0


def test_distinct_counts_become_sets() -> None:
    assert "SIZE(COLLECT_SET(a))" in plain("SELECT count(DISTINCT a) AS n FROM s").upper().replace("(A", "(a")
