"""A change of plan on Spark while rows come: how long it takes, the longest silence, intermediate rows, the oracle.

A running fleet; rows are pushed every `STEP_S` of the wall clock with Poisson arrivals, and results are timed as a sink
gets them. Rates are the setting's, scaled up by `scale`, and matches are made as much rarer, so that states grow and
results per row do not. A change is made several times, there and back.
"""

from __future__ import annotations

import datetime as dt
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from bench._harness import say
from bench.plan.settings import Setting
from godwit.api.fleet import Fleet
from godwit.api.handles import QueryHandle
from godwit.delivery.sinks.base import ResultBatch, ResultSink
from godwit.maintenance.housekeeping import Retention
from godwit.model.plan import Join, Query
from godwit.model.signature import StateKey
from godwit.model.topology import Site, Topology
from godwit.protocol.handover import Migration
from godwit.replan.change_progress import under_way
from godwit.replan.change_record import PLAN_CHANGES, PlanChangeRecord
from godwit.replan.matching import StateMatch
from godwit.replan.tracks import matching, of_new, runs_both

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STEP_S = 0.1
#: micro-batches in which states are filled before the wall clock begins
FILLS = 12
KEYS = ("ab", "bc", "cd", "de")
COLUMNS = "n int, ab int, bc int, cd int, de int, ts timestamp"


def sql(setting: Setting) -> str:
    """Figure 4's query: one window between all pairs."""

    def near(x: str, y: str) -> str:
        half = f"INTERVAL {setting.window_ms} MILLISECONDS"
        return f"{x}.ts BETWEEN {y}.ts - {half} AND {y}.ts + {half}"

    aliases = setting.aliases.lower()
    text = f"SELECT {', '.join(f'{x}.n AS {x}n' for x in aliases)} FROM {aliases[0]}"
    for at, (x, y) in enumerate(pairwise(aliases)):
        bands = " AND ".join(near(y, z) for z in reversed(aliases[: at + 1]))
        text += f" JOIN {y} ON {x}.{x}{y} = {y}.{x}{y} AND {bands}"
    return text


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
    """What all runners have done: how long micro-batches with rows took, and which rows were processed that would not
    have been without a change of plan, for every strategy alike:

    beside    rows that a box beside another one has taken in, those of its joins for each other included
    read      rows of states that others were computed of; a state that is only taken over is not read. Each counts
              once, when it is first joined: what it meets then is not counted, for a box that takes it in neither
    made      rows of the states that were computed
    """

    def __init__(self) -> None:
        self.beside, self.took = 0, list[tuple[float, float]]()
        #: (version, operator, input) -> rows of its state that were left; (version, its state) -> rows computed for it
        self._left: dict[tuple[str, int, int], int] = {}
        self._read: dict[tuple[str, StateKey], int] = {}
        self._made: dict[tuple[str, StateKey], int] = {}
        self._matches: dict[tuple[str, str], StateMatch] = {}

    @property
    def extra(self) -> dict[str, int]:
        return {"beside": self.beside, "read": sum(self._read.values()), "made": sum(self._made.values())}

    def committed(self, runner: Any, number: int, record: Any) -> None:
        metrics, plan = record["metrics"], runner.shape.plan
        if runs_both(plan):
            new = of_new(plan)
            self.beside += sum(rows for place, rows in metrics["taken"].items() if int(place.split("/")[0]) in new)
        if metrics["taken"]:
            self.took.append((time.perf_counter(), metrics["took_ms"]))
        for parcel in record.get("left", ()):
            move = Migration.from_json(parcel["move"])
            for side, found in parcel["parts"].items():
                self._left[move.query, move.operator, int(side)] = sum(segment["rows"] for segment in found)
        queries, streams = runner.kernel.deployment.queries, runner.kernel.deployment.streams
        for query in runner.kernel.deployment.of_shape(runner.shape.key):
            if query.inherits is not None and query.inherits in queries:
                self._computed(queries[query.inherits], query, streams, runner.memory)

    def _computed(self, old: Query, new: Query, streams: Any, memory: Any) -> None:
        """As far as it is done; of what was made, those rows too that came in the same micro-batch."""
        if (old.id, new.id) not in self._matches:  # (the runner waits for this)
            self._matches = {(old.id, new.id): matching(old, new, streams)}
        found = self._matches[old.id, new.id]
        was = {one.new: (old.shape.signatures.index(one.old.signature), one.old.side) for one in found.matched}
        for step in found.recompute:
            rows = memory.state(step.new).rows
            if rows and (new.id, step.new) not in self._made:
                self._made[new.id, step.new] = rows
                for key in (step.left, step.right):
                    if key in was:
                        self._read[new.id, key] = self._left.get((old.id, *was[key]), 0)


