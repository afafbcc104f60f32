"""Aggregate functions in three steps: partial (over rows), merge (of partials, in any order), final (of the merged).

Each is Spark SQL text. Decomposable functions keep a few numbers; holistic ones (distinct counts, percentiles) keep
their values, so that they are exact too. To add a function, add a row to FUNCTIONS: docs/howto/add_an_aggregate.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def _higher(final: str) -> Steps:
    """Skewness and kurtosis: the same with the third and fourth moments (Pébay 2008)."""
    m2, m3, m4 = (
        "var_pop({x}) * count({x})",
        "coalesce(skewness({x}) * pow(var_pop({x}), 1.5) * count({x}), 0D)",
        "coalesce((kurtosis({x}) + 3) * pow(var_pop({x}), 2) * count({x}), 0D)",
    )
    partial = f"struct(count({{x}}) AS n, avg({{x}}) AS mean, {m2} AS m2, {m3} AS m3, {m4} AS m4)"
    d, n = "(b.mean - a.mean)", "(a.n + b.n)"
    merged = {
        "n": n,
        "mean": f"a.mean + {d} * b.n / {n}",
        "m2": f"a.m2 + b.m2 + {d} * {d} * a.n * b.n / {n}",
        "m3": f"a.m3 + b.m3 + pow({d}, 3) * a.n * b.n * (a.n - b.n) / pow({n}, 2) "
        f"+ 3 * {d} * (a.n * b.m2 - b.n * a.m2) / {n}",
        "m4": f"a.m4 + b.m4 + pow({d}, 4) * a.n * b.n * (double(a.n) * a.n - a.n * b.n + double(b.n) * b.n) "
        f"/ pow({n}, 3) + 6 * pow({d}, 2) * (double(a.n) * a.n * b.m2 + double(b.n) * b.n * a.m2) / pow({n}, 2) "
        f"+ 4 * {d} * (a.n * b.m3 - b.n * a.m3) / {n}",
    }
    return Steps((partial,), (_folded(merged),), final)


def _pairs(final: str) -> Steps:
    """Functions of two values `{x}.y` and `{x}.x`, from means and sums of products of distances."""
    given = "({x}).y, ({x}).x"
    parts = {"n": "count", "mx": "avgx", "my": "avgy", "sxx": "sxx", "sxy": "sxy", "syy": "syy"}
    partial = ", ".join(f"regr_{function}({given}) AS {name}" for name, function in parts.items())
    n, dx, dy = "(a.n + b.n)", "(b.mx - a.mx)", "(b.my - a.my)"
    merged = {
        "n": n,
        "mx": f"a.mx + {dx} * b.n / {n}",
        "my": f"a.my + {dy} * b.n / {n}",
        "sxx": f"a.sxx + b.sxx + {dx} * {dx} * a.n * b.n / {n}",
        "sxy": f"a.sxy + b.sxy + {dx} * {dy} * a.n * b.n / {n}",
        "syy": f"a.syy + b.syy + {dy} * {dy} * a.n * b.n / {n}",
    }
    return Steps((f"struct({partial})",), (_folded(merged),), final)


def _folded(merged: Mapping[str, str]) -> str:
    """Structs taken together pair by pair; what has counted nothing (`n` = 0) changes nothing."""
    zero = ", ".join(f"'{name}', {'0L' if name == 'n' else '0D'}" for name in merged)
    other = ", ".join(f"'{name}', b.{name}" for name in merged)
    both = ", ".join(f"'{name}', {sql}" for name, sql in merged.items())
    pair = f"CASE WHEN b.n = 0 THEN a WHEN a.n = 0 THEN named_struct({other}) ELSE named_struct({both}) END"
    return f"aggregate(collect_list({{c}}), named_struct({zero}), (a, b) -> {pair})"


_VALUES = Steps(("collect_list({x})",), ("flatten(collect_list({c}))",), "")
_POSITION = "({k} * (size({0}) - 1))"
_INTERPOLATED = (
    "CASE WHEN size({0}) = 0 THEN NULL ELSE "
    f"array_sort({{0}})[int(floor{_POSITION})] + ({_POSITION} - floor{_POSITION}) * "
    f"(array_sort({{0}})[int(ceil{_POSITION})] - array_sort({{0}})[int(floor{_POSITION})]) END"
)
_DISTINCT = Steps(("collect_set({x})",), ("array_distinct(flatten(collect_list({c})))",), "bigint(size({0}))")
#: equal values stand together: (the best so far, how often; the value at hand, how often)
_MOST = (
    "aggregate(sort_array({0}), named_struct('v', get({0}, 0), 'n', 0L, 'w', get({0}, 0), 'm', 0L), "
    "(a, x) -> CASE WHEN x <=> a.w AND a.m + 1 > a.n THEN named_struct('v', x, 'n', a.m + 1, 'w', x, 'm', a.m + 1) "
    "WHEN x <=> a.w THEN named_struct('v', a.v, 'n', a.n, 'w', x, 'm', a.m + 1) "
    "WHEN a.n < 1 THEN named_struct('v', x, 'n', 1L, 'w', x, 'm', 1L) "
    "ELSE named_struct('v', a.v, 'n', a.n, 'w', x, 'm', 1L) END, a -> a.v)"
)
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
    "skewness": _higher("CASE WHEN {0}.m2 > 0 THEN sqrt({0}.n) * {0}.m3 / pow({0}.m2, 1.5) END"),
    "kurtosis": _higher("CASE WHEN {0}.m2 > 0 THEN {0}.n * {0}.m4 / pow({0}.m2, 2) - 3 END"),
    "corr": _pairs("CASE WHEN {0}.n > 1 THEN {0}.sxy / sqrt({0}.sxx * {0}.syy) END"),
    "covar_pop": _pairs("{0}.sxy / {0}.n"),
    "covar_samp": _pairs("CASE WHEN {0}.n > 1 THEN {0}.sxy / ({0}.n - 1) END"),
    "regr_count": _pairs("{0}.n"),
    **{f"regr_avg{v}": _pairs(f"CASE WHEN {{0}}.n > 0 THEN {{0}}.m{v} END") for v in "xy"},
    **{f"regr_{s}": _pairs(f"CASE WHEN {{0}}.n > 0 THEN {{0}}.{s} END") for s in ("sxx", "sxy", "syy")},
    "regr_slope": _pairs("{0}.sxy / {0}.sxx"),
    "regr_intercept": _pairs("{0}.my - {0}.sxy / {0}.sxx * {0}.mx"),
    "regr_r2": _pairs(
        "CASE WHEN {0}.sxx = 0 OR {0}.n = 0 THEN NULL WHEN {0}.syy = 0 THEN 1D "
        "ELSE {0}.sxy * {0}.sxy / ({0}.sxx * {0}.syy) END"
    ),
    "bit_and": _simple("bit_and"),
    "bit_or": _simple("bit_or"),
    "bit_xor": _simple("bit_xor"),
    "count_distinct": _DISTINCT,
    "approx_count_distinct": _DISTINCT,
    "percentile": Steps(_VALUES.partial, _VALUES.merge, _INTERPOLATED),
    "median": Steps(_VALUES.partial, _VALUES.merge, _INTERPOLATED),
    "collect_list": Steps(_VALUES.partial, _VALUES.merge, "{0}"),
    "collect_set": Steps(_DISTINCT.partial, _DISTINCT.merge, "{0}"),
    "mode": Steps(_VALUES.partial, _VALUES.merge, _MOST),
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
