"""How long a key's total is kept, whether results are put out early, and whether their order matters, where Spark's
SQL has room for it: a hint.

    SELECT /*+ keep('1 day') */ train, count(*) AS n FROM passengers GROUP BY train

A key without rows for that long (event time) is forgotten; its next row begins again. 'forever' keeps every key. Spark
passes over hints that it does not know, so the text stays a query of Spark's. `emit('changes')` is for windows: their
results so far come as changes, as soon as rows do. `order('none')` is for queries that answer each row: results of a
device that has moved on do not wait for those of the region that it has left.
"""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import TokenError

from godwit.errors import SqlError
from godwit.sql import functions
from godwit.sql.dialect import tokens
from godwit.sql.duration import microseconds
from godwit.sql.fault import SqlFault

#: meta key of a SELECT: its windows' results are put out as they become, not when they are final
CHANGES = "godwit_changes"
#: meta key of a SELECT: how long it keeps (microseconds); 0: for ever
KEEP = "godwit_keep"
#: meta key of a SELECT: its results need not come in the order in which each device sent the rows
UNORDERED = "godwit_unordered"
_REMEDY = "write /*+ keep('1 day') */ or /*+ keep('forever') */ right after SELECT"


def with_changes(sql: str) -> str:
    """The text of a query with the hint that its windows' results are put out as they become."""
    return _with_hint(sql, "emit('changes')")


def without_order(sql: str) -> str:
    """The text of a query with the hint that its results need not come in the order of each device's rows."""
    return _with_hint(sql, "order('none')")


def _with_hint(sql: str, hint: str) -> str:
    depth = 0
    try:
        found = tokens(sql)
    except TokenError:
        return sql  # (the compiler says what is wrong with it)
    for token in found:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 and token.text.upper() == "SELECT":
            return f"{sql[: token.end + 1]} /*+ {hint} */{sql[token.end + 1 :]}"
    return sql


def take_hints(tree: exp.Expr) -> None:
    """Every `keep` hint becomes a note at its SELECT; other hints stay, and are refused."""
    for select in tree.find_all(exp.Select):
        hint = select.args.get("hint")
        # (sqlglot reads a hint that is not Spark's as text)
        written = " ".join(h if isinstance(h, str) else h.sql("spark") for h in hint.expressions) if hint else ""
        if hint is not None and re.fullmatch(r"\s*emit\s*\(\s*'changes'\s*\)\s*", written, re.IGNORECASE):
            select.meta[CHANGES] = True
            select.set("hint", None)
        elif hint is not None and re.fullmatch(r"\s*order\s*\(\s*'none'\s*\)\s*", written, re.IGNORECASE):
            select.meta[UNORDERED] = True
            select.set("hint", None)
        elif hint is not None and re.match(r"\s*keep\b", written, re.IGNORECASE):
            select.meta[KEEP] = _length(written, hint)
            select.set("hint", None)
        if KEEP in select.meta and not _keeps(select):
            inner = select.args["from_"].this if select.args.get("from_") else None
            if isinstance(inner, exp.Subquery) and isinstance(inner.this, exp.Select):
                inner.this.meta.setdefault(KEEP, select.meta.pop(KEEP))


def _keeps(select: exp.Select) -> bool:
    """Whether the SELECT itself could keep something; what only passes rows on hands the hint to its sub-query."""
    clauses = any(select.args.get(clause) for clause in ("group", "having", "distinct", "qualify", "joins"))
    return clauses or any(
        isinstance(node, exp.Window | exp.Count)
        or (isinstance(node, exp.Anonymous) and node.name.lower() in functions.AGGREGATES)
        for item in select.expressions
        for node in item.walk()
    )


def _length(written: str, hint: exp.Expr) -> int:
    given = re.fullmatch(r"\s*keep\s*\(\s*'([^']*)'\s*\)\s*", written, re.IGNORECASE)
    if given is None:
        msg = "keep takes one length of time"
        raise SqlFault(msg, hint, _REMEDY, SqlError)
    if given[1].strip().lower() in ("forever", "for ever"):
        return 0
    length = microseconds(given[1], hint)
    if length <= 0:
        msg = "a key must be kept for longer than nothing"
        raise SqlFault(msg, hint, _REMEDY, SqlError)
    return length