class Load:
    """Rows of a setting, pushed as the wall clock goes."""

    def __init__(self, fleet: Fleet, setting: Setting, scale: float, seed: int = 1) -> None:
        self._fleet, self._draw = fleet, np.random.default_rng(seed)
        self._rates = {
            alias: scale * 1000 / gap for alias, gap in zip(setting.aliases.lower(), setting.gaps_ms, strict=True)
        }
        self._values = {
            link.lower(): max(1, round(scale / sigma)) for link, sigma in zip(setting.links, setting.sigma, strict=True)
        }
        self.pushed, self.kept, self._begun, self._step = 0, list[tuple[float, int, int]](), 0.0, 0

    def run(self, seconds: float) -> None:
        """Push for so long; a step that is late is made up for, and nothing is left out."""
        self._begun = self._begun or time.perf_counter() - self._step * STEP_S
        end = self._step + max(1, round(seconds / STEP_S))
        while self._step < end:
            wait = self._begun + self._step * STEP_S - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            self.push(1)
            if self._step % 5 == 0:
                self.kept.append((time.perf_counter(), *rows_kept(self._fleet)))

    def push(self, steps: int) -> None:
        """Rows of some steps at once."""
        for alias in self._rates:
            count = int(self._draw.poisson(self._rates[alias] * STEP_S * steps))
            self.pushed += count
            if count:
                self._fleet.push(alias, self._rows(count, steps))
        self._step += steps

    def _rows(self, count: int, steps: int) -> pa.Table:
        first, last = (int((self._step + k) * STEP_S * 1e6) for k in (0, steps))
        times = int(START.timestamp() * 1e6) + np.sort(self._draw.integers(first, last, count))
        keys = {name: self._draw.integers(0, most, count, dtype=np.int32) for name, most in self._values.items()}
        numbers = self._draw.integers(0, 10**6, count, dtype=np.int32)
        keys |= {name: pa.nulls(count, pa.int32()) for name in KEYS if name not in keys}
        return pa.table({"n": numbers, **keys, "ts": pa.array(times, pa.timestamp("us", "UTC"))})


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


@contextmanager
def running(
    spark: SparkSession,
    setting: Setting,
    scale: float,
    probing: bool = False,
    changed: bool = False,
    fill_s: float = 0.0,
    start: bool = True,
) -> Iterator[Bench]:
    """A running fleet with Figure 4's query, its states filled with rows of so many seconds. `changed`: in its new
    order."""
    options = {"retention": Retention(keep=True), "ack_timeout": 60.0}
    with tempfile.TemporaryDirectory() as folder, Fleet(Path(folder), spark, **options) as fleet:
        fleet.topology.add(Topology.of([Site("here")]))  # type: ignore[arg-type]
        for alias in setting.aliases.lower():
            fleet.stream(alias, COLUMNS, site="here", ahead=None)
        query = fleet.submit(sql(setting), "q", joins="stateless" if probing else "materialised")
        if changed:
            fleet.replan("q", order=setting.orders[1], strategy="moving-state")
            fleet.process_available()
        one = Bench(fleet, query, Timed(), Load(fleet, setting, scale), Meter())
        query.write_to(one.sink)
        fleet.pool.follow(one.meter.committed)
        for _ in range(FILLS if fill_s else 0):
            one.load.push(round(fill_s / STEP_S / FILLS))
            fleet.process_available()
        if fill_s:
            say(f"filled: {rows_kept(fleet)[0]:,} rows of streams in states")
        if start:
            fleet.start()
        yield one


