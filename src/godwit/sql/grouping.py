"""GROUP BY: the window, the keys, the aggregate calls, and what the SELECT list and HAVING mean above them.

Without a window the totals run on: for how long a key is kept, the SELECT says by a hint (`keep.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import gcd

from sqlglot import exp

from godwit.errors import UnknownNameError
from godwit.model.plan import WINDOW_END, WINDOW_START, Window
from godwit.sql import aggregates
from godwit.sql.batch_form import KeptForm
from godwit.sql.calendar_windows import calendar_window, is_start
from godwit.sql.draft import AggregateNode, CallNode, ColumnNode, Draft, RunningNode, column, conjuncts, names
from godwit.sql.duration import microseconds
from godwit.sql.fault import SqlFault
from godwit.sql.grouping_sets import BESIDE, SET, GroupingSets, grouping_sets, is_grouping
from godwit.sql.keep import CHANGES, KEEP
from godwit.sql.kinds import kind_of, kind_of_call
from godwit.sql.normalise import is_window
from godwit.sql.scope import NameScope, ScopeField, same

_BOUNDS = {"start": WINDOW_START, "end": WINDOW_END}
#: as other systems call them
_BOUNDS_ELSEWHERE = {"window_start": "start", "window_end": "end", "windowstart": "start", "windowend": "end"}
_UNBOUNDED = (
    "add a window, e.g. GROUP BY {keys}window({time}, '10 seconds'), "
    "or say how long a key is kept: SELECT /*+ keep('1 day') */ .. or keep('forever')"
)


def is_aggregated(select: exp.Select) -> bool:
    return bool(select.args.get("group") or select.args.get("having")) or any(
        aggregates.name_of(node) and node.find_ancestor(exp.Window) is None
        for e in select.expressions
        for node in e.walk()
    )


class Grouping:
    """The aggregation of one SELECT. `over` translates expressions and collects the aggregate calls they need."""

    def __init__(self, select: exp.Select, scope: NameScope) -> None:
        self._scope = scope
        self._aliases: dict[str, exp.Expr] = {
            e.alias.lower(): e.this for e in select.expressions if isinstance(e, exp.Alias)
        }
        #: several groupings; None: one
        self._sets = self._several(select)
        items = self._items(select) if self._sets is None else list(self._sets.items)
        windows = [item for item in items if is_window(item)]
        self._keep: int | None = select.meta.get(KEEP)
        always = [item for item in items if self._sets is None or not self._sets.is_partial(item)]
        implied = self._implied(always) if self._keep is None and not windows else None
        if (
            len(windows) > 1
            or (windows and self._keep is not None)
            or not (windows or implied or self._keep is not None)
        ):
            raise self._wrong_windows(select, windows)
        self._early = bool(select.meta.get(CHANGES))
        self._implied_window = implied is not None
        self.window, self.lag_us = implied or (self._read_window(windows[0]) if windows else self._totals(select))
        self._window_names = {w.name.lower() for w in windows} | {a for a, e in self._aliases.items() if is_window(e)}
        self._items_read = [item for item in items if not is_window(item)]
        #: what a key's column stands for
        self._meanings: dict[str, exp.Expr] = {}
        self.keys = self._keys(self._items_read)
        #: keys that are when the window begins
        self._starts = {key.name for key in self.keys if implied and is_start(key.value, self.window)}
        #: what tells the bounds of this window from those of others
        self._moment = id(self)
        self._origin = select.expressions[0]
        self._calls: dict[str, CallNode] = {}

    @property
    def running(self) -> bool:
        """Whether its rows are totals that replace each other."""
        return self._keep is not None or self._early

    def draft(self, source: Draft) -> AggregateNode:
        """To be called after `over` has seen every expression."""
        # an aggregation that only lists its keys still has to count something
        calls = tuple(self._calls.values()) or (CallNode("__agg0", "count", None),)
        source = source if self._sets is None else self._sets.spread(source)
        return AggregateNode(source, self.window, self.keys, calls, self.lag_us)

    def replaced_by(self, selected: Collection[str | None]) -> list[str]:
        """The columns that say which row a new one replaces, of those that are selected as they are."""
        keys = [key.name for key in self.keys]
        if not self._early or self._implied_window:
            return keys
        return [*keys, WINDOW_END if WINDOW_END in selected else WINDOW_START]

    def running_draft(self, source: Draft, having: exp.Expr | None) -> RunningNode:
        """The same for totals; a row that is newer has counted more."""
        if self.window.kind == "session" and self._early:
            msg = "two sessions become one when rows come between them, so a session's row cannot be put out early"
            raise SqlFault(msg, self._origin, "remove the hint /*+ emit('changes') */, or use a window of fixed length")
        parts = () if having is None else conjuncts(self.having(having))
        count = self._call(exp.null(), aggregates.Reading("count", None)).name
        window = replace(self.window, slice_us=0)
        return RunningNode(source, window, self.keys, tuple(self._calls.values()), count, parts, self.lag_us)

    def batch_form(self, having: exp.Expr | None) -> KeptForm | None:
        """What the oracle has to know of totals; None: nothing."""
        if self._early:
            return None
        (time,) = self._time_of_totals()
        plain = None if having is None else having.copy().transform(self._select_alias, copy=False)
        return KeptForm(self._keep or 0, time[0], tuple(item.copy() for item in self._items_read), plain)

    def over(self, expression: exp.Expr) -> exp.Expr:
        """The expression in terms of the aggregation's output: keys, window bounds and aggregate columns."""
        expression = expression.copy().transform(self._window_call, copy=False)
        resolved = self._scope.resolve(expression, self._window_reference)
        return resolved.transform(self._output, copy=False)

    def having(self, predicate: exp.Expr) -> exp.Expr:
        return self.over(predicate.copy().transform(self._select_alias, copy=False))

    def field(self, name: str, flat: str, value: exp.Expr) -> ScopeField:
        """What is known about an output column."""
        source = value.name if isinstance(value, exp.Column) else None
        size = None if self.window.gap_us else self.lag_us + self.window.longest_us
        moment = f"{self._moment}:{self.window}"
        if source == WINDOW_END:
            return ScopeField(name, flat, "timestamp", self.lag_us, (moment, 0))
        if source == WINDOW_START:
            return ScopeField(name, flat, "timestamp", size, (moment, -self.window.size_us) if size else None)
        known = self._scope.field(source) if source else None
        if source in self._starts:
            return ScopeField(name, flat, "timestamp", size)
        cut = self._scope.field(self.window.time)
        if known and cut and known.tied and cut.tied and known.tied[0] == cut.tied[0] and size is not None:
            # At a fixed distance from the time that is cut: it lags by that much more or less.
            return replace(known, name=name, flat=flat, lag_us=max(0, size + cut.tied[1] - known.tied[1]))
        return ScopeField(name, flat, kind_of(value, self._type), size if source == self.window.time else None)

    def _type(self, name: str) -> str | None:
        """Of an output column of the aggregation."""
        call = next((call for call in self._calls.values() if call.name == name), None)
        if call is not None:
            argument = None if call.argument is None else kind_of(call.argument, self._type)
            return kind_of_call(call.function, argument)
        known = self._scope.field(name)
        meaning = self._meanings.get(name)
        return known.type if known else None if meaning is None else kind_of(meaning, self._type)

    def _items(self, select: exp.Select) -> list[exp.Expr]:
        group = select.args.get("group")
        return [self._item(item, select) for item in group.expressions] if group else []

    def _several(self, select: exp.Select) -> GroupingSets | None:
        group = select.args.get("group")
        if group is None:
            return None
        if group.args.get("all"):
            msg = "GROUP BY ALL does not say which window"
            raise SqlFault(msg, group, "list the keys and a window: GROUP BY train, window(ts, '10 seconds')")
        sets = grouping_sets(group, lambda item: self._item(item, select))
        if sets is None:
            return None
        partial = next((i for i in sets.items if is_window(i) and sets.is_partial(i)), None)
        if partial is not None or KEEP in select.meta or CHANGES in select.meta:
            msg = "several groupings have one window: in all of them, final, and without keep"
            raise SqlFault(msg, partial or group, BESIDE)
        return sets

    def _item(self, item: exp.Expr, select: exp.Select) -> exp.Expr:
        """GROUP BY 1 and GROUP BY alias mean an expression of the SELECT list."""
        if isinstance(item, exp.Literal) and not item.is_string:
            position = int(item.name) if item.is_int else 0
            if not 1 <= position <= len(select.expressions):
                msg = f"GROUP BY {item.name}: the SELECT list has {len(select.expressions)} columns"
                raise SqlFault(msg, item, "use a position in the SELECT list, or the column's name")
            chosen: exp.Expr = select.expressions[position - 1].unalias()
            return chosen
        if isinstance(item, exp.Column) and len(item.parts) == 1 and item.name.lower() in self._aliases:
            return self._aliases[item.name.lower()] if self._scope.find(item) is None else item
        return item

    def _read_window(self, call: exp.Expr) -> tuple[Window, int]:
        time, *lengths = call.expressions or [None]
        known = self._scope.field(self._scope.resolve(time).name) if isinstance(time, exp.Column) else None
        if known is None or known.lag_us is None:
            msg = "a window can only cut a time column: a stream's own, or the window.end of a sub-query"
            times = [f"{r.alias}.{f.name}" for r in self._scope.relations for f in r.fields if f.lag_us is not None]
            remedy = f"use {' or '.join(times)}" if times else "select a time column, as it is, in the sub-query"
            raise SqlFault(msg, call, remedy)
        sizes = [microseconds(_text(length, call), length) for length in lengths]
        if not sizes or any(size <= 0 for size in sizes[:2]):
            msg = "a window needs a length above 0"
            raise SqlFault(msg, call, "write e.g. window(ts, '10 seconds')")
        return _cut(call, known.flat, sizes), known.lag_us

    def _implied(self, items: list[exp.Expr]) -> tuple[Window, int] | None:
        """A key that is a time column is a window of an instant; one that is a day, an hour, .. of it, a longer one."""
        times = {f.flat: f for r in self._scope.relations for f in r.fields if f.lag_us is not None}
        found: list[tuple[Window, int]] = []
        for item in items:
            key = self._scope.resolve(item)
            window = calendar_window(key, frozenset(times))
            if isinstance(key, exp.Column) and key.name in times:
                window = Window(key.name, 1, 1)
            if window is not None:
                found.append((window, times[window.time].lag_us or 0))
        return min(found, key=lambda one: (one[0].longest_us, one[1]), default=None)

    def _totals(self, select: exp.Select) -> tuple[Window, int]:
        """Totals are cut by nothing, or where a key had no rows for too long."""
        found = self._time_of_totals()
        if not found:
            msg = "the rows have no time column, so nobody can tell how far the totals have come"
            raise SqlFault(msg, select.expressions[0], "select a time column, as it is, in the sub-query")
        _, known = found[0]
        return Window(known.flat, gap_us=self._keep or 0), known.lag_us or 0

    def _time_of_totals(self) -> list[tuple[exp.Column, ScopeField]]:
        """The first time column there is, as a reference and as a field."""
        times = ((r, f) for r in self._scope.relations for f in r.fields if f.lag_us is not None)
        return [(self._scope.reference(r, f), f) for r, f in times][:1]

    def _keys(self, items: list[exp.Expr]) -> tuple[ColumnNode, ...]:
        keys: list[ColumnNode] = []
        for item in items:
            value = self._scope.resolve(item, self._window_reference)
            bad = next((n for n in value.walk() if aggregates.name_of(n)), None)
            if bad is not None:
                msg = "an aggregate cannot be a key"
                raise SqlFault(msg, bad, "aggregate in a sub-query first, and group its result by window.end")
            bound = isinstance(value, exp.Column) and value.name in _BOUNDS.values()
            if bound and self._sets is not None and self._sets.is_partial(item):
                msg = "a window's bounds are in every grouping"
                raise SqlFault(msg, item, BESIDE)
            if bound or not names([value]):
                continue  # a constant, or the window's own bounds: no key of its own
            if value in self._meanings.values():
                continue
            partial = self._sets is not None and self._sets.is_partial(item)
            name = value.name if isinstance(value, exp.Column) and not partial else f"__key{len(keys)}"
            self._meanings[name] = value
            keys.append(ColumnNode(name, value if self._sets is None else self._sets.value(item, value)))
        return (*keys, *([] if self._sets is None else [ColumnNode(SET, column(SET))]))

    def _window_call(self, node: exp.Expr) -> exp.Expr:
        """window(ts, '10 seconds') and its fields, outside GROUP BY, mean the window that groups."""
        call = node.this if isinstance(node, exp.Dot) else node
        if not is_window(call):
            return node
        if self._read_window(call)[0] != self.window:
            msg = "this is not the window of GROUP BY"
            raise SqlFault(msg, call, "use the same window everywhere in the SELECT")
        if isinstance(node, exp.Dot):
            return _bound(node.expression.name, node)
        return _struct()

    def _window_reference(self, node: exp.Column) -> exp.Expr | None:
        if node.name in _BOUNDS.values():
            return node
        parts = [p.name.lower() for p in node.parts]
        meant = _BOUNDS_ELSEWHERE.get(parts[0]) if len(parts) == 1 and self._scope.find(node) is None else None
        if meant is not None and meant not in self._aliases:
            msg = f"there is no column '{node.name}': a window's bounds are its fields"
            raise SqlFault(
                msg, node, f"write {next(iter(sorted(self._window_names)), 'window')}.{meant}", UnknownNameError
            )
        if parts[0] not in self._window_names or self._scope.find(node) is not None:
            return None
        return _struct() if len(parts) == 1 else _bound(parts[1], node)

    def _select_alias(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or len(node.parts) > 1 or node.name.lower() not in self._aliases:
            return node
        if any(aggregates.name_of(ancestor) for ancestor in _ancestors(node)):
            return node
        value = self._aliases[node.name.lower()]
        if self._scope.find(node) is not None and not (isinstance(value, exp.Column) and same(value.name, node.name)):
            msg = f"'{node.name}' is both a column and an alias of the SELECT list"
            raise SqlFault(msg, node, "give the alias a name of its own")
        return exp.paren(value.copy(), copy=False) if isinstance(value, exp.Binary | exp.Unary) else value.copy()

    def _output(self, node: exp.Expr) -> exp.Expr:
        for name, meaning in self._meanings.items():
            if node == meaning:
                return column(name)
        if is_grouping(node):
            return self._grouping(node)
        reading = aggregates.read(node)
        if reading is not None:
            return self._call(node, reading)
        if isinstance(node, exp.Column) and node.name not in _BOUNDS.values():
            known = self._scope.field(node.name)
            msg = f"column '{known.name if known else node.name}' is neither a key nor inside an aggregate"
            raise SqlFault(msg, node, "add it to GROUP BY, or take min, max, .. of it")
        return node

    def _grouping(self, node: exp.Expr) -> exp.Expr:
        """grouping(key): whether this row's grouping leaves the key out."""
        asked = node.expressions[0] if len(node.expressions) == 1 else None
        for item in self._sets.items if self._sets is not None else ():
            if not is_window(item) and self._scope.resolve(item, self._window_reference) == asked:
                assert self._sets is not None
                return self._sets.left_out(item)
        msg = "grouping takes one key of GROUP BY"
        raise SqlFault(msg, node, "write grouping(train), where GROUP BY has e.g. ROLLUP(train, coach)")

    def _call(self, node: exp.Expr, reading: aggregates.Reading) -> exp.Expr:
        argument = reading.argument
        if argument is not None:
            nested = next((n for n in argument.walk() if aggregates.name_of(n)), None)
            if nested is not None or names([argument]) & set(_BOUNDS.values()):
                msg = "an aggregate's argument must be made of the rows' columns"
                raise SqlFault(
                    msg, nested or node, "aggregate in a sub-query first, and group its result by window.end"
                )
        value = "*" if argument is None else argument.sql("spark", comments=False)
        same_call = f"{reading.function}({value}){reading.constants}"
        if same_call not in self._calls:
            name = f"__agg{len(self._calls)}"
            self._calls[same_call] = CallNode(name, reading.function, argument, reading.constants)
        return column(self._calls[same_call].name)

    def _wrong_windows(self, select: exp.Select, windows: list[exp.Expr]) -> SqlFault:
        if windows and self._keep is not None:
            msg = "keep is for totals without a window; a window's rows are kept until it closes"
            return SqlFault(msg, windows[0], "leave out the hint or the window")
        if windows:
            msg = "a SELECT can have one window only"
            return SqlFault(msg, windows[1], "use a sub-query for each window")
        group = select.args.get("group")
        keys = "".join(f"{e.sql('spark')}, " for e in group.expressions) if group else ""
        time = next((f.name for r in self._scope.relations for f in r.fields if f.lag_us is not None), "ts")
        msg = "an aggregate without a time window never ends"
        remedy = BESIDE if self._sets is not None else _UNBOUNDED.format(keys=keys, time=time)
        return SqlFault(msg, group or select.expressions[0], remedy)


def _ancestors(node: exp.Expr) -> list[exp.Expr]:
    found, parent = [], node.parent
    while parent is not None:
        found.append(parent)
        parent = parent.parent
    return found


def _text(length: exp.Expr, call: exp.Expr) -> str:
    if not (isinstance(length, exp.Literal) and length.is_string):
        msg = "a window's lengths must be written out"
        raise SqlFault(msg, call, "write them as strings, e.g. window(ts, '10 seconds')")
    return length.name


def _cut(call: exp.Expr, time: str, sizes: list[int]) -> Window:
    if call.name.lower() == "session_window":
        if len(sizes) != 1:
            msg = "session_window takes a time column and one gap"
            raise SqlFault(msg, call, "write session_window(ts, '30 seconds')")
        return Window(time, gap_us=sizes[0])
    if len(sizes) > 3:
        msg = "a window takes a time column, size, slide and offset"
        raise SqlFault(msg, call, "write e.g. window(ts, '1 day', '1 day', '4 hours')")
    slide = sizes[1] if len(sizes) > 1 else sizes[0]
    if slide > sizes[0]:
        msg = "the slide is longer than the window, so rows between windows would be lost"
        raise SqlFault(msg, call, "make the slide (third argument) at most the size")
    offset = sizes[2] % slide if len(sizes) > 2 else 0
    return Window(time, sizes[0], slide, offset_us=offset, slice_us=0 if slide == sizes[0] else gcd(sizes[0], slide))


def _bound(name: str, node: exp.Expr) -> exp.Column:
    if name.lower() not in _BOUNDS:
        msg = f"a window has no '{name}'"
        raise SqlFault(msg, node, "it has window.start and window.end")
    found = column(_BOUNDS[name.lower()])
    if isinstance(node, exp.Column):
        found.this.meta.update(node.this.meta)
    return found


def _struct() -> exp.Expr:
    parts = [p for name, flat in _BOUNDS.items() for p in (exp.Literal.string(name), column(flat))]
    return exp.Anonymous(this="named_struct", expressions=parts)
