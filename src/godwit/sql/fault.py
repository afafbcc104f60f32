"""How the front end refuses: a `SqlFault` names the node at fault; at the door it becomes an SqlError with a place.

Inner modules know syntax trees, not the text they came from, so they raise faults and `located` finds the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from sqlglot import exp

from godwit.errors import SqlError, UnknownNameError, UnsupportedError

_SNIPPET = 60


class SqlFault(Exception):  # noqa: N818 - not an error a user meets: `located` turns it into one
    def __init__(
        self, problem: str, node: exp.Expr | None, remedy: str, kind: type[SqlError] = UnsupportedError
    ) -> None:
        super().__init__(problem)
        self.problem, self.node, self.remedy, self.kind = problem, node, remedy, kind


def unknown(problem: str, node: exp.Expr, name: str, known: Iterable[str], alike: float = 0.6) -> SqlFault:
    """A name nobody declared, with the nearest one that somebody did, if it is so much alike."""
    names = sorted(set(known))
    near = get_close_matches(name.lower(), [n.lower() for n in names], n=1, cutoff=alike)
    if near:
        nearest = next(n for n in names if n.lower() == near[0])
        return SqlFault(problem, node, f"did you mean '{nearest}'?", UnknownNameError)
    listed = ", ".join(names[:12]) + (", .." if len(names) > 12 else "")
    return SqlFault(problem, node, f"known here: {listed}" if names else "declare it first", UnknownNameError)


@contextmanager
def located(sql: str) -> Iterator[None]:
    """Faults raised inside leave as SqlErrors that point into `sql`."""
    try:
        yield
    except SqlFault as fault:
        raise fault.kind(fault.problem, place=place(sql, fault.node), remedy=fault.remedy) from None
    except RecursionError:
        problem, remedy = (
            "the query is nested too deeply",
            "split it: INSERT INTO derived streams, or fewer parentheses",
        )
        raise UnsupportedError(problem, place=point(sql, 0, len(sql)), remedy=remedy) from None


def place(sql: str, node: exp.Expr | None) -> str:
    """`line:column: snippet` of a node; sqlglot keeps offsets on names, literals and most function calls only."""
    if node is None:
        return point(sql, 0, len(sql))
    metas = [n.meta for n in node.walk() if "start" in n.meta and n.meta["end"] < len(sql)]
    if not metas or isinstance(node, exp.Hint):
        return _by_text(sql, node)
    start = min(int(m["start"]) for m in metas)
    end = max(int(m["end"]) for m in metas) + 1
    return point(sql, _back(sql, start, node), end)


def _by_text(sql: str, node: exp.Expr) -> str:
    """For nodes without offsets: the first place that reads like them."""
    text = "/*+" if isinstance(node, exp.Hint) else node.sql("spark", comments=False)
    word = re.match(r"\w+|\W+", text)
    found = re.search(re.escape(word[0]), sql, re.IGNORECASE) if word else None
    return point(sql, *found.span()) if found else text[:_SNIPPET]


def _back(sql: str, start: int, node: exp.Expr) -> int:
    """Where the node begins, if a keyword or a function's name stands before the first offset."""
    if isinstance(node, exp.Select | exp.SetOperation):
        return max(sql.upper().rfind("SELECT", 0, start), 0)
    if isinstance(node, exp.Interval):
        return max(sql.upper().rfind("INTERVAL", 0, start), 0)
    name = re.search(r"\w+\s*\(\s*$", sql[:start])
    if name and isinstance(node, exp.Func | exp.Rollup | exp.Cube) and "start" not in node.meta:
        return name.start()
    return start


def point(sql: str, start: int, end: int) -> str:
    """`line:column: snippet` of a piece of the text; parentheses that open in it are closed."""
    if sql[end : end + 2] == "()":
        end += 2
    while sql[start:end].count("(") > sql[start:end].count(")") and ")" in sql[end:]:
        end = sql.index(")", end) + 1
    line = sql.count("\n", 0, start) + 1
    column = start - (sql.rfind("\n", 0, start) + 1) + 1
    snippet = " ".join(sql[start:end].split()) or "(nothing)"
    return f"{line}:{column}: {snippet if len(snippet) <= _SNIPPET else snippet[: _SNIPPET - 2] + '..'}"
