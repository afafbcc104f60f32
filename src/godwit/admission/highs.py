"""A mixed integer programme as lists, solved by HiGHS on one thread. The only module that touches highspy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import highspy
import numpy as np
from numpy.typing import NDArray

INF = highspy.kHighsInf
Terms = Iterable[tuple[int, float]]


@dataclass(frozen=True)
class Solution:
    """What the solver says. `status` is optimal, infeasible, or limit (with or without values)."""

    status: str
    objective: float
    #: proved lower bound of the objective
    bound: float
    values: NDArray[np.float64] | None

    @property
    def proved(self) -> bool:
        """Whether the answer is final: optimal, or certainly infeasible."""
        return self.status in ("optimal", "infeasible")


@dataclass
class Programme:
    """Minimise cost * x subject to rows; all columns are at least 0."""

    cost: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    _start: list[int] = field(default_factory=lambda: [0])
    _index: list[int] = field(default_factory=list)
    _value: list[float] = field(default_factory=list)

    def column(self, cost: float = 0.0, lower: float = 0.0, upper: float = 1.0, *, integer: bool = True) -> int:
        """A new variable; binary unless said otherwise."""
        self.cost.append(cost)
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.cost) - 1

    def row(self, terms: Terms, lower: float = -INF, upper: float = INF) -> None:
        """lower <= sum of terms <= upper."""
        for index, value in terms:
            self._index.append(index)
            self._value.append(value)
        self._start.append(len(self._index))
        self.row_lower.append(lower)
        self.row_upper.append(upper)

    def at_most(self, terms: Terms, bound: float) -> None:
        """Sum of terms <= bound."""
        self.row(terms, upper=bound)

    def equal(self, terms: Terms, bound: float) -> None:
        """Sum of terms = bound."""
        self.row(terms, bound, bound)

    def fix(self, column: int, value: float) -> None:
        """Fix a variable."""
        self.lower[column] = self.upper[column] = value

    def solve(
        self,
        seconds: float,
        *,
        start: Mapping[int, float] | None = None,
        gap: float = 0.0,
        cuts: Callable[[NDArray[np.float64]], bool] | None = None,
    ) -> Solution:
        """Solve from an optional start. `cuts` may add rows against a solution (and return True): solve again."""
        end = time.monotonic() + seconds
        while True:
            answer = self._run(max(end - time.monotonic(), 0.01), start, gap)
            if cuts is None or answer.values is None or not cuts(answer.values):
                return answer
            if time.monotonic() > end:
                return Solution("limit", INF, answer.bound, None)

    def _run(self, seconds: float, start: Mapping[int, float] | None, gap: float) -> Solution:
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("time_limit", seconds)
        solver.setOptionValue("mip_rel_gap", gap)
        solver.setOptionValue("mip_abs_gap", 1e-6)
        solver.passModel(self._lp())
        if start is not None:
            index = np.fromiter(start.keys(), dtype=np.int32)
            solver.setSolution(len(start), index, np.fromiter(start.values(), dtype=float))
        solver.run()
        return _read(solver)

    def _lp(self) -> highspy.HighsLp:
        lp = highspy.HighsLp()
        lp.num_col_ = len(self.cost)
        lp.num_row_ = len(self.row_lower)
        lp.col_cost_ = np.array(self.cost)
        lp.col_lower_ = np.array(self.lower)
        lp.col_upper_ = np.array(self.upper)
        lp.row_lower_ = np.array(self.row_lower)
        lp.row_upper_ = np.array(self.row_upper)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array(self._start)
        lp.a_matrix_.index_ = np.array(self._index)
        lp.a_matrix_.value_ = np.array(self._value)
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[whole] for whole in self.integer]
        return lp


def _read(solver: highspy.Highs) -> Solution:
    status = solver.getModelStatus()
    info = solver.getInfo()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Solution("infeasible", INF, INF, None)
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    values = np.array(solver.getSolution().col_value) if feasible else None
    name = "optimal" if status == highspy.HighsModelStatus.kOptimal else "limit"
    return Solution(name, info.objective_function_value if feasible else INF, info.mip_dual_bound, values)
