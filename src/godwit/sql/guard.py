"""The first look at a query: whatever can never run continuously, or safely, is refused before anything is planned."""

from __future__ import annotations

import re
from collections.abc import Collection

from sqlglot import exp

from godwit.errors import UnknownNameError
from godwit.sql import functions
from godwit.sql.fault import SqlFault, unknown
from godwit.sql.grouping_sets import has_sets

_CLAUSES = {
    "order": ("ORDER BY needs the end of the data", "remove it; sort where you read the results"),
    "sort": ("SORT BY needs the end of the data", "remove it; sort where you read the results"),
    "cluster": ("CLUSTER BY is about files, not results", "remove it"),
    "distribute": ("DISTRIBUTE BY is about files, not results", "remove it"),
    "limit": (
        "LIMIT needs an order and an end of the data",
        "for the best of every window say so: ORDER BY n DESC LIMIT 3 BY until, which is the window's end",
    ),
    "offset": ("OFFSET needs an order and an end of the data", "remove it; filter with WHERE or HAVING instead"),
    "pivots": ("PIVOT is not supported", "write one aggregate with FILTER (WHERE ..) for each column"),
    "hint": ("hints are for batch plans", "remove the /*+ .. */"),
    "sample": ("a sample differs each time", "remove TABLESAMPLE; filter with e.g. pmod(hash(id), 10) = 0"),
    "version": ("time travel is for tables", "read the stream as it is"),
    "when": ("time travel is for tables", "read the stream as it is"),
}
_CUMULATE = functions.REFUSED["cumulate"]
_SELECT = frozenset(
    ("expressions", "from_", "joins", "where", "group", "having", "with_", "windows", "qualify", "laterals", "distinct")
)
_TABLE = frozenset(("this", "alias", "db", "catalog", "joins"))
_UNION = frozenset(("this", "expression", "with_", "distinct", "side", "kind", "on"))
_ALLOWED: dict[type[exp.Expr], frozenset[str]] = {exp.Select: _SELECT, exp.Table: _TABLE, exp.Union: _UNION}

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_VALUE = "write the value; a name in a comment after it makes it one that can be altered: 5 /* threshold */"
_NODES: dict[type[exp.Expr], tuple[str, str]] = {
    exp.WithinGroup: ("WITHIN GROUP is not supported", "use percentile(x, 0.5) or median(x)"),
    exp.QueryTransform: ("TRANSFORM .. USING runs a program on the machine", "remove it"),
    exp.Parameter: ("variables are not supported", _VALUE),
    exp.Placeholder: ("placeholders are not supported", _VALUE),
    exp.Values: ("VALUES is no stream", "declare a stream and push the rows into it"),
    exp.Pivot: _CLAUSES["pivots"],
    exp.TableSample: _CLAUSES["sample"],
    exp.Hint: _CLAUSES["hint"],
    exp.IgnoreNulls: ("IGNORE NULLS is not supported", "use min_by(x, ts) FILTER (WHERE x IS NOT NULL), or max_by"),
    exp.RespectNulls: ("RESPECT NULLS is not supported", "remove it: nulls count"),
    exp.JSONExtract: ("this path syntax is not supported", "use get_json_object(column, '$.path')"),
    exp.AtTimeZone: ("AT TIME ZONE is not supported", "use from_utc_timestamp(ts, 'zone') or convert_timezone"),
}


def guard(tree: exp.Expr, sql: str, declared: Collection[str] = ()) -> None:
    """Refuse what no later step needs to know about. `declared`: functions that the program brings with it."""
    for node in tree.walk(bfs=False):
        _check_names(node)
        _check_clauses(node)
        _check_construct(node)
        if isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Unnest):
            _check_function(node, sql, declared)


def _check_names(node: exp.Expr) -> None:
    if isinstance(node, exp.Identifier) and node.name.startswith("__"):
        msg = f"'{node.name}' begins with __, which godwit keeps for its own columns"
        raise SqlFault(msg, node, f"call it '{node.name.lstrip('_') or 'x'}'")


def _check_clauses(node: exp.Expr) -> None:
    allowed = _ALLOWED.get(type(node))
    if isinstance(node, exp.SetOperation) and not (isinstance(node, exp.Union) and node.args.get("distinct") is False):
        msg = "of the set operations only UNION ALL can run continuously"
        raise SqlFault(msg, node.expression, "use UNION ALL, or GROUP BY the columns and a window to drop duplicates")
    for clause, value in node.args.items() if allowed else ():
        if value and clause not in (allowed or ()):
            problem, remedy = _CLAUSES.get(clause, (f"{clause.strip('_').upper()} is not supported here", "remove it"))
            raise SqlFault(problem, _first(value) or node, remedy)


def _first(value: object) -> exp.Expr | None:
    found = value[0] if isinstance(value, list) else value
    return found if isinstance(found, exp.Expr) else None


