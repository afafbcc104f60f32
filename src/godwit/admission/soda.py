"""SODA (Wolf et al., Middleware 2008) as the paper compares with it: fixed templates, planned in epochs, in three
stages.

macroQ   admits queries by rank while their aggregate CPU, with glued templates, fits into the system.
macroW   places the new operators by a mixed integer programme that balances load and spares the network.
miniW    places what macroW left open, one operator after the other, and improves by local moves and swaps.

A template is the user's plan: inputs joined in the order given. Equal streams are glued: made once, used by all.
Streams travel from where they start to where they are used, once per host; nothing is relayed. Queries with fixed
demands leave nothing for SODA's stages that tune allocations. A query that macroQ admitted and miniW cannot place is
not admitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from godwit.admission.highs import Programme
from godwit.admission.model import SLACK, AdmissionQuery, Catalog, HostNetwork
from godwit.admission.repair import repair
from godwit.admission.state import AllocationLedger

#: above this many operator x host pairs macroW would not finish; miniW decides alone
_MACRO_LIMIT = 4000


@dataclass
class Soda:
    """The scheduler with its state."""

    network: HostNetwork
    catalog: Catalog
    #: seconds for macroW in each epoch
    seconds: float = 5.0
    ledger: AllocationLedger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = AllocationLedger(self.network, self.catalog)

    def epoch(self, queries: Sequence[AdmissionQuery]) -> list[bool]:
        """Plan a batch; says for each query whether it runs now."""
        chosen = self.macro_q(queries)
        hints = self.macro_w([query for query, fine in zip(queries, chosen, strict=True) if fine])
        return [fine and self.mini_w(query, hints) for query, fine in zip(queries, chosen, strict=True)]

    def macro_q(self, queries: Sequence[AdmissionQuery]) -> list[bool]:
        """First submitted, first ranked: admit while the total CPU suffices."""
        free = float(self.ledger.cpu_free.sum())
        made = {s for s, hosts in self.ledger.made.items() if hosts}
        answer = []
        for query in queries:
            new = [o for o in template(self.catalog, query) if self.catalog.operators[o].output not in made]
            cpu = sum(self.catalog.operators[o].cpu for o in new)
            answer.append(cpu <= free + SLACK)
            if answer[-1]:
                free -= cpu
                made |= {self.catalog.operators[o].output for o in new}
        return answer

    def macro_w(self, queries: Sequence[AdmissionQuery]) -> dict[int, int]:
        """Operator -> host for all new operators at once, or nothing if the programme is too large or too slow."""
        new = {o for q in queries for o in template(self.catalog, q) if not self.ledger.made[self._output(o)]}
        operators = sorted(new)
        if len(operators) * len(self.network) > _MACRO_LIMIT:
            return {}
        return _place_all(self.ledger, operators, self.seconds)

    def mini_w(self, query: AdmissionQuery, hints: dict[int, int]) -> bool:
        """Place a query's operators one by one, on the hinted host or else the least loaded one; swap if short."""
        if query.result in self.ledger.served:
            return True
        mark = self.ledger.mark()
        for operator in template(self.catalog, query):
            if not self.ledger.made[self._output(operator)] and not self._place(operator, hints.get(operator)):
                self.ledger.rollback(mark)
                return False
        self.ledger.serve(query.result, min(self.ledger.made[query.result]))
        if self.ledger.fits() or repair(self.ledger):
            self.ledger.forget()
            return True
        self.ledger.rollback(mark)
        return False

    def _output(self, operator: int) -> int:
        return self.catalog.operators[operator].output

    def _place(self, operator: int, hint: int | None) -> bool:
        order = [int(h) for h in np.argsort(-self.ledger.cpu_free, kind="stable")]
        tries = order if hint is None else [hint, *order]
        for host in tries:
            mark = self.ledger.mark()
            if self._run(operator, host) and self.ledger.fits():
                return True
            self.ledger.rollback(mark)
        return self._run(operator, tries[0])

    def _run(self, operator: int, host: int) -> bool:
        """Run an operator with its inputs fetched from where they start; overdrafts are for miniW's swaps."""
        for stream in self.catalog.operators[operator].inputs:
            if not self.ledger.holds(stream, host):
                starts = self.catalog.streams[stream].homes | set(self.ledger.made[stream])
                if not starts:
                    return False
                self.ledger.receive(stream, host, max(starts, key=lambda g: (self.ledger.out_free[g], -g)))
        self.ledger.place(operator, host)
        return True


def template(catalog: Catalog, query: AdmissionQuery) -> list[int]:
    """The user's plan: every stream by its first operator that adds the last input, inputs before outputs."""
    allowed = set(query.operators)
    plan: dict[int, None] = {}

    def visit(stream: int) -> None:
        makers = [o for o in catalog.makers[stream] if o in allowed]
        if makers:
            operator = max(makers, key=lambda o: (_lone_input(catalog, o), -o))
            for needed in catalog.operators[operator].inputs:
                visit(needed)
            plan[operator] = None

    visit(query.result)
    return list(plan)


def _lone_input(catalog: Catalog, operator: int) -> int:
    """Left-deep: prefer to join one base stream, the last one, to the rest."""
    lone = [s for s in catalog.operators[operator].inputs if catalog.streams[s].homes]
    return max(lone, default=-1)


def _place_all(ledger: AllocationLedger, operators: Sequence[int], seconds: float) -> dict[int, int]:
    """min busiest host + transfers: z_oh place, r_sh receive, CPU and NIC in as limits."""
    catalog, hosts = ledger.catalog, range(len(ledger.network))
    programme = Programme()
    busiest = programme.column(1 / max(ledger.typical[0], SLACK), upper=float("inf"), integer=False)
    place = {(o, h): programme.column() for o in operators for h in hosts}
    gets: dict[tuple[int, int], int] = {}
    for o in operators:
        programme.equal([(place[o, h], 1.0) for h in hosts], 1.0)
        for h in hosts:
            for s in catalog.operators[o].inputs:
                if catalog.streams[s].homes and not ledger.holds(s, h):
                    if (s, h) not in gets:
                        price = catalog.streams[s].rate / max(float(ledger.network.nic_in.sum()), SLACK)
                        gets[s, h] = programme.column(price, integer=False)
                    programme.at_most([(place[o, h], 1.0), (gets[s, h], -1.0)], 0.0)
    for h in hosts:
        load = [(place[o, h], catalog.operators[o].cpu) for o in operators]
        programme.at_most(load, float(ledger.cpu_free[h]))
        used = float(ledger.network.cpu[h] - ledger.cpu_free[h])
        programme.at_most([*load, (busiest, -1.0)], -used)
        taken = [(c, catalog.streams[s].rate) for (s, m), c in gets.items() if m == h]
        programme.at_most(taken, float(ledger.in_free[h]))
    answer = programme.solve(seconds, gap=0.02)
    if answer.values is None:
        return {}
    return {o: h for (o, h), column in place.items() if answer.values[column] > 0.5}
