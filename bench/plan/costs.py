"""What it costs to compute a state that only the new plan has: the work constants of the cost models, as CPU time.

States of a running query are filled, and the states that another order would lack are computed of them as a change does
(`region/inherit.py`), several times. CPU time of Python and Java together is hardly touched by what else runs on the
machine; of each state the median counts. The first computations, which compile, are left out.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from bench.plan import runtime
from bench.plan.settings import Setting
from godwit.engine import segments
from godwit.engine.lazy_frame import LazyFrame
from godwit.ids import QueryId
from godwit.model.signature import StateKey
from godwit.region.inherit import ComputedStates
from godwit.replan.box import JoinBox, reordered
from godwit.replan.forecast import DEFAULTS, ChangeFeatures, CostConstants, fit
from godwit.replan.matching import match
from godwit.storage.local import LocalDisk
from godwit.storage.place import Place
from godwit.storage.store import Store

#: rows of each stream, in units of 600
SCALES = (0.5, 4.0, 16.0, 45.0, 90.0)
WARM, TIMES = 3, 5


@dataclass(frozen=True)
class ComputedOnce:
    """One state, computed of two others."""

    read: int
    made: int
    #: by a direct plan, without a job of Spark's
    direct: bool
    cpu_s: float
    wall_s: float

    @property
    def features(self) -> ChangeFeatures:
        return ChangeFeatures(jobs=not self.direct, direct=self.direct, read=self.read, inserted=self.made)


class CpuClock:
    """CPU seconds of this process and of Spark's."""

    def __init__(self, spark: SparkSession) -> None:
        self._java = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
        self._tick = os.sysconf("SC_CLK_TCK")

    def now(self) -> float:
        ticks = Path(f"/proc/{self._java}/stat").read_text().rpartition(")")[2].split()[11:13]
        return time.process_time() + sum(map(int, ticks)) / self._tick


def samples(spark: SparkSession) -> Iterator[ComputedOnce]:
    clock, setting = CpuClock(spark), Setting(60_000, (100, 100, 100, 100), (0.002, 0.002, 0.002))
    for scale in SCALES:
        with runtime.running(spark, setting, scale, fill_s=60.0, start=False) as bench:
            yield from _measured(spark, clock, bench, setting.orders[1])


def _measured(spark: SparkSession, clock: CpuClock, bench: runtime.Bench, order: str) -> Iterator[ComputedOnce]:
    fleet = bench.fleet
    (runner,), streams = list(fleet.pool.runners.values()), fleet.deployment.streams
    old = fleet.execution(bench.query.id)
    tree = JoinBox.of(old.shape.plan, streams).order(order)
    new = replace(reordered(old, tree, streams), id=QueryId("q~new"))
    found = match(old, new, streams)
    there = {one.new: list(runner.memory.state(one.old).live) for one in found.matched}
    known: dict[StateKey, list[Any]] = dict(there)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Store(LocalDisk(Path(folder))), "landing")
        for number, step in enumerate(found.recompute):
            taken = []
            for turn in range(WARM + TIMES):
                at, cpu = time.perf_counter(), clock.now()
                made = ComputedStates(spark, new, [step], lambda key: known.get(key, []))
                rows = made.rows(step.new)
                assert rows is not None
                direct = isinstance(rows, LazyFrame)
                where = place / f"{number}-{turn}"
                written = segments.write(rows, where, small=direct, prune_by=made.time_of(step.new))
                taken.append((clock.now() - cpu, time.perf_counter() - at))
            # (the next state is made of this one)
            known[step.new] = [] if written is None else [segments.filed(written, where)]
            read = sum(s.rows for side in (step.left, step.right) for s in known.get(side, []))
            cpus, walls = zip(*taken[WARM:], strict=True)
            yield ComputedOnce(read, 0 if written is None else written.rows, direct, median(cpus), median(walls))


def fitted(found: list[ComputedOnce]) -> CostConstants:
    """The constants of work; the others stay."""
    return fit([(one.features, max(one.cpu_s, 1e-3)) for one in found], DEFAULTS)