@dataclass
class Bench:
    fleet: Fleet
    query: QueryHandle
    sink: Timed
    load: Load
    meter: Meter
    #: whether it has its new order
    new_order: bool = False

    def change(self, strategy: str, order: str, most_s: float = 150.0, after_s: float = 1.0) -> dict[str, Any]:
        """Change the plan while rows come; SystemExit: it did not come to an end."""
        fleet, load = self.fleet, self.load
        begun, asked_at, before, pushed = time.perf_counter(), time.time(), self.meter.extra, load.pushed
        asked = threading.Thread(
            target=lambda: fleet.replan("q", order=order, strategy=strategy, run_out=strategy == "pause-drain-resume")
        )
        asked.start()
        while time.perf_counter() - begun < most_s and (asked.is_alive() or changing(fleet)):
            load.run(STEP_S)
        if asked.is_alive() or changing(fleet):
            known = fleet.store.get_document(PLAN_CHANGES) or []
            phases = [
                (p.phase, round(p.at - asked_at)) for one in known for p in PlanChangeRecord.from_json(one).phases
            ]
            took = [round(ms) for _, ms in self.meter.took[-3:]]
            msg = (
                f"{strategy}: the change is not over after {most_s:.0f} s; the machine is too busy for this load "
                f"(phases, s: {phases[-6:]}; last micro-batches, ms: {took})"
            )
            raise SystemExit(msg)
        meanwhile = load.pushed - pushed
        load.run(after_s)
        told = PlanChangeRecord.from_json(fleet.store.get_document(PLAN_CHANGES)[-1])
        left = [p for p in told.phases if p.phase == "left" and not p.version.endswith("-both")]
        extra = {name: rows - before[name] for name, rows in self.meter.extra.items()}
        return {
            "at_s": round(begun - load._begun, 2),
            "length_s": (told.ended or time.time()) - asked_at,
            "silence_s": self.sink.longest_gap(begun, time.perf_counter()),
            "rows_meanwhile": meanwhile,
            "state_rows": sum(p.rows for p in left),
            "extra_rows": sum(extra.values()),
            "extra": extra,
            "phases": [(p.phase, round(p.at - asked_at, 3), p.rows, p.bytes) for p in told.phases],
        }

    def change_back(self, strategy: str, orders: tuple[str, str], after_s: float) -> dict[str, Any]:
        """To the other one of two orders."""
        back, self.new_order = self.new_order, not self.new_order
        return {"back": back, **self.change(strategy, orders[0 if back else 1], after_s=after_s)}

    def calm(self, seconds: float) -> tuple[float, float | None]:
        """(longest gap between results, micro-batch with rows at the median, ms)"""
        begun = time.perf_counter()
        self.load.run(seconds)
        took = [ms for at, ms in self.meter.took if at > begun]
        return self.sink.longest_gap(begun, time.perf_counter()), median(took) if took else None

    def verdict(self) -> dict[str, Any]:
        self.fleet.process_available()
        self.fleet.stop()
        self.fleet.close_sources()
        self.fleet.process_available()
        found = self.query.verdict()
        return {"results": found.got, "oracle": "equal" if found.equal else "different"}


def run(
    spark: SparkSession,
    setting: Setting,
    strategy: str,
    scale: float,
    warm_s: float,
    calm_s: float,
    changes: int = 2,
    fill_s: float = 0.0,
) -> dict[str, Any]:
    """`changes` of plan in a row, each after a calm time; "none": the old plan throughout, "new": the new one. A change
    of probing joins moves nothing."""
    with running(spark, setting, scale, strategy == "stateless-order", strategy == "new", fill_s) as bench:
        bench.load.run(warm_s)
        found = []
        for number in range(changes if strategy not in ("none", "new") else 0):
            gap, _ = bench.calm(calm_s)
            told = bench.change(strategy, setting.orders[(number + 1) % 2])
            say(f"{strategy}: change {number + 1}, {told['length_s']:.2f} s, calm gap {gap:.2f} s")
            found.append({**told, "calm_gap_s": gap})
        gap, took = bench.calm(calm_s)
        load, sink = bench.load, bench.sink
        return {
            "strategy": strategy,
            "changes": found,
            "calm_gap_s": gap,
            "calm_batch_ms": took,
            "rows": load.pushed,
            "kept": [(round(at - load._begun, 2), leaves, inner) for at, leaves, inner in load.kept],
            "results_at": [(round(at - load._begun, 2), rows) for at, rows in sink.came],
            **bench.verdict(),
        }


def in_turns(
    spark: SparkSession,
    setting: Setting,
    strategies: Sequence[str],
    scale: float,
    rounds: int,
    order: str = "",
) -> Iterator[dict[str, Any]]:
    """Changes by each strategy in turn, of one query in one fleet, to another order and back. SystemExit: results are
    wrong."""
    with running(spark, setting, scale) as bench:
        bench.load.run(2 + setting.window_ms / 1000)
        for turn in range(rounds):
            # (with an even number of them each would always go the same way)
            first = turn % len(strategies) if len(strategies) % 2 == 0 else 0
            for strategy in (*strategies[first:], *strategies[:first]):
                gap, took = bench.calm(1.2)
                told = bench.change_back(strategy, (setting.orders[0], order or setting.orders[1]), after_s=0.5)
                yield {"strategy": strategy, "round": turn, **told, "calm_gap_s": gap, "calm_batch_ms": took or 0.0}
        oracle = bench.verdict()["oracle"]
        if oracle != "equal":
            msg = f"{setting} x {scale:g}: results are {oracle}"
            raise SystemExit(msg)


def changing(fleet: Fleet) -> bool:
    return any(under_way(query, fleet.deployment) for query in fleet.deployment.queries.values())
