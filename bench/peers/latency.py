"""Latency at 1,000 rows per second, sent every 100 ms: so 50 ms of a row's latency, on average, are the sender's.

ours     devices push Arrow tables and tell their clocks; results come to a callback of each query
Spark    one streaming query each, rows from a socket of text, results to foreachBatch; triggered as often as it can
Flink    all queries in one job with one source, rows from a socket of text, results to a socket; buffers are flushed
         after 1 ms and watermarks sent every 10 ms
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench._harness import say
from bench._memory import cpu_seconds
from bench.peers import pace
from bench.peers.channels import Broadcast, Listener
from bench.peers.flink import Flink
from bench.peers.pace import Ears, Row
from bench.peers.questions import SETS, Question
from godwit.api.fleet import Fleet
from godwit.delivery.sinks.callback import CallbackSink
from godwit.ids import DeviceId
from godwit.model.topology import Device, Link, Site, Topology

Push = Callable[[list[Row], int], None]
#: of Flink: as low as its guide on latency goes
FLINK_OPTIONS = {
    "execution.buffer-timeout.interval": "1 ms",
    "pipeline.auto-watermark-interval": "10 ms",
    "state.backend.type": "hashmap",
}
#: results this long before the end are not counted: they may still be under way
TAIL_S = 4.0


def ground(regions: int) -> Topology:
    """Four sites around a cloud, all in one region, or two edge regions and the cloud's."""
    edge = ["west", "west", "east", "east"] if regions > 1 else ["here"] * 4
    sites = [Site(f"s{n}", edge[n]) for n in range(4)]  # type: ignore[arg-type]
    cloud = Site("cloud", "cloud" if regions > 1 else "here")  # type: ignore[arg-type]
    devices = [Device(f"d{n}", f"s{n % 4}") for n in range(pace.DEVICES)]  # type: ignore[arg-type]
    return Topology.of([*sites, cloud], [Link(site.id, cloud.id, ms=5.0) for site in sites], devices)


@contextmanager
def ours(
    spark: SparkSession, work: Path, questions: list[Question], ears: Ears, regions: int = 1
) -> Iterator[tuple[Push, Fleet]]:
    with Fleet(work, spark) as fleet:
        fleet.topology.add(ground(regions))
        fleet.stream("readings", pace.SCHEMA, device="device")
        for n in range(pace.DEVICES):
            fleet.device(f"d{n}", streams=["readings"])
        for question in questions:
            fleet.submit(question.spark, question.name).write_to(_callback(ears, question))
        fleet.start()
        devices = [DeviceId(f"d{n}") for n in range(pace.DEVICES)]

        def push(rows: list[Row], reached_ms: int) -> None:
            fleet.push("readings", pace.table(rows))
            fleet.tell_time("readings", dict.fromkeys(devices, reached_ms * 1000))

        yield push, fleet
        fleet.stop()


def _callback(ears: Ears, question: Question) -> CallbackSink:
    def take(rows: list[dict[str, Any]]) -> None:
        wall = time.time() * 1000
        for row in rows:
            ears.row(question.name, row, wall)

    return CallbackSink(take, name="peers")


@contextmanager
def native(spark: SparkSession, work: Path, questions: list[Question], ears: Ears) -> Iterator[Push]:
    channel = Broadcast()
    running = []
    for question in questions:
        session = spark.newSession()
        lines = session.readStream.format("socket").option("host", "127.0.0.1").option("port", channel.port).load()
        parsed_rows(lines).createOrReplaceTempView("readings")
        running.append(
            session.sql(question.spark)
            .writeStream.foreachBatch(batch_taker(ears, question))
            .option("checkpointLocation", str(work / question.name))
            .start()
        )
    channel.wait(len(questions))
    try:
        yield lambda rows, _: channel.send("".join(row.text() for row in rows))
    finally:
        for query in running:
            halt(query)
        channel.close()


