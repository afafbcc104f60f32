"""Between the reduced model's variables and plans: transfers from copy counts, and a plan as a starting point."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from godwit.admission.reduced_variables import Reduced
from godwit.admission.scope import load_snapshot
from godwit.admission.state import AllocationLedger, LedgerSnapshot


def extract(model: Reduced, values: NDArray[np.float64]) -> AllocationLedger:
    """The state that the variables say."""
    scope, fixed = model.scope, model.scope.fixed()
    placed = {pair for pair, column in model.runs.items() if values[column] > 0.5}
    flows: set[tuple[int, int, int]] = set()
    for stream in scope.query.streams:
        receivers = {h for (h, s), column in model.gets.items() if s == stream and values[column] > 0.5}
        counts = {h: round(values[column]) for (h, s), column in model.copies.items() if s == stream}
        makers = {h for h, o in placed if scope.catalog.operators[o].output == stream}
        origins = makers | {h for h, streams in enumerate(scope.origins) if stream in streams}
        flows |= {(g, m, stream) for g, m in forest(origins, receivers - origins, counts)}
    state = LedgerSnapshot(
        fixed.served | {pair for pair, column in model.serves.items() if values[column] > 0.5},
        fixed.flows | flows,
        fixed.placed | placed,
    )
    return load_snapshot(scope.network, scope.catalog, state)


def forest(origins: set[int], receivers: set[int], counts: dict[int, int]) -> list[tuple[int, int]]:
    """(sender, receiver) pairs: receivers that send most themselves are attached first, so copies never run out."""
    stubs = [h for h in sorted(origins) for _ in range(counts.get(h, 0))]
    pairs = []
    for host in sorted(receivers, key=lambda h: (-counts.get(h, 0), h)):
        assert stubs, "an origin sends at least one copy, so there is always a free one"
        pairs.append((stubs.pop(0), host))
        stubs += [host] * counts.get(host, 0)
    return pairs


def starting_point(model: Reduced, plan: AllocationLedger) -> dict[int, float] | None:
    """The plan's whole-number variables; None if the model has left out a part of the plan."""
    free = set(model.scope.query.operators)
    values = {
        column: 0.0 for table in (model.runs, model.gets, model.copies, model.serves) for column in table.values()
    }
    state = plan.snapshot()
    used = [(model.runs, pair) for pair in state.placed if pair[1] in free]
    used += [(model.serves, pair) for pair in state.served if pair[1] in model.scope.wanted]
    for source, target, stream in state.flows:
        if stream in model.scope.query.streams:
            used += [(model.gets, (target, stream)), (model.copies, (source, stream))]
    for table, pair in used:
        if pair not in table:
            return None
        values[table[pair]] += 1.0
    return values
