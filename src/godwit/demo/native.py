"""The demo's second half: the same trace and rows against plain Spark queries that are restarted at hand-overs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession

from godwit.api.oracle import compare
from godwit.baselines.native_restart import NativeQuery, NativeRestart, NativeStream
from godwit.demo.answers import Answers
from godwit.demo.due import Handed, Noting
from godwit.demo.ours import LOOK_EVERY, PlayedTrace
from godwit.demo.outcome import DemoOutcome, Show, look
from godwit.demo.queries import SCHEMA, STREAM, Asked
from godwit.demo.world import DISORDER_MS, GAP_MS, DemoStage, first_counts
from godwit.errors import DeploymentError
from godwit.ids import QueryId
from godwit.mobility.driver import Driver, Feed

NAME = "native-restart"


#: for so long plain Spark may read what is left (seconds): the demonstration takes under three minutes
CATCH_UP_S = 30.0


def play(
    spark: SparkSession,
    folder: Path,
    stage: DemoStage,
    queries: list[Asked],
    seed: int,
    show: Show,
    say: Callable[[str], None] = lambda what: None,
) -> DemoOutcome:
    """Warm up, play the trace in real time, read what is left, compare with the batch."""
    # A query that is stopped in the middle of a call would print a stack trace for it.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    watermark = f"{DISORDER_MS + GAP_MS} milliseconds"
    native = NativeRestart(spark, folder, NativeStream(STREAM, SCHEMA, "ts", "train", watermark))
    for query in queries:
        native.add(query.name, query.sql, query.trains)
    initial = dict(stage.trace.initial())
    native.start(initial)
    native.push(STREAM, first_counts(stage, time.time()), initial)
    for started in native.queries:
        assert started.running is not None
        started.running.processAllAvailable()
    say("go")
    played, read = _drive(native, stage, queries, seed, show, initial)
    say("reading what is left, asking the oracle")
    caught_up = native.end(timeout=CATCH_UP_S)
    if not caught_up:
        say(f"native-restart has not read everything within {CATCH_UP_S:g} s; it is judged by what it has")
    read.look(native.queries)
    found = _outcome(native, played, queries)
    return found if caught_up else replace(found, note=f"{found.note}, not caught up")


@dataclass
class BatchReader:
    """Takes from each query the batches that it has answered since the last look."""

    answers: Answers
    queries: list[Asked]
    taken: dict[str, set[int]] = field(default_factory=dict)

    def look(self, running: list[NativeQuery]) -> None:
        for native, asked in zip(running, self.queries, strict=True):
            done = self.taken.setdefault(native.name, set())
            for number, (wall, rows) in list(native.batches.items()):
                if number not in done:
                    done.add(number)
                    self.answers.take(asked, rows.to_dict("records"), wall)  # type: ignore[arg-type]


def _drive(
    native: NativeRestart, stage: DemoStage, queries: list[Asked], seed: int, show: Show, initial: dict[str, str]
) -> tuple[PlayedTrace, BatchReader]:
    start, looked = time.time(), [0.0]
    handed = Handed()
    read = BatchReader(Answers(handed, start), queries)
    target = Noting(native, handed, time.time, initial)

    def watch(driver: Driver) -> None:
        if native.failure is not None:
            msg = f"a plain Spark query failed at its restart: {native.failure}"
            raise DeploymentError(msg) from native.failure
        if time.monotonic() - looked[0] >= LOOK_EVERY:
            looked[0] = time.monotonic()
            read.look(native.queries)
            given = sorted(read.answers.given, key=lambda answer: answer.emitted)
            show(look(NAME, driver, given, native.handled, start + stage.calm_s))

    feed = Feed(STREAM, stage.payload(int(start * 1000), seed), DISORDER_MS)
    driver = Driver(
        stage.trace, [feed], target, start_ms=int(start * 1000), gap_ms=GAP_MS, watch=watch, attached=dict(initial)
    )
    driver.play()
    driver.last_tick()
    handovers = tuple(target.handovers)
    return PlayedTrace(driver, read.answers, start, start + stage.calm_s, handovers, native.handled), read


def _outcome(native: NativeRestart, played: PlayedTrace, queries: list[Asked]) -> DemoOutcome:
    verdicts = []
    for query, asked in zip(native.queries, queries, strict=True):
        want = native.oracle(asked.sql)
        have = native.results(query)
        verdicts.append(compare(QueryId(query.name), want, want.iloc[:0] if have is None else have))
    return DemoOutcome(
        name=NAME,
        rows=played.driver.rows,
        results=sum(v.got for v in verdicts),
        answers=tuple(played.answers.given),
        started=played.started,
        calm_until=played.calm_until,
        handovers=played.handovers,
        handled=played.handled,
        verdicts=tuple(verdicts),
        restarts=native.restarts,
        note=f"{sum(len(q.batches) for q in native.queries):,} micro-batches",
    )
