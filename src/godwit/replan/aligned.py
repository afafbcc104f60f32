"""Changed SQL, written with what the running plan has: so that states which serve both are found to be the same.

A SELECT that drops a column, or an aggregate, reads fewer columns below. What runs holds more, which does no harm: the
new plan takes the wider scans, projections and aggregates over, under the names that they have there, and goes on with
their state. The joins of an order that was changed meanwhile stay in that order.

    old   Aggregate count(*) AS __agg0, sum(v) AS __agg1      new, as compiled   Aggregate sum(v) AS __agg0
                                                              new, aligned       Aggregate count(*), sum(v); above it
                                                                                 __agg1 is read in place of __agg0
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from godwit.errors import ConfigError
from godwit.model import signature
from godwit.model.plan import (
    Aggregate,
    AggregateCall,
    Join,
    Named,
    Operator,
    Parameter,
    Partial,
    Plan,
    Project,
    Query,
    Scan,
)
from godwit.model.running import RunningAggregate
from godwit.replan.box import JoinBox, Streams, reordered

T = TypeVar("T")
_LITERAL = re.compile(r"\b__p(\d+)\b")
Aggregating = Partial | Aggregate | RunningAggregate


def aligned(old: Query, new: Query, streams: Streams) -> Query:
    """The new query, with sub-plans of the old one where those hold all that it needs. Its results are the same."""
    return _Aligning(old, _in_order(old, new, streams)).run()


def _in_order(old: Query, new: Query, streams: Streams) -> Query:
    """The streams joined as they are now, if both join the same ones."""
    try:
        return reordered(new, JoinBox.of(old.shape.plan, streams).tree, streams)
    except ConfigError:
        return new


class _Aligning:
    def __init__(self, old: Query, new: Query) -> None:
        self._old, self._new, self._plan = old, new, new.shape.plan
        self._parameters, self._values = list(new.shape.parameters), list(new.parameters)

    def run(self) -> Query:
        before, after = self._old.shape.plan.operators, list(self._plan.operators)
        #: new operator -> the old one that serves it
        pairs: dict[int, int] = {}
        for index in sorted({i for root, op in enumerate(after) if op.stateful for i in self._plan.below(root)}):
            children = after[index].inputs
            for was, operator in enumerate(before):
                served = tuple(pairs.get(child, -1) for child in children)
                if was not in pairs.values() and operator.inputs == served:
                    wider = self._wider(index, after[index], was, operator)
                    if wider is not None:
                        pairs[index] = was
                        self._rename(after, index, after[index], wider)
                        after[index] = wider
                        break
        shape = replace(self._new.shape, plan=Plan(tuple(after)), parameters=tuple(self._parameters))
        return replace(self._new, shape=shape, parameters=tuple(self._values))

    def _wider(self, index: int, new: Operator, was: int, old: Operator) -> Operator | None:
        """The new operator with all that the old one makes; None: the old one does not serve it."""
        if type(new) is not type(old):
            return None
        wanted, there = self._new.subscriptions.get(index, ()), self._old.subscriptions.get(was, ())
        if sorted(wanted) != sorted(there):
            return None
        match new, old:
            case Scan(), Scan() if set(new.columns) <= set(old.columns):
                return replace(new, columns=old.columns) if self._same(new, old, "columns") else None
            case Project(), Project():
                mine = {(c.name, self._said(c.sql)) for c in new.columns}
                if mine <= {(c.name, self._was(c.sql)) for c in old.columns}:
                    return replace(new, columns=tuple(Named(c.name, self._taken(c.sql)) for c in old.columns))
                return None
            case Join(), Join():
                # It has kept no more than that: were it said to, a change of order would rely on it.
                return replace(new, keep_us=old.keep_us) if self._same(new, old, "keep_us") else None
            case ((Partial() | Aggregate() | RunningAggregate()), (Partial() | Aggregate() | RunningAggregate())):
                calls = [self._call(call) for call in old.aggregates]
                if not {_does(c, self._said) for c in new.aggregates} <= {_does(c, self._was) for c in old.aggregates}:
                    return None
                if isinstance(new, RunningAggregate) and isinstance(old, RunningAggregate):
                    new = replace(new, count=old.count)  # (a count of all rows, as it is)
                return replace(new, aggregates=tuple(calls)) if self._same(new, old, "aggregates") else None
        return new if self._same(new, old) else None

    def _same(self, new: Operator, old: Operator, *apart: str) -> bool:
        """Equal but for some fields, and for the numbers of inputs and literals."""
        mine, theirs = signature.canonical(new, self._said)[1], signature.canonical(old, self._was)[1]
        return all(mine.get(name) == theirs.get(name) for name in {*mine, *theirs} - {*apart, "inputs"})

    def _said(self, text: str) -> str:
        return signature.filled(text, self._values)

    def _was(self, text: str) -> str:
        return signature.filled(text, self._old.parameters)

    def _call(self, call: AggregateCall) -> AggregateCall:
        return call if call.argument is None else replace(call, argument=self._taken(call.argument))

    def _taken(self, text: str) -> str:
        """A text of the old plan, with its literals among those of the new one."""
        return _LITERAL.sub(lambda found: self._literal(int(found[1])), text)

    def _literal(self, number: int) -> str:
        kind, value = self._old.shape.parameters[number].type, self._old.parameters[number]
        for known, said in zip(self._parameters, self._values, strict=True):
            if (known.type, said) == (kind, value):
                return known.name
        self._parameters.append(Parameter(f"__p{len(self._parameters)}", kind))
        self._values.append(value)
        return self._parameters[-1].name

    def _rename(self, operators: list[Operator], index: int, new: Operator, wider: Operator) -> None:
        """Whoever reads the new operator's aggregates finds them under the old one's names, up to a projection."""
        if not isinstance(new, Aggregating) or not isinstance(wider, Aggregating) or isinstance(new, Partial):
            return
        named = {_does(call, self._said): call.name for call in wider.aggregates}
        names = {call.name: named[_does(call, self._said)] for call in new.aggregates}
        names = {was: now for was, now in names.items() if was != now}
        while names and index < len(operators) - 1:
            index = next(i for i, op in enumerate(operators) if index in op.inputs)
            above = operators[index]
            if isinstance(above, Project):
                columns = tuple(Named(c.name, _renamed(c.sql, names)) for c in above.columns)
                operators[index] = replace(above, columns=columns)
                return
            operators[index] = _renamed(above, names)


def _does(call: AggregateCall, fill: signature.Fill) -> tuple[object, ...]:
    return call.function, None if call.argument is None else fill(call.argument), call.constants


def _renamed(value: T, names: Mapping[str, str]) -> T:
    """Whatever a value says of columns, under other names."""
    found: Any = value
    if isinstance(value, str):
        found = re.sub(r"\b__agg\d+\b", lambda said: names.get(said[0], said[0]), value)
    elif isinstance(value, tuple):
        found = tuple(_renamed(part, names) for part in value)
    elif is_dataclass(value) and not isinstance(value, type):
        found = replace(value, **{f.name: _renamed(getattr(value, f.name), names) for f in fields(value) if f.init})
    return found  # type: ignore[no-any-return]
