"""One cell: a workload at its rate, half of its keys migrate to an edge and back by one strategy, then the oracle.

A strategy that refuses the operator is reported as refused, with its reason. `none` migrates nothing: what the measures
say of it is the noise of the machine.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from bench._harness import machine, say
from bench.falcon.ground import CLOUD, edge, fleet_on
from bench.falcon.measures import AFTER_S, Latencies, Steady, disruption_ms, jitter_ms
from bench.falcon.questions import QUERY, QUESTIONS, Question
from godwit.api.fleet import Fleet
from godwit.delivery.sinks import CallbackSink
from godwit.errors import GodwitError
from godwit.protocol.handover import Migration
from godwit.workloads import Settings

NONE = "none"
#: a push so often (seconds)
EVERY = 0.05
#: a migration that takes longer has failed
LONGEST_S = 60.0


@dataclass(frozen=True)
class Cut:
    """How long, and how much. In full: as published, but for the number of repetitions."""

    warm_s: float = 4.0
    calm_s: float = 5.0
    #: there, back, there, ..
    moves: int = 2
    #: seconds for each
    after_s: float = 4.0
    rate: float = 500.0

    @property
    def seconds(self) -> float:
        return self.warm_s + self.calm_s + self.moves * self.after_s


@dataclass(frozen=True)
class Cell:
    figure: str
    workload: str
    strategy: str
    #: the value that the figure varies
    x: float | str = ""
    edges: int = 1
    round_trip_ms: float = 80.0
    #: how many keys there are; None: as the workload has them
    keys: int | None = None
    #: bandwidth of the links; None: state comes with the message that announces it
    mbit: float | None = None


#: what else a figure wants of a fleet that stands and does not run yet
Prepare = Callable[[Fleet, Question], None]


@dataclass
class Played:
    """What was sent and heard."""

    start: float
    called: list[float] = field(default_factory=list)
    #: of totals: key -> rows sent up to each push
    counts: dict[str, list[int]] = field(default_factory=dict)
    heard: list[tuple[float, list[dict[str, Any]]]] = field(default_factory=list)
    #: (bytes, copies among them) of state that was sent for migrations of keys
    bytes: list[tuple[float, int]] = field(default_factory=list)
    behind_s: float = 0.0

    def count(self, table: pa.Table) -> None:
        found = {k.as_py(): n.as_py() for k, n in ((s["values"], s["counts"]) for s in table["vehicle"].value_counts())}
        for key in found.keys() - self.counts.keys():
            self.counts[key] = [0] * len(self.called)
        for key, known in self.counts.items():
            known.append((known[-1] if known else 0) + found.get(key, 0))


#: what happens while rows come, on a thread of its own; and what is read off in the end
Drive = Callable[[Fleet, Played], None]
Measure = Callable[[Question, Played, Fleet], dict[str, Any]]


def play(cell: Cell, cut: Cut, question: Question | None = None, prepare: Prepare | None = None) -> dict[str, Any]:
    """Half of the keys go to the last edge, and come back, and so on."""
    asked = question or QUESTIONS[cell.workload]
    asked = replace(asked, count=cell.keys or asked.count)
    moves: list[tuple[str, float, float]] = []

    def drive(fleet: Fleet, played: Played) -> None:
        for number in range(cut.moves):
            to = CLOUD if number % 2 else edge(cell.edges - 1)
            if cell.strategy == "hot-backup":
                _replicate(fleet, asked, to, played.start + cut.warm_s / 2 if not number else moves[-1][2] + AFTER_S)
            due = played.start + cut.warm_s + cut.calm_s + number * cut.after_s
            time.sleep(max(due - time.time(), 0.0))
            moves.append(_moved(fleet, asked, cell, to))

    return play_with(cell, cut, asked, drive, lambda q, played, _: _measured(q, cut, played, moves), prepare)


def play_with(
    cell: Cell,
    cut: Cut,
    asked: Question,
    drive: Drive,
    measure: Measure,
    prepare: Prepare | None = None,
    **options: Any,
) -> dict[str, Any]:
    """From an empty folder to the oracle's verdict; what fails says why."""
    began = time.time()
    known: dict[str, Any] = {"cell": asdict(cell), "cut": asdict(cut), "machine": machine()}
    try:
        known |= _played(cell, cut, asked, drive, measure, prepare, options)
    except (GodwitError, TimeoutError) as error:
        known |= {"failed": f"{type(error).__name__}: {error}"[:500]}
    known["took_s"] = round(time.time() - began, 1)
    say(line(known))
    return known


