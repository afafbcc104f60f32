"""Filters of a box, pushed up above its joins or down to a leaf: the same results by another plan.

A filter that lets nearly all rows through is cheaper above joins that drop most of them; one that drops most is cheaper
below. Rows that a filter has dropped are in no state, so states of the one plan are not those of the other: such a
change is made by parallel track, or by letting windows run out, not by moving states.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from godwit.model.plan import Filter, Named, Operator, Plan, Project, Query, Scan, Shape
from godwit.replan.box import JoinBox, Streams
from godwit.replan.conditions import BoxLeaf, expression
from godwit.replan.fault import fault
from godwit.sql.dialect import text
from godwit.sql.draft import conjuncts, names


def filters_below(query: Query, alias: str, streams: Streams) -> tuple[str, ...]:
    """The predicates that a leaf's rows must pass before they are joined."""
    box = JoinBox.of(query.shape.plan, streams)
    found = [op.predicate for _, op in _chain(box.plan, _leaf(box, alias)) if isinstance(op, Filter)]
    return tuple(text(part) for predicate in found for part in conjuncts(expression(predicate)))


def filters_above(query: Query, streams: Streams) -> tuple[str, ...]:
    """The predicates that the box's results must pass."""
    box = JoinBox.of(query.shape.plan, streams)
    above = _filter_above(box)
    return () if above is None else tuple(text(p) for p in conjuncts(expression(above[1].predicate)))


def pushed_up(query: Query, alias: str, streams: Streams) -> Query:
    """The query with a leaf's filters above the joins."""
    box = JoinBox.of(query.shape.plan, streams)
    leaf = _leaf(box, alias)
    chain = _chain(box.plan, leaf)
    taken = [op.predicate for _, op in chain if isinstance(op, Filter)]
    if not taken:
        msg = f"'{leaf.alias}' has no filter below the joins"
        raise fault(msg, remedy="ask for a stream with a condition of its own in WHERE or ON")
    needed = {name for predicate in taken for name in names([expression(predicate)]) if not name.startswith("__p")}
    rewrite = _Rewrite(query, box)
    rewrite.without = {index for index, op in chain if isinstance(op, Filter)}
    for index, operator in chain:
        if isinstance(operator, Project):
            there = {column.name for column in operator.columns}
            more = tuple(Named(name, name) for name in sorted(needed - there))
            rewrite.instead[index] = replace(operator, columns=operator.columns + more)
    rewrite.above = " AND ".join(_in_parentheses(predicate) for predicate in taken)
    return rewrite.run()


def pushed_down(query: Query, alias: str, streams: Streams) -> Query:
    """The query with those filters above the joins that concern a leaf alone put onto the leaf."""
    box = JoinBox.of(query.shape.plan, streams)
    leaf, above = _leaf(box, alias), _filter_above(box)
    parts = () if above is None else conjuncts(expression(above[1].predicate))
    reads = {text(part): {n for n in names([part]) if not n.startswith("__p")} for part in parts}
    mine = [sql for sql, found in reads.items() if found and found <= leaf.columns]
    if above is None or not mine:
        msg = f"no filter above the joins is about '{leaf.alias}' alone"
        raise fault(msg, remedy="push one up first; what WHERE says of one stream is below the joins already")
    rewrite = _Rewrite(query, box)
    rest = [sql for sql in reads if sql not in mine]
    if rest:
        rewrite.instead[above[0]] = replace(above[1], predicate=" AND ".join(map(_in_parentheses, rest)))
    else:
        rewrite.without = {above[0]}
    rewrite.onto = {leaf.root: " AND ".join(map(_in_parentheses, mine))}
    return rewrite.run()


class _Rewrite:
    """Copies a plan, leaving operators out, replacing some, and putting filters in."""

    def __init__(self, query: Query, box: JoinBox) -> None:
        self._query, self._box = query, box
        self.without: set[int] = set()
        self.instead: dict[int, Operator] = {}
        #: operator -> the filter to put onto it
        self.onto: dict[int, str] = {}
        #: the filter to put onto the box
        self.above = ""
        self._operators: list[Operator] = []
        self._moved: dict[int, int] = {}

    def run(self) -> Query:
        self._copy(len(self._box.plan.operators) - 1)
        shape = Shape(Plan(tuple(self._operators)), self._query.shape.parameters)
        wanted = {self._moved[old]: values for old, values in self._query.subscriptions.items()}
        return replace(self._query, shape=shape, subscriptions=wanted, taps={})

    def _copy(self, index: int) -> int:
        operator = self.instead.get(index, self._box.plan.operators[index])
        below = tuple(self._copy(child) for child in operator.inputs)
        if index in self.without:
            (self._moved[index],) = below
            return below[0]
        self._moved[index] = self._add(operator.reading(below))
        predicate = self.above if index == self._box.root else self.onto.get(index, "")
        return self._add(Filter((self._moved[index],), predicate)) if predicate else self._moved[index]

    def _add(self, operator: Operator) -> int:
        self._operators.append(operator)
        return len(self._operators) - 1


def _leaf(box: JoinBox, alias: str) -> BoxLeaf:
    found = next((leaf for leaf in box.conditions.leaves if leaf.alias.lower() == alias.lower()), None)
    if found is None:
        msg = f"'{alias}' is no stream of the query"
        raise fault(msg, remedy=f"name one of {', '.join(sorted(box.tree.aliases))}")
    return found


def _chain(plan: Plan, leaf: BoxLeaf) -> list[tuple[int, Operator]]:
    """A leaf's operators from the top down to its scan, as far as they look at one row at a time."""
    found, index = list[tuple[int, Operator]](), leaf.root
    while isinstance(operator := plan.operators[index], Filter | Project | Scan):
        found.append((index, operator))
        if isinstance(operator, Scan):
            break
        (index,) = operator.inputs
    return found


def _filter_above(box: JoinBox) -> tuple[int, Filter] | None:
    index, _ = box.plan.consumer(box.root)
    operator = box.plan.operators[index]
    return (index, operator) if isinstance(operator, Filter) else None


def _in_parentheses(sql: str) -> str:
    return f"({sql})" if isinstance(expression(sql), exp.Connector) else sql
