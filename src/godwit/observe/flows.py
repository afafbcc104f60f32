"""What flows through the operators of a shape, counted while it runs: by micro-batch, and as differences of two looks.

Only what a micro-batch knows anyway is counted: the rows that a stateful operator takes in, and the results. So what a
join makes is known where its rows reach another stateful operator, or the sink, one by one. Time is event time: two
looks lie as far apart as the newest events that were read by then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from godwit.model.plan import Plan, Project, Sink
from godwit.observe.rollup import Totals

Where = tuple[int, int]


@dataclass(frozen=True)
class Flows:
    """Of one shape, over all regions."""

    #: (operator, input) of stateful operators -> rows
    taken: Mapping[Where, int] = field(default_factory=dict)
    #: results
    out: int = 0
    #: how far event time has come (microseconds) since the first micro-batch, or since the look before
    event_us: int = 0
    #: micro-batches in which stateful operators took rows in, and how long these took (milliseconds)
    batches: int = 0
    took_ms: float = 0.0

    @staticmethod
    def of(totals: Collection[Totals]) -> Flows:
        taken: dict[Where, int] = {}
        out = 0
        known = [one for one in totals if one.first_us is not None]
        spans = [(one.first_us or 0, one.newest_us or 0) for one in known]
        for one in totals:
            for where, rows in one.taken.items():
                operator, _, side = where.partition("/")
                key = int(operator), int(side)
                taken[key] = taken.get(key, 0) + rows
            out += one.rows_out
        event_us = max(last for _, last in spans) - min(first for first, _ in spans) if spans else 0
        batches = sum(one.stateful_batches for one in totals)
        return Flows(taken, out, event_us, batches, sum(one.stateful_ms for one in totals))

    def since(self, before: Flows) -> Flows:
        taken = {where: rows - before.taken.get(where, 0) for where, rows in self.taken.items()}
        batches, took_ms = self.batches - before.batches, self.took_ms - before.took_ms
        return Flows(taken, self.out - before.out, self.event_us - before.event_us, batches, took_ms)

    @property
    def seconds(self) -> float:
        return self.event_us / 1e6

    @property
    def batch_s(self) -> float:
        """How long a micro-batch takes."""
        return self.took_ms / self.batches / 1000 if self.batches else 0.0

    def made(self, plan: Plan, operator: int) -> int | None:
        """The rows that an operator has made; None: they are not counted one by one."""
        above, side = plan.consumer(operator)
        node = plan.operators[above]
        if isinstance(node, Sink):
            return self.out
        if node.stateful:
            return self.taken.get((above, side), 0)
        return self.made(plan, above) if isinstance(node, Project) else None
