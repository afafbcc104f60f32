"""A change of plan on Spark while rows come: how long it takes, the longest silence, intermediate rows, the oracle.

A running fleet; rows are pushed every `STEP_S` of the wall clock with Poisson arrivals, and results are timed as a sink
gets them. Rates are the setting's, scaled up by `scale`, and matches are made as much rarer, so that states grow and
results per row do not. A change is made several times, there and back.
"""

from __future__ import annotations

import datetime as dt
import random
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.plan.settings import LINKS, Setting
from godwit.api.fleet import Fleet
from godwit.delivery.sinks.base import ResultBatch, ResultSink
from godwit.maintenance.housekeeping import Retention
from godwit.model.plan import Join
from godwit.model.signature import StateKey
from godwit.model.topology import Site, Topology
from godwit.replan.change_progress import under_way
from godwit.replan.change_record import PLAN_CHANGES, PlanChangeRecord

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STEP_S = 0.1
OLD_ORDER, NEW_ORDER = "a JOIN b JOIN c JOIN d", "(b JOIN c) JOIN d JOIN a"


def sql(window_ms: int) -> str:
    """Figure 4's query: one window between all pairs."""

    def near(x: str, y: str) -> str:
        half = f"INTERVAL {window_ms} MILLISECONDS"
        return f"{x}.ts BETWEEN {y}.ts - {half} AND {y}.ts + {half}"

    return (
        f"SELECT a.n AS an, b.n AS bn, c.n AS cn, d.n AS dn FROM a JOIN b ON a.ab = b.ab AND {near('b', 'a')} "
        f"JOIN c ON b.bc = c.bc AND {near('c', 'b')} AND {near('c', 'a')} "
        f"JOIN d ON c.cd = d.cd AND {near('d', 'c')} AND {near('d', 'b')} AND {near('d', 'a')}"
    )


class Timed(ResultSink):
    """When results came, and how many."""

    exactly_once = False

    def __init__(self) -> None:
        self.name = "timed"
        self.came: list[tuple[float, int]] = []

    def write(self, batch: ResultBatch) -> None:
        rows = sum(table.num_rows for table in batch.tables())
        if rows:
            self.came.append((time.perf_counter(), rows))

    def longest_gap(self, since: float, until: float) -> float:
        times = [since, *(at for at, _ in self.came if since < at < until), until]
        return max(b - a for a, b in pairwise(times))


class Meter:
    """What all runners have done: rows taken in, and how long micro-batches with rows took."""

    def __init__(self) -> None:
        self.rows, self.took = 0, list[tuple[float, float]]()

    def committed(self, runner: Any, number: int, record: Any) -> None:
        metrics = record["metrics"]
        self.rows += metrics["rows_in"]
        if metrics["rows_in"]:
            self.took.append((time.perf_counter(), metrics["took_ms"]))


class Load:
    """Rows of a setting, pushed as the wall clock goes."""

    def __init__(self, fleet: Fleet, setting: Setting, scale: float, seed: int = 1) -> None:
        self._fleet, self._setting, self._scale, self._rng = fleet, setting, scale, random.Random(seed)
        self.pushed, self.kept, self._begun, self._step = 0, list[tuple[float, int, int]](), 0.0, 0

    def run(self, seconds: float) -> None:
        """Push for so long; a step that is late is made up for, and nothing is left out."""
        self._begun = self._begun or time.perf_counter() - self._step * STEP_S
        end = self._step + round(seconds / STEP_S)
        while self._step < end:
            wait = self._begun + self._step * STEP_S - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            self.push()

    def push(self) -> None:
        for alias in "abcd":
            rows = self._rows(alias)
            self.pushed += len(rows)
            if rows:
                self._fleet.push(alias, rows)
        self._step += 1
        if self._step % 5 == 0:
            self.kept.append((time.perf_counter(), *rows_kept(self._fleet)))

    def _rows(self, alias: str) -> list[dict[str, Any]]:
        gap_s = self._setting.gaps_ms["abcd".index(alias)] / 1000 / self._scale
        rows, at = list[dict[str, Any]](), self._rng.expovariate(1 / gap_s)
        while at < STEP_S:
            keys = {
                link.lower(): self._rng.randrange(max(1, round(self._scale / sigma)))
                for link, sigma in zip(LINKS, self._setting.sigma, strict=True)
            }
            moment = START + dt.timedelta(seconds=self._step * STEP_S + at)
            rows.append({"n": self._rng.randrange(10**6), **keys, "ts": moment})
            at += self._rng.expovariate(1 / gap_s)
        return rows


