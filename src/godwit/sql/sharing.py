"""Sharing across shapes: what a query has in common with a running one of another shape is read from that one.

    SELECT .. FROM a JOIN b ON .. GROUP BY ..     runs already
    SELECT .. FROM a JOIN b ON .. WHERE ..   ->   a *cut*: the running query again, as far as the join, which it taps
                                                  the *reader*: what is left of the new one, over the stream of the cut

Nothing changes for the query that runs: the cut is one more query of its shape that taps it (`model/taps.py`), only
that its rows leave at the join or window where it is cut and become rows of a stream. So they are told apart by the
reader's beginning where everything is told apart. A stream has the rows of all cuts of one operator, each with its
reader's name, to which the reader subscribes: readers that differ in literals alone have one shape. It costs the reader
one micro-batch more; who shares nothing pays nothing.

Two operators do the same if their *forms* are the same: all that they and those below them compute, written over the
columns of streams, with values for literals. What columns are called in a query, and which it goes on to use, is no
part of it; the columns that a reader needs must be among those that the running query keeps. What a query has twice is
cut out of the query itself, and read twice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from godwit.ids import QueryId, StreamId
from godwit.model import signature
from godwit.model.joins import OuterJoin
from godwit.model.plan import (
    ARRIVED,
    PARAMETER,
    READER,
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    Column,
    Filter,
    Join,
    Named,
    Operator,
    Partial,
    Plan,
    Project,
    Query,
    Scan,
    Shape,
    Sink,
    Stream,
    Union,
)
from godwit.model.taps import can_be_tapped, cut_at, producer, time_of

#: the typed columns of an operator's rows
Types = Callable[[Query, int], tuple[Column, ...]]


@dataclass(frozen=True)
class Split:
    """A query as what it reads of others and what is left of it; if it has nothing in common, itself."""

    reader: Query
    #: cuts of running queries, with the streams that they feed
    parts: tuple[tuple[Query, Stream], ...] = ()


@dataclass(frozen=True)
class Form:
    """What an operator computes, whatever its columns are called."""

    text: str
    #: the query's name of each of its columns -> what it is
    columns: Mapping[str, str]


@dataclass(frozen=True)
class _Match:
    leader: Query
    #: the operator there, and here
    there: int
    here: int
    #: the query's names of the columns that it goes on with -> the leader's
    columns: Mapping[str, str]


def split(query: Query, running: Iterable[Query], types: Types, number: int) -> Split:
    """Split a query at the highest joins and windows that others execute; `number` makes names of cuts unique."""
    running = tuple(running)
    _forget_ended(running)
    found = list(_matches(query, running))
    if not found:
        return Split(query)
    parts: dict[tuple[QueryId, int], tuple[Query, Stream]] = {}
    for match in found:
        place = match.leader.id, match.there
        itself = match.leader is query
        parts[place] = parts.get(place) or _cut(match, types, f"{number}_{len(parts)}", itself)
    flat = _Flat(query, {match.here: (match, *parts[match.leader.id, match.there]) for match in found})
    return Split(flat.reader(), tuple(parts.values()))


def widened(query: Query, streams: Mapping[StreamId, Stream]) -> Query:
    """The query with joins that keep all columns of their streams: others, who need other columns, can read them."""
    plan = query.shape.plan
    below = {i for index, o in enumerate(plan.operators) if isinstance(o, Join) for i in plan.below(index)}
    operators: list[Operator] = []
    numbers: dict[int, int] = {}
    for index, operator in enumerate(plan.operators):
        if (
            isinstance(operator, Project)
            and index in below
            and all(c.name == c.sql.strip("`") for c in operator.columns)
        ):
            numbers[index] = numbers[operator.inputs[0]]
            continue
        if isinstance(operator, Scan) and index in below and operator.stream in streams:
            every = dict.fromkeys([*(c.name for c in streams[operator.stream].columns), *operator.columns])
            operator = replace(operator, columns=tuple(every))
        numbers[index] = len(operators)
        operators.append(operator.reading(tuple(numbers[child] for child in operator.inputs)))
    subscriptions = {numbers[index]: wanted for index, wanted in query.subscriptions.items()}
    return replace(query, shape=replace(query.shape, plan=Plan(tuple(operators))), subscriptions=subscriptions)


def forms(query: Query) -> Mapping[int, Form]:
    """Of each join and window that can be shared. Kept: everybody who comes is compared with everybody who runs."""
    key = _key(query)
    if key not in _FORMS:
        found = ((index, _Former(query).form(index)) for index in _shareable(query.shape.plan))
        _FORMS[key] = {index: form for index, form in found if form is not None}
    return _FORMS[key]


_FORMS: dict[tuple[Any, ...], Mapping[int, Form]] = {}


def _key(query: Query) -> tuple[Any, ...]:
    return query.shape.key, query.parameters, tuple(sorted(query.subscriptions.items()))


def _forget_ended(running: Collection[Query]) -> None:
    """Forms of queries that have ended go, once they are more than those of the running ones."""
    if len(_FORMS) > 2 * len(running) + 100:
        kept = {_key(query) for query in running}
        for key in [key for key in _FORMS if key not in kept]:
            del _FORMS[key]


def _matches(query: Query, running: Iterable[Query]) -> Iterator[_Match]:
    """The highest operators that others of other shapes execute, or that the query itself has twice. Streams below one
    of them are read nowhere else in the query but at the same leader: they would begin at two places."""
    executed: dict[str, tuple[Query, int, Form]] = {}
    for other in running:
        changes = other.until or other.successor is not None or other.shape.plan.runs_both
        if other.shape.key != query.shape.key and other.cut is None and not other.parts and not changes:
            for index, form in forms(other).items():
                if index not in other.taps:
                    executed.setdefault(form.text, (other, index, form))
    plan, found, inside = query.shape.plan, list[_Match](), set[int]()
    own = forms(query)
    twice = Counter(form.text for form in own.values())
    for index, form in own.items():
        if twice[form.text] > 1:
            executed.setdefault(form.text, (query, index, form))
    for index in sorted(own, reverse=True):
        if index not in inside and own[index].text in executed:
            leader, there, theirs = executed[own[index].text]
            called = {what: name for name, what in theirs.columns.items()}
            mine = own[index].columns
            used = sorted(_used(plan, set(range(len(plan.operators))) - {*plan.below(index)}) & mine.keys())
            if all(mine[name] in called for name in used):
                inside |= {*plan.below(index)}
                found.append(_Match(leader, there, index, {name: called[mine[name]] for name in used}))
    for match in found:
        alike = {scan for m in found if m.leader.id == match.leader.id for scan in plan.scans_below(m.here)}
        below = {scan.stream for i, scan in plan.scans if i in plan.below(match.here)}
        if all(i in alike for i, scan in plan.scans if scan.stream in below):
            yield match


def _shareable(plan: Plan) -> list[int]:
    wanted = (i for i, operator in enumerate(plan.operators) if isinstance(operator, Join | OuterJoin | Aggregate))
    # (a stream has a time, which rows of a full join have not)
    timed = (i for i in wanted if getattr(plan.operators[i], "how", None) != "full")
    return [i for i in timed if can_be_tapped(plan, i)]


def _used(plan: Plan, operators: Collection[int]) -> set[str]:
    """All words in these operators."""
    words: set[str] = set()

    def note(text: str) -> str:
        words.update(word.strip("`") for word in _TOKEN.findall(text))
        words.add(text)
        return text

    for index in operators:
        signature.canonical(plan.operators[index], note)
    return words


def _cut(match: _Match, types: Types, number: str, itself: bool) -> tuple[Query, Stream]:
    """The leader's query as far as the operator, tapping it, and the stream of all cuts there. `itself`: the leader is
    the query that is split, and does not run: then the cut executes the operator."""
    leader, index = match.leader, match.there
    columns = types(leader, index)
    name = StreamId(f"shared_{signature.digest([leader.id, number if itself else leader.begins, index], 8)}")
    taps = {} if itself else dict.fromkeys(leader.shape.plan.below(index), leader.id)
    made = cut_at(leader, index, tuple(column.name for column in columns))
    made = replace(made, id=QueryId(f"{name}_{number}"), target=name, internal=True, taps=taps)
    time, _ = time_of(made)
    return made, Stream(name, (*columns, Column(READER, "string")), str(time), READER)


#: a quoted string, a quoted name or a word
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|\b[A-Za-z_]\w*""")


