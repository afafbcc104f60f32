"""What window functions are in Spark's SQL, over rows that were answered before and new ones.

A function over all rows of a key so far is made of parts that can be carried on (a sum, a count): the key's last
answered row brings what they had come to, and counts as one row more.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from godwit.model.plan import GENERATION, QUERY
from godwit.model.running import Over, OverCall

#: whether a row is to be answered now
NEW = "__new"
#: an answered row's place among those of its key, from the last one on
_BACK = "__back"
#: whether a row is answered now, where rows wait for those after them
DUE = "__due"
#: the number of a life of its key
LIFE = "__life"
#: call -> its parts: (what one row brings, how they are put together, its type)
_COUNT = ("CASE WHEN {x} IS NULL THEN 0L ELSE 1L END", "sum", "bigint")
_PARTS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "row_number": (("1L", "sum", "bigint"),),
    "count": (_COUNT,),
    "sum": (("{x}", "sum", "{sum}"),),
    "min": (("{x}", "min", "{min}"),),
    "max": (("{x}", "max", "{max}"),),
    "avg": (("{x}", "sum", "{sum}"), _COUNT),
}
#: functions that Spark's OVER has under another name, or not at all. `{w}`: OVER (..); `{k}`: the constant
_WRITTEN = {
    "count_distinct": "CAST(size(collect_set({x}) {w}) AS bigint)",
    "percentile": "percentile({x}, {k}) {w}",
    "mode": "mode({x}, true) {w}",
}


def carried_names(node: Over) -> list[str]:
    """The columns that answered rows have beside the input's."""
    return [name for call in node.carried for name in _names(call)]


def answers(rows: DataFrame, node: Over) -> DataFrame:
    """The new rows with the columns of the calls, and what is carried on."""
    if node.keep_us:
        rows = _with_lives(rows, node)
    if node.carried:
        rows = _carried_on(rows, node)
    calls = [f"{_call(rows, call, node)} AS `{call.name}`" for call in node.calls]
    if node.ahead:
        return _due(rows.selectExpr("*", *calls, *_places(node)), node)
    return rows.selectExpr("*", *calls).where(NEW).drop(NEW, LIFE)


def _places(node: Over) -> list[str]:
    """A row's place among those of its key, counted in the order of the calls, so that rows that are alike keep theirs;
    how many there are, and how many were there before."""
    order = ", ".join(f"`{name}`" for name in (node.time, *node.ties))
    all_rows = f"OVER (PARTITION BY {_keys(node)})"
    place = f"row_number() OVER (PARTITION BY {_keys(node)} ORDER BY {order})"
    return [f"{place} AS __place", f"count(*) {all_rows} AS __all", f"count_if(NOT {NEW}) {all_rows} AS __old"]


def _due(rows: DataFrame, node: Over) -> DataFrame:
    """New rows, and those that are answered now: the last few that were there before wait, as do those that come last
    now."""
    due = f"__place > __old - {node.ahead} AND __place <= __all - {node.ahead} AS {DUE}"
    return rows.selectExpr("*", due).where(f"{NEW} OR {DUE}").drop("__place", "__all", "__old")


def last_rows(rows: DataFrame, node: Over, since_us: int | None, alive_us: int | None = None) -> DataFrame:
    """What later rows can look back at: the last few of each key, and those since a time; none before `alive_us`."""
    if alive_us is not None:
        rows = rows.where(f"unix_micros(`{node.time}`) >= {alive_us}")
    place = f"row_number() OVER (PARTITION BY {_keys(node, GENERATION)} {_backwards(node)})"
    wanted = f"{_BACK} <= {node.rows_kept}"
    if since_us is not None:
        wanted += f" OR unix_micros(`{node.time}`) >= {since_us}"
    return rows.selectExpr("*", f"{place} AS {_BACK}").where(wanted).drop(_BACK)


