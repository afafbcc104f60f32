"""A workload at its rate in a fleet of its own, something that happens meanwhile, the oracle; what was heard."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from bench._harness import machine, say
from bench.falcon.ground import CLOUD, edge, fleet_on
from bench.falcon.measures import Latencies
from bench.falcon.questions import QUERY, Question
from godwit.api.fleet import Fleet
from godwit.delivery.sinks import CallbackSink
from godwit.errors import GodwitError
from godwit.protocol.handover import Migration
from godwit.workloads import Settings

#: a push so often (seconds)
EVERY = 0.05
#: rows are there for so long; whoever drives is through before
LONGEST_S = 3600.0
#: rows that come when nothing happens any more
TAIL_S = 1.2


@dataclass(frozen=True)
class Cut:
    """How long, and how much. `FULL` in `__main__` is as published, but for the number of repetitions."""

    #: nothing counts before
    warm_s: float = 3.0
    calm_s: float = 2.0
    #: in each, every strategy takes the keys there and back
    rounds: int = 2
    rate: float = 500.0
    #: seconds of an experiment that migrates without a break
    busy_s: float = 6.0


@dataclass(frozen=True)
class Cell:
    """One run: a workload on some ground, and the strategies that take turns in it."""

    figure: str
    workload: str
    #: the value that the figure varies
    x: float | str = ""
    strategies: tuple[str, ...] = ("auto",)
    edges: int = 1
    round_trip_ms: float = 80.0
    #: how many keys there are; None: as the workload has them
    keys: int | None = None
    #: bandwidth of the links; None: state comes with the message that announces it
    mbit: float | None = None

    def named(self, strategy: str) -> dict[str, Any]:
        told = asdict(self)
        del told["strategies"]
        return {**told, "strategy": strategy}


@dataclass
class Played:
    """What was sent and heard."""

    start: float
    called: list[float] = field(default_factory=list)
    #: of totals: key -> rows sent up to each push
    counts: dict[str, list[int]] = field(default_factory=dict)
    heard: list[tuple[float, list[dict[str, Any]]]] = field(default_factory=list)
    #: (time, bytes) of state that was sent for migrations of keys
    bytes: list[tuple[float, int]] = field(default_factory=list)
    behind_s: float = 0.0

    def count(self, table: pa.Table) -> None:
        found = {k.as_py(): n.as_py() for k, n in ((s["values"], s["counts"]) for s in table["vehicle"].value_counts())}
        for key in found.keys() - self.counts.keys():
            self.counts[key] = [0] * len(self.called)
        for key, known in self.counts.items():
            known.append((known[-1] if known else 0) + found.get(key, 0))

    def sent(self, begin: float, end: float) -> int:
        return sum(size for at, size in self.bytes if begin <= at < end)


#: what else a figure wants of a fleet that stands and does not run yet
Prepare = Callable[[Fleet, Question], None]
#: what happens while rows come, on a thread of its own; rows stop when it is through
Drive = Callable[[Fleet, Played], None]
#: what is read off in the end: by strategy
Measure = Callable[[Question, Played, Fleet], dict[str, dict[str, Any]]]


def until(due: float) -> None:
    time.sleep(max(due - time.time(), 0.0))


def play_with(
    cell: Cell,
    cut: Cut,
    asked: Question,
    drive: Drive,
    measure: Measure,
    prepare: Prepare | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """From an empty folder to the oracle's verdict; a result for each strategy. What fails says why."""
    # (the load average has this bench's own cells in it; between two of them nothing of it runs)
    began, here = time.time(), {**machine(), "others_cpu_percent": psutil.cpu_percent(interval=0.5)}
    try:
        found = _played(cell, cut, asked, drive, measure, prepare, options)
    except (GodwitError, TimeoutError) as error:
        found = {strategy: {"failed": f"{type(error).__name__}: {error}"[:500]} for strategy in cell.strategies}
    took = {"took_s": round(time.time() - began, 1)}
    told = [
        {"cell": cell.named(strategy), "cut": asdict(cut), "machine": here, **one, **took}
        for strategy, one in found.items()
    ]
    for one in told:
        say(line(one))
    return told


