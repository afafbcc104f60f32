"""Plan versions in the simulated world: what an old version leaves, what a new one makes of it, and which step is next.

Which states match, what is computed of what, when a step may be taken: the code that runs decides (`replan/tracks.py`,
`replan/change_progress.py`, `control/plan_versions.py`). Here are only the shelves, which are dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from godwit.control.events import Event, PlanChanged, QueryAdjusted, QueryWithdrawn
from godwit.ids import QueryId, RegionId, SiteId
from godwit.model.deployment import Deployment
from godwit.model.plan import CLASS, GENERATION, QUERY, Join, Query
from godwit.model.signature import StateKey
from godwit.model.taps import family
from godwit.protocol.handover import Migration
from godwit.protocol.inputs import Arrived
from godwit.protocol.kernel import RegionKernel
from godwit.protocol.watermarks import NEVER
from godwit.replan.ahead import InParts, RowSets, StatesInParts, makeable
from godwit.replan.box import JoinBox, reordered
from godwit.replan.change_progress import ChangeProgress, NextStep, RunnerView, under_way
from godwit.replan.family import SHARED_STRATEGIES, left_states, next_versions, planned
from godwit.replan.matching import Recompute
from godwit.replan.tracks import Answers, answers, both, dates_rows, matching, of_new, runs_both, second
from godwit.sim.operators import SEEN, Row, pairs
from godwit.sim.worlds import STREAMS

Parts = Mapping[int, list[Row]]
#: strategies that run both plans side by side: who answers meanwhile
SIDE_BY_SIDE: dict[str, Answers] = {"parallel-track": "by age", "pause-drain-resume": "later"}


class HasKernel(Protocol):
    kernel: RegionKernel


class HasStates(HasKernel, Protocol):
    region: RegionId
    #: (operator, input) -> rows
    states: dict[tuple[int, int], list[Row]]


@dataclass(frozen=True)
class SimAhead:
    """States of a version to come, made in one region (`region/ahead.py`)."""

    #: the number that the rows have of which they were made
    number: int
    states: Mapping[StateKey, list[Row]]
    #: how many of these rows each state had
    sources: Mapping[StateKey, int]


@dataclass
class Shelves:
    """What versions have left, and what is remembered of changes; it outlives any crash."""

    #: (version, part of an operator's state) -> (the rows of each input, how far it had released the watermark)
    left: dict[tuple[QueryId, str], tuple[Parts, int]] = field(default_factory=dict)
    released: set[QueryId] = field(default_factory=set)
    lines: dict[QueryId, int] = field(default_factory=dict)
    found: dict[tuple[object, ...], int] = field(default_factory=dict)
    #: query -> its versions, oldest first
    versions: dict[QueryId, list[Query]] = field(default_factory=dict)
    #: (version to come, region) -> what was made ahead there; forgotten by a crash
    ahead: dict[tuple[QueryId, RegionId], SimAhead] = field(default_factory=dict)
    #: versions to come whose states cannot be made
    failing: set[QueryId] = field(default_factory=set)
    #: how often states were made ahead
    made: int = 0

    def make_ahead(self, runner: HasStates) -> None:
        """As far as the old version's states are here, all at once; in what was made before they lie as they did."""
        kernel = runner.kernel
        for old in kernel.deployment.of_shape(kernel.shape.key):
            new = old.successor
            if new is None or old.until or not new.ahead or new.id in kernel.made_ahead:
                continue
            kernel.made_ahead[new.id] = "it fails" if new.id in self.failing else ""
            self.made += 1
            self.ahead[new.id, runner.region] = _made_ahead(self.made, old, new, runner)

    def crashed(self, region: RegionId) -> None:
        self.ahead = {place: made for place, made in self.ahead.items() if place[1] != region}

    def left_by(self, query: Query, deployment: Deployment) -> dict[int, tuple[Parts, int]] | None:
        found: dict[int, tuple[Parts, int]] = {}
        for one in left_states(query, deployment.queries):
            there = [self.left.get((one.executor, name)) for name in one.names]
            known = [part for part in there if part is not None]
            if len(known) < len(there):
                return None
            sides = {side for parts, _ in known for side in parts}
            rows = {side: [row for parts, _ in known for row in parts.get(side, ())] for side in sides}
            mine = {side: [row for row in part if row[CLASS] >= one.since] for side, part in rows.items()}
            found[one.operator] = mine, min(clock for _, clock in known)
        return found

    def forget(self, versions: Collection[QueryId]) -> None:
        """They are gone, and what they have left goes with them."""
        self.left = {place: found for place, found in self.left.items() if place[0] not in versions}

    def arrived(self, deployment: Deployment, move: Migration) -> Arrived[list[Row]] | None:
        """The state of a move, if all that it can be made of is there."""
        new = deployment.queries.get(move.query)
        old = None if new is None or new.inherits is None else deployment.queries.get(new.inherits)
        left = None if old is None else self.left_by(old, deployment)
        if new is None or old is None or left is None:
            return None
        plan = new.shape.plan
        waits = runs_both(plan) and answers(plan) == "later" and move.operator in of_new(plan)
        if waits and new.id not in self.released:
            return None
        heir = _Heir(old, new, left, [made for (name, _), made in self.ahead.items() if name == new.id])
        sides = range(len(plan.operators[move.operator].state))
        keys = {side: StateKey(new.shape.signatures[move.operator], side) for side in sides}
        parts = {side: [heir.rows(key)] for side, key in keys.items()}
        return Arrived(move, parts, min(clock for _, clock in left.values()), {})