def rows_kept(fleet: Fleet) -> tuple[int, int]:
    """(rows of streams, rows that joins have made for other joins) that are in states now."""
    leaves = inner = 0
    for runner in list(fleet.pool.runners.values()):
        plan = runner.shape.plan
        for index, operator in enumerate(plan.operators):
            for side, child in enumerate(operator.inputs if operator.stateful else ()):
                rows = runner.memory.state(StateKey(runner.shape.signatures[index], side)).rows
                if isinstance(plan.operators[child], Join):
                    inner += rows
                else:
                    leaves += rows
    return leaves, inner


def run(
    spark: SparkSession,
    setting: Setting,
    strategy: str,
    scale: float,
    warm_s: float,
    calm_s: float,
    changes: int = 2,
    most_s: float = 30.0,
) -> dict[str, Any]:
    """`changes` of plan in a row, each after a calm time; "none": the old plan throughout, "new": the new one."""
    order = {"new": NEW_ORDER}.get(strategy, OLD_ORDER)
    with tempfile.TemporaryDirectory() as folder, Fleet(Path(folder), spark, retention=Retention(keep=True)) as fleet:
        fleet.topology.add(Topology.of([Site("here")]))  # type: ignore[arg-type]
        for alias in "abcd":
            fleet.stream(alias, "n int, ab int, bc int, cd int, ts timestamp", site="here", ahead=None)
        probing = {"joins": "stateless"} if strategy.startswith("stateless") else {}
        query, sink, load = fleet.submit(sql(setting.window_ms), "q", **probing), Timed(), Load(fleet, setting, scale)  # type: ignore[arg-type]
        if order != OLD_ORDER:
            fleet.replan("q", order=order, strategy="moving-state")
        query.write_to(sink)
        meter = Meter()
        fleet.pool.follow(meter.committed)
        fleet.start()
        load.run(warm_s)
        found = []
        for number in range(changes if strategy not in ("none", "new", "stateless") else 0):
            begun = time.perf_counter()
            load.run(calm_s)
            calm = sink.longest_gap(begun, time.perf_counter())
            before = meter.rows, load.pushed
            order = (NEW_ORDER, OLD_ORDER)[number % 2]
            told = _changed(fleet, load, sink, strategy, order, most_s)
            fleet.process_available()
            extra = meter.rows - before[0] - (load.pushed - before[1])
            found.append({**told, "calm_gap_s": calm, "extra_rows": extra, "phases": _phases(fleet)})
        begun = time.perf_counter()
        load.run(calm_s)
        calm = sink.longest_gap(begun, time.perf_counter())
        took = sorted(ms for at, ms in meter.took if at > begun)
        fleet.process_available()
        fleet.stop()
        fleet.close_sources()
        fleet.process_available()
        verdict = query.verdict()
        return {
            "strategy": strategy,
            "changes": found,
            "calm_gap_s": calm,
            "calm_batch_ms": took[len(took) // 2] if took else None,
            "rows": load.pushed,
            "kept": [(round(at - load._begun, 2), leaves, inner) for at, leaves, inner in load.kept],
            "results_at": [(round(at - load._begun, 2), rows) for at, rows in sink.came],
            "results": verdict.got,
            "oracle": "equal" if verdict.equal else "different",
        }


def _changed(fleet: Fleet, load: Load, sink: Timed, strategy: str, order: str, most_s: float) -> dict[str, Any]:
    begun, pushed = time.perf_counter(), load.pushed
    asked = threading.Thread(
        target=lambda: fleet.replan("q", order=order, strategy=strategy, run_out=strategy == "pause-drain-resume")
    )
    asked.start()
    while time.perf_counter() - begun < most_s:
        load.run(STEP_S)
        if not asked.is_alive() and not changing(fleet):
            break
    ended = time.perf_counter()
    load.run(1.0)
    return {
        "at_s": round(begun - load._begun, 2),
        "length_s": ended - begun,
        "silence_s": sink.longest_gap(begun, time.perf_counter()),
        "rows_meanwhile": load.pushed - pushed,
    }


def _phases(fleet: Fleet) -> list[tuple[str, float, int, int]]:
    """(phase, seconds since the change began, rows, bytes) of the last change, as the fleet has recorded it."""
    known = fleet.store.get_document(PLAN_CHANGES) or []
    if not known:
        return []
    last = PlanChangeRecord.from_json(known[-1])
    return [(p.phase, round(p.at - last.began, 3), p.rows, p.bytes) for p in last.phases]


def changing(fleet: Fleet) -> bool:
    return any(under_way(query, fleet.deployment) for query in fleet.deployment.queries.values())