def _with_lives(rows: DataFrame, node: Over) -> DataFrame:
    """Number the lives of each key: one begins with a row that comes too long after the one before it."""
    order = f"PARTITION BY {_keys(node)} ORDER BY {', '.join(f'`{name}`' for name in (node.time, *node.ties))}"
    at = f"unix_micros(`{node.time}`)"
    begins = f"CASE WHEN {at} - lag({at}) OVER ({order}) > {node.keep_us} THEN 1 ELSE 0 END AS __begins"
    life = f"sum(__begins) OVER ({order} ROWS UNBOUNDED PRECEDING) AS {LIFE}"
    return rows.selectExpr("*", begins).selectExpr("*", life).drop("__begins")


def _carried_on(rows: DataFrame, node: Over) -> DataFrame:
    place = f"row_number() OVER ({_partition(node, NEW)} {_backwards(node)}) AS {_BACK}"
    known = rows.columns
    rows = rows.selectExpr("*", place)
    kept = [f"`{name}`" for name in (QUERY, *node.columns, GENERATION, NEW, *([LIFE] if node.keep_us else []))]
    brought, whole = [], []
    for call in node.carried:
        for name, (one, merge, kind) in zip(_names(call), _PARTS[call.function], strict=True):
            x = _argument(call)
            kind = kind.format(**{f: _type(rows, f"{f}({x})") for f in ("sum", "min", "max") if f"{{{f}}}" == kind})
            before = f"WHEN {_BACK} = 1 THEN `{name}` " if name in known else ""
            brought.append(f"CAST(CASE WHEN {NEW} THEN {one.format(x=x)} {before}END AS {kind}) AS `{name}`")
            whole.append(f"CAST({merge}(`{name}`) {_window(call, node)} AS {kind}) AS `{name}`")
    return rows.selectExpr(*kept, *brought).selectExpr(*kept, *whole)


def _call(rows: DataFrame, call: OverCall, node: Over) -> str:
    if call.start is None:
        return _of_carried(rows, call)
    x, window = _argument(call), _window(call, node)
    if call.function in ("lag", "lead"):
        return f"{call.function}({', '.join([x, str(abs(call.end)), *call.constants])}) {window}"
    constant = call.constants[0] if call.constants else ""
    return _WRITTEN.get(call.function, f"{call.function}({{x}}) {{w}}").format(x=x, w=window, k=constant)


def _of_carried(rows: DataFrame, call: OverCall) -> str:
    first, *others = (f"`{name}`" for name in _names(call))
    if call.function == "avg":
        return f"CAST(try_divide({first}, {others[0]}) AS {_type(rows, f'avg({_argument(call)})')})"
    return f"CAST({first} AS int)" if call.function == "row_number" else first


def _window(call: OverCall, node: Over) -> str:
    by = f"`{node.time}`" if call.kind == "rows" else f"unix_micros(`{node.time}`)"
    order = ", ".join([by, *(f"`{tie}`" for tie in node.ties if call.kind == "rows")])
    if call.function in ("lag", "lead"):
        return f"OVER ({_partition(node)} ORDER BY {order})"
    first, last = (_bound(distance, "" if call.kind == "rows" else "L") for distance in (call.start, call.end))
    return f"OVER ({_partition(node)} ORDER BY {order} {call.kind.upper()} BETWEEN {first} AND {last})"


def _bound(distance: int | None, size: str) -> str:
    if not distance:
        return "UNBOUNDED PRECEDING" if distance is None else "CURRENT ROW"
    return f"{abs(distance)}{size} {'PRECEDING' if distance > 0 else 'FOLLOWING'}"


def _partition(node: Over, *more: str) -> str:
    return f"PARTITION BY {_keys(node, *more, *([LIFE] if node.keep_us else []))}"


def _keys(node: Over, *more: str) -> str:
    return ", ".join([QUERY, *(f"`{key}`" for key in node.keys), *more])


def _backwards(node: Over) -> str:
    return "ORDER BY " + ", ".join(f"`{name}` DESC" for name in (node.time, *node.ties))


def _names(call: OverCall) -> list[str]:
    return [f"{call.name}__{number}" for number in range(len(_PARTS[call.function]))]


def _argument(call: OverCall) -> str:
    return "1" if call.argument is None else f"`{call.argument}`"


def _type(rows: DataFrame, expression: str) -> str:
    return rows.selectExpr(expression).schema.fields[0].dataType.simpleString()
