"""A program that sends rows at a steady rate, moves devices and listens: what every latency figure here is taken from.

Latency is taken at the callback, either since the call of `push` that brought the row (a window: the push that let it
close, because with it the last device had passed the window's end and the disorder bound), or since the event time.
"""

from __future__ import annotations

import bisect
import contextlib
import datetime as dt
import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from bench._harness import say
from bench.latency.usage import CpuTime, FilesCreated
from godwit.api.fleet import Fleet
from godwit.control.events import DeviceFeeds, QuerySubmitted
from godwit.delivery.sinks import CallbackSink
from godwit.ids import DeviceId, QueryId, StreamId
from godwit.maintenance.housekeeping import Retention
from godwit.model.scattering import scattered
from godwit.model.topology import Topology
from godwit.sql import compile_query
from godwit.testing.topologies import build

STREAM, SCHEMA = "readings", "device string, value int, ts timestamp"
DISORDER_S = 0.1


@dataclass(frozen=True)
class Load:
    """What the program does."""

    queries: Mapping[str, str]
    seconds: float
    #: the same load before, which does not count: plans compile, caches fill
    warm_s: float = 8.0
    devices: int = 50
    regions: int = 3
    rows_per_s: int = 200
    #: a push so often (seconds)
    every_s: float = 0.1
    #: whether a push has the rows of one device, through its handle; otherwise those of many in turn
    one_device: bool = True
    #: hand-overs per second
    moves_per_s: float = 0.0
    #: whether all queries become known in one epoch (for many of them)
    at_once: bool = False


@dataclass
class Sent:
    """What was sent and when: wall seconds, in the order of pushes."""

    #: the first event time that a push may have; the call; its end
    since: list[float] = field(default_factory=list)
    called: list[float] = field(default_factory=list)
    returned: list[float] = field(default_factory=list)
    #: device -> (its newest event time, the number of the push), ascending
    newest: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    rows: int = 0
    behind_s: float = 0.0

    def push_of(self, at: float) -> int:
        """The push that brought a row of this event time."""
        return bisect.bisect_right(self.since, at + 1e-6) - 1

    def closed_by(self, end: float) -> int | None:
        """The push with which the last device had passed the end of a window; None: there was none."""
        last = -1
        for known in self.newest.values():
            place = bisect.bisect_left(known, (end + DISORDER_S, -1))
            if place == len(known):
                return None
            last = max(last, known[place][1])
        return last


@dataclass(frozen=True)
class Measured:
    """What came of a load."""

    #: query -> milliseconds from the push, and from the event time, of each result of the measured time
    since_push: dict[str, list[float]]
    since_event: dict[str, list[float]]
    push_ms: list[float]
    attach_ms: list[float]
    #: of the program with Spark, in cores
    cores: float
    files_per_minute: float
    rows: int
    results: int
    oracle: str
    note: str

    def all_since_push(self) -> list[float]:
        return [ms for found in self.since_push.values() for ms in found]

    def all_since_event(self) -> list[float]:
        return [ms for found in self.since_event.values() for ms in found]


def quantiles(values: list[float]) -> tuple[float | None, float | None]:
    """p50 and p95, or None of nothing."""
    if not values:
        return None, None
    p50, p95 = np.quantile(np.asarray(values), [0.5, 0.95])
    return round(float(p50), 2), round(float(p95), 2)


def measure(spark: SparkSession, folder: Path, load: Load) -> Measured:
    """Run the load in a fleet of its own."""
    heard: dict[str, list[tuple[float, list[float]]]] = {name: [] for name in load.queries}
    with fleet_of(spark, folder, load) as fleet:
        for name in load.queries:
            fleet.query(name).write_to(CallbackSink(_listener(heard[name])))
        fleet.start()
        player = _Player(fleet, load)
        player.play(load.warm_s)
        begin = len(player.sent.called)
        player.attach_ms.clear()
        cpu, files = CpuTime(), FilesCreated(folder)
        player.play(load.seconds)
        cores, per_minute = cpu.cores(), files.per_minute()
        end = len(player.sent.called)
        fleet.close_sources()
        fleet.process_available()
        say(f"  sent {player.sent.rows} rows, {load.seconds:g} s measured")
        oracle = _oracle(fleet, load, heard)
        fleet.stop()
    spans = {name: _latencies(load.queries[name], found, player.sent, begin, end) for name, found in heard.items()}
    sent = player.sent
    return Measured(
        since_push={name: one for name, (one, _) in spans.items()},
        since_event={name: other for name, (_, other) in spans.items()},
        push_ms=[(b - a) * 1000 for a, b in zip(sent.called[begin:end], sent.returned[begin:end], strict=True)],
        attach_ms=list(player.attach_ms),
        cores=round(cores, 3),
        files_per_minute=round(per_minute),
        rows=sent.rows,
        results=sum(len(found) for found, _ in spans.values()),
        oracle=oracle,
        note=f"{load.warm_s:g} s of warm-up left out, {load.seconds:g} s measured"
        + (f"; the sender was up to {sent.behind_s:.1f} s late" if sent.behind_s > 0.5 else ""),
    )


