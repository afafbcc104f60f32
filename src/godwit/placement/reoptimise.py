"""When to move a running workflow: a pure decision, made from what was observed and what a search proposes.

`step` is a state machine without clock, threads or Spark: the caller passes the time. It does nothing
while the deployed plan does what it promised, searches when it does not, and moves only when the gain over the
horizon outweighs the migration by a margin, in a cooled-down system, and not back to where it just came from. Every
decision carries its reasons.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from godwit.placement.problem.problem import PlanVector, Problem
from godwit.placement.search.base import Options, SearchResult, search
from godwit.placement.search.chain import SiteChoice, actions_between

Verdict = Literal["keep", "move"]


@dataclass(frozen=True)
class Observation:
    """What the fleet measured since the last decision."""

    #: seconds on the caller's clock
    at: float
    #: end-to-end latency of the workflow
    latency_ms: float
    #: measured processing latency by operator where it runs now
    operator_ms: tuple[tuple[str, float], ...] = ()
    #: measured rate of each edge (source, target, Mb/s)
    edge_mbps: tuple[tuple[str, str, float], ...] = ()


@dataclass(frozen=True)
class Policy:
    """When a move is worth it."""

    #: search when the observed latency is this much above what the plan promised
    degradation: float = 0.2
    #: ... in this many observations in a row
    patience: int = 3
    #: a new plan must beat the deployed one by this share of its latency
    margin: float = 0.1
    #: seconds over which a gain is counted against the time of the move
    horizon_s: float = 60.0
    #: seconds after a move in which nothing moves again
    cooldown_s: float = 30.0
    #: seconds in which a plan that was just left is not returned to
    memory_s: float = 120.0
    #: seconds that one search may take
    budget_s: float = 0.2
    #: results a second whose latency counts (a gain of 1 ms on 1,000 results a second is worth 1 s every second)
    results_per_s: float = 10.0


@dataclass(frozen=True)
class MoveDecision:
    """Keep or move, with the numbers behind it; `why` is one line for the history."""

    verdict: Verdict
    why: str
    plan: PlanVector
    actions: tuple[SiteChoice, ...] = ()
    #: ms of latency saved on each result
    gain_ms: float = 0.0
    #: ms the move itself takes
    migration_ms: float = 0.0
    answer: SearchResult | None = None


@dataclass(frozen=True)
class WatchState:
    """What the re-optimiser remembers."""

    deployed: PlanVector
    promised_ms: float
    slow_in_a_row: int = 0
    moved_at: float | None = None
    #: plans left behind and when
    left: tuple[tuple[PlanVector, float], ...] = field(default=())


def step(
    state: WatchState, problem: Problem, seen: Observation, policy: Policy, options: Options
) -> tuple[WatchState, MoveDecision]:
    """State and observation in, new state and decision out."""
    limit = state.promised_ms * (1 + policy.degradation)
    if seen.latency_ms <= limit:
        why = f"latency {seen.latency_ms:.2f} ms is within {limit:.2f} ms (promised {state.promised_ms:.2f})"
        return replace(state, slow_in_a_row=0), MoveDecision("keep", why, state.deployed)
    slow = state.slow_in_a_row + 1
    state = replace(state, slow_in_a_row=slow)
    if slow < policy.patience:
        why = f"latency {seen.latency_ms:.2f} ms is over {limit:.2f} ms, {slow} of {policy.patience} times in a row"
        return state, MoveDecision("keep", why, state.deployed)
    if state.moved_at is not None and seen.at - state.moved_at < policy.cooldown_s:
        why = f"over {limit:.2f} ms, but the last move was only {seen.at - state.moved_at:.0f} s ago"
        return state, MoveDecision("keep", why, state.deployed)
    return _search(state, observed_problem(problem, state.deployed, seen), seen, policy, options)


def observed_problem(problem: Problem, deployed: PlanVector, seen: Observation) -> Problem:
    """The problem as it is now: what was measured replaces what was estimated.

    A site whose operators are measured r times slower than estimated (the median over them) is loaded: it is taken to
    be r times slower for every operator, also for those that are not there yet.
    """
    estimate, site = problem.tables.latency, [s for s, _ in problem.network.actions]
    latency = estimate.copy()
    factors: dict[int, list[float]] = {}
    for name, measured in seen.operator_ms:
        o = problem.workflow.index[name]
        here = site[deployed[o]]
        factors.setdefault(here, []).append(measured / max(float(estimate[o, deployed[o]]), 1e-9))
    for here, ratios in factors.items():
        latency[:, [a for a, s in enumerate(site) if s == here]] *= float(np.median(ratios))
    for name, measured in seen.operator_ms:
        o = problem.workflow.index[name]
        latency[o, deployed[o]] = measured
    rates = {(a, b): m for a, b, m in seen.edge_mbps}
    mbps = np.array(
        [rates.get((e.source, e.target), m) for e, m in zip(problem.workflow.edges, problem.tables.mbps, strict=True)]
    )
    return replace(problem, tables=replace(problem.tables, latency=latency, mbps=mbps)).at(deployed)


def _search(
    state: WatchState, now: Problem, seen: Observation, policy: Policy, options: Options
) -> tuple[WatchState, MoveDecision]:
    answer = search(now, options)
    old, new = now.evaluate(state.deployed), now.evaluate(answer.plan)
    gain, moves = old.latency_ms - new.latency_ms, actions_between(now, state.deployed, answer.plan)
    worth = gain * policy.results_per_s * policy.horizon_s
    # while the move lasts no result leaves: r * m of them wait, m / 2 on average
    price = policy.results_per_s * new.migration_ms / 1000 * new.migration_ms / 2
    recent = {p for p, when in state.left if seen.at - when < policy.memory_s}
    report = MoveDecision("keep", "", state.deployed, moves, gain, new.migration_ms, answer)
    settled = replace(state, slow_in_a_row=0, promised_ms=max(state.promised_ms, old.latency_ms))
    if not moves:
        return settled, replace(report, why=f"searched {answer.examined:,} plans: the deployed one is still the best")
    if gain < policy.margin * old.latency_ms:
        why = f"the best plan saves {gain:.2f} of {old.latency_ms:.2f} ms, less than the margin of {policy.margin:.0%}"
        return settled, replace(report, why=why)
    if worth <= price:
        takes = f"the move takes {new.migration_ms:.2f} ms, not earned back in {policy.horizon_s:.0f} s"
        why = f"saves {gain:.2f} ms a result, but {takes}"
        return settled, replace(report, why=why)
    if answer.plan in recent:
        why = "the best plan is one that was left a moment ago; waiting, to avoid going to and fro"
        return settled, replace(report, why=why)
    left = (*[(p, t) for p, t in state.left if seen.at - t < policy.memory_s], (state.deployed, seen.at))
    moved = WatchState(answer.plan, new.latency_ms, 0, seen.at, left)
    words = ", ".join(f"{m.operator} to {m.site}" for m in moves)
    change = f"latency {old.latency_ms:.2f} -> {new.latency_ms:.2f} ms, the move takes {new.migration_ms:.2f} ms"
    why = f"move {words}: {change}"
    return moved, replace(report, verdict="move", why=why, plan=answer.plan)