def _played(
    cell: Cell,
    cut: Cut,
    asked: Question,
    drive: Drive,
    measure: Measure,
    prepare: Prepare | None,
    options: dict[str, Any],
) -> dict[str, dict[str, Any]]:
    with fleet_on(cell.edges, cell.round_trip_ms, cell.mbit, **options) as fleet:
        settings = Settings(rate=cut.rate, seconds=LONGEST_S, keys=asked.made_keys)
        asked.workload.declare(fleet, settings, [edge(0)])
        fleet.submit(asked.sql, QUERY, sink=CLOUD)
        fleet.move(dict.fromkeys(asked.placed(fleet), CLOUD))
        if prepare is not None:
            prepare(fleet, asked)
        played = Played(time.time() + 0.2)
        settings = replace(settings, start=dt.datetime.fromtimestamp(played.start, dt.UTC))
        fleet.query(QUERY).write_to(CallbackSink(lambda rows: played.heard.append((time.time(), rows))))
        fleet.pool.follow(lambda runner, number, record: played.bytes.extend(_sent(record)))
        fleet.start()
        _send(fleet, asked, settings, played, drive)
        fleet.close_sources()
        fleet.process_available()
        verdict = fleet.query(QUERY).verdict()
        found = measure(asked, played, fleet)
    oracle = "equal" if verdict.equal else f"different: {verdict}"
    return {strategy: one if "refused" in one else {**one, "oracle": oracle} for strategy, one in found.items()}


def _send(fleet: Fleet, asked: Question, settings: Settings, played: Played, drive: Drive) -> None:
    """Rows at their pace; what else happens, on a thread of its own."""
    failures: list[BaseException] = []
    through = threading.Event()

    def driven() -> None:
        try:
            drive(fleet, played)
        except BaseException as error:
            failures.append(error)
        time.sleep(TAIL_S)
        through.set()

    threading.Thread(target=driven, daemon=True).start()
    for number, tables in enumerate(asked.workload.batches(settings, EVERY)):
        due = played.start + (number + 1) * EVERY
        until(due)
        played.behind_s = max(played.behind_s, time.time() - due)
        if asked.answers == "total":
            played.count(tables["speeds"])
        played.called.append(time.time())
        for stream in asked.streams:
            if str(stream.id) in tables:
                fleet.push(str(stream.id), tables[str(stream.id)])
        fleet.check()
        if through.is_set():
            break
    if failures:
        raise failures[0]


def _sent(record: dict[str, Any]) -> list[tuple[float, int]]:
    return [
        (record["metrics"]["wall"], sum(s["bytes"] for part in parcel["parts"].values() for s in part))
        for parcel in record["handovers"]
        if Migration.from_json(parcel["move"]).number
    ]


def latencies(asked: Question, played: Played) -> Latencies:
    """Of each result: the push of the (oldest) row that it answers first, and when it came."""
    pushed, answered, told = [], [], dict[str, int]()
    ends = {key: np.asarray(known) for key, known in played.counts.items()}
    for wall, rows in played.heard:
        for row in rows:
            if asked.answers == "total":
                before = told.get(row["key"], asked.preloaded)
                if row["n"] <= before or row["key"] not in ends:
                    continue
                told[row["key"]] = row["n"]
                tick = int(np.searchsorted(ends[row["key"]], before + 1 - asked.preloaded))
            else:
                tick = int((row["at"].timestamp() - played.start) / EVERY + 1e-6)
            if 0 <= tick < len(played.called):
                pushed.append(played.called[tick])
                answered.append(wall)
    return Latencies(np.asarray(pushed), np.asarray(answered))


def over_time(seen: Latencies, played: Played) -> list[tuple[int, float]]:
    """(second, p99 in milliseconds)"""
    when = np.floor(seen.answered - played.start).astype(int)
    return [(int(s), round(float(np.quantile(seen.ms[when == s], 0.99)), 1)) for s in np.unique(when)]


def line(known: dict[str, Any]) -> str:
    """One result for people."""
    cell = known["cell"]
    name = f"{cell['figure']} {cell['workload']} {cell['x']} {cell['strategy']}"
    if "refused" in known or "failed" in known:
        return f"{name}: " + (f"refused: {known['refused']}" if "refused" in known else known["failed"])
    if "disruption_ms" not in known:
        told = {k: v for k, v in known.items() if k not in ("cell", "cut", "machine", "over_time", "bandwidth")}
        return f"{name}: {told}"
    steady = known["steady"]
    return (
        f"{name}: disruption {known['disruption_ms']} ms {[one['disruption_ms'] for one in known['moves']]}, jitter "
        f"{known['jitter_ms']} ms, duration {known['duration_ms']} ms, {known['bytes']} bytes; steady "
        f"{steady['mean_ms']} +- {steady['sigma_ms']} ms of {steady['results']}; oracle {known['oracle']}"
    )
