"""The re-optimiser's eyes and head: running queries, as measured, asked one by one whether they are still well placed.

A query's instances become a placement problem (`placement/rules/problem.py`): operators that run once for each device
move together by site. What an operator costs a row grows with the rows that its site has to take, as in a queue: 1 ms
at an idle site, 1 / (1 - utilisation) at a busy one. `placement/reoptimise.py` decides; this keeps what it remembers
of each query. Pure: rates and time come in, decisions and hints go out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from godwit.control.plan_state import Planner
from godwit.errors import PlacementError
from godwit.ids import DeviceId, NodeId, QueryId, SiteId
from godwit.model.instances import InstanceId
from godwit.model.plan import Scan
from godwit.model.topology import Site
from godwit.placement.problem.problem import Problem
from godwit.placement.reoptimise import MoveDecision, Observation, Policy, WatchState, step
from godwit.placement.rules.base import HintKey, is_pinned
from godwit.placement.rules.problem import SELECTIVITY, SERVICE_MS, Groups, build, site_of
from godwit.placement.search.base import Options
from godwit.protocol.watermarks import source_id

#: a site is never taken to be busier than this, or one number would say all
BUSIEST = 0.99
#: Mbit of a row, about
ROW_MBIT = 8e-4


@dataclass(frozen=True)
class Watching:
    """How the re-optimiser watches, and when it moves something."""

    policy: Policy = field(default_factory=Policy)
    #: seconds between two looks
    every_s: float = 1.0
    #: rows a second that one unit of CPU can take
    rows_per_unit: float = 10_000.0
    #: factor over the latency at deployment from which a measured latency counts; less is noise
    slower: float = 5.0


@dataclass(frozen=True)
class Seen:
    """What was measured since the last look."""

    at: float
    #: "stream/device" -> rows a second
    rows: Mapping[str, float]
    #: query -> latency of its results (ms), where any came out
    latency_ms: Mapping[QueryId, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Advice:
    """A decision that was worth a search, and the hints that move it."""

    query: QueryId
    decision: MoveDecision
    hints: Mapping[HintKey, SiteId]

    @property
    def text(self) -> str:
        return f"re-optimiser, query '{self.query}': {self.decision.why}"


@dataclass
class _Memory:
    """What is remembered of a query; void when its operators or the sites are others."""

    names: tuple[str, ...]
    state: WatchState
    latency_ms: float | None


class Watch:
    """One per fleet."""

    def __init__(self, watching: Watching | None = None) -> None:
        self.watching = watching or Watching()
        self._memory: dict[QueryId, _Memory] = {}

    def look(self, planner: Planner, seen: Seen) -> list[Advice]:
        """Look at every running query; what was searched for is reported, whether it is to move or not."""
        load = _Load(planner, seen.rows)
        found = []
        for query in sorted(set(planner.plan.queries) - set(planner.parked())):
            advice = self._ask(planner, query, seen, load)
            if advice is not None:
                found.append(advice)
        return found

    def _ask(self, planner: Planner, query: QueryId, seen: Seen, load: _Load) -> Advice | None:
        hints, groups = _groups(planner, query, load, self.watching.rows_per_unit)
        if not groups.free:
            return None
        try:
            problem = build(planner.ground, groups)
        except PlacementError:
            return None  # a part of it cannot be reached now: nothing to improve before it can
        memory = self._remembered(query, problem, seen)
        now = problem.evaluate(problem.root).latency_ms
        slower = seen.latency_ms.get(query, 0.0) / (memory.latency_ms or math.inf)
        watched = Observation(seen.at, now * (slower if slower >= self.watching.slower else 1.0))
        options = Options("auto", seconds=self.watching.policy.budget_s)
        memory.state, decision = step(memory.state, problem, watched, self.watching.policy, options)
        if decision.verdict == "move":
            memory.latency_ms = None
        if decision.answer is None:
            return None
        moves = {hints[a.operator]: SiteId(a.site) for a in decision.actions if decision.verdict == "move"}
        return Advice(query, decision, moves)

    def _remembered(self, query: QueryId, problem: Problem, seen: Seen) -> _Memory:
        names = (*problem.workflow.index, "", *problem.network.index)
        memory, measured = self._memory.get(query), seen.latency_ms.get(query)
        if memory is None or memory.names != names:
            moved_at = None if memory is None else memory.state.moved_at
            state = WatchState(problem.root, problem.evaluate(problem.root).latency_ms, moved_at=moved_at)
            memory = self._memory[query] = _Memory(names, state, measured)
        elif memory.state.deployed != problem.root:  # it was moved by another command
            memory.state = replace(memory.state, deployed=problem.root)
        memory.latency_ms = memory.latency_ms or measured
        return memory


class _Load:
    """Rows a second of every instance, and of every site."""

    def __init__(self, planner: Planner, rows: Mapping[str, float]) -> None:
        plan = planner.plan

        @cache
        def of(instance: InstanceId) -> float:
            known = plan.instances[instance]
            if isinstance(known.operator, Scan):
                return rows.get(source_id(known.operator.stream, known.device or DeviceId("")), 0.0)
            return sum(of(p) * SELECTIVITY.get(plan.instances[p].kind, 1.0) for p in plan.producers.get(instance, ()))

        self.of = of
        self.at: dict[NodeId, float] = {}
        for instance, node in planner.ground.placement.items():
            if plan.instances[instance].cost:
                self.at[node] = self.at.get(node, 0.0) + of(instance)


def _groups(planner: Planner, query: QueryId, load: _Load, rows_per_unit: float) -> tuple[dict[str, HintKey], Groups]:
    """The query's operators, those that run once for each device by the site it is attached to."""
    ground = planner.ground
    members: dict[str, tuple[InstanceId, ...]] = {}
    hints: dict[str, HintKey] = {}
    at: dict[str, SiteId] = {}
    free = set()
    for name, instance in sorted(planner.plan.uses(query).items()):
        known, node = planner.plan.instances[instance], ground.placement.get(instance)
        site = None if node is None else site_of(ground, node)
        if site is None:
            continue
        device = None if known.device is None else planner.topology.devices.get(known.device)
        operator = name.operator
        home = None if device is None else device.site
        group = f"{query}/{operator}" + (f"@{home}" if home else "")
        members[group] = (*members.get(group, ()), instance)
        hints[group], at[group] = (query, operator, home), at.get(group, site)
        if not is_pinned(known):
            free.add(group)

    def ms(group: str, site: Site) -> float:
        mine = sum(load.of(i) for i in members[group])
        there = load.at.get(NodeId(site.id), 0.0) + (0.0 if at[group] == site.id else mine)
        busy = there / (rows_per_unit * site.cpu) if site.cpu > 0 else math.inf
        return SERVICE_MS / (1 - min(busy, BUSIEST)) if group in free else 0.0

    def mbps(group: str) -> float:
        return ROW_MBIT * sum(load.of(i) for i in members[group])

    shut = frozenset(s.id for s in planner.topology.sites.values() if s.region in ground.lost_regions)
    return hints, Groups(members, frozenset(free), at, ms, mbps, shut=shut)