class _Heir:
    """As `region/inherit.py`, over lists."""

    def __init__(
        self, old: Query, new: Query, left: Mapping[int, tuple[Parts, int]], ahead: Sequence[SimAhead] = ()
    ) -> None:
        found = matching(old, replace(new, cut=None), STREAMS)
        self._new, self._left = new, left
        self._matched = {one.new: one.old for one in found.matched}
        self._places = {sign: index for index, sign in enumerate(old.shape.signatures)}
        made = [one for one in ahead if self._is_of_use(one)]
        self._numbers = {one.number for one in made}
        states = {key: self._own(rows) for one in made for key, rows in one.states.items()}
        sets = RowSets[list[Row]]([], list.__add__, self._joined)
        self._states = StatesInParts(found.recompute, self._there, sets, states)

    def rows(self, key: StateKey) -> list[Row]:
        if key not in self._matched and key not in self._states.steps:
            return []
        found = self._states[key]
        return self._own(found.before + found.since)

    def _is_of_use(self, made: SimAhead) -> bool:
        """Whether all rows of which states were made are there, known as such."""
        seen = {old: sum(row.get(SEEN) == made.number for row in self._rows_of(old)) for old in made.sources}
        return seen == made.sources

    def _rows_of(self, old: StateKey) -> list[Row]:
        parts, _ = self._left[self._places[old.signature]]
        return parts.get(old.side, [])

    def _there(self, key: StateKey) -> InParts[list[Row]]:
        parts: tuple[list[Row], list[Row]] = ([], [])
        for row in self._rows_of(self._matched[key]):
            parts[row.get(SEEN) not in self._numbers].append(row)
        return InParts(*map(self._own, parts))

    def _joined(self, step: Recompute, left: list[Row], right: list[Row]) -> list[Row]:
        join = self._new.shape.plan.operators[step.operator]
        assert isinstance(join, Join)
        return self._own(pairs(join, left, right))

    def _own(self, found: list[Row]) -> list[Row]:
        # Where plans side by side share the answers by age, what is inherited has no class, and so is old.
        undated = {CLASS: 0} if dates_rows(self._new.shape.plan) else {}
        return [{**row, QUERY: self._new.id, GENERATION: 0, **undated} for row in found]