def _check_construct(node: exp.Expr) -> None:
    for kind, (problem, remedy) in _NODES.items():
        if isinstance(node, kind):
            raise SqlFault(problem, node, remedy)
    if isinstance(node, _COMPARISONS) and any(isinstance(side, exp.Null) for side in (node.left, node.right)):
        msg = "nothing is equal to NULL, or above or below it: this never holds"
        raise SqlFault(msg, node, "write IS NULL or IS NOT NULL")
    if isinstance(node, exp.DataType) and node.this == exp.DType.TIME:
        msg = "the type TIME is not supported"
        raise SqlFault(msg, node.parent, "use a timestamp, or the seconds of the day as an int")
    if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Select | exp.Column | exp.Count):
        msg = "* can only stand alone or in count(*)"
        raise SqlFault(msg, node.parent, "list the columns")
    if isinstance(node, exp.Lateral) and not isinstance(node.this, exp.Anonymous):
        msg = "LATERAL goes with explode and posexplode only"
        raise SqlFault(msg, node, "write FROM stream LATERAL VIEW explode(column) t AS item")
    rows = isinstance(node.parent, exp.Lateral | exp.Unnest)
    if isinstance(node, exp.TableAlias) and node.args.get("columns") and not rows:
        msg = "column lists after an alias are not supported"
        raise SqlFault(msg, node, "name the columns with AS in the SELECT list")
    if isinstance(node, exp.Table) and any(one.name.lower() == "cumulate" for one in node.find_all(exp.Anonymous)):
        msg = f"CUMULATE {_CUMULATE.why}"
        raise SqlFault(msg, node, _CUMULATE.remedy)
    if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
        msg = "only streams and sub-queries can stand in FROM"
        raise SqlFault(msg, node, "name a declared stream")
    if isinstance(node, exp.With) and node.args.get("recursive"):
        msg = "recursive queries never end"
        raise SqlFault(msg, node, "write WITH without RECURSIVE")
    if isinstance(node, exp.Query) and not _is_source(node):
        msg = "a sub-query outside FROM would have to see a whole stream at once"
        raise SqlFault(msg, node, _instead(node))


def _instead(node: exp.Query) -> str:
    """What to write for a sub-query that is no source."""
    asks = node.find_ancestor(exp.Exists, exp.In)
    if asks is None:
        return "join the streams within a time band instead"
    kind = "ANTI" if isinstance(asks.parent, exp.Not) else "SEMI"
    band = "b.ts BETWEEN a.ts - INTERVAL 1 MINUTE AND a.ts"
    return f"join within a time band instead: FROM .. a LEFT {kind} JOIN .. b ON a.key = b.key AND {band}"


def _is_source(node: exp.Query) -> bool:
    """Whether a query stands at the top, in FROM or JOIN, in WITH, or is a part of a UNION."""
    parent = node.parent
    return parent is None or isinstance(
        parent, exp.From | exp.Join | exp.CTE | exp.Union | exp.Subquery | exp.Insert | exp.Table
    )


def called(node: exp.Func, sql: str) -> str:
    """The function's name as the user wrote it (sqlglot renames some), in lower case."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if "start" in node.meta:
        return sql[int(node.meta["start"]) : int(node.meta["end"]) + 1].strip("`").lower()
    written = re.match(r"(\w+)\(", node.sql("spark", comments=False))
    return (written[1] if written else node.sql_name()).lower()


def _check_generator(node: exp.Func, name: str) -> None:
    above = node.parent.parent if isinstance(node.parent, exp.Alias | exp.Aliases) else node.parent
    if not isinstance(above, exp.Lateral | exp.Select):
        msg = f"{name}() makes rows, so it stands alone in the SELECT list or in LATERAL VIEW"
        raise SqlFault(msg, node, "write FROM stream LATERAL VIEW explode(column) t AS item, and use item")


def _check_function(node: exp.Func, sql: str, declared: Collection[str]) -> None:
    name = called(node, sql)
    if isinstance(node.parent, exp.Dot) and node.parent.expression is node:
        msg = f"'{name}' is called by a qualified name"
        raise SqlFault(msg, node, "call built-in functions by their bare names", UnknownNameError)
    if name == "unix_timestamp" and not node.expressions:
        msg = f"unix_timestamp() without an argument {functions.REFUSED['now'].why}"
        raise SqlFault(msg, node, functions.REFUSED["now"].remedy)
    if name in functions.GENERATORS:
        _check_generator(node, name)
        return
    if (
        name in functions.ALLOWED
        or name in declared
        or (name in functions.GROUPING and (select := node.find_ancestor(exp.Select)) and has_sets(select))
        or (name in functions.RANKING | functions.RANKS and isinstance(node.parent, exp.Window))
    ):
        return
    refusal = functions.REFUSED.get(name)
    if refusal is not None:
        msg = f"{name}() {refusal.why}"
        raise SqlFault(msg, node, refusal.remedy)
    msg = f"there is no function '{name}' that a query may call"
    # A function of a similar name does something else: only what looks like a slip is proposed.
    fault = unknown(msg, node, name, functions.ALLOWED, alike=0.85)
    if fault.remedy.startswith("known"):
        fault.remedy = "see docs/sql.md for what there is, or compute it before the rows enter the stream"
    raise fault
