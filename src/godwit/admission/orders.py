"""Join orders of all admitted queries together: the least CPU that makes all requested streams, hosts left aside.

Multi-query optimisation as a linear programme. z_o: operator o runs. Each requested stream q has its own continuous
flow f_qo <= z_o through its hypergraph: one unit is made of q, and of each inner stream as much is made as is used.
With one flow for each stream the relaxation is nearly always integral (measured: always, on the paper's workload),
where the plain rows z_o <= y_s leave a gap of 7 %. Queries come and go by their demand row, so the simplex basis
stays warm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import highspy
import numpy as np

from godwit.admission.model import AdmissionQuery, Catalog

_WHOLE = 1e-6


@dataclass(frozen=True)
class Orders:
    """An answer: the operators to run, and the CPU they take; `bound` is proved, `exact` says they are equal."""

    operators: frozenset[int]
    cpu: float
    bound: float
    exact: bool


class JoinOrders:
    """The linear programme, kept warm between queries."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._solver = highspy.Highs()  # type: ignore[no-untyped-call]
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("threads", 1)
        self._runs: dict[int, int] = {}
        self._demand_rows: dict[int, int] = {}
        self._extra: dict[int, float] = {}
        self._columns = 0
        self._rows = 0

    def demand(self, query: AdmissionQuery, wanted: bool = True) -> None:
        """Ask for a query's stream, or no longer."""
        if query.result not in self._demand_rows:
            self._enter(query)
        value = 1.0 if wanted else 0.0
        self._solver.changeRowBounds(self._demand_rows[query.result], value, value)

    def surcharge(self, live: set[int], extra: float) -> None:
        """Make every operator that does not run yet dearer than its CPU: starting it means a migration."""
        for operator, column in self._runs.items():
            wanted = 0.0 if operator in live else extra
            if self._extra.get(operator, 0.0) != wanted:
                self._extra[operator] = wanted
                self._solver.changeColCost(column, self._catalog.operators[operator].cpu + wanted)

    def solve(self, seconds: float = 10.0) -> Orders:
        """The best join orders for all demanded streams; a fractional answer goes through branch and bound."""
        self._solver.setOptionValue("time_limit", self._solver.getRunTime() + seconds)
        self._solver.run()
        bound = self._solver.getInfo().objective_function_value
        operators = self._whole()
        if operators is None:
            operators, bound = self._branch(seconds)
        cpu = sum(self._catalog.operators[o].cpu + self._extra.get(o, 0.0) for o in operators)
        return Orders(operators, cpu, bound, cpu <= bound + 1e-3)

    def _whole(self) -> frozenset[int] | None:
        values = self._solver.getSolution().col_value
        chosen = {operator: values[column] for operator, column in self._runs.items() if values[column] > _WHOLE}
        if any(value < 1 - _WHOLE for value in chosen.values()):
            return None
        return frozenset(chosen)

    def _branch(self, seconds: float) -> tuple[frozenset[int], float]:
        columns = np.fromiter(self._runs.values(), dtype=np.int32)
        whole = np.full(len(columns), int(highspy.HighsVarType.kInteger), dtype=np.uint8)
        self._solver.changeColsIntegrality(len(columns), columns, whole)
        self._solver.setOptionValue("time_limit", self._solver.getRunTime() + seconds)
        self._solver.run()
        bound = self._solver.getInfo().mip_dual_bound
        values = self._solver.getSolution().col_value
        chosen = frozenset(o for o, column in self._runs.items() if values[column] > 0.5)
        loose = np.full(len(columns), int(highspy.HighsVarType.kContinuous), dtype=np.uint8)
        self._solver.changeColsIntegrality(len(columns), columns, loose)
        return chosen, bound

    def _enter(self, query: AdmissionQuery) -> None:
        """Columns z (once per operator) and f (this query's), rows f <= z, conservation, and the demand."""
        for operator in query.operators:
            if operator not in self._runs:
                self._runs[operator] = self._column(self._catalog.operators[operator].cpu)
        flow = {operator: self._column(0.0) for operator in query.operators}
        for operator, column in flow.items():
            self._row(0.0, highspy.kHighsInf, [(self._runs[operator], 1.0), (column, -1.0)])
        for stream in query.streams:
            made = [(flow[o], 1.0) for o in self._catalog.makers[stream] if o in flow]
            if stream == query.result:
                self._demand_rows[stream] = self._rows
                self._row(0.0, 0.0, made)
            elif made:
                used = [(flow[o], -1.0) for o in query.operators if stream in self._catalog.operators[o].inputs]
                self._row(0.0, 0.0, made + used)

    def _column(self, cost: float) -> int:
        self._solver.addCol(cost, 0.0, 1.0, 0, np.empty(0, dtype=np.int32), np.empty(0))
        self._columns += 1
        return self._columns - 1

    def _row(self, lower: float, upper: float, terms: Iterable[tuple[int, float]]) -> None:
        pairs = list(terms)
        index = np.array([column for column, _ in pairs], dtype=np.int32)
        value = np.array([coefficient for _, coefficient in pairs])
        self._solver.addRow(lower, upper, len(pairs), index, value)
        self._rows += 1
