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
from difflib import get_close_matches

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
_OURS = ("keep", "emit", "order")
_HINT = re.compile(r"(\w+)\s*(\([^()]*\))?")
_REMEDY = "write /*+ keep('1 day') */ or /*+ keep('forever') */ right after SELECT"


def with_hint(sql: str, hint: str) -> str:
    """The text of a query with a hint after its outermost SELECT."""
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
    """Every hint of ours becomes a note at its SELECT; others stay, and are refused."""
    for select in tree.find_all(exp.Select):
        hint = select.args.get("hint")
        # (sqlglot reads a hint that is not Spark's as text)
        written = " ".join(h if isinstance(h, str) else h.sql("spark") for h in hint.expressions) if hint else ""
        found = [(match[1].lower(), match[2] or "") for match in _HINT.finditer(written)]
        if hint is not None and any(get_close_matches(name, _OURS, cutoff=0.7) for name, _ in found):
            for name, given in found:
                _take(select, hint, name, given)
            select.set("hint", None)
        if KEEP in select.meta and not _keeps(select):
            inner = select.args["from_"].this if select.args.get("from_") else None
            if isinstance(inner, exp.Subquery) and isinstance(inner.this, exp.Select):
                inner.this.meta.setdefault(KEEP, select.meta.pop(KEEP))


def _take(select: exp.Select, hint: exp.Expr, name: str, given: str) -> None:
    if name == "keep":
        select.meta[KEEP] = _length(given, hint)
        return
    note, word = {"emit": (CHANGES, "changes"), "order": (UNORDERED, "none")}.get(name, ("", ""))
    if not note:
        near = get_close_matches(name, _OURS, n=1)
        msg = f"there is no hint '{name}'"
        raise SqlFault(
            msg, hint, f"did you mean {near[0]}(..)?" if near else "there are keep, emit and order", SqlError
        )
    if given.strip("() ").lower() != f"'{word}'":
        msg = f"the hint {name} has one form"
        raise SqlFault(msg, hint, f"write /*+ {name}('{word}') */, or leave it out", SqlError)
    select.meta[note] = True


def _keeps(select: exp.Select) -> bool:
    """Whether the SELECT itself could keep something; what only passes rows on hands the hint to its sub-query."""
    clauses = any(select.args.get(clause) for clause in ("group", "having", "distinct", "qualify", "joins"))
    return clauses or any(
        isinstance(node, exp.Window | exp.Count)
        or (isinstance(node, exp.Anonymous) and node.name.lower() in functions.AGGREGATES)
        for item in select.expressions
        for node in item.walk()
    )


def _length(given: str, hint: exp.Expr) -> int:
    quoted = re.fullmatch(r"\(\s*'([^']*)'\s*\)", given)
    if quoted is None:
        msg = "keep takes one length of time"
        raise SqlFault(msg, hint, _REMEDY, SqlError)
    if quoted[1].strip().lower() in ("forever", "for ever"):
        return 0
    length = microseconds(quoted[1], hint)
    if length <= 0:
        msg = "a key must be kept for longer than nothing"
        raise SqlFault(msg, hint, _REMEDY, SqlError)
    return length