def _renamed(sql: str, name: Callable[[str], str]) -> str:
    """An expression with its words exchanged; quoted strings stay as they are."""
    return _TOKEN.sub(lambda match: match[0] if match[0][0] in "'\"" else name(match[0].strip("`")), sql)


class _Former:
    """Finds the form of one operator. Scans and operators that make columns of their own are numbered from 0."""

    def __init__(self, query: Query) -> None:
        self._query, self._count = query, 0

    def form(self, index: int) -> Form | None:
        operator = self._query.shape.plan.operators[index]
        below = [self.form(child) for child in operator.inputs]
        there = [form for form in below if form is not None]
        if len(there) < len(below):
            return None
        known = {name: what for form in there for name, what in form.columns.items()}
        match operator:
            case Scan(arrival=True):
                return None
            case Scan() if ARRIVED in operator.columns or operator.arrival:
                return None  # (what Spark is asked for types has no such column)
            case Scan():
                wanted = sorted(self._query.subscriptions.get(index, ()))
                columns = self._columns({f"{operator.alias}__{name}": name for name in operator.columns})
                return self._made(there, columns, "scan", operator.stream, operator.subscribe, wanted)
            case Filter():
                return self._made(there, known, "filter", self._text(operator.predicate, known))
            case Project():
                return replace(there[0], columns={c.name: self._text(c.sql, known) for c in operator.columns})
            case Union():
                alike = {name: [form.columns.get(name) for form in there] for name in there[0].columns}
                return self._made(there, self._columns({name: str(what) for name, what in alike.items()}), "union")
            case Partial():
                return there[0]
            case Join():
                return self._made(there, known, "join", *self._pairs(operator, known))
            case OuterJoin():
                columns = {column.name: known[column.name] for column in operator.columns}
                return self._made(there, columns, operator.how, *self._pairs(operator.inner, known))
            case Aggregate():
                return self._aggregate(there, known, operator, self._query.shape.plan.operators[operator.inputs[0]])
        return None

    def _pairs(self, node: Join, known: Mapping[str, str]) -> Iterator[Any]:
        yield [[self._text(side, known) for side in pair] for pair in node.keys]
        yield [self._text(time, known) for time in (node.left_time, node.right_time)]
        yield None if node.residual is None else self._text(node.residual, known)
        yield from (node.lower_us, node.upper_us, node.left_lag_us, node.right_lag_us)

    def _aggregate(
        self, there: list[Form], known: Mapping[str, str], node: Aggregate, partial: Operator
    ) -> Form | None:
        if not isinstance(partial, Partial):
            return None
        keys = {key.name: self._text(key.sql, known) for key in partial.keys}
        calls = {
            call.name: str([call.function, call.argument and self._text(call.argument, known), call.constants])
            for call in node.aggregates
        }
        window = replace(node.window, time=self._text(node.window.time, known))
        made = self._columns({**keys, **calls, WINDOW_START: WINDOW_START, WINDOW_END: WINDOW_END})
        parts = sorted(keys.values()), sorted(set(calls.values())), signature.canonical(window), node.lag_us
        return self._made(there, made, "window", *parts)

    def _text(self, sql: str, columns: Mapping[str, str]) -> str:
        parameters, literals = self._query.shape.parameters, self._query.parameters
        if sql.strip("`") in columns:
            return columns[sql.strip("`")]

        def name(word: str) -> str:
            if re.fullmatch(rf"{PARAMETER}\d+", word):
                number = int(word.removeprefix(PARAMETER))
                return f"({literals[number]} {parameters[number].type})"
            return f"[{columns[word]}]" if word in columns else word

        return _renamed(sql, name)

    def _columns(self, own: Mapping[str, str]) -> dict[str, str]:
        """Columns that are made here."""
        self._count += 1
        return {name: f"{self._count}.{what}" for name, what in own.items()}

    @staticmethod
    def _made(there: list[Form], columns: Mapping[str, str], *what: Any) -> Form:
        return Form(signature.digest([*what, [form.text for form in there]]), columns)


