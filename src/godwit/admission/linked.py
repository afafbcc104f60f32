"""The exact model where links may bind or be missing: the literal one without potentials, cycles cut when they appear.

III.7 and its big-M are replaced by cuts that are added lazily: if hosts C pass a stream round among themselves
without an origin, then for every transfer inside C, something must enter C or be made there. Transfers exist only
over links that could carry the stream, and the incumbent bounds O4 as in `reduced.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from godwit.admission import literal
from godwit.admission.highs import Programme
from godwit.admission.incumbent import cost, incumbent
from godwit.admission.literal import Literal, LiteralSolution
from godwit.admission.model import SLACK
from godwit.admission.reduced import lowest_peak
from godwit.admission.scope import PlanningScope


def solve(scope: PlanningScope, seconds: float, *, any_plan: bool = False) -> LiteralSolution:
    """Solve to proved optimality, or to any plan; the query is admitted whenever that is feasible."""
    first = None if any_plan else incumbent(scope)
    slowest = min(scope.catalog.streams[s].rate for s in scope.query.streams)
    pairs = scope.links or {}
    model = Literal(scope, [pair for pair in pairs if literal.link_room(scope, *pair) >= max(slowest - SLACK, SLACK)])
    literal.add_variables(model)
    _leave_out(model)
    literal.add_demand(model)
    literal.add_admitted_queries_stay(model)
    literal.add_availability(model)
    literal.add_operator_inputs(model)
    literal.add_senders_hold(model)
    literal.add_link_capacity(model)
    literal.add_receive_capacity(model)
    literal.add_send_capacity(model)
    literal.add_cpu_capacity(model)
    literal.add_busiest_host(model)
    model.programme.lower[model.busiest] = lowest_peak(scope)
    model.programme.equal([(model.d[h, scope.query.result], 1.0) for h in model.hosts], 1.0)
    solution = model.programme.solve(
        seconds, gap=float("inf") if any_plan else 0.0, cuts=lambda values: _cut_cycles(model, values)
    )
    found = literal.extract(model, solution.values)
    if found is None or (first is not None and cost(scope, first) < cost(scope, found)):
        found = first
    return LiteralSolution(found, solution.proved, solution)


def _leave_out(model: Literal) -> None:
    """No transfer over a link that cannot carry the stream, no operator on a host that cannot run it."""
    scope = model.scope
    for (h, m, s), column in model.x.items():
        if scope.catalog.streams[s].rate > literal.link_room(scope, h, m) + SLACK:
            model.programme.fix(column, 0.0)
    for (h, o), column in model.z.items():
        if scope.catalog.operators[o].cpu > scope.cpu[h] + SLACK:
            model.programme.fix(column, 0.0)


def _cut_cycles(model: Literal, values: NDArray[np.float64]) -> bool:
    """Add a cut for every set of hosts that feed each other a stream that none of them has from an origin."""
    found = False
    for stream in model.scope.query.streams:
        flows = {(h, m) for (h, m, s), column in model.x.items() if s == stream and values[column] > 0.5}
        loop = {host for pair in flows for host in pair} - _reached(model, stream, flows, values)
        if loop:
            found = True
            _add_cut(model, model.programme, stream, loop, flows)
    return found


def _reached(model: Literal, stream: int, flows: set[tuple[int, int]], values: NDArray[np.float64]) -> set[int]:
    makers = model.scope.catalog.makers[stream]
    reached = {
        h
        for h in model.hosts
        if stream in model.scope.origins[h] or any((h, o) in model.z and values[model.z[h, o]] > 0.5 for o in makers)
    }
    while fresh := {m for h, m in flows if h in reached} - reached:
        reached |= fresh
    return reached


def _add_cut(model: Literal, programme: Programme, stream: int, loop: set[int], flows: set[tuple[int, int]]) -> None:
    enters = [(c, 1.0) for (h, m, s), c in model.x.items() if s == stream and m in loop and h not in loop]
    made = [(model.z[h, o], 1.0) for h in loop for o in model.scope.catalog.makers[stream] if (h, o) in model.z]
    for h, m in flows:
        if h in loop and m in loop:
            programme.row([*enters, *made, (model.x[h, m, stream], -1.0)], lower=0.0)