def _made_ahead(number: int, old: Query, new: Query, runner: HasStates) -> SimAhead:
    found = makeable(old, new, runner.kernel.deployment, runner.region, STREAMS)
    seen: dict[StateKey, int] = {}
    parts: dict[int, dict[int, list[Row]]] = {}
    for key, one in found.sources.items():
        place = one.operator, key.side
        rows = runner.states.get(place, [])
        mine = [row for row in rows if row[QUERY] == one.executor and row[CLASS] >= one.since]
        marked = set(map(id, mine))
        runner.states[place] = [{**row, SEEN: number} if id(row) in marked else row for row in rows]
        parts.setdefault(one.operator, {})[key.side], seen[key] = mine, len(mine)
    heir = _Heir(old, new, {place: (rows, NEVER) for place, rows in parts.items()})
    return SimAhead(number, {step.new: heir.rows(step.new) for step in found.steps}, seen)


class SimAsks(Protocol):
    def __call__(self, event: Event, *more: Event) -> bool:
        """Whether it was done: not so while the coordinator is busy, or if there is no place for it. `more`: in the
        same epoch."""


class SimPlanVersions:
    """The changes of plan of a simulated world."""

    def __init__(
        self,
        shelves: Shelves,
        runners: Mapping[tuple[RegionId, str], HasKernel],
        ask: SimAsks,
        migrates: Callable[[QueryId], bool],
    ) -> None:
        self.shelves, self._runners, self._ask, self._migrates = shelves, runners, ask, migrates

    def change(self, deployment: Deployment, name: QueryId, order: str, strategy: str, alone: bool = False) -> None:
        """Nothing happens if a change is under way, or the query has that order. `alone`: those with which it shares
        operators keep theirs."""
        versions = self.shelves.versions.get(name)
        old = None if not versions else deployment.queries.get(versions[-1].id)
        if versions is None or old is None or old.cut is not None:
            return
        members = family(old, deployment.queries)
        tree = JoinBox.of(old.shape.plan, STREAMS).order(order)
        known = {one.id for found in self.shelves.versions.values() for one in found}
        busy = any(under_way(one, deployment) or (one.id not in known and not one.unseen) for one in members)
        busy = busy or any(self._migrates(one.id) for one in members)
        if busy or tree.same_order(JoinBox.of(old.shape.plan, STREAMS).tree):
            return
        if len(members) > 1 and strategy not in SHARED_STRATEGIES:
            return

        def rewrite(query: Query) -> Query | None:
            if alone and query.id != old.id:
                return None
            new = reordered(query, tree, STREAMS)
            return both(query, new, STREAMS, SIDE_BY_SIDE[strategy]) if strategy in SIDE_BY_SIDE else new

        found = next_versions(members, rewrite, self._name, deployment.queries, STREAMS)
        if strategy in SIDE_BY_SIDE:
            self._switch(members, found, False)
        else:
            for one in found:
                coming = replace(one, ahead=strategy == "background")
                self._ask(QueryAdjusted(one.inherits or one.id, one.probes, coming))

    def _name(self, old: Query) -> QueryId:
        return QueryId(f"{self._of(old)}~{len(self.shelves.versions[self._of(old)])}")

    def _of(self, version: Query) -> QueryId:
        """The query that it is a version of."""
        return next(n for n, known in self.shelves.versions.items() if version.id in [one.id for one in known])

    def fail(self, deployment: Deployment, name: QueryId) -> None:
        """The missing states of the query's next version cannot be made."""
        versions = self.shelves.versions.get(name)
        old = None if not versions else deployment.queries.get(versions[-1].id)
        if old is not None and old.successor is not None and old.successor.ahead:
            self.shelves.failing.add(old.successor.id)

    def advance(self, deployment: Deployment) -> bool:
        """Take the steps that can be taken; whether there was one."""
        taken = False
        for query in list(deployment.queries.values()):
            step = self._progress(deployment).next(query)
            if step is None or (step is NextStep.RELEASE and query.id in self.shelves.released):
                continue
            taken = self._take(deployment, query, step) or taken
        return taken

    def unfinished(self, deployment: Deployment) -> Iterator[str]:
        for name, versions in self.shelves.versions.items():
            there = [v.id for v in versions if v.id in deployment.queries]
            if len(there) != 1 or deployment.queries[there[0]].successor is not None:
                yield f"{name}: versions {there} are there in the end"

    def _take(self, deployment: Deployment, query: Query, step: NextStep) -> bool:
        match step:
            case NextStep.RELEASE:
                self.shelves.released.add(query.id)
                return True
            case NextStep.RETIRE:
                assert query.inherits is not None
                ending = family(deployment.queries[query.inherits], deployment.queries)
                for new in [new for new in deployment.queries.values() if new.inherits in {one.id for one in ending}]:
                    if runs_both(new.shape.plan):
                        self._line_us(deployment, new)
                # Readers first; who was withdrawn before goes with the last of them.
                last, *others = [QueryWithdrawn(one.id) for one in reversed(ending) if not one.unseen]
                done = self._ask(last, *others)
                self.shelves.forget([one.id for one in ending] if done else [])
                return done
            case NextStep.DELIVER:
                return False
            case NextStep.GIVE_UP:
                given_up = [one for one in family(query, deployment.queries) if one.successor is not None]
                event, *rest = [QueryAdjusted(one.id, one.probes, None) for one in given_up]
                done = self._ask(event, *rest)
                for one in given_up if done else ():
                    assert one.successor is not None
                    self.shelves.failing.discard(one.successor.id)
                    for key in [key for key in self.shelves.found if key[0] == one.id]:
                        del self.shelves.found[key]
                return done
            case NextStep.SWITCH:
                members = family(query, deployment.queries)
                newest = {found[-1].id for found in self.shelves.versions.values()}
                if not newest >= {one.id for one in members if not one.unseen}:
                    return False  # asked for with another of them; or one is being withdrawn
                coming = {one.id: one.successor for one in members if one.successor is not None}
                rewrite = planned(coming) if coming else second
                found = next_versions(members, rewrite, self._name, deployment.queries, STREAMS)
                return self._switch(members, found, bool(coming))

    def _switch(self, members: Sequence[Query], found: Sequence[Query], wait: bool) -> bool:
        requests = [PlanChanged(one.inherits or one.id, one, self._sink(one), {}, wait) for one in found]
        ends = tuple(one.id for one in members if one.unseen)
        done = self._ask(replace(requests[0], others=tuple(requests[1:]), ends=ends))
        if done:
            for one in found:
                self.shelves.versions[self._of(replace(one, id=one.inherits or one.id))].append(one)
        return done

    @staticmethod
    def _sink(version: Query) -> SiteId | None:
        """Rows of a cut leave at one place."""
        return SiteId("c") if version.cut is not None else None

    def _progress(self, deployment: Deployment) -> ChangeProgress:
        return ChangeProgress(
            deployment,
            lambda shape: [RunnerView.of(one.kernel) for (_, key), one in self._runners.items() if key == shape],
            lambda version: self._line_us(deployment, version),
            lambda version: version.id in self.shelves.released,
            lambda version: True,  # (there are no sinks)
            self.shelves.found,
            self._migrates,
        )

    def _line_us(self, deployment: Deployment, version: Query) -> int | None:
        if version.id not in self.shelves.lines:
            old = self._before(deployment, version)
            left = None if old is None else self.shelves.left_by(old, deployment)
            if old is None or left is None:
                return None
            joins = {i: parts for i, (parts, _) in left.items() if isinstance(old.shape.plan.operators[i], Join)}
            times = (t for i, parts in joins.items() for t in _times(old.shape.plan.operators[i], parts))
            self.shelves.lines[version.id] = max(times, default=NEVER)
        return self.shelves.lines[version.id]

    @staticmethod
    def _before(deployment: Deployment, query: Query) -> Query | None:
        return None if query.inherits is None else deployment.queries.get(query.inherits)


def _times(operator: Any, parts: Parts) -> Iterator[int]:
    for side, rows in parts.items():
        yield from (row[operator.state[side].time] for row in rows)
