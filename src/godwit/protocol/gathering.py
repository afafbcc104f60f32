"""Rows may gather: whether what a (region, shape) has not read yet must be read now, judged by its marks alone. Pure;
the runtime and the simulator both run it.

Rows are durable in the logs before anybody reads them. Where results come with the watermark alone, a micro-batch that
lets no watermark pass a place where somebody answers changes nothing that anyone can see. So such rows wait, until
enough of them are there or for a while (`Patience`), and one micro-batch takes them all.

What must be read at once: an epoch, state, its announcement or its acknowledgement, the beginning or end of a session,
a source that becomes idle or closes, a marker, and marks that may let a watermark go far enough, here or elsewhere.

    here        the watermark as it would be with all marks that are there, at every operator that waits for one
    elsewhere   others wait for the sources of this region: for the slowest of them. As long as that one does not pass
                the end of a window, none can close by what came in here
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from godwit.ids import RegionId
from godwit.model.plan import Plan, Scan, Shape, Sink
from godwit.protocol.inputs import CONTROL, InputLogs, PeerCommit, peer_log, scan_log
from godwit.protocol.kernel import RegionKernel
from godwit.protocol.watermarks import FOREVER, Mark, WatermarkTracker, source_id

R = TypeVar("R")
#: (operator, source)
Place = tuple[int, str]


@dataclass(frozen=True)
class Patience:
    """How much gathers before it is read all the same."""

    #: since the first of it was seen
    seconds: float = 1.0
    #: entries of sources and messages of other regions; readers that are further behind hold up who sends
    records: int = 32
    rows: int = 5_000
    #: where a region runs fewer shapes than these, it has time for every push, and a window that closes has less to do
    shapes: int = 5


def answers_with_watermark(plan: Plan) -> bool:
    """Whether nothing leaves the plan but by a watermark: its rows may gather."""
    arrival = any(scan.arrival or scan.late for _, scan in plan.scans)
    return not (arrival or plan.runs_both) and all(_held_above(plan, index) for index, _ in plan.scans)


def _held_above(plan: Plan, index: int) -> bool:
    """Whether what an operator is given waits for a watermark, there or above it."""
    operator = plan.operators[index]
    if operator.stateful and operator.emits == "watermark":
        return True
    return not isinstance(operator, Sink) and _held_above(plan, plan.consumer(index)[0])


class Gathering(Generic[R]):
    """What one (region, shape) has before it. Each record is looked at once."""

    def __init__(self, region: RegionId, shape: Shape, logs: InputLogs[R], patience: Patience) -> None:
        self._region, self._shape, self._logs, self._patience = region, shape, logs, patience
        self._applies = answers_with_watermark(shape.plan)
        self._stateful = [k for k, operator in enumerate(shape.plan.operators) if operator.stateful]
        self._begin(None)

    def _begin(self, positions: Mapping[str, int] | None) -> None:
        """A micro-batch has read what was there."""
        #: where the last micro-batch stopped (each makes a new one), and how far records have been looked at since
        self._positions, self._seen = positions, dict(positions or {})
        #: what must be read now; what may let a watermark go, and is not judged yet
        self._urgent, self._unjudged = False, False
        #: the newest marks that were seen, of sources that are attached here and of all
        self._own: dict[Place, Mark] = {}
        self._ahead: dict[Place, Mark] = {}
        self._records, self._rows = 0, 0
        self._since: float | None = None

    def until(self, kernel: RegionKernel, now: float) -> float | None:
        """When it must be read, whatever comes; None: now."""
        if not self._may_wait(kernel):
            return None
        self._since = now if self._since is None else self._since
        until = self._since + self._patience.seconds
        enough = self._records >= self._patience.records or self._rows >= self._patience.rows
        return None if enough or now >= until else until

    def _may_wait(self, kernel: RegionKernel) -> bool:
        if not self._applies or self._logs.grown(CONTROL, kernel.positions[CONTROL]):
            return False
        if not kernel.may_gather(peers := [peer for peer in self._logs.peers() if peer not in kernel.fenced]):
            return False
        if kernel.positions is not self._positions:
            self._begin(kernel.positions)
        if not self._urgent:
            self._look(kernel, peers)
        if self._unjudged and not self._urgent:
            self._urgent, self._unjudged = self._lets_go(kernel), False
        return not self._urgent

    # --- one record after the other

    def _look(self, kernel: RegionKernel, peers: Sequence[RegionId]) -> None:
        for index, scan in self._shape.plan.scans:
            name = scan_log(index, scan)
            for number, entry in self._logs.entries(index, scan, self._seen.get(name)):
                self._count(name, number, entry.count)
                for device, mark in entry.marks.items():
                    self._hear_own(kernel, (index, source_id(scan.stream, device)), mark)
        for peer in peers:
            name = peer_log(peer)
            for number, commit in self._logs.messages(peer, self._seen.get(name)):
                self._count(name, number, sum(sent.count for sent in commit.sent))
                self._urgent |= self._says_more(kernel, peer, commit)
                for heard in commit.marks:
                    self._hear(kernel, *heard)

    def _count(self, name: str, number: int, rows: int) -> None:
        self._seen[name], self._records, self._rows = number, self._records + 1, self._rows + rows

    def _says_more(self, kernel: RegionKernel, peer: RegionId, commit: PeerCommit[Any]) -> bool:
        """Whether a message brings anything but marks, and rows that wait for a watermark."""
        rows = all(_held_above(self._shape.plan, sent.operator) for sent in commit.sent)
        failed = any(query in kernel.queries for query in commit.failed.keys() - kernel.failed.keys())
        others = commit.handovers or commit.wanted or commit.numbers or commit.behind
        return not rows or failed or bool(others) or kernel.moves.hears_of(peer, commit.markers)

    def _hear_own(self, kernel: RegionKernel, place: Place, mark: Mark) -> None:
        """A source that is attached here."""
        known = self._own.get(place) or kernel.own_marks.get((*place, mark.session))
        if known is None or not _goes_on(known, mark):
            self._urgent = True
        elif mark.clock > known.clock:
            self._own[place] = self._ahead[place] = mark
            self._unjudged |= self._answers(known.clock, mark.clock)

    def _hear(self, kernel: RegionKernel, operator: int, source: str, mark: Mark) -> None:
        """A source, or an operator, that another region tells of."""
        if not kernel.counts(operator, source):
            return
        known = self._ahead.get((operator, source)) or kernel.book.mark(operator, source)
        if known is None or not _goes_on(known, mark):
            self._urgent |= kernel.book.is_news(operator, source, mark)
        elif mark.clock > known.clock:
            self._ahead[operator, source] = mark
            self._unjudged |= self._answers(known.clock, mark.clock)

    # --- all of them together

    def _answers(self, before: int, now: int) -> bool:
        """Whether an operator may answer when a watermark goes from one time to another."""
        return any(self._shape.plan.operators[index].may_answer(before, now) for index in self._stateful)

    def _lets_go(self, kernel: RegionKernel) -> bool:
        """Whether the marks that were seen may let an operator answer."""
        if self._region in kernel.listeners:
            there = WatermarkTracker(kernel.book.known)
            for (operator, source), mark in self._ahead.items():
                there.hear(operator, source, mark)
            for index in self._stateful:
                before, now = kernel.progress.clocks(kernel.book, index), kernel.progress.clocks(there, index)
                if any(self._answers(*pair) for pair in {(before[query], now[query]) for query in now}):
                    return True
        return bool(kernel.listeners - {self._region}) and self._lets_others_go(kernel)

    def _lets_others_go(self, kernel: RegionKernel) -> bool:
        known: dict[Place, Mark] = {}
        for (scan, source, session), mark in kernel.own_marks.items():
            older = known.get((scan, source))
            if _is_awake(mark) and (older is None or session < older.session):
                known[scan, source] = mark
        made_of = {
            tuple(one for one in kernel.progress.heard(query, index) if self._is_scan(one))
            for index in self._stateful
            for query in kernel.queries
        }
        return any(self._answers(_slowest(known, those), _slowest({**known, **self._own}, those)) for those in made_of)

    def _is_scan(self, place: Place) -> bool:
        return isinstance(self._shape.plan.operators[place[0]], Scan)


def _goes_on(known: Mark, mark: Mark) -> bool:
    """Whether a source says nothing new but how far it has come."""
    same = (known.session, known.idle, known.turn) == (mark.session, mark.idle, mark.turn)
    return same and not (mark.over or known.over)


def _is_awake(mark: Mark) -> bool:
    return not (mark.over or mark.idle or mark.closed)


def _slowest(clocks: Mapping[Place, Mark], those: Sequence[Place]) -> int:
    """How far the slowest of some sources has come, as far as they are known; no watermark goes further."""
    return min((clocks[one].clock for one in those if one in clocks), default=FOREVER)
