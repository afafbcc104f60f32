"""Plan versions in the simulated world: what an old version leaves, what a new one makes of it, and which step is next.

Which states match, what is computed of what, when a step may be taken: the code that runs decides (`replan/tracks.py`,
`replan/change_progress.py`, `control/plan_versions.py`). Here are only the shelves, which are dicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from godwit.control.events import Event, PlanChanged, QueryAdjusted, QueryWithdrawn
from godwit.ids import QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.plan import CLASS, GENERATION, QUERY, Join, Query
from godwit.model.signature import StateKey
from godwit.protocol.handover import Migration
from godwit.protocol.inputs import Arrived
from godwit.protocol.kernel import RegionKernel
from godwit.protocol.watermarks import NEVER
from godwit.replan.box import JoinBox, reordered
from godwit.replan.change_progress import ChangeProgress, NextStep, RunnerView, under_way
from godwit.replan.tracks import Answers, answers, both, first, matching, of_new, runs_both, second
from godwit.sim.operators import Row, pairs
from godwit.sim.worlds import STREAMS

Parts = Mapping[int, list[Row]]
#: strategies that run both plans side by side: who answers meanwhile
SIDE_BY_SIDE: dict[str, Answers] = {"background": "old", "parallel-track": "by age", "pause-drain-resume": "later"}


class HasKernel(Protocol):
    kernel: RegionKernel


@dataclass
class Shelves:
    """What versions have left, and what is remembered of changes; it outlives any crash."""

    #: (version, operator) -> (the rows of each input, how far it had released the watermark)
    left: dict[tuple[QueryId, int], tuple[Parts, int]] = field(default_factory=dict)
    released: set[QueryId] = field(default_factory=set)
    lines: dict[QueryId, int] = field(default_factory=dict)
    found: dict[tuple[object, ...], int] = field(default_factory=dict)
    #: query -> its versions, oldest first
    versions: dict[QueryId, list[Query]] = field(default_factory=dict)

    def left_by(self, query: Query) -> dict[int, tuple[Parts, int]] | None:
        stateful = [i for i, operator in enumerate(query.shape.plan.operators) if operator.stateful]
        known = {i: self.left[query.id, i] for i in stateful if (query.id, i) in self.left}
        return known if len(known) == len(stateful) else None

    def arrived(self, deployment: Deployment, move: Migration) -> Arrived[list[Row]] | None:
        """The state of a move, if all that it can be made of is there."""
        new = deployment.queries.get(move.query)
        old = None if new is None or new.inherits is None else deployment.queries.get(new.inherits)
        left = None if old is None else self.left_by(old)
        if new is None or old is None or left is None:
            return None
        plan = new.shape.plan
        waits = runs_both(plan) and answers(plan) == "later" and move.operator in of_new(plan)
        if waits and new.id not in self.released:
            return None
        heir = _Heir(old, new, left)
        sides = range(len(plan.operators[move.operator].state))
        keys = {side: StateKey(new.shape.signatures[move.operator], side) for side in sides}
        parts = {side: [heir.rows(key)] for side, key in keys.items()}
        return Arrived(move, parts, min(clock for _, clock in left.values()), {})


class _Heir:
    """As `region/inherit.py`, over lists."""

    def __init__(self, old: Query, new: Query, left: Mapping[int, tuple[Parts, int]]) -> None:
        found = matching(old, new, STREAMS)
        self._new, self._left = new, left
        self._matched = {one.new: one.old for one in found.matched}
        self._computed = {one.new: one for one in found.recompute}
        self._places = {sign: index for index, sign in enumerate(old.shape.signatures)}

    def rows(self, key: StateKey) -> list[Row]:
        old, step = self._matched.get(key), self._computed.get(key)
        if old is not None:
            parts, _ = self._left[self._places[old.signature]]
            found = parts.get(old.side, [])
        elif step is not None:
            join = self._new.shape.plan.operators[step.operator]
            assert isinstance(join, Join)
            found = pairs(join, self.rows(step.left), self.rows(step.right))
        else:
            return []
        return [{**row, QUERY: self._new.id, GENERATION: 0, CLASS: 0} for row in found]


class SimAsks(Protocol):
    def __call__(self, event: Event) -> bool:
        """Whether it was done: not so while the coordinator is busy, or if there is no place for it."""


class SimPlanVersions:
    """The changes of plan of a simulated world."""

    def __init__(self, shelves: Shelves, runners: Mapping[tuple[RegionId, str], HasKernel], ask: SimAsks) -> None:
        self.shelves, self._runners, self._ask = shelves, runners, ask

    def change(self, deployment: Deployment, name: QueryId, order: str, strategy: str) -> None:
        """Nothing happens if a change is under way, or the query has that order."""
        versions = self.shelves.versions.get(name)
        old = None if not versions else deployment.queries.get(versions[-1].id)
        if versions is None or old is None or under_way(old, deployment):
            return
        tree = JoinBox.of(old.shape.plan, STREAMS).order(order)
        if tree.same_order(JoinBox.of(old.shape.plan, STREAMS).tree):
            return
        version = QueryId(f"{name}~{len(versions)}")
        new = replace(reordered(old, tree, STREAMS), id=version, inherits=old.id, until=0)
        if strategy in SIDE_BY_SIDE:
            new = replace(both(old, new, STREAMS, SIDE_BY_SIDE[strategy]), id=version)
            self._switch(name, old, new, False)
        else:
            self._ask(QueryAdjusted(old.id, old.probes, new))

    def revert(self, deployment: Deployment, name: QueryId) -> None:
        """The new box is of no use: back to the old plan, while both run."""
        versions = self.shelves.versions.get(name)
        both_ = None if not versions else deployment.queries.get(versions[-1].id)
        if versions is None or both_ is None or both_.until or not runs_both(both_.shape.plan):
            return
        if self._before(deployment, both_) is None and answers(both_.shape.plan) != "later":
            version = QueryId(f"{name}~{len(versions)}")
            self._switch(name, both_, replace(first(both_), id=version, inherits=both_.id, until=0), False)

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
                if runs_both(query.shape.plan):
                    self._line_us(deployment, query)
                return self._ask(QueryWithdrawn(query.inherits))
            case NextStep.DELIVER:
                return False
            case NextStep.SWITCH:
                name = next(n for n, known in self.shelves.versions.items() if query.id in [v.id for v in known])
                if query.successor is not None:
                    asked = query.successor.id in {v.id for v in self.shelves.versions[name]}
                    return not asked and self._switch(name, query, query.successor, True)
                version = QueryId(f"{name}~{len(self.shelves.versions[name])}")
                return self._switch(name, query, replace(second(query), id=version, inherits=query.id, until=0), False)

    def _switch(self, name: QueryId, old: Query, new: Query, wait: bool) -> bool:
        done = self._ask(PlanChanged(old.id, new, None, {}, wait))
        if done:
            self.shelves.versions[name].append(new)
        return done

    def _progress(self, deployment: Deployment) -> ChangeProgress:
        return ChangeProgress(
            deployment,
            lambda shape: [RunnerView.of(one.kernel) for (_, key), one in self._runners.items() if key == shape],
            lambda version: self._line_us(deployment, version),
            lambda version: version.id in self.shelves.released,
            lambda version: True,  # (there are no sinks)
            self.shelves.found,
        )

    def _line_us(self, deployment: Deployment, version: Query) -> int | None:
        if version.id not in self.shelves.lines:
            old = self._before(deployment, version)
            left = None if old is None else self.shelves.left_by(old)
            if old is None or left is None:
                return None
            joins = {i: found for i, found in left.items() if isinstance(old.shape.plan.operators[i], Join)}
            times = [t for i, (parts, _) in joins.items() for t in _times(old.shape.plan.operators[i], parts)]
            stood = [clock for _, clock in joins.values()]
            line = stood if answers(version.shape.plan) == "old" else times
            self.shelves.lines[version.id] = max(line, default=NEVER)
        return self.shelves.lines[version.id]

    @staticmethod
    def _before(deployment: Deployment, query: Query) -> Query | None:
        return None if query.inherits is None else deployment.queries.get(query.inherits)


def _times(operator: Any, parts: Parts) -> Iterator[int]:
    for side, rows in parts.items():
        yield from (row[operator.state[side].time] for row in rows)
