"""The operators of one micro-batch, in topological order, over lists of rows: the simulator's engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.joins import AsofJoin, OuterJoin
from godwit.model.keys import REST, contains
from godwit.model.plan import (
    CLASS,
    DEVICE,
    GENERATION,
    QUERY,
    WINDOW_END,
    Aggregate,
    Filter,
    Join,
    OldRows,
    Partial,
    Scan,
    Shape,
    Sink,
    StateSpec,
    Union,
)
from godwit.model.taps import LEAVING, TapTable
from godwit.protocol.handover import Migration, stands_apart
from godwit.protocol.inputs import Arrived, Inputs, Sent
from godwit.protocol.kernel import RegionKernel
from godwit.protocol.session_order import ROUTED, Session, in_turn
from godwit.protocol.shadows import ShadowKey, shadow_key
from godwit.protocol.watermarks import NEVER
from godwit.replan.family import left_name
from godwit.sim import operators as ops
from godwit.sim import over, running, top
from godwit.sim.operators import Row, bound
from godwit.sim.outer import SimMeeting, alone, due_rows, met, newest_before, superseded
from godwit.sim.over import SimOver, SimRanked
from godwit.sim.running import SimRunning, as_state
from godwit.sim.top import SimTop


@dataclass
class SimOutputs:
    channels: list[Sent[list[Row]]] = field(default_factory=list)
    results: list[tuple[QueryId, tuple[Any, ...]]] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    #: the move, and what makes an `Arrived` of it
    handovers: list[tuple[Migration, tuple[Any, ...]]] = field(default_factory=list)
    #: (version, operator) -> what it leaves to the next one: rows of each input, and how far the watermark was released
    left: dict[tuple[QueryId, str], tuple[dict[int, list[Row]], int]] = field(default_factory=dict)

    @property
    def receivers(self) -> set[RegionId]:
        """The regions that something is for."""
        return {sent.to for sent in self.channels} | {move.target for move, _ in self.handovers}


#: so much longer than they must, some answered rows stay: as those in segments that have newer ones, too
STAYS = 10


class Stepping(Protocol):
    """What the operators see of the runner that steps them."""

    shape: Shape
    kernel: RegionKernel
    states: dict[tuple[int, int], list[Row]]
    #: copies of other regions' state: input -> rows
    shadows: dict[ShadowKey, dict[int, list[Row]]]
    #: (move, input) -> rows that wait for its state
    rooms: dict[tuple[Migration, int], list[Row]]
    #: rows of sessions that wait for the one before
    held: dict[Session, list[Row]]

    def route(self, index: int, rows: Iterable[Row], outputs: SimOutputs) -> list[Row]: ...


def run_operators(runner: Stepping, work: Inputs[list[Row]], markers: Mapping[int, Epoch]) -> SimOutputs:
    return _Step(runner, work, markers).run()


class _Step:
    def __init__(self, runner: Stepping, work: Inputs[list[Row]], markers: Mapping[int, Epoch]) -> None:
        self.runner, self.work, self.markers = runner, work, markers
        self.kernel, self.moves = runner.kernel, runner.kernel.moves
        self.outputs = SimOutputs()
        plan = runner.shape.plan
        self.taps = TapTable(plan, runner.kernel.queries)
        old = [i for i, operator in enumerate(plan.operators) if isinstance(operator, OldRows)]
        #: scans whose rows are distinguished from those that were there before
        self.dated = {scan for index in old for scan in plan.scans_below(index)}

    def run(self) -> SimOutputs:
        local: dict[int, list[Row]] = {}
        for index, operator in enumerate(self.runner.shape.plan.operators):
            inputs = [self._input(index, side, local[child]) for side, child in enumerate(operator.inputs)]
            match operator:
                case Scan():
                    made = self._scan(index, operator)
                case Filter():
                    made = [row for row in inputs[0] if ops.value(operator.predicate, {**row, **self._literals(row)})]
                case Union():
                    made = [row for rows in inputs for row in rows]
                case OldRows():
                    made = [row for row in inputs[0] if old_row(row)]
                case Partial():
                    made = ops.partial(operator, inputs[0])
                case Aggregate():
                    made = self._aggregate(index, operator, inputs[0])
                case Join():
                    made = self._join(index, operator, inputs)
                case OuterJoin():
                    made = self._outer(index, operator, inputs)
                case AsofJoin():
                    made = self._asof(index, operator, inputs)
                case SimRunning() | SimTop():
                    made = self._arriving(index, operator, inputs[0])
                case SimOver() | SimRanked():
                    made = self._over(index, operator, inputs[0])
                case Sink():
                    self._sink(operator, inputs[0])
                    break
                case _:
                    msg = f"the simulator has no {operator}"
                    raise AssertionError(msg)
            if operator.told_apart == "rows":
                made = self._for_readers(index, made)
            if index in self.taps.cuts:
                made = self._leave(index, made)
            local[index] = self.runner.route(index, made, self.outputs)
        return self.outputs

    # -- stateless

    def _scan(self, index: int, scan: Scan) -> list[Row]:
        for session, parts in self.work.held.items():
            if session[0] == index:
                rows = [row for part in parts for row in part]
                self.runner.held.setdefault(session, []).extend(self._scanned(index, scan, rows))
        waited = [row for one in self.work.let_in if one[0] == index for row in self.runner.held.pop(one, ())]
        made = [row for part in self.work.sources.get(index, ()) for row in self._scanned(index, scan, part)]
        return [row for row in waited if row[QUERY] in self.kernel.queries] + made

    def _scanned(self, index: int, scan: Scan, rows: Iterable[Row]) -> list[Row]:
        made = []
        for row in rows:
            named = {f"{scan.alias}__{column}": row[column] for column in scan.columns}
            named[DEVICE] = row["device"]
            usual = int(self.kernel.deployment.epoch) if index in self.dated else 0
            classes = {query: self.taps.classes.get(query, usual) for query in self.taps.scanning[index]}
            made += [{**named, QUERY: query, CLASS: since} for query, since in classes.items()]
        return made

    def _for_readers(self, index: int, rows: Iterable[Row]) -> list[Row]:
        """Each row once for everybody who reads it and had begun when it was taken in."""
        readers = self.taps.at.get(index, {})
        return [
            {**row, QUERY: reader}
            for row in rows
            for reader, begins in readers.get(row[QUERY], {row[QUERY]: 0}).items()
            if begins <= row[CLASS]
        ]

    def _leave(self, index: int, rows: list[Row]) -> list[Row]:
        """Rows of queries that are cut here are results, and go where those leave; returns the others."""
        arrived = [row for part, _ in self.work.channels.get((index, LEAVING), ()) for row in part]
        leaving, sink = (
            [row for row in arrived if row[QUERY] in self.kernel.queries],
            len(self.runner.shape.plan.operators) - 1,
        )
        for query in self.taps.cuts[index]:
            mine = [row for row in rows if row[QUERY] == query]
            owners = self.kernel.deployment.owners(self.kernel.queries[query], sink)
            to = min(owners, default=self.kernel.region)
            if to == self.kernel.region:
                leaving += mine
            elif mine:
                self.outputs.channels.append(Sent(to, index, LEAVING, mine))
        results = ((row, self.kernel.queries[row[QUERY]].output) for row in leaving)
        self.outputs.results += [(row[QUERY], tuple(row[c] for c in columns)) for row, columns in results]
        return [row for row in rows if row[QUERY] not in self.taps.cuts[index]]

    def _literals(self, row: Row) -> dict[str, int]:
        query = self.kernel.queries[row[QUERY]]
        return {f"__p{k}": int(literal) for k, literal in enumerate(query.parameters)}

    def _sink(self, sink: Sink, rows: list[Row]) -> None:
        seen = (row for row in rows if row[QUERY] not in self.taps.unseen)
        self.outputs.results += [(row[QUERY], tuple(row[c] for c in sink.columns)) for row in seen]

    def _input(self, index: int, side: int, local: list[Row]) -> list[Row]:
        """Rows from operators here, and rows that came from other regions, each with its generation."""
        parts = [(local, self.moves.epoch), *self.work.channels.get((index, side), ())]
        known = self.kernel.queries
        if isinstance(self.runner.shape.plan.operators[index], Sink):
            return self._leaving(index, parts)
        if not self.runner.shape.plan.operators[index].stateful:
            marked = [({ROUTED: epoch} if self.kernel.order.applies else {}, rows) for rows, epoch in parts[1:]]
            came = [{**row, **mark} for mark, rows in marked for row in rows]
            return [row for row in (*local, *came) if row[QUERY] in known]
        found: list[Row] = []
        for rows, epoch in parts:
            for row in rows:
                if row[QUERY] in known:
                    self._admit(index, side, row, epoch, found)
        for arrived in self.work.arrived:
            if arrived.move.operator == index and not self._apart(arrived.move):
                found += self.runner.rooms.pop((arrived.move, side), [])
        return found

    def _leaving(self, index: int, parts: list[tuple[list[Row], Epoch]]) -> list[Row]:
        """Rows that leave now, those first that were routed first: another epoch may have another way. Others wait
        until the last result of the sink's old region is out."""
        rooms, found = self.runner.rooms, list[Row]()
        for move in self.work.let_out:
            found += rooms.pop((move, 0), [])
        routed = [(row.get(ROUTED, epoch), row) for rows, epoch in parts for row in rows]
        for epoch, row in in_turn(routed):
            waits = self.moves.behind(row[QUERY], index, epoch)
            (found if waits is None else rooms.setdefault((waits, 0), [])).append(row)
        return [row for row in found if row[QUERY] in self.kernel.queries]

    def _apart(self, move: Migration) -> bool:
        return stands_apart(move, self.runner.shape.plan.operators[move.operator])

    def _admit(self, index: int, side: int, row: Row, epoch: Epoch, inside: list[Row]) -> None:
        """A row is taken in, or is a copy and goes into the shadow, or waits for the state of its key."""
        operator, query = self.runner.shape.plan.operators[index], row[QUERY]
        key = ops.key_of(operator, side, row)
        shadow = self.moves.copied(query, index, key, epoch)
        if shadow is not None:
            if not shadow.dropped:
                kept = as_state(operator, row) if isinstance(operator, SimRunning) else row
                self._shadow((query, index, shadow.number), side).append(kept)
            return
        row = {**row, GENERATION: self.moves.owned_since(query, index, epoch, key)}
        for move in self._coming(index):
            if move.query == query and move.epoch <= row[GENERATION] and contains(move.keys, key):
                if not self.moves.waits(move):
                    break
                self.runner.rooms.setdefault((move, side), []).append(row)
                self.kernel.ask_for(move)
                return
        inside.append(row)

    def _coming(self, index: int) -> list[Migration]:
        """Moves whose state is not here, the newest first: that is the one a row belongs to."""
        here = {arrived.move for arrived in self.work.arrived}
        mine = (move for move in self.moves.incoming if move.operator == index and move not in here)
        return sorted((move for move in mine if not move.copy), reverse=True)

    def _shadow(self, key: ShadowKey, side: int) -> list[Row]:
        return self.runner.shadows.setdefault(key, {}).setdefault(side, [])

    # -- stateful

    def _state(self, index: int, side: int = 0) -> list[Row]:
        return self.runner.states.setdefault((index, side), [])

    def _aggregate(self, index: int, operator: Aggregate, partials: list[Row]) -> list[Row]:
        released = self.kernel.released.get(index, {})
        for row in partials:
            late = row[WINDOW_END] <= bound(released.get(row[QUERY], NEVER), operator.lag_us)
            (self.outputs.late if late else self._state(index)).append(row)
        passed: list[Row] = []
        for arrived in self._arrivals(index):
            rows = [row for part in _rows(arrived.everything, arrived.move).values() for row in part]
            done = bound(arrived.clock, operator.lag_us)
            passed += self._open(
                index, operator, rows, done, bound(released.get(arrived.move.query, NEVER), operator.lag_us)
            )
        self._hand_over(index, 1)
        before, now = self.kernel.release(index, self.markers)
        closed = {q: bound(c, operator.lag_us) for q, c in before.items()}
        closing = {q: bound(c, operator.lag_us) for q, c in now.items()}
        close = self._close_sessions if operator.window.gap_us else self._close
        return ops.merge(operator, passed) + close(index, operator, closed, closing)

    def _open(self, index: int, operator: Aggregate, rows: list[Row], done: int, passed: int) -> list[Row]:
        """Arrived rows become state. What their source has closed (`done`) is left out; windows that this region's
        clock has `passed` already, because of its other keys, are returned: they close now."""
        if operator.window.gap_us:
            rows = [{**s, GENERATION: rows[0][GENERATION]} for s in ops.merge(operator, rows)]
        rows = [row for row in rows if row[WINDOW_END] > done]
        if operator.window.gap_us or not self._divided(index, rows):
            self._state(index).extend(rows)
            return []
        self._state(index).extend(row for row in rows if row[WINDOW_END] > passed)
        return [row for row in rows if row[WINDOW_END] <= passed]

    def _divided(self, index: int, rows: list[Row]) -> bool:
        """Whether the keys of these rows' query ever had several owners."""
        deployment = self.kernel.deployment
        table = deployment.routes(deployment.queries[rows[0][QUERY]], index) if rows else None
        return table is not None and table.turn > 0

    def _close(
        self, index: int, operator: Aggregate, closed: dict[QueryId, int], closing: dict[QueryId, int]
    ) -> list[Row]:
        due, kept = [], []
        for row in self._state(index):
            query, end = row[QUERY], row[WINDOW_END]
            if query in closing and closed[query] < end <= closing[query]:
                due.append(row)
            elif query in closing and end > closing[query]:
                kept.append(row)
        self.runner.states[index, 0] = kept
        return ops.merge(operator, self._for_readers(index, due))

    def _close_sessions(
        self, index: int, operator: Aggregate, closed: dict[QueryId, int], closing: dict[QueryId, int]
    ) -> list[Row]:
        moves = self.moves
        leaving = [m for m in moves.outgoing if m.operator == index]
        kept: list[Row] = []
        here: list[Row] = []
        for row in self._state(index):
            key = ops.key_of(operator, 0, row)
            waits = any(row[QUERY] == m.query and row[GENERATION] < m.epoch and contains(m.keys, key) for m in leaving)
            (kept if waits or row[QUERY] not in closing else here).append(row)
        sessions = ops.merge(operator, here)
        done = [s for s in sessions if s[WINDOW_END] <= closing[s[QUERY]]]
        still = [s for s in sessions if s[WINDOW_END] > closing[s[QUERY]]]
        self.runner.states[index, 0] = kept + [
            {**s, GENERATION: moves.owned_since(s[QUERY], index, moves.epoch, ops.key_of(operator, 0, s))}
            for s in still
        ]
        return done

    def _arriving(self, index: int, operator: SimRunning | SimTop, rows: list[Row]) -> list[Row]:
        """Operators that answer rows as they arrive."""
        state = self._state(index)
        for arrived in self._arrivals(index):
            came = [row for part in _rows(arrived.everything, arrived.move).values() for row in part]
            if isinstance(operator, SimTop):
                top.taken_in(operator, state, came)
            else:
                state.extend(came)
        made = top.run(operator, state, rows) if isinstance(operator, SimTop) else running.run(operator, state, rows)
        self._hand_over(index, 1)
        self.kernel.release(index, self.markers)
        return made

    def _over(self, index: int, operator: SimOver | SimRanked, rows: list[Row]) -> list[Row]:
        released, waiting, kept = self.kernel.released.get(index, {}), self._state(index, 0), self._state(index, 1)
        for row in rows:
            late = row[operator.time] < released.get(row[QUERY], NEVER)
            (self.outputs.late if late else waiting).append(row)
        made: list[Row] = []
        for arrived in self._arrivals(index):
            parts = _rows(arrived.everything, arrived.move)
            kept.extend(parts.get(1, []))
            here = max(arrived.clock, released.get(arrived.move.query, NEVER))
            made += over.taken_in(operator, waiting, kept, parts.get(0, []), arrived.clock, here, arrived.move.dual)
        self._hand_over(index, len(operator.state))
        _, now = self.kernel.release(index, self.markers)
        waiting, kept = self._state(index, 0), self._state(index, 1)
        return made + over.run(operator, waiting, kept, now)

    def _join(self, index: int, operator: Join, inputs: list[list[Row]]) -> list[Row]:
        fresh = [self._in_time(index, operator, side, rows) for side, rows in enumerate(inputs)]
        left, right = self._state(index, 0), self._state(index, 1)
        made = self._pairs(index, operator, fresh[0], [*right, *fresh[1]])
        made += self._pairs(index, operator, left, fresh[1])
        left.extend(fresh[0])
        right.extend(fresh[1])
        for arrived in self._arrivals(index):
            made += self._pairs_of_arrived(index, operator, arrived)
        self._hand_over(index, 2)
        _, now = self.kernel.release(index, self.markers)
        self._tidy(index, operator, now)
        return made

    def _outer(self, index: int, operator: OuterJoin, inputs: list[list[Row]]) -> list[Row]:
        """As a join; rows without a partner come out when the watermark says so."""
        left, right = (self._in_time(index, operator, side, rows) for side, rows in enumerate(inputs))
        meetings = self._met_by_new(index, left, right)
        arrivals = self._arrivals(index)
        for arrived in arrivals:
            mine = _rows(arrived.parts, arrived.move)
            here = [*self._state(index, 0)], [*self._state(index, 1)]
            meetings += [
                SimMeeting(mine.get(0, []), here[1], mine.get(1, [])),
                SimMeeting(here[0], mine.get(1, []), here[1]),
            ]
            for side, rows in mine.items():
                self._state(index, side).extend(rows)
            waited = _rows(arrived.waited, arrived.move)
            meetings += self._met_by_new(index, waited.get(0, []), waited.get(1, []))
        made = met(operator, [SimMeeting(*self._in_sight(index, one)) for one in meetings])
        for arrived in arrivals:
            made += self._alone(index, operator, self._passed(index, arrived))
        self._hand_over(index, 2)
        before, now = self.kernel.release(index, self.markers)
        states = {side: due_rows(operator, side, self._state(index, side), before, now) for side in (0, 1)}
        made += self._alone(index, operator, states)
        self._tidy(index, operator, now)
        return made

    def _met_by_new(self, index: int, left: list[Row], right: list[Row]) -> list[SimMeeting]:
        """New rows become state; returned is whom they meet."""
        lefts, rights = self._state(index, 0), self._state(index, 1)
        meetings = [SimMeeting(left, [*rights, *right]), SimMeeting([*lefts], right, [*rights])]
        lefts.extend(left)
        rights.extend(right)
        return meetings

    def _in_sight(self, index: int, meeting: SimMeeting) -> Iterator[list[Row]]:
        for side, rows in zip((0, 1, 1), meeting, strict=True):
            yield self._for_readers(index, self._in_company(index, side, rows))

    def _alone(self, index: int, operator: OuterJoin, due: Mapping[int, list[Row]]) -> list[Row]:
        """Of rows that are due, by side, those without a partner."""
        made: list[Row] = []
        for side in operator.answers_for:
            mine, others = self._unanswered(index, operator, side, due.get(side, [])), self._state(index, 1 - side)
            mine, others = self._in_company(index, side, mine), self._in_company(index, 1 - side, others)
            made += alone(operator, side, self._for_readers(index, mine), self._for_readers(index, others))
        return made

    def _passed(self, index: int, arrived: Arrived[list[Row]]) -> dict[int, list[Row]]:
        """Rows that came, or have waited, and that the watermark here has passed because of other keys."""
        operator, query = self.runner.shape.plan.operators[index], arrived.move.query
        released = {query: self.kernel.released.get(index, {}).get(query, NEVER)}
        came = _rows(arrived.everything, arrived.move)
        return {side: due_rows(operator, side, rows, {}, released) for side, rows in came.items()}

    def _unanswered(self, index: int, operator: OuterJoin | AsofJoin, side: int, rows: Iterable[Row]) -> list[Row]:
        """Those that no earlier owner of their keys has answered for."""
        wait, time = operator.waits_us[side], str(operator.state[side].time)

        def answered(row: Row) -> bool:
            until = self.moves.answered_until(row[QUERY], index, ops.key_of(operator, side, row))
            return bool(row[time] < bound(until, wait))

        return [row for row in rows if not answered(row)]

    def _asof(self, index: int, operator: AsofJoin, inputs: list[list[Row]]) -> list[Row]:
        for side, rows in enumerate(inputs):
            self._state(index, side).extend(self._in_time(index, operator, side, rows))
        passed: list[Row] = []
        for arrived in self._arrivals(index):
            for side, rows in _rows(arrived.everything, arrived.move).items():
                self._state(index, side).extend(rows)
            passed += self._passed(index, arrived).get(0, [])
        made = newest_before(operator, self._unanswered(index, operator, 0, passed), self._state(index, 1))
        self._hand_over(index, 2)
        before, now = self.kernel.release(index, self.markers)
        due = due_rows(operator, 0, self._state(index, 0), before, now)
        made += newest_before(operator, self._unanswered(index, operator, 0, due), self._state(index, 1))
        clock = self.moves.dead_before(index, now, self.kernel.deployment)
        left, right = self._state(index, 0), self._state(index, 1)
        self.runner.states[index, 0] = [r for r in left if r[operator.left_time] > bound(clock, STAYS)]
        self.runner.states[index, 1] = [r for r in right if not superseded(operator, r, right, clock)]
        return made

    def _in_time(self, index: int, operator: Join | OuterJoin | AsofJoin, side: int, rows: list[Row]) -> list[Row]:
        time = operator.right_time if side else operator.left_time
        lag = operator.right_lag_us if side else operator.left_lag_us
        released = self.kernel.released.get(index, {})
        kept: list[Row] = []
        for row in rows:
            late = row[time] < bound(released.get(row[QUERY], NEVER), lag)
            (self.outputs.late if late else kept).append(row)
        return kept

    def _pairs_of_arrived(self, index: int, operator: Join, arrived: Arrived[list[Row]]) -> list[Row]:
        """Arrived rows take this owner's generation and meet the rows of that generation, not each other."""
        mine = _rows(arrived.everything, arrived.move)
        made = self._pairs(index, operator, mine.get(0, []), self._state(index, 1))
        made += self._pairs(index, operator, self._state(index, 0), mine.get(1, []))
        for side, rows in mine.items():
            self._state(index, side).extend(rows)
        return made

    def _pairs(self, index: int, operator: Join, left: Iterable[Row], right: Iterable[Row]) -> list[Row]:
        return ops.pairs(operator, self._in_company(index, 0, left), self._in_company(index, 1, right))

    def _in_company(self, index: int, side: int, rows: Iterable[Row]) -> list[Row]:
        """In place of its generation each row has the number of those that it meets."""
        operator, moves = self.runner.shape.plan.operators[index], self.moves
        place = ((row, ops.key_of(operator, side, row)) for row in rows)
        return [{**r, GENERATION: moves.company(r[QUERY], index, key, r[GENERATION])} for r, key in place]

    def _tidy(self, index: int, operator: Join | OuterJoin, now: dict[QueryId, int]) -> None:
        """Forget rows that no partner can meet any more. One clock for all queries, as the runtime's segments have."""
        clock = self.moves.dead_before(index, now, self.kernel.deployment)
        if clock == NEVER:
            return
        for side in (0, 1):
            time = operator.right_time if side else operator.left_time
            rows = self._state(index, side)
            lasts, longer = (operator.stays_us, 0) if isinstance(operator, Join) else (operator.lasts_us, STAYS)
            self.runner.states[index, side] = [
                row for row in rows if row[time] > clock - lasts[side] - longer * (row[time] % 2) - 1
            ]

    # -- hand-over

    def _arrivals(self, index: int) -> list[Arrived[list[Row]]]:
        """State that came for an operator and is ours now; a copy goes into its shadow, which is ours in the end."""
        found = []
        for arrived in (a for a in self.work.arrived if a.move.operator == index):
            move = arrived.move
            known = move in self.moves.incoming
            self.kernel.receive(arrived)
            if move.query not in self.kernel.queries:
                continue
            specs = self.runner.shape.plan.operators[index].state
            if move.copy:
                for side, spec in enumerate(specs) if known else ():
                    shadow = self._shadow(shadow_key(move), side)
                    if (spec.replaced and side in arrived.parts) or not (move.dual or move.shadow):  # it has everything
                        shadow.clear()
                    shadow.extend(row for rows in arrived.parts.get(side, []) for row in rows)
                continue
            before = self.runner.shadows.pop(shadow_key(move), {}) if move.shadow else {}
            if known or not move.shadow:
                found.append(self._together(arrived, before, specs))
        return found

    def _together(
        self, arrived: Arrived[list[Row]], shadow: dict[int, list[Row]], specs: tuple[StateSpec, ...]
    ) -> Arrived[list[Row]]:
        """What has come and what was copied before, and what has waited for it."""
        move, parts, waited = arrived.move, dict(arrived.parts), {}
        for side, spec in enumerate(specs):
            if self._apart(move):
                waited[side] = [self.runner.rooms.pop((move, side), [])]
            copied = [] if spec.replaced and not move.dual else shadow.get(side, [])
            parts[side] = [*parts.get(side, []), copied]
        return replace(arrived, parts=parts, waited=waited)

    def _hand_over(self, index: int, sides: int) -> None:
        for move in self.moves.ready(self.markers):
            if move.operator != index:
                continue
            parts = {}
            for side in range(sides):
                gone = [r for r in self._state(index, side) if self._moves(move, side, r)]
                if not move.copy:
                    mine = set(map(id, gone))
                    self.runner.states[index, side] = [r for r in self._state(index, side) if id(r) not in mine]
                if move.keys != REST:  # such rows are written again, and not known as those that were there before
                    gone = [{name: value for name, value in row.items() if name != ops.SEEN} for row in gone]
                since = 0 if self.runner.shape.plan.operators[index].state[side].replaced else move.since
                parts[side] = [[r for r in gone if r[GENERATION] >= since and not (move.dual and not move.copy)]]
            clock = self.kernel.released.get(index, {}).get(move.query, NEVER)
            if move.leaves:
                rows = {side: [r for part in found for r in part] for side, found in parts.items()}
                divided = index in self.kernel.deployment.queries[move.query].left_in
                name = left_name(index, self.kernel.region if divided else None)
                self.outputs.left[move.query, name] = (rows, clock)
                self.moves.sent(move)
                continue
            told = (self.kernel.book.sessions(), self.moves.told_of(move))
            self.outputs.handovers.append((move, (move, parts, clock, *told)))
            self.moves.sent(move)

    def _moves(self, move: Migration, side: int, row: Row) -> bool:
        operator = self.runner.shape.plan.operators[move.operator]
        mine = row[QUERY] == move.query and row[GENERATION] < move.goes_before
        return mine and contains(move.keys, ops.key_of(operator, side, row))


def old_row(row: Row) -> bool:
    """Whether a row from before two plans ran side by side takes part in it."""
    return bool(row[CLASS] == 0)


def _rows(parts: Mapping[int, list[list[Row]]], move: Migration) -> dict[int, list[Row]]:
    """The rows of a state that arrived, with the generation of their new owner."""
    generation = {GENERATION: move.epoch}
    return {side: [{**row, **generation} for rows in part for row in rows] for side, part in parts.items()}
