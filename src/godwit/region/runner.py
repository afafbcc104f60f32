"""A runner executes one shape in one region: poll the logs, run a step, commit. A micro-batch is a transaction.

    1. stage     outputs and state segments, in the folder of the batch's number
    2. commit    one atomic record: input positions, epoch, live state, clocks, staged outputs
    3. publish   what the record has for other regions, to an outbox per receiver; sinks follow the commit log itself

A crash before 2 leaves an uncommitted folder, which the restart removes; after a crash before 3 it publishes again.
`loop.py` drives it. Decisions are the kernel's (`godwit.protocol.kernel`): poll -> the kernel decides -> a Spark
step -> append.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from godwit.engine.plan_cache import planned_here
from godwit.engine.size_policy import USUAL, SizePolicy
from godwit.errors import EngineGoneError
from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.plan import Query, Shape
from godwit.model.taps import time_of
from godwit.protocol import recovery
from godwit.protocol.commit import ProtocolCommit, recall
from godwit.protocol.gathering import Gathering, Patience
from godwit.protocol.handover import Migration
from godwit.protocol.inputs import InputPoller
from godwit.protocol.kernel import Decision, RegionKernel
from godwit.protocol.memory import Failure
from godwit.protocol.progress import Progress
from godwit.protocol.watermarks import FOREVER
from godwit.region import legacy
from godwit.region.batch import Batch, Memory, Outputs
from godwit.region.commit_record import commit_record
from godwit.region.epochs import EpochReader
from godwit.region.failures import GONE, JAVA_ENDED, SPARK_ERRORS, BatchFailedError, blame, reason
from godwit.region.link_delays import LinkDelays
from godwit.region.outbox import Outbox
from godwit.region.poll import Reader, Work
from godwit.region.recompute import RecomputeTarget
from godwit.region.replay_ranges import cut, outstanding, ranges
from godwit.region.routing_tables import Tables
from godwit.region.step import Step
from godwit.region.transfer import StateTransfer
from godwit.region.turns import take_turns
from godwit.storage import names
from godwit.storage.log import Record
from godwit.storage.place import Place
from godwit.storage.state_memory import StateMemory, difference, remembered, since_snapshot
from godwit.storage.store import Store

log = logging.getLogger(__name__)

#: names of the moments at which a test may let the process die
MOMENTS = ("polled", "staged", "committed", "published", "cleaned")
_NOTHING = StateMemory(rest={"underway": [], "seen": {}, "cuts": {}})


@dataclass(frozen=True)
class Limits:
    #: rows that one micro-batch takes in, about
    max_rows: int = 2_000_000
    #: messages a reader may lag behind before this runner takes no more input
    max_lag: int = 200
    #: how a number of rows is executed
    sizes: SizePolicy = USUAL
    #: how many rows gather, and for how long, where nobody waits for them
    patience: Patience = Patience()  # noqa: RUF009 - a frozen value


class TooLargeError(Exception):
    """The micro-batch has more rows than whoever asked for it wants to wait for; nothing has been changed."""


class Runner:
    """One shape in one region."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        region: RegionId,
        shape: Shape,
        limits: Limits = Limits(),  # noqa: B008 - a frozen value
        transfer: StateTransfer | None = None,
        at: Callable[[str], None] = lambda moment: None,
        after: Callable[[Runner, int, Record], None] = lambda runner, number, record: None,
        epochs: EpochReader | None = None,
        delays: LinkDelays | None = None,
    ) -> None:
        self.spark, self.store, self.region, self.shape, self.limits = spark, store, region, shape, limits
        self.commits = store.log(names.commit_log(region, shape.key), create=True)
        self.data = Place(store, names.commit_data(region, shape.key))
        self.reader = Reader(store, region, shape, epochs, delays)
        self.reader.device_column = lambda stream: self.kernel.whole.streams[stream].device
        self._poller = InputPoller(region, shape, self.reader, limits.max_rows)
        self._gathering = Gathering(region, shape, self.reader, limits.patience)
        self.transfer = transfer or StateTransfer(store)
        self._at, self._after = at, after
        self.kernel: RegionKernel
        self.memory: Memory
        self.tables: Tables
        self._tables: Tables | None = None
        self._outbox = Outbox(store, region, shape.key)
        #: the engine's memory as the last commit has it; None: the next one has it whole
        self._base: StateMemory | None = None
        #: when (wall clock) an operator wants to be called even if nothing comes
        self._due: float | None = None
        #: whether it took no rows from sources lately because others must catch up
        self.held_back = False
        #: whether the last micro-batch may have left something in the logs
        self.more = False
        #: whether the last micro-batch had plans to prepare
        self.compiled = False
        #: whether a micro-batch is under way, up to what it sends to others
        self.stepping = False
        #: announced state as this micro-batch found it; of it, what is here and must wait for others to be heard
        self._underway: list[dict[str, Any]] = []
        self._held_back: set[Migration] = set()
        #: versions that run here -> those to come, whose missing states are being made of theirs
        self.making: dict[QueryId, QueryId] = {}
        self._coming: list[tuple[Query, Query]] = []
        self._recover()

    @property
    def deployment(self) -> Deployment:
        """The epoch this runner works under."""
        return self.kernel.deployment

    @property
    def positions(self) -> dict[str, int]:
        """log -> the last record taken in."""
        return self.kernel.positions

    @property
    def progress(self) -> Progress:
        return self.kernel.progress

    # --- the micro-batch

    def step(self, sources: bool = True, most: int | None = None) -> Record | None:
        """One micro-batch; returns its commit record, or None if there was nothing to do.

        Without `sources` it takes in only what other regions and the control plane have sent. TooLargeError: it would
        have more than `most` rows.
        """
        planned, self.stepping = planned_here(), True
        try:
            return self._step_or_blame(sources, most)
        finally:
            self.compiled, self.stepping = planned_here() > planned, False

    def _step_or_blame(self, sources: bool, most: int | None) -> Record | None:
        stopped: dict[QueryId, Failure] = {}
        again = True
        while True:
            try:
                return self._step_without(stopped, sources, most)
            except BatchFailedError as failed:
                found = self._to_blame(failed, stopped)
                if found is None or not (found or again):
                    raise failed.fault from failed
                stopped, again = {**stopped, **found}, bool(found)

    def _step_without(
        self, stopped: Mapping[QueryId, Failure], sources: bool, most: int | None = None
    ) -> Record | None:
        try:
            if stopped:
                self._exclude(stopped)
            return self._step(sources, most)
        except TooLargeError:
            raise
        except BaseException:
            self._recover()  # what the failed attempt has changed in memory never happened
            raise

    def _take_in(self, now: float, sources: bool = True, most: int | None = None) -> tuple[Work, Decision]:
        """The input of a micro-batch, and what follows from it."""
        kernel, work = self.kernel, Work()
        self.held_back = self._must_wait()
        sources = sources and not self.held_back
        self._poller.poll(kernel.positions, kernel.whole, kernel.fenced, work, sources)
        self.more = work.more
        if most is not None and work.rows > most:
            raise TooLargeError
        self._receive(work)
        announced = [Migration.from_json(parcel["move"]) for parcel in self.memory.underway]
        decision = kernel.take_in(work, now, max(self.limits.max_lag // 4, 1), announced)
        if work.changes:  # what the version before has left by now is there for the new one's first rows
            known = [parcel["move"] for parcel in self._underway]
            self._bring(work, [parcel for parcel in self._inherited() if parcel["move"] not in known])
        self._admit(work, decision)
        self._follow(work, decision)
        return work, decision

    def _step(self, sources: bool, most: int | None = None) -> Record | None:
        started, due = time.time(), self._is_due()
        made = self._make_ahead()
        work, decision = self._take_in(started, sources, most)
        if not (decision.commit or due or made):
            return None
        self._at("polled")
        number = self.commits.last + 1
        outputs = self._run(self.data / names.number(number), work, decision)
        self._at("staged")
        for move in outputs.asked:
            self.kernel.ask_for(move)
        commit = self.kernel.commit(work, decision, number, outputs.receivers)
        kept = self._remember(whole=commit.snapshot == number)
        record = commit_record(self.region, commit, work, outputs, self.memory, kept, started)
        self.commits.append(record)
        self._due = outputs.due
        self.memory.cuts = outstanding(self.memory.cuts, self.memory.moves.outgoing)
        self._at("committed")
        self._outbox.publish(number, commit, record)
        legacy.leave(self.store, record, self.kernel.queries)
        self._make_ahead()
        self._at("published")
        for arrived in work.arrived:
            self.transfer.delivered(arrived.move)
        self._after(self, self.commits.last, record)
        self._clean(outputs)
        self._at("cleaned")
        return record

    def _run(self, folder: Place, work: Work, decision: Decision) -> Outputs:
        parts = (self.region, self.shape, self.tables, self.progress, self.memory, work, decision.markers)
        replays = self._replays(work, decision.markers)
        waited = take_turns(work, self.memory, folder, self.shape, self.kernel.start_positions)
        step = Step(Batch(self.spark, folder, *parts, self.transfer.waits, replays, self.limits.sizes))
        try:
            outputs = step.run()
        except JAVA_ENDED as fault:
            raise EngineGoneError(GONE) from fault
        except SPARK_ERRORS as fault:
            raise BatchFailedError(fault, sorted(self.tables.queries), int(self.deployment.epoch)) from fault
        outputs.dead += waited
        return outputs

    def waiting(self) -> bool:
        """Whether a step would find something to do."""
        now, kernel = time.time(), self.kernel
        if self._is_due() or self._is_made() or self._poller.waiting(kernel.positions, kernel.fenced):
            return True
        due = kernel.next_due(now)
        if (due is not None and due <= now) or self._inherited():
            return True
        coming = [p for p in list(self.memory.underway) if Migration.from_json(p["move"]) not in self._held_back]
        return any(map(self.transfer.due, coming))

    def gathers_until(self, now: float) -> float | None:
        """Until when (wall clock) what there is may wait, and others may come to it; None: a step is to be made now."""
        due = self.next_due()
        if self.held_back or self.memory.underway or self._inherited() or self._is_made():
            return None
        if due is not None and due <= now:
            return None
        return self._gathering.until(self.kernel, now)

    def next_due(self) -> float | None:
        """When (wall clock) something is to be done though nothing comes; None: never."""
        known = (self._due, self.kernel.next_due(time.time()))
        return min((at for at in known if at is not None), default=None)

    @property
    def large(self) -> bool:
        """Whether it keeps so much that any micro-batch may read many rows."""
        return any(state.rows > self.limits.sizes.beside_rows for state in self.memory.states.values())

    def _is_due(self) -> bool:
        """Whether an operator wanted to be called by now, though nothing came."""
        return self._due is not None and time.time() >= self._due

    # --- states of versions to come

    def _make_ahead(self) -> bool:
        """What they lack is made, as far as it can be made of what is here, as it is now. Whether there is news."""
        ahead, made, told = self.transfer.ahead, self.kernel.made_ahead, len(self.kernel.made_ahead)
        to = RecomputeTarget(self.spark, self.store, self.region, self.shape, self.deployment)
        for old, new in self._lacking():
            if self.making.get(old.id) != new.id:
                if not ahead.begin(old, new, to, self.memory):
                    made[new.id] = ""
                    continue
                self.making[old.id] = new.id
            if (why := ahead.told(old.id, self.region)) is not None:
                made[self.making.pop(old.id)] = why
        return len(made) > told

    def _lacking(self) -> list[tuple[Query, Query]]:
        """Versions that run here, and those to come for which nothing was made here yet."""
        return [(old, new) for old, new in self._coming if new.id not in self.kernel.made_ahead]

    def _is_made(self) -> bool:
        """Whether something can be begun or told."""
        lacking = self._lacking()
        return any(
            self.making.get(old.id) != new.id or self.transfer.ahead.told(old.id, self.region) is not None
            for old, new in lacking
        )

    # --- queries that fail

    def _to_blame(self, failed: BatchFailedError, before: Mapping[QueryId, Failure]) -> dict[QueryId, Failure] | None:
        """The queries that make the micro-batch fail, found by running it with some of them; empty: it does not fail
        any more; None: it does, and nobody can be blamed."""
        if reason(failed.fault) is None or not failed.queries:
            return None

        def fails(some: Sequence[QueryId]) -> str | None:
            others = {q: Failure(failed.epoch, "") for q in failed.queries if q not in some}
            return self._tried({**before, **others})

        found = blame(failed.queries, fails)
        if (not found and fails(failed.queries)) or fails(()):
            return None
        for query, why in found.items():
            log.warning("%s: query %s is stopped: %s", self.region, query, why)
        return {query: Failure(failed.epoch, why) for query, why in found.items()}

    def _tried(self, without: Mapping[QueryId, Failure]) -> str | None:
        """Run the micro-batch without some queries and without a commit; returns why it failed, if it did."""
        folder = self.data / names.number(self.commits.last + 1)
        try:
            self._exclude(without)
            work, decision = self._take_in(time.time())
            self._run(folder, work, decision)
        except BatchFailedError as failed:
            return reason(failed.fault) or str(failed)
        finally:
            self.store.disk.delete_folder(folder.reference)
            self._recover()
        return None

    def _exclude(self, failed: Mapping[QueryId, Failure]) -> None:
        """These queries are not run any more, as if they had been withdrawn."""
        for query in self.kernel.exclude(failed):
            self.memory.forget(query, Epoch(self.kernel.whole.epoch + 1))
        self._arrange()

    # --- what comes in

    def _receive(self, work: Work) -> None:
        """State that others announced becomes part of the work when it is here."""
        underway = [*self.memory.underway, *work.parcels, *self._inherited()]
        self.memory.underway, self._underway = [], []
        self._bring(work, underway)

    def _bring(self, work: Work, parcels: list[dict[str, Any]]) -> None:
        self._underway += parcels
        to = RecomputeTarget(self.spark, self.store, self.region, self.shape, self.deployment)
        for parcel in parcels:
            arrived = self.transfer.bring(parcel, to)
            if arrived is None:
                self.memory.underway.append(parcel)
            else:
                work.arrived.append(arrived)

    def _inherited(self) -> list[dict[str, Any]]:
        """State that versions of queries before ours have left, once all of it is there."""
        inherits = [move for move in self.kernel.moves.incoming if move.inherits]
        told = [Migration.from_json(parcel["move"]) for parcel in self.memory.underway] if inherits else []
        missing = [move for move in inherits if move not in told]
        found = (legacy.announced(self.store, self.kernel.whole, move) for move in missing)
        return [parcel for parcel in found if parcel is not None]

    def _admit(self, work: Work, decision: Decision) -> None:
        """State that is here, and must not be taken in yet, is announced again to the next micro-batch."""
        came, work.arrived = work.arrived, self.kernel.admit(work.arrived, decision.markers)
        there = {arrived.move for arrived in work.arrived}
        self._held_back = {arrived.move for arrived in came if arrived.move not in there}
        parcels = {Migration.from_json(parcel["move"]): parcel for parcel in self._underway}
        self.memory.underway += [parcels[move] for move in sorted(self._held_back)]

    def _replays(self, work: Work, markers: Mapping[int, Epoch]) -> dict[Migration, dict[str, Any]]:
        """Of the moves that may go now, those whose state need not be sent, with the rows that make it again."""
        found = {}
        everybody = self.kernel.members(work.peers)
        going = self.memory.moves.ready(markers) if self.transfer.replays else []
        for move in (move for move in going if not move.number):
            if move.query in self.tables.readers.involved:
                continue  # rows that are read again would have no class
            known = self.memory.cuts.get(int(move.epoch), {})
            rows = ranges(self.store, self.reader.control, self.tables.queries[move.query], move, known)
            if rows is not None and set(known) >= everybody:
                found[move] = rows
        return found

    def _must_wait(self) -> bool:
        """Back-pressure: take no new rows from sources while a reader lags too many messages behind."""
        sent = self.kernel.outbox
        if max(sent.values(), default=0) <= self.limits.max_lag:
            return False
        readers = [peer for peer in self.reader.peers() if peer not in self.kernel.fenced]
        return self._outbox.behind(sent, readers, self.limits.max_lag)

    def _follow(self, work: Work, decision: Decision) -> None:
        """Do with state, tables and replay ranges what the kernel has decided."""
        if self.transfer.replays:
            self._keep_cuts(work, decision.moved)
        for query, epoch in decision.ended:
            self.memory.forget(query, epoch)
            self.transfer.ahead.forget(query, self.region)
        if work.changes or decision.ended:
            self._arrange()

    def _keep_cuts(self, work: Work, moved: Iterable[Epoch]) -> None:
        """How far everybody had read when an epoch moved instances; first ours, from before this micro-batch."""
        starts = {str(query): start for query, start in self.kernel.start_positions.items()}
        for epoch in moved:
            mine = cut(self.positions, starts, self.memory.seen, self.memory.rooms)
            self.memory.cuts.setdefault(int(epoch), {})[self.region] = mine
        for region, record in work.told:
            self.memory.seen[region] = {name: record[name] for name in ("epoch", "sources")}
            for other, theirs in record["cuts"].items():
                self.memory.cuts.setdefault(int(other), {})[region] = theirs

    def _arrange(self) -> None:
        self._tables = self.tables = Tables(
            self.spark, self.region, self.shape, self.deployment, self._tables, self.limits.sizes
        )
        running = (query for query in self.deployment.of_shape(self.shape.key) if not query.until)
        self._coming = [(old, old.successor) for old in running if old.successor is not None and old.successor.ahead]
        coming = {new.id for _, new in self._coming}
        self.making = {old: new for old, new in self.making.items() if new in coming}
        for query in self.deployment.of_shape(self.shape.key):
            if query.successor is None:
                self.transfer.ahead.forget(query.id, self.region)  # its change was given up

    # --- the commit record

    def _remember(self, whole: bool) -> Record:
        """The engine's part of the memory: whole, or what changed since the last commit."""
        before, after = self._base, self.memory.frozen()
        self._base = after
        if whole or before is None:
            return {"whole": after.to_json()}
        return {"delta": difference(before, after)}

    def derived_clocks(self) -> dict[QueryId, int]:
        """How far the results of each query whose sink is here have come, in the derived stream's time."""
        sink = len(self.shape.plan.operators) - 1
        clocks, queries = self.progress.clocks(self.memory.book, sink), self.tables.queries
        return {q: c if abs(c) >= FOREVER else c - time_of(queries[q])[1] for q, c in clocks.items()}

    # --- after a restart

    def _recover(self) -> None:
        """Stand where the last commit stands; what was staged after it never happened."""
        self._tables = None
        self.making = {}
        for name in self.store.disk.names(self.data.reference):
            if (names.number_of(name) or 0) > self.commits.last:
                self.store.disk.delete_folder(f"{self.data.reference}/{name}")
        records = since_snapshot(self.commits)
        place = (self.region, self.shape, self.reader)
        protocol = recall(None, (record["protocol"] for record in records))
        kept = remembered(None, records, self.store) or _NOTHING
        if protocol is None:
            self.kernel = recovery.begin(*place)
        else:
            self._outbox.publish(self.commits.last, ProtocolCommit.from_json(records[-1]), records[-1])
            deployment = self.reader.control.deployment_at(protocol.positions["control"])
            legacy.leave(self.store, records[-1], deployment.queries)
            self.kernel = recovery.recover(*place, deployment, protocol, bool(kept.rest["underway"]))
        if self.kernel.unemployed and not kept.rest["underway"]:
            kept = _NOTHING  # what is left was for queries that have ended
        self._base = None
        self.memory = Memory.thawed(self.kernel, kept)
        self._arrange()

    def start_of(self, query: QueryId) -> Mapping[str, int]:
        """The positions at which a query began here; of an ended one while the commit that ended it is kept."""
        known = self.kernel.start_positions.get(query)
        if known is not None:
            return known
        ended = (record["ended"] for _, record in self.commits.after(self.commits.first - 1))
        return next((found[query] for found in ended if query in found), {})

    @property
    def unemployed(self) -> bool:
        """Whether no query of the shape is left, as far as this runner knows, and nothing is to come."""
        return self.kernel.unemployed and not self.memory.underway

    # --- tidying

    def _clean(self, outputs: Outputs) -> None:
        """Remove state segments that the commit no longer names (and that no other region is still to read)."""
        for segment in outputs.dead:
            for file in segment.files:
                if file.startswith(f"{self.data.reference}/"):
                    self.store.delete(file)
