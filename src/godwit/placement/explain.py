"""A plan in words and in values: where everything runs, what it costs, why not better, and what moves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from godwit.placement.problem.problem import Evaluation, PlanVector, Problem
from godwit.placement.search.base import SearchResult
from godwit.placement.search.chain import SiteChoice, actions_between


@dataclass(frozen=True)
class OperatorLine:
    """One operator of a plan."""

    operator: str
    site: str
    platform: str
    processing_ms: float
    #: when its result is ready, counted from the sources
    ready_ms: float
    critical: bool
    moved: bool


@dataclass(frozen=True)
class Explanation:
    """Everything there is to say about an answer."""

    algorithm: str
    before: Evaluation
    after: Evaluation
    operators: tuple[OperatorLine, ...]
    actions: tuple[SiteChoice, ...]
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def explain(problem: Problem, answer: SearchResult) -> Explanation:
    """Explain an answer against the deployed plan."""
    before, after = problem.evaluate(problem.root), problem.evaluate(answer.plan)
    actions = actions_between(problem, problem.root, answer.plan)
    return Explanation(
        answer.algorithm,
        before,
        after,
        _lines(problem, answer.plan),
        actions,
        tuple(_reasons(problem, answer, before, after)),
    )


def ready_times(problem: Problem, plan: PlanVector) -> list[float]:
    """When each operator's result is ready."""
    graph, site = problem.workflow.graph, [problem.network.actions[a][0] for a in plan]
    distance, ready = problem.network.paths.distance, [0.0] * len(plan)
    for o in problem.workflow.topological:
        arrive = max((ready[u] + float(distance[site[u], site[o]]) for u in graph.predecessors(o)), default=0.0)
        ready[o] = float(problem.latency[o, plan[o]]) + arrive
    return ready


def critical_path(problem: Problem, plan: PlanVector) -> list[int]:
    """The operators of the slowest path, source first."""
    graph, ready = problem.workflow.graph, ready_times(problem, plan)
    site, distance = [problem.network.actions[a][0] for a in plan], problem.network.paths.distance
    path = [max((o for o in graph if graph.out_degree(o) == 0), key=lambda o: (ready[o], -o))]
    while list(graph.predecessors(path[-1])):
        last = path[-1]
        path.append(max(graph.predecessors(last), key=lambda u: (ready[u] + distance[site[u], site[last]], -u)))
    return path[::-1]


def _lines(problem: Problem, plan: PlanVector) -> tuple[OperatorLine, ...]:
    where, ready, critical = problem.describe(plan), ready_times(problem, plan), set(critical_path(problem, plan))
    order = problem.workflow.topological
    names = [problem.workflow.operators[o].name for o in order]
    return tuple(
        OperatorLine(
            name, *where[name], float(problem.latency[o, plan[o]]), ready[o], o in critical, plan[o] != problem.root[o]
        )
        for o, name in zip(order, names, strict=True)
    )


def _reasons(problem: Problem, answer: SearchResult, before: Evaluation, after: Evaluation) -> list[str]:
    path = " -> ".join(problem.workflow.operators[o].name for o in critical_path(problem, answer.plan))
    lines = [f"{answer.algorithm} looked at {answer.examined:,} plans in {answer.seconds * 1000:.1f} ms", *answer.notes]
    if not answer.complete:
        lines.append("the time limit cut the search short")
    lines.append(f"latency {after.latency_ms:.3f} ms is set by {path}")
    lines.append(_moves(problem, answer, before, after))
    lines.append(_proof(answer))
    if answer.front:
        plans = "1 plan is" if len(answer.front) == 1 else f"{len(answer.front)} plans are"
        lines.append(f"{plans} on the Pareto front" + (", all there are" if answer.front_complete else ""))
    return lines


def _moves(problem: Problem, answer: SearchResult, before: Evaluation, after: Evaluation) -> str:
    moved = int(np.sum(np.array(answer.plan) != np.array(problem.root)))
    if not moved:
        return "nothing moves: the deployed plan is the best one found"
    if not before.feasible:
        return f"{moved} operators move; the deployed plan breaks a constraint, this one keeps all"
    return (
        f"{moved} operators move, the farthest by {after.migration_ms:.3f} ms; cost {before.cost:g} -> {after.cost:g}"
    )


def _proof(answer: SearchResult) -> str:
    if answer.proof is None or answer.gap is None:
        return "no bound was computed: use the search 'auto' or 'optimum' for a proof"
    if answer.gap == 0.0:
        return f"proven optimal: {answer.proof.how}"
    return f"at most {answer.gap:.2%} above the optimum (bound {answer.proof.bound:g}): {answer.proof.how}"
