"""Deferred partials: rows are kept as they come, and become partials of one row each when they are read.

Where nearly every row has a (key, window) of its own, grouping a micro-batch makes hardly fewer rows, and costs a
shuffle. Then only the columns that the aggregates need are written, and the one grouping there is happens when the
window closes. It works for tumbling windows and for functions whose partial of one row is an expression.
"""

from __future__ import annotations

from functools import partial

from godwit.engine.file_frame import FileFrame
from godwit.engine.frame import Frame
from godwit.model.plan import QUERY, WINDOW_END, WINDOW_START, Aggregate, AggregateCall, Partial, Window
from godwit.operators.aggregates import ALIASES
from godwit.region.sql_text import text

#: SQL of a partial's columns for one row. `{x}`: the argument; `{sum}`: the type of its sum
ONE_ROW: dict[str, tuple[str, ...]] = {
    "count": ("CASE WHEN {x} IS NULL THEN 0L ELSE 1L END",),
    "count_if": ("CASE WHEN {x} THEN 1L ELSE 0L END",),
    "sum": ("CAST({x} AS {sum})",),
    "min": ("{x}",),
    "max": ("{x}",),
    "bool_and": ("{x}",),
    "bool_or": ("{x}",),
    "avg": ("CAST({x} AS {sum})", "CASE WHEN {x} IS NULL THEN 0L ELSE 1L END"),
}
#: the type of a sum, by the type of what is summed; a decimal's depends on its precision: not deferred
SUMS = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "bigint": "bigint"} | {
    "float": "double",
    "double": "double",
}


def can_defer(operator: Partial | Aggregate) -> bool:
    """Whether the operator's partials can be made of single rows."""
    window = operator.window
    return (
        window.kind == "tumbling"
        and not window.zone
        and all(_function(call) in ONE_ROW for call in operator.aggregates)
    )


def defer(frame: Frame, operator: Partial, only: str | None) -> tuple[Frame, list[str]] | None:
    """(the rows to keep, the SELECT list that makes partials of them); None if the types do not allow it."""
    arguments = list(dict.fromkeys(call.argument for call in operator.aggregates if call.argument is not None))
    names = {argument: f"__a{number}" for number, argument in enumerate(arguments)}
    window = operator.window
    at = f"unix_micros(`{window.time}`)"
    kept = frame.selectExpr(
        *([] if only is not None else [QUERY]),
        *(f"{key.sql} AS `{key.name}`" for key in operator.keys),
        f"timestamp_micros({at} - pmod({at} - {window.offset_us}L, {window.size_us}L) + {window.size_us}L)"
        f" AS {WINDOW_END}",
        *(f"{argument} AS {name}" for argument, name in names.items()),
    )
    if isinstance(kept, FileFrame):
        kept = kept.following(WINDOW_END, window.time, partial(_end, window))
    types = {field.name: field.dataType.simpleString() for field in kept.schema.fields}
    made = []
    for call in operator.aggregates:
        argument = "1" if call.argument is None else names[call.argument]
        total = SUMS.get(types.get(argument, "int"))
        if total is None and _function(call) in ("sum", "avg"):
            return None
        for number, sql in enumerate(ONE_ROW[_function(call)]):
            made.append(f"{sql.format(x=argument, sum=total)} AS `{call.name}__{number}`")
    query = QUERY if only is None else f"{text(only)} AS {QUERY}"
    start = f"timestamp_micros(unix_micros({WINDOW_END}) - {operator.window.size_us}L) AS {WINDOW_START}"
    return kept, [query, *(f"`{key.name}`" for key in operator.keys), start, WINDOW_END, *made]


def _end(window: Window, at_us: int) -> int:
    """When the window of a row ends."""
    return at_us - (at_us - window.offset_us) % window.size_us + window.size_us


def _function(call: AggregateCall) -> str:
    return ALIASES.get(call.function, call.function)