@dataclass
class _Flat:
    """The reader's plan: the query's own with scans in place of what it reads. Literals keep their numbers."""

    query: Query
    matches: Mapping[int, tuple[_Match, Query, Stream]]
    operators: list[Operator] = field(default_factory=list)
    subscriptions: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def reader(self) -> Query:
        self._add(len(self.query.shape.plan.operators) - 1)
        cuts = {cut.id: cut for _, cut, _ in self.matches.values()}
        operators = self.operators
        if sum(isinstance(operator, Scan) for operator in operators) == 1:
            # The stream's watermark lags behind its sources' already: what the query adds to that is less.
            operators = [_earlier(operator, time_of(cut)[1]) for operator in operators for cut in cuts.values()]
        return replace(
            self.query,
            shape=Shape(Plan(tuple(operators)), self.query.shape.parameters),
            subscriptions=self.subscriptions,
            parts=tuple(cuts),
        )

    def _add(self, index: int) -> int:
        if index in self.matches:
            return self._scan(*self.matches[index])
        operator = self.query.shape.plan.operators[index]
        inputs = tuple(self._add(child) for child in operator.inputs)
        return self._put(operator.reading(inputs), self.query.subscriptions.get(index))

    def _scan(self, match: _Match, cut: Query, stream: Stream) -> int:
        alias = f"j{len(self.operators)}"
        needed = {*match.columns.values(), stream.time, READER}
        columns = tuple(column.name for column in stream.columns if column.name in needed)
        scan = self._put(Scan(stream.id, alias, columns, READER), (f"'{producer(cut.id)}'",))
        back = tuple(Named(own, f"`{alias}__{theirs}`") for own, theirs in match.columns.items())
        return self._put(Project((scan,), back), None)

    def _put(self, operator: Operator, wanted: tuple[str, ...] | None) -> int:
        self.operators.append(operator)
        if wanted is not None:
            self.subscriptions[len(self.operators) - 1] = wanted
        return len(self.operators) - 1


def _earlier(operator: Operator, lag_us: int) -> Operator:
    match operator:
        case Aggregate() | Sink():
            return replace(operator, lag_us=max(0, operator.lag_us - lag_us))
        case Join():
            left, right = (max(0, lag - lag_us) for lag in (operator.left_lag_us, operator.right_lag_us))
            return replace(operator, left_lag_us=left, right_lag_us=right)
    return operator
