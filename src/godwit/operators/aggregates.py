"""Aggregate functions in three steps: partial (over rows), merge (of partials, in any order), final (of the merged).

Each is Spark SQL text. Decomposable functions keep a few numbers; holistic ones (distinct counts, percentiles) keep
their values, so that they are exact too. To add a function, add a row to FUNCTIONS: docs/howto/add_an_aggregate.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from godwit.model.plan import AggregateCall


@dataclass(frozen=True)
class Steps:
    """SQL a step. `{x}`: the argument; `{c}`: a partial's column; `{0}`, `{1}`: merged columns; `{k}`: the constant."""

    partial: tuple[str, ...]
    merge: tuple[str, ...]
    final: str


def _simple(function: str, merge: str | None = None) -> Steps:
    return Steps((f"{function}({{x}})",), (f"{merge or function}({{c}})",), "{0}")


def _moments(final: str) -> Steps:
    """Variance and its kin, from (n, mean, sum of squared distances), merged pair by pair as Chan et al. do."""
    partial = "struct(count({x}) AS n, avg({x}) AS mean, var_pop({x}) * count({x}) AS m2)"
    zero = "named_struct('n', 0L, 'mean', 0D, 'm2', 0D)"
    pair = (
        "(a, b) -> CASE WHEN b.n = 0 THEN a WHEN a.n = 0 THEN named_struct('n', b.n, 'mean', b.mean, 'm2', b.m2) "
        "ELSE named_struct('n', a.n + b.n, 'mean', a.mean + (b.mean - a.mean) * b.n / (a.n + b.n), "
        "'m2', a.m2 + b.m2 + (b.mean - a.mean) * (b.mean - a.mean) * a.n * b.n / (a.n + b.n)) END"
    )
    return Steps((partial,), (f"aggregate(collect_list({{c}}), {zero}, {pair})",), final)


_VALUES = Steps(("collect_list({x})",), ("flatten(collect_list({c}))",), "")
_POSITION = "({k} * (size({0}) - 1))"
_INTERPOLATED = (
    "CASE WHEN size({0}) = 0 THEN NULL ELSE "
    f"array_sort({{0}})[int(floor{_POSITION})] + ({_POSITION} - floor{_POSITION}) * "
    f"(array_sort({{0}})[int(ceil{_POSITION})] - array_sort({{0}})[int(floor{_POSITION})]) END"
)
_DISTINCT = Steps(("collect_set({x})",), ("array_distinct(flatten(collect_list({c})))",), "bigint(size({0}))")
_VAR_SAMP = "CASE WHEN {0}.n < 2 THEN NULL ELSE {0}.m2 / ({0}.n - 1) END"
_VAR_POP = "CASE WHEN {0}.n < 1 THEN NULL ELSE {0}.m2 / {0}.n END"

FUNCTIONS: dict[str, Steps] = {
    "count": _simple("count", "sum"),
    "count_if": _simple("count_if", "sum"),
    "sum": _simple("sum"),
    "min": _simple("min"),
    "max": _simple("max"),
    "bool_and": _simple("bool_and"),
    "bool_or": _simple("bool_or"),
    "avg": Steps(("sum({x})", "count({x})"), ("sum({c})", "sum({c})"), "try_divide({0}, {1})"),
    "stddev_samp": _moments(f"sqrt({_VAR_SAMP})"),
    "stddev_pop": _moments(f"sqrt({_VAR_POP})"),
    "var_samp": _moments(_VAR_SAMP),
    "var_pop": _moments(_VAR_POP),
    "count_distinct": _DISTINCT,
    "approx_count_distinct": _DISTINCT,
    "percentile": Steps(_VALUES.partial, _VALUES.merge, _INTERPOLATED),
    "median": Steps(_VALUES.partial, _VALUES.merge, _INTERPOLATED),
}

ALIASES = {
    "mean": "avg",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
    "variance": "var_samp",
    "every": "bool_and",
    "any": "bool_or",
    "some": "bool_or",
}


def steps_of(call: AggregateCall) -> Steps:
    return FUNCTIONS[ALIASES.get(call.function, call.function)]


def partial_columns(calls: Sequence[AggregateCall]) -> list[Column]:
    """What Partial computes over rows: columns `name__0`, `name__1`, ..."""
    return [
        F.expr(sql.format(x=call.argument if call.argument is not None else "1")).alias(f"{call.name}__{i}")
        for call in calls
        for i, sql in enumerate(steps_of(call).partial)
    ]


def merge_columns(calls: Sequence[AggregateCall], where: str = "", prefix: str = "") -> list[Column]:
    """What merging computes over partials (those for which `where` holds), under the same names with the prefix."""
    return [
        F.expr(sql.format(c=f"CASE WHEN {where} THEN {name} END" if where else name)).alias(f"{prefix}{name}")
        for call in calls
        for name, sql in zip(partial_names(call), steps_of(call).merge, strict=True)
    ]


def partial_names(call: AggregateCall) -> list[str]:
    return [f"{call.name}__{i}" for i in range(len(steps_of(call).partial))]


def final_columns(calls: Sequence[AggregateCall], prefix: str = "") -> list[Column]:
    """The results, from the merged partials."""
    return [F.expr(_final(call, prefix)).alias(f"{prefix}{call.name}") for call in calls]


def _final(call: AggregateCall, prefix: str = "") -> str:
    steps = steps_of(call)
    names = [f"{prefix}{name}" for name in partial_names(call)]
    constant = call.constants[0] if call.constants else "0.5"
    return steps.final.format(*names, k=f"double({constant})")