def halt(query: StreamingQuery, patience_s: float = 1.0) -> None:
    """Stop between two micro-batches, if there is such a moment: one that is cut off has to be done again."""
    until = time.monotonic() + patience_s
    while query.status["isTriggerActive"] and time.monotonic() < until:
        time.sleep(0.002)
    query.stop()


def parsed_rows(lines: DataFrame) -> DataFrame:
    parts = "split(value, ',')"
    return lines.selectExpr(
        f"{parts}[0] AS device",
        f"CAST({parts}[1] AS bigint) AS key",
        f"CAST({parts}[2] AS int) AS value",
        f"timestamp_millis(CAST({parts}[3] AS bigint)) AS ts",
    ).withWatermark("ts", "0 seconds")


def batch_taker(ears: Ears, question: Question) -> Callable[[DataFrame, int], None]:
    def take(rows: DataFrame, _number: int) -> None:
        found = rows.collect()
        wall = time.time() * 1000
        for row in found:
            ears.row(question.name, row.asDict(), wall)

    return take


@contextmanager
def flinks(flink: Flink, questions: list[Question], ears: Ears) -> Iterator[Push]:
    channel, results = Broadcast(), Listener(ears.line)
    asked = {question.name: question.flink for question in questions}
    flink.ask("serve", port=channel.port, to=results.port, queries=asked, options=FLINK_OPTIONS)
    channel.wait(1)
    try:
        yield lambda rows, _: channel.send("".join(row.text() for row in rows))
    finally:
        flink.ask("stop", savepoint=False)
        channel.close()
        results.close()


def measure(
    spark: SparkSession, flink: Flink | None, work: Path, warm_s: float, seconds: float, names: tuple[str, ...] = ()
) -> Iterator[dict[str, Any]]:
    """Every set of questions by every contender, in turn; one result each."""
    for name, questions in SETS.items():
        if names and name not in names:
            continue
        count = int((warm_s + seconds) * 1000)
        since, until = int(warm_s * 1000), int((warm_s + seconds - TAIL_S) * 1000)
        want = pace.expected(spark, questions, count, since, until)
        for contender, start in _contenders(spark, flink, work / name.replace(" ", "-"), questions):
            ears = Ears()
            with start(ears) as push:
                cpu, began = cpu_seconds(), time.monotonic()
                begin, _ = pace.send(warm_s + seconds, push)
                cores = (cpu_seconds() - cpu) / (time.monotonic() - began)
                have = until_there(ears, begin, since, until, sum(want.values()))
            late = [h.wall - h.at for h in ears.heard if since <= h.at - begin < until]
            found = {
                "set": name,
                "contender": contender,
                "p50_ms": round(float(np.quantile(late, 0.5))) if late else None,
                "p95_ms": round(float(np.quantile(late, 0.95))) if late else None,
                "cores": round(cores, 2),
                "results": sum(have.values()),
                "equal": have == want,
            }
            say(f"  {name}, {contender}: p50 {found['p50_ms']} ms, p95 {found['p95_ms']} ms, equal: {found['equal']}")
            yield found


def until_there(ears: Ears, begin: int, since: int, until: int, count: int, wait_s: float = 20.0) -> Any:
    """What has come, once all has, or after a while."""
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        have = pace.counted(ears, begin, since, until)
        if sum(have.values()) >= count:
            break
        time.sleep(0.1)
    return have


def _contenders(spark: SparkSession, flink: Flink | None, work: Path, questions: list[Question]) -> Iterator[Any]:
    @contextmanager
    def one_region(ears: Ears) -> Iterator[Push]:
        with ours(spark, work / "one", questions, ears) as (push, _):
            yield push

    @contextmanager
    def three_regions(ears: Ears) -> Iterator[Push]:
        with ours(spark, work / "three", questions, ears, regions=3) as (push, _):
            yield push

    yield "godwit", one_region
    if len({question.shape for question in questions}) > 1:
        yield "godwit, 3 regions", three_regions
    if flink is not None:
        yield "flink", lambda ears: flinks(flink, questions, ears)
    yield "spark", lambda ears: native(spark, work / "spark", questions, ears)