@contextlib.contextmanager
def fleet_of(spark: SparkSession, folder: Path, load: Load) -> Iterator[Fleet]:
    """Sites in a row, a region each; devices spread over them; the queries submitted."""
    # The oracle needs everything that was sent.
    with Fleet(folder, spark, retention=Retention(keep=True)) as fleet:
        names = [f"d{k}" for k in range(load.devices)]
        fleet.topology.add(_ground(load.regions, names if load.at_once else []))
        fleet.stream(STREAM, SCHEMA, device="device", disorder=f"{DISORDER_S * 1000:g} milliseconds")
        if load.at_once:
            fleet.control.ask(*(DeviceFeeds(DeviceId(name), (StreamId(STREAM),)) for name in names))
            compiled = (compile_query(sql, fleet.deployment.streams, QueryId(q)) for q, sql in load.queries.items())
            fleet.control.ask(*(QuerySubmitted(scattered(query)) for query in compiled))  # (as `submit` does)
        else:
            for k, name in enumerate(names):
                fleet.device(name, site=f"s{k % load.regions}", streams=[STREAM])
            for name, sql in load.queries.items():
                fleet.submit(sql, name)
        yield fleet


class _Player:
    """Sends and moves, each in a thread of its own, as two programs would."""

    def __init__(self, fleet: Fleet, load: Load) -> None:
        self._fleet, self._load = fleet, load
        self._names = [f"d{k}" for k in range(load.devices)]
        self._handles = [fleet.device(name) for name in self._names]
        self.sent, self.attach_ms = Sent(), list[float]()
        self._pushes, self._turn, self._moves = 0, 0, 0

    def play(self, seconds: float) -> None:
        """Both, for so long."""
        failures: list[BaseException] = []
        until = time.time() + seconds
        mover = threading.Thread(target=self._guarded, args=(self._move, until, failures), daemon=True)
        if self._load.moves_per_s:
            mover.start()
        self._guarded(self._send, until, failures)
        if self._load.moves_per_s:
            mover.join()
        self._fleet.check()
        if failures:
            raise failures[0]

    @staticmethod
    def _guarded(work: Any, until: float, failures: list[BaseException]) -> None:
        try:
            work(until)
        except BaseException as error:
            failures.append(error)

    def _send(self, until: float) -> None:
        load, sent = self._load, self.sent
        due = time.time() + load.every_s
        while due < until:
            time.sleep(max(due - time.time(), 0.0))
            sent.behind_s = max(sent.behind_s, time.time() - due)
            rows = self._rows(due)
            # Times of a push lie in its own stretch, also when the sender is late.
            sent.since.append(due - load.every_s)
            called = time.time()
            if load.one_device:
                self._handles[self._turn % load.devices].push(rows)
                self._turn += 1
            else:
                self._fleet.push(STREAM, rows)
                self._turn += len(rows)
            sent.called.append(called)
            sent.returned.append(time.time())
            self._note(rows)
            due = max(due + load.every_s, time.time() - 1.0)  # (hopelessly late: leave some out)

    def _rows(self, due: float) -> list[dict[str, Any]]:
        load = self._load
        count = round(load.rows_per_s * load.every_s)
        first = self._turn
        return [
            {
                "device": self._names[(first if load.one_device else first + i) % load.devices],
                "value": (self._pushes * count + i) % 100,
                "ts": dt.datetime.fromtimestamp(due - load.every_s * (count - 1 - i) / count, dt.UTC),
            }
            for i in range(count)
        ]

    def _note(self, rows: list[dict[str, Any]]) -> None:
        for name, at in {row["device"]: row["ts"].timestamp() for row in rows}.items():
            self.sent.newest.setdefault(name, []).append((at, self._pushes))
        self.sent.rows += len(rows)
        self._pushes += 1

    def _move(self, until: float) -> None:
        load = self._load
        due = time.time() + 1 / load.moves_per_s
        while due < until:
            time.sleep(max(due - time.time(), 0.0))
            k = self._moves % load.devices
            site = f"s{(k + 1 + self._moves // load.devices) % load.regions}"
            self._moves += 1
            began = time.time()
            self._handles[k].attach(site)
            self.attach_ms.append((time.time() - began) * 1000)
            due += 1 / load.moves_per_s


def _listener(heard: list[tuple[float, list[float]]]) -> Any:
    return lambda rows: heard.append((time.time(), [row["at"].timestamp() for row in rows]))


def _latencies(
    sql: str, heard: list[tuple[float, list[float]]], sent: Sent, begin: int, end: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of the results that pushes of the measured time have brought: since the push, since the event."""
    since_push, since_event, closing = [], [], dict[float, int | None]()
    windowed = "window(" in sql
    for wall, times in heard:
        for at in times:
            if windowed and at not in closing:
                closing[at] = sent.closed_by(at)
            push = closing[at] if windowed else sent.push_of(at)
            if push is not None and begin <= push < end:
                since_push.append((wall - sent.called[push]) * 1000)
                since_event.append((wall - at - (DISORDER_S if windowed else 0.0)) * 1000)
    return since_push, since_event


def _oracle(fleet: Fleet, load: Load, heard: Mapping[str, list[tuple[float, list[float]]]]) -> str:
    """Of up to six queries: results equal to the batch, and as many at the callback."""
    for name in list(load.queries)[:6]:
        verdict = fleet.query(name).verdict()
        came = sum(len(times) for _, times in heard[name])
        if not verdict.equal:
            return f"different: {name}: {verdict}"
        if came != verdict.got:
            return f"different: {came} of {verdict.got} results of {name} reached the callback"
    return "equal"


def _ground(regions: int, names: list[str]) -> Topology:
    sites = [f"s{k}" for k in range(regions)]
    at = {name: sites[k % regions] for k, name in enumerate(names)}
    return build(sites, itertools.pairwise(sites), cpu=1e9, devices=at)  # nobody is parked for want of room