def _played(
    cell: Cell,
    cut: Cut,
    asked: Question,
    drive: Drive,
    measure: Measure,
    prepare: Prepare | None,
    options: dict[str, Any],
) -> dict[str, Any]:
    with fleet_on(cell.edges, cell.round_trip_ms, cell.mbit, **options) as fleet:
        settings = Settings(rate=cut.rate, seconds=cut.seconds, keys=asked.made_keys)
        asked.workload.declare(fleet, settings, [edge(0)])
        fleet.submit(asked.sql, QUERY, sink=CLOUD)
        fleet.move(dict.fromkeys(asked.placed(fleet), CLOUD))
        try:
            for query, operator in asked.operators(fleet) if cell.strategy != NONE else ():
                to, how = edge(cell.edges - 1), cell.strategy
                fleet.migrate(query, keys=asked.keys[::2], to=to, strategy=how, operator=operator, dry_run=True)
        except GodwitError as refused:
            return {"refused": str(refused)}
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
    return {**found, "oracle": "equal" if verdict.equal else f"different: {verdict}"}


def _send(fleet: Fleet, asked: Question, settings: Settings, played: Played, drive: Drive) -> None:
    """Rows at their pace; what else happens, on a thread of its own."""
    failures: list[BaseException] = []

    def driven() -> None:
        try:
            drive(fleet, played)
        except BaseException as error:
            failures.append(error)

    driver = threading.Thread(target=driven, daemon=True)
    driver.start()
    for number, tables in enumerate(asked.workload.batches(settings, EVERY)):
        due = played.start + (number + 1) * EVERY
        time.sleep(max(due - time.time(), 0.0))
        played.behind_s = max(played.behind_s, time.time() - due)
        if asked.answers == "total":
            played.count(tables["speeds"])
        played.called.append(time.time())
        for stream in asked.streams:
            if str(stream.id) in tables:
                fleet.push(str(stream.id), tables[str(stream.id)])
        fleet.check()
    driver.join()
    if failures:
        raise failures[0]


def _replicate(fleet: Fleet, asked: Question, to: str, due: float) -> None:
    """Replicas stand where the keys will go, as in Rhino, and are refreshed while nothing migrates."""
    time.sleep(max(due - time.time(), 0.0))
    for query, operator in asked.operators(fleet):
        fleet.replicate(query, keys=asked.keys[::2], to=to, operator=operator)


def _moved(fleet: Fleet, asked: Question, cell: Cell, to: str) -> tuple[str, float, float]:
    began = time.time()
    for query, operator in asked.operators(fleet) if cell.strategy != NONE else ():
        fleet.migrate(query, keys=asked.keys[::2], to=to, strategy=cell.strategy, operator=operator)
    while fleet.plane.keys.busy:
        if time.time() > began + LONGEST_S:
            msg = f"a migration by {cell.strategy} was not over after {LONGEST_S:g} s"
            raise TimeoutError(msg)
        time.sleep(0.002)
    return to, began, time.time()


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


def _measured(asked: Question, cut: Cut, played: Played, moves: list[tuple[str, float, float]]) -> dict[str, Any]:
    seen = latencies(asked, played)
    calm = played.start + cut.warm_s
    steady = Steady.of(seen.between(calm, calm + cut.calm_s - 0.2))
    found = []
    for to, began, ended in moves:
        around = seen.between(began, ended + AFTER_S)
        found.append(
            {
                "to": to,
                "disruption_ms": disruption_ms(around, steady.limit),
                "jitter_ms": jitter_ms(around, steady.mean),
                "duration_ms": round((ended - began) * 1000, 1),
                "bytes": sum(size for at, size in played.bytes if began <= at <= ended + AFTER_S),
                "results": len(around.ms),
            }
        )
    mean = {m: _mean([one[m] for one in found]) for m in ("disruption_ms", "jitter_ms", "duration_ms", "bytes")}
    told = {"mean_ms": round(steady.mean, 1), "sigma_ms": round(steady.sigma, 1), "p99_ms": round(steady.p99, 1)}
    standing = sum(size for at, size in played.bytes if calm <= at < calm + cut.calm_s)
    late = {"sender_behind_s": round(played.behind_s, 2), "calm_bytes_per_s": round(standing / cut.calm_s)}
    return {
        **mean,
        "moves": found,
        "steady": {**told, "results": steady.results},
        **late,
        "over_time": over_time(seen, played),
    }


def _mean(values: list[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 1) if known else None


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
        told = {k: v for k, v in known.items() if k not in ("cell", "cut", "machine", "over_time")}
        return f"{name}: {told}"
    steady = known["steady"]
    return (
        f"{name}: disruption {known['disruption_ms']} ms, jitter {known['jitter_ms']} ms, duration "
        f"{known['duration_ms']} ms, {known['bytes']} bytes; steady {steady['mean_ms']} +- {steady['sigma_ms']} ms of "
        f"{steady['results']} results; oracle {known['oracle']}; took {known['took_s']} s"
    )
