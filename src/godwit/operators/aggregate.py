"""Aggregate: merge partial aggregates into results, for windows that close.

Tumbling and hopping windows: partials with equal bounds merge. Sessions: partials whose intervals touch merge first
(gaps and islands), and only whole islands close.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from godwit.model.plan import QUERY, WINDOW_END, WINDOW_START, Aggregate
from godwit.operators.aggregates import final_columns, merge_columns

#: the number of a session among those of its key
ISLAND = "__island"


def merge(
    partials: DataFrame | Sequence[DataFrame],
    operator: Aggregate,
    by: tuple[str, ...] = (),
    only: str | None = None,
) -> DataFrame:
    """Partials of equal (query, key, bounds, and whatever `by` adds) become one. They may come in parts that have no
    key in common. `only`: all are of this query."""
    query = [] if only is not None else [QUERY]
    columns = [*by, *operator.keys, WINDOW_START]
    ends = [WINDOW_END] if operator.window.kind in ("sliced", "calendar") else []
    parts = [partials] if isinstance(partials, DataFrame) else partials
    merged_columns = merge_columns(operator.aggregates)
    merged = reduce(DataFrame.union, (part.groupBy(*query, *columns, *ends).agg(*merged_columns) for part in parts))
    if ends:
        return merged if only is None else merged.select(F.lit(only).alias(QUERY), *merged.columns)
    # A window's length is known: grouping by its start alone is cheaper.
    end = F.timestamp_micros(F.unix_micros(WINDOW_START) + F.lit(operator.window.size_us))
    name = F.col(QUERY) if only is None else F.lit(only).alias(QUERY)
    return merged.select(name, *columns, end.alias(WINDOW_END), *merged.columns[len(query) + len(columns) :])


def results(merged: DataFrame, operator: Aggregate) -> DataFrame:
    """(query, keys, bounds, one column an aggregate)"""
    return merged.select(QUERY, *operator.keys, WINDOW_START, WINDOW_END, *final_columns(operator.aggregates))


def merge_sessions(partials: DataFrame, operator: Aggregate) -> DataFrame:
    """Partials whose intervals overlap or touch become one session; the schema stays."""
    by = [QUERY, *operator.keys]
    return united(islands(partials, by), [*by, ISLAND], merge_columns(operator.aggregates)).drop(ISLAND)


def islands(partials: DataFrame, by: list[str]) -> DataFrame:
    """Number the sessions: partials of equal `by` whose intervals overlap or touch have the same."""
    earlier = Over.partitionBy(*by).orderBy(WINDOW_START, WINDOW_END)
    reach = F.max(WINDOW_END).over(earlier.rowsBetween(Over.unboundedPreceding, -1))
    # As Spark has it: a row exactly at a session's end still belongs to it.
    begins = F.when(reach.isNull() | (F.col(WINDOW_START) > reach), 1).otherwise(0)
    numbered = partials.withColumn("__begins", begins).withColumn(ISLAND, F.sum("__begins").over(earlier))
    return numbered.drop("__begins")


def united(partials: DataFrame, by: list[str], columns: list[Column]) -> DataFrame:
    """One row for equal `by`, from the first start to the last end."""
    bounds = (F.min(WINDOW_START).alias(WINDOW_START), F.max(WINDOW_END).alias(WINDOW_END))
    return partials.groupBy(*by).agg(*bounds, *columns)
