"""Shapes that read the same rows, one after the other: their plans run over them in one call of Java's.

Whoever is first with new rows has the plans run along that ran over the same rows as itself the last time: these find
their results made. It is a guess, on which nothing depends: what is made and not wanted is forgotten.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pyarrow as pa

from godwit.engine.direct import INTERPRETED, DirectPlan, Messages, run_together

#: so many plans run in one call at most: the first of them waits for all
MOST = 32
#: of so many plans a thread remembers the last rows
KNOWN = 4096


class PlanCompany:
    """The plans that run over some rows."""

    def __init__(self) -> None:
        self._ran: list[DirectPlan] = []
        self._made: dict[DirectPlan, pa.Table] = {}

    def run(self, plan: DirectPlan, inputs: Mapping[int, Messages]) -> pa.Table:
        """What a plan makes of the rows."""
        others = self._others(plan)
        if (found := self._made.pop(plan, None)) is not None:
            return found
        if sum(given.rows for given in inputs.values()) > INTERPRETED:
            return plan.run(inputs)
        made, *more = run_together([plan, *others], inputs)
        self._made |= {other: table for other, table in zip(others, more, strict=True) if table is not None}
        assert made is not None
        return made

    def _others(self, plan: DirectPlan) -> list[DirectPlan]:
        """Those that were last where this one was, and are still there."""
        last, before = _local.last, _local.last.get(plan)
        if len(last) >= KNOWN:
            last.clear()
        last[plan] = self
        self._ran.append(plan)
        found = before._ran if before is not None else ()
        return [other for other in found if last.get(other) is before and other not in self._made][: MOST - 1]


class _Local(threading.local):
    """Of a thread."""

    def __init__(self) -> None:
        #: plan -> the rows it ran over last
        self.last: dict[DirectPlan, PlanCompany] = {}


_local = _Local()
