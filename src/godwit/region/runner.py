"""A runner executes one shape in one region: poll the logs, run a step, commit. A micro-batch is a transaction.

    1. stage     outputs and state segments, in the folder of the batch's number
    2. commit    one atomic record: input positions, epoch, live state, clocks, staged outputs
    3. nothing   other regions, sinks and readers of results follow the commit log itself

A crash before 2 leaves an uncommitted folder, which the restart removes; a crash after it has lost nothing. Spark's
streaming query is the metronome (`metronome.py`); its own checkpoint is not needed for correctness.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.plan import STATEFUL, Shape
from godwit.protocol.handover import MigrationLedger, Move, moves_between
from godwit.protocol.progress import Progress, released
from godwit.protocol.watermarks import FOREVER, NEVER, Mark, WatermarkTracker
from godwit.region.poll import Reader, Work, commit_log
from godwit.region.replay_ranges import cut, outstanding, ranges, seen
from godwit.region.routing_tables import Tables
from godwit.region.state import State
from godwit.region.step import Memory, Outputs, Step
from godwit.region.transfer import StateTransfer
from godwit.storage.log import Log, Record

#: of so many epochs a runner remembers when it took them in
KEEP_MOMENTS = 100
#: names of the moments at which a test may let the process die
MOMENTS = ("polled", "staged", "committed", "cleaned")


@dataclass(frozen=True)
class Limits:
    #: rows that one micro-batch takes in, about
    max_rows: int = 2_000_000
    #: commits a reader may lag behind before this runner takes no more input
    max_lag: int = 200


class Runner:
    """One shape in one region."""

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        region: RegionId,
        shape: Shape,
        limits: Limits = Limits(),  # noqa: B008 - a frozen value
        carriage: StateTransfer | None = None,
        at: Callable[[str], None] = lambda moment: None,
        after: Callable[[Runner, int, Record], None] = lambda runner, number, record: None,
    ) -> None:
        self.spark, self.root, self.region, self.shape, self.limits = spark, root, region, shape, limits
        self.commits = Log(commit_log(root, region, shape.key))
        self.data = self.commits.folder.parent / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        self.reader = Reader(root, region, shape, limits.max_rows)
        self.carriage = carriage or StateTransfer(root)
        self._at, self._after = at, after
        self._last_arrival: dict[str, float] = {}
        self.deployment: Deployment
        self.memory: Memory
        self.tables: Tables
        self._tables: Tables | None = None
        self.progress: Progress
        #: log -> the last record taken in
        self.positions: dict[str, int]
        self._told_markers: dict[int, Epoch] = {}
        #: query -> the positions at which it began here
        self.begun: dict[str, dict[str, int]]
        #: positions of the last commit: where a restart would begin
        self._committed: dict[str, int] = {}
        #: the newest epochs -> when (wall clock) this runner began to work under each
        self._since: dict[int, float] = {}
        #: the last commit that all readers are known to have taken in
        self._passed = 0
        self._recover()

    # --- the micro-batch

    def step(self) -> Record | None:
        """One micro-batch; returns its commit record, or None if there was nothing to do."""
        try:
            return self._step()
        except BaseException:
            self._recover()  # what the failed attempt has changed in memory never happened
            raise

    def _step(self) -> Record | None:
        started = time.time()
        work = self.reader.poll(self.positions, self.deployment, sources=not self._must_wait())
        self._mark_idle(work)
        self._receive(work)
        news = self._is_news(work)
        gone = self._adopt(work)
        self._hear(work)
        regions = {*self.reader.peers(), self.region}
        markers = self.memory.moves.markers(regions)
        if not (news or self._must_tell(markers) or self._far_ahead(work)):
            # Nothing that must be remembered: a restart would read it again and pass it over again.
            self.positions = work.positions
            return None
        self._at("polled")
        folder = self.data / f"{self.commits.last + 1:010d}"
        parts = (self.region, self.shape, self.tables, self.progress, self.memory, work, markers, self.carriage)
        step = Step(self.spark, folder, *parts)
        step.replays = self._replays(markers)
        outputs = step.run()
        self._at("staged")
        record = self._record(work, outputs, markers, gone, started)
        self.commits.append(record)
        self.positions = self._committed = work.positions
        self._told_markers = markers
        self.memory.cuts = outstanding(self.memory.cuts, self.memory.moves.outgoing)
        self.memory.own_marks = {k: m for k, m in self.memory.own_marks.items() if not m.over or m.clock >= FOREVER}
        self._at("committed")
        for arrived in work.arrived:
            self.carriage.delivered(arrived.move)
        self._after(self, self.commits.last, record)
        self._clean(outputs)
        self._at("cleaned")
        return record

    def waiting(self) -> bool:
        """Whether a step would find something to do."""
        return self.reader.waiting(self.positions) or any(map(self.carriage.due, list(self.memory.underway)))

    def _receive(self, work: Work) -> None:
        """State that others announced becomes part of the work when it is here."""
        underway = [*self.memory.underway, *work.parcels]
        self.memory.underway = []
        for parcel in underway:
            arrived = self.carriage.bring(parcel, self)
            if arrived is None:
                self.memory.underway.append(parcel)
            else:
                work.arrived.append(arrived)

    def _replays(self, markers: dict[int, Epoch]) -> dict[Move, dict[str, Any]]:
        """Of the moves that may go now, those whose state need not be sent, with the rows that make it anew."""
        found = {}
        everybody = {*self.reader.peers(), self.region}
        for move in self.memory.moves.ready(markers) if self.carriage.replays else ():
            known = self.memory.cuts.get(int(move.epoch), {})
            rows = ranges(self.root, self.reader.control, self.tables.queries[move.query], move, known)
            if rows is not None and set(known) >= everybody:
                found[move] = rows
        return found

    def _must_wait(self) -> bool:
        """Back-pressure: take no new rows from sources while a reader lags too many commits behind."""
        if self.commits.last - self._passed <= self.limits.max_lag:
            return False
        taken = [_taken(self.root, peer, self.shape.key, self.region) for peer in self.reader.peers()]
        self._passed = min(taken, default=self.commits.last)
        return self.commits.last - self._passed > self.limits.max_lag

    def _is_news(self, work: Work) -> bool:
        """Rows and state always; marks if a clock here may go on by them; an epoch if it concerns this shape."""
        if work.sources or work.channels or work.arrived or work.parcels or work.own_marks:
            return True
        if self._keeps_clocks and any(self.memory.book.is_news(*mark) for mark in work.marks):
            return True
        epochs = [self.deployment, *work.deployments]
        return any(self._concerns(before, after) for before, after in pairwise(epochs))

    def _must_tell(self, markers: dict[int, Epoch]) -> bool:
        """Whether others, or an instance here, wait for this region to be drained further than it last said."""
        latest = self.memory.moves.latest()
        waited_for = any(self._told_markers.get(k, Epoch(0)) < min(latest, e) for k, e in markers.items())
        return waited_for or bool(self.memory.moves.ready(markers))

    def _far_ahead(self, work: Work) -> bool:
        """Others keep what this runner has not committed to have read; so it must, now and then, even if idle."""
        news = (n - self._committed.get(name, 0) for name, n in work.positions.items())
        return max(news, default=0) > max(self.limits.max_lag // 4, 1)

    def _concerns(self, before: Deployment, after: Deployment) -> bool:
        old = {q.id for q in before.of_shape(self.shape.key)}
        new = {q.id for q in after.of_shape(self.shape.key)}
        parked = {q for q in new if (q in before.parked) != (q in after.parked)}
        return old != new or bool(parked) or bool(moves_between(before, after, self.shape.key))

    def _adopt(self, work: Work) -> list[QueryId]:
        """Work under the newest epoch from now on; returns the queries that are gone."""
        gone = []
        for after in work.deployments:
            before = self.deployment
            moves = moves_between(before, after, self.shape.key)
            self.memory.moves.adopt(after.epoch, moves)
            if moves and self.carriage.replays:
                mine = cut(self.positions, self.begun, self.memory.seen, self.memory.states)
                self.memory.cuts.setdefault(int(after.epoch), {})[self.region] = mine
            for query in before.of_shape(self.shape.key):
                if query.id not in after.queries:
                    gone.append(query.id)
                    self._forget(query.id, after.epoch)
            here = {query.id for query in after.of_shape(self.shape.key)}
            for query in after.queries.values():
                # (for a shared part's readers, too: what they are to see of it begins here)
                if query.id not in before.queries and not here.isdisjoint((query.id, *query.parts)):
                    self.begun[query.id] = dict(self.positions)
                if query.id in before.parked and query.id not in after.parked:
                    self.memory.moves.resumed[query.id] = after.epoch
            if not before.same_sources(after) or here != {query.id for query in before.of_shape(self.shape.key)}:
                # Of this epoch, not of the newest: a device that has moved since sent rows under its older session.
                self._expect(Progress(self.shape, after))
            self.deployment = after
        if work.deployments:
            self._arrange()
            self._since[int(self.deployment.epoch)] = time.time()
            if len(self._since) > KEEP_MOMENTS:
                del self._since[min(self._since)]
        return gone

    def working_since(self, epoch: int) -> float | None:
        """When this runner began to work under an epoch or a later one; None: it does not yet."""
        if self.deployment.epoch < epoch:
            return None
        return min((at for e, at in list(self._since.items()) if e >= epoch), default=0.0)

    def _forget(self, query: QueryId, epoch: Epoch) -> None:
        self.memory.moves.forget(query)
        for name in [name for name in self.memory.states if name[:1].isalpha() and query in name.split(":")]:
            del self.memory.states[name]
        for let_go in self.memory.let_go.values():
            let_go.pop(query, None)
        for state in self.memory.states.values():
            state.leave_out(query, int(epoch))
        self.memory.book.forget(released(query))

    def _arrange(self) -> None:
        old = self._tables
        self._tables = self.tables = Tables(self.spark, self.region, self.shape, self.deployment, old)
        if old is None or old.queries != self.tables.queries or not old.deployment.same_sources(self.deployment):
            self.progress = Progress(self.shape, self.deployment)
            self._expect(self.progress)
        stateful = [i for i, operator in enumerate(self.shape.plan.operators) if isinstance(operator, STATEFUL)]
        here = (self.deployment.home(q, i) == self.region for q in self.tables.queries.values() for i in stateful)
        #: whether an operator that waits for clocks lives here
        self._keeps_clocks = any(here)

    def _expect(self, progress: Progress) -> None:
        for scan, source, session in progress.expected():
            self.memory.book.expect(scan, source, session)

    def _hear(self, work: Work) -> None:
        for operator, source, mark in work.marks:
            self.memory.book.hear(operator, source, mark)
        for operator, source, mark in work.own_marks:
            self.memory.own_marks[(operator, source, mark.session)] = mark
        for region, markers in work.markers:
            self.memory.moves.hear(region, markers)
        for region, record in work.told if self.carriage.replays else ():
            self.memory.seen[region] = seen(record)
            for epoch, theirs in record["cuts"].items():
                self.memory.cuts.setdefault(int(epoch), {})[region] = theirs

    def _mark_idle(self, work: Work) -> None:
        """A device that is attached here and has been silent for too long no longer holds the clocks back."""
        now = time.time()
        for index, scan in self.shape.plan.scans:
            stream = self.deployment.streams.get(scan.stream)
            if stream is None or stream.idle_seconds is None:
                continue
            heard = {source for i, source, _ in work.own_marks if i == index}
            for (i, source, _), mark in self.memory.own_marks.items():
                if i != index:
                    continue
                if source in heard:
                    self._last_arrival[source] = now
                    continue
                attached = self.deployment.devices.get(source.partition("/")[2]) is not None  # type: ignore[call-overload]
                silent = now - self._last_arrival.setdefault(source, now)
                if attached and not (mark.idle or mark.over or mark.closed) and silent > stream.idle_seconds:
                    idle = (index, source, replace(mark, idle=True))
                    work.marks.append(idle)
                    work.own_marks.append(idle)

    # --- the commit record

    def _record(
        self, work: Work, outputs: Outputs, markers: dict[int, Epoch], gone: list[QueryId], started: float
    ) -> Record:
        memory = self.memory
        return {
            "epoch": int(self.deployment.epoch),
            "positions": work.positions,
            "markers": {str(k): int(e) for k, e in markers.items()},
            "marks": self._told(),
            "channels": outputs.channels,
            "results": [segment.to_json() for segment in outputs.results],
            "late": [[operator, segment.to_json()] for operator, segment in outputs.late],
            "handovers": outputs.handovers,
            "arrived": [arrived.move.to_json() for arrived in work.arrived],
            "cuts": {str(e): known[self.region] for e, known in memory.cuts.items() if self.region in known},
            "begun": self.begun,
            "gone": gone,
            "memory": {
                "book": memory.book.to_json(),
                "moves": memory.moves.to_json(),
                "states": {name: state.to_json() for name, state in memory.states.items()},
                "let_go": {str(k): v for k, v in memory.let_go.items()},
                "own_marks": [[k, source, mark.to_json()] for (k, source, _), mark in memory.own_marks.items()],
                "underway": memory.underway,
                "seen": memory.seen,
                "cuts": {str(e): known for e, known in outstanding(memory.cuts, memory.moves.outgoing).items()},
            },
            "entered": work.entered,
            "newest_us": work.newest_us,
            "metrics": self._metrics(work, outputs, started),
        }

    def _told(self) -> dict[str, dict[str, list[Any]]]:
        """What other regions hear from here at first hand: sources that are attached here, stateful operators here."""
        told: dict[str, dict[str, list[Any]]] = {}
        for (scan, source, _), mark in sorted(self.memory.own_marks.items()):
            told.setdefault(str(scan), {}).setdefault(source, []).append(mark.to_json())
        for operator, let_go in self.memory.let_go.items():
            for query, clock in let_go.items():
                known = self.tables.queries.get(query)
                if clock > NEVER and known is not None and self.deployment.home(known, operator) == self.region:
                    told.setdefault(str(operator), {})[released(query)] = [Mark(1, clock).to_json()]
        return told

    def derived_clocks(self) -> dict[QueryId, int]:
        """How far the results of each query whose sink is here have come, in the derived stream's time."""
        sink = len(self.shape.plan.operators) - 1
        lag = self.shape.plan.sink.lag_us
        clocks = self.progress.clocks(self.memory.book, sink)
        return {q: c if abs(c) >= FOREVER else c - lag for q, c in clocks.items()}

    def _metrics(self, work: Work, outputs: Outputs, started: float) -> Record:
        now = time.time()
        return {
            "wall": now,
            "took_ms": round((now - started) * 1000, 1),
            "rows_in": work.rows,
            "bytes_in": work.bytes,
            "by_source": work.by_source,
            "rows_out": sum(s.rows for s in outputs.results),
            "rows_late": sum(s.rows for _, s in outputs.late),
            "sent": [[p["to"], p["segment"]["rows"], p["segment"]["bytes"]] for p in outputs.channels],
            "handed_over": sum(s["bytes"] for h in outputs.handovers for part in h["parts"].values() for s in part),
            "latency_ms": None if work.entered is None else round((now - work.entered) * 1000, 1),
            "event_latency_ms": None if work.newest_us is None else round(now * 1000 - work.newest_us / 1000, 1),
            "state_rows": {name: state.rows for name, state in self.memory.states.items()},
            "state_bytes": {name: state.bytes for name, state in self.memory.states.items()},
        }

    # --- after a restart

    def _recover(self) -> None:
        """Stand where the last commit stands; what was staged after it never happened."""
        self._tables = None
        for folder in self.data.iterdir():
            if int(folder.name) > self.commits.last:
                shutil.rmtree(folder)
        record = self.commits.read(self.commits.last) if self.commits.last else None
        if record is None:
            self._begin()
            return
        self.deployment = self.reader.control.deployment_at(record["positions"]["control"])
        memory = record["memory"]
        self.memory = Memory(
            WatermarkTracker.from_json(memory["book"]),
            MigrationLedger.from_json(self.region, self.shape.plan, memory["moves"]),
            {name: State.from_json(segments) for name, segments in memory["states"].items()},
            {int(k): v for k, v in memory["let_go"].items()},
            {(k, source, mark[0]): Mark.from_json(mark) for k, source, mark in memory["own_marks"]},
            memory["underway"],
            memory["seen"],
            {int(epoch): known for epoch, known in memory["cuts"].items()},
        )
        self.positions = self._committed = record["positions"]
        self.begun = record["begun"]
        self._told_markers = {int(k): Epoch(e) for k, e in record["markers"].items()}
        if self.unemployed:
            self._pass_over()
        self._arrange()

    @property
    def unemployed(self) -> bool:
        """Whether no query of the shape is left, as far as this runner knows, and nothing is to come."""
        return not any(True for _ in self.deployment.of_shape(self.shape.key)) and not self.memory.underway

    def _pass_over(self) -> None:
        """The shape had no query when it was last run here: what came since was for nobody.

        So it begins as at its first start, but for what other regions have sent already: that was for queries that
        are gone, and one of the same name must not take it for its own.
        """
        at, oldest = self.reader.control.oldest()
        known = self.positions["control"]
        self.positions = self._committed = dict(self.positions)
        self._await_query(*((known, self.deployment) if known >= at else (at, oldest)))
        self.memory = Memory(WatermarkTracker(), MigrationLedger(self.region, self.shape.plan, self.deployment.epoch))
        self._told_markers = {}

    def _begin(self) -> None:
        """The first start of this shape here, with the epoch that brought its first query.

        That epoch is taken in by the first micro-batch, like any other. Sources are read from where their logs stood
        when it was published.
        """
        self.positions, self.begun = {}, {}
        self._await_query(*self.reader.control.oldest())
        self.memory = Memory(WatermarkTracker(), MigrationLedger(self.region, self.shape.plan, self.deployment.epoch))
        for region in self.reader.peers():
            log = Log(commit_log(self.root, region, self.shape.key))
            self.positions[f"peer:{region}"] = log.first - 1
        self._arrange()

    def _await_query(self, number: int, deployment: Deployment) -> None:
        """Stand before the next epoch that brings a query of the shape, after a known one; sources as they did then."""
        self.positions["control"], self.deployment = number, deployment
        for at, after, record in self.reader.control.after(number, deployment):
            if any(True for _ in after.of_shape(self.shape.key)):
                for index, scan in self.shape.plan.scans:
                    start = record["starts"].get(f"{self.region}/{scan.stream}", 0)
                    name = f"source:{index}:{scan.stream}"
                    self.positions[name] = max(self.positions.get(name, 0), start)
                break
            self.positions["control"], self.deployment = at, after

    # --- tidying

    def _clean(self, outputs: Outputs) -> None:
        """Remove state segments that the commit no longer names (and that no other region is still to read)."""
        for segment in outputs.dead:
            for file in segment.files:
                if Path(file).is_relative_to(self.data):
                    Path(file).unlink(missing_ok=True)


def _taken(root: Path, reader: RegionId, shape: str, writer: RegionId) -> int:
    """The last commit of `writer` that `reader` has taken in for good."""
    log = Log(commit_log(root, reader, shape))
    record = log.read(log.last)
    return 0 if record is None else int(record["positions"].get(f"peer:{writer}", 0))
