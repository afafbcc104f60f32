"""Partial: combine the rows of one micro-batch into partial aggregates per (query, class, key, window); no state."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from godwit.model.plan import CLASS, QUERY, WINDOW_END, WINDOW_START, Partial, Window
from godwit.operators.aggregates import partial_columns

_BOUNDS = ("__start", "__w", WINDOW_START, WINDOW_END)


def partial(frame: DataFrame, operator: Partial, only: str | None = None) -> DataFrame:
    """Rows in; (query, keys, window bounds, partial columns) out.

    `only`: all rows are of this query. Spark would hash its name for every row: it is left out of the grouping.
    """
    query = [name for name in (QUERY, CLASS) if name in frame.columns and (name == CLASS or only is None)]
    keys = [F.expr(key.sql).alias(key.name) for key in operator.keys]
    names = [key.name for key in operator.keys]
    columns = partial_columns(operator.aggregates)
    window = operator.window
    if window.kind in ("tumbling", "sliced", "calendar"):
        # Grouping by a number is cheaper than by Spark's window struct; the bounds are made from it afterwards.
        grouped = frame.groupBy(*query, *keys, start_of(window).alias("__start")).agg(*columns)
        bounds = _bounds(window, F.col("__start"))
    elif window.kind == "unbounded":
        first, last = F.min(window.time).alias(WINDOW_START), F.max(window.time).alias(WINDOW_END)
        # (of no rows at all, Spark makes one if there is nothing to group by)
        grouped = frame.groupBy(*query, *keys).agg(first, last, *columns).where(f"{WINDOW_END} IS NOT NULL")
        bounds = [F.col(WINDOW_START), F.col(WINDOW_END)]
    else:
        grouped = frame.groupBy(*query, *keys, _window(window).alias("__w")).agg(*columns)
        bounds = [F.col("__w.start").alias(WINDOW_START), F.col("__w.end").alias(WINDOW_END)]
    partials = [column for column in grouped.columns if column not in (QUERY, CLASS, *names, *_BOUNDS)]
    name = [] if only is None else [F.lit(only).alias(QUERY)]
    return grouped.select(*name, *query, *names, *bounds, *partials)


def start_of(window: Window) -> Column:
    """When a row's window, or its slice, begins (microseconds); of a calendar's window, in local time."""
    time = F.col(window.time)
    micros = F.unix_micros(F.from_utc_timestamp(time, window.zone) if window.zone else time)
    return _floor(micros, window.slice_us or window.size_us, window.offset_us)


def _bounds(window: Window, start: Column) -> list[Column]:
    """The bounds of a partial, of when it begins."""
    first, end = F.timestamp_micros(start), F.timestamp_micros(start + F.lit(window.size_us))
    if window.kind == "sliced":
        # A slice is needed until the last window that it is in closes, which is the one that began last.
        end = F.timestamp_micros(_floor(start, window.slide_us, window.offset_us) + F.lit(window.size_us))
    if window.zone:
        first, end = F.to_utc_timestamp(first, window.zone), F.to_utc_timestamp(end, window.zone)
    return [first.alias(WINDOW_START), end.alias(WINDOW_END)]


def _floor(micros: Column, length: int, offset: int) -> Column:
    return micros - F.pmod(micros - F.lit(offset) if offset else micros, F.lit(length))


def _window(window: Window) -> Column:
    if window.kind == "session":
        return F.session_window(F.col(window.time), f"{window.gap_us} microseconds")
    return F.window(F.col(window.time), f"{window.size_us} microseconds", f"{window.slide_us} microseconds")
