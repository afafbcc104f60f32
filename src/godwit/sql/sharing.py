"""Splits a query at its joins, so that equal joins of different queries are executed once.

    SELECT .. FROM a JOIN b ON .. WHERE ..   ->   shared_1f2e_7: the join of a and b, all their columns, as a stream
                                                  the query:     what is left, reading that stream

A part is written in a canonical form: scans named s0, s1, .. with all columns of their streams, literals numbered from
0. So two joins are the same part exactly when streams, filters below, keys, band and further conditions are the same,
whichever columns the queries go on to use and whatever they call them.

A query that comes later must not see pairs with rows from before it. So rows of a part carry the epoch under which they
were taken in (the older one of a pair), and each reader drops what is older than itself. An aggregate cannot be told
apart like that, so only joins are shared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from godwit.ids import QueryId, StreamId
from godwit.model.plan import (
    EPOCH,
    PARAMETER,
    Aggregate,
    Column,
    Filter,
    Join,
    Named,
    Operator,
    Parameter,
    Plan,
    Project,
    Query,
    Scan,
    Shape,
    Sink,
    Stream,
)


@dataclass(frozen=True)
class Split:
    """A query as parts and a reader; without shareable joins the reader is the query itself."""

    reader: Query
    #: all parts that the reader stands on, inputs before outputs, with the streams they make
    parts: tuple[tuple[Query, Stream], ...] = ()


@dataclass(frozen=True)
class _Tree:
    """An operator with what is below it."""

    operator: Operator
    children: tuple[_Tree, ...] = ()
    #: of a scan: the values it subscribes to
    wanted: tuple[str, ...] | None = None

    def scans(self) -> Iterator[Scan]:
        if isinstance(self.operator, Scan):
            yield self.operator
        for child in self.children:
            yield from child.scans()


def split(query: Query, streams: Mapping[StreamId, Stream], running: Mapping[str, Query], since: int) -> Split:
    """Split a query that begins with epoch `since`; `running`: the parts there are, by their identity."""
    splitter = _Splitter(query, streams, running, since)
    tree = splitter.visit(_tree(query))
    if not splitter.parts:
        return Split(query)
    return Split(splitter.reader(tree), tuple(splitter.parts.values()))


def begins(reader: Query, epoch: int) -> Query:
    """The query as one that begins with an epoch; a reader of parts drops pairs with older rows."""
    parameters = (*reader.parameters[:-1], str(epoch)) if reader.parts else reader.parameters
    return replace(reader, parameters=parameters, begins=epoch)


def own_names(reader: Query, part: Query) -> dict[str, str]:
    """A part's columns -> what the reader calls them; those that it does not read are left out."""
    operators = reader.shape.plan.operators
    alias = next((o.alias for o in operators if isinstance(o, Scan) and o.stream == part.target), None)
    made = [c for o in operators if isinstance(o, Project) for c in o.columns] if alias else []
    return {c.sql.removeprefix(f"{alias}__"): c.name for c in made if c.sql.startswith(f"{alias}__")}


class _Splitter:
    def __init__(
        self, query: Query, streams: Mapping[StreamId, Stream], running: Mapping[str, Query], since: int
    ) -> None:
        self._query, self._streams, self._running, self._since = query, dict(streams), running, since
        self._scans = [scan.stream for _, scan in query.shape.plan.scans]
        #: stream -> the part that makes it
        self.parts: dict[StreamId, tuple[Query, Stream]] = {}

    def visit(self, tree: _Tree) -> _Tree:
        below = [scan.stream for scan in tree.scans()]
        tree = replace(tree, children=tuple(self.visit(child) for child in tree.children))
        # A stream that is also read elsewhere in the query would begin at two places.
        apart = all(self._scans.count(stream) == below.count(stream) for stream in below)
        if not isinstance(tree.operator, Join) or not apart:
            return tree
        draft = _Canonical(self._query, self._streams)
        names = draft.add(tree)
        return tree if names is None else self._instead(draft, names, tree.operator)

    def _instead(self, draft: _Canonical, names: Mapping[str, str], join: Join) -> _Tree:
        """The scan of a part in place of the join, with the columns that were read of it."""
        part, stream = self._part(draft, join)
        alias = f"j{len(self.parts)}"
        self.parts[stream.id] = (part, stream)
        self._streams[stream.id] = stream
        needed = [c.name for c in stream.columns if c.name in {*names.values(), stream.time, EPOCH}]
        scan = _Tree(Scan(stream.id, alias, tuple(needed)))
        back = tuple(Named(own, f"{alias}__{canonical}") for own, canonical in sorted(names.items()))
        return _Tree(Project((), back), (scan,))

    def _part(self, draft: _Canonical, join: Join) -> tuple[Query, Stream]:
        columns, sink = draft.finish(join)
        part = Query(
            QueryId(""),
            join.describe(),
            Shape(Plan(tuple(draft.operators)), tuple(draft.parameters)),
            tuple(draft.literals),
            draft.subscriptions,
            output=sink.columns,
            internal=True,
        )
        known = self._running.get(part.identity)
        name = known.id if known else QueryId(f"shared_{part.identity[:8]}_{self._since}")
        below = [self.parts[s.stream][0] for _, s in part.shape.plan.scans if s.stream in self.parts]
        stream = Stream(StreamId(name), columns, str(sink.time))
        made = replace(part, id=name, target=StreamId(name), parts=_standing_on(below))
        return known or made, stream

    def reader(self, tree: _Tree) -> Query:
        """What is left of the query, numbered anew, with a filter above every part."""
        flat = _Flat(self._query, self._since)
        flat.add(tree)
        operators = flat.operators
        scans = [o for o in operators if isinstance(o, Scan)]
        if len(scans) == 1:
            # The part's clock lags behind its sources' already: what the query adds to that is less.
            lag = next(iter(self.parts.values()))[0].shape.plan.sink.lag_us if len(self.parts) == 1 else 0
            operators = [_earlier(o, lag) for o in operators]
        return replace(
            self._query,
            shape=Shape(Plan(tuple(operators)), tuple(flat.parameters)),
            parameters=tuple(flat.literals),
            subscriptions=flat.subscriptions,
            parts=tuple(part.id for part, _ in self.parts.values()),
        )


@dataclass
class _Numbered:
    """Operators in topological order, with the literals they use, numbered from 0."""

    query: Query
    operators: list[Operator] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    literals: list[str] = field(default_factory=list)
    subscriptions: dict[int, tuple[str, ...]] = field(default_factory=dict)
    _numbers: dict[int, str] = field(default_factory=dict)

    def put(self, operator: Operator, wanted: tuple[str, ...] | None = None) -> int:
        self.operators.append(operator)
        if wanted is not None:
            self.subscriptions[len(self.operators) - 1] = wanted
        return len(self.operators) - 1

    def literal(self, kind: str, value: str) -> str:
        name = f"{PARAMETER}{len(self.parameters)}"
        self.parameters.append(Parameter(name, kind))
        self.literals.append(value)
        return name

    def text(self, sql: str, names: Mapping[str, str]) -> str:
        """An expression with columns renamed and its literals numbered; quoted strings stay as they are."""

        def swap(match: re.Match[str]) -> str:
            word = match[0].strip("`")
            if match[0][0] in "'\"":
                return match[0]
            if re.fullmatch(rf"{PARAMETER}\d+", word):
                return self._renumbered(int(word.removeprefix(PARAMETER)))
            return match[0].replace(word, names.get(word, word))

        return _TOKEN.sub(swap, sql)

    def _renumbered(self, number: int) -> str:
        if number not in self._numbers:
            kind = self.query.shape.parameters[number].type
            self._numbers[number] = self.literal(kind, self.query.parameters[number])
        return self._numbers[number]


#: a quoted string, a quoted name or a word
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|\b[A-Za-z_]\w*""")


class _Canonical(_Numbered):
    """A join and all below it in the form that makes equal ones equal."""

    def __init__(self, query: Query, streams: Mapping[StreamId, Stream]) -> None:
        super().__init__(query)
        self._streams = streams
        self._columns: list[Column] = []
        self._epochs: list[str] = []
        self._top = -1

    def add(self, tree: _Tree) -> dict[str, str] | None:
        """Take a tree in; returns the query's name of each of its columns -> the canonical one. None: cannot share."""
        operator = tree.operator
        if isinstance(operator, Scan):
            return self._scan(operator, tree.wanted)
        if not isinstance(operator, Filter | Project | Join):
            return None
        below, inputs = [], []
        for child in tree.children:
            names = self.add(child)
            if names is None:
                return None
            below.append(names)
            inputs.append(self._top)
        names = {own: canonical for names in below for own, canonical in names.items()}
        if isinstance(operator, Project):
            bare = all(c.sql.strip("`") in names for c in operator.columns)
            return {c.name: names[c.sql.strip("`")] for c in operator.columns} if bare else None
        if isinstance(operator, Filter):
            self._top = self.put(Filter(tuple(inputs), self.text(operator.predicate, names)))
        else:
            self._top = self.put(self._join(operator, tuple(inputs), names))
        return names

    def _scan(self, scan: Scan, wanted: tuple[str, ...] | None) -> dict[str, str] | None:
        stream = self._streams.get(scan.stream)
        if stream is None or scan.arrival or any("`" in c.name for c in stream.columns):
            return None
        alias = f"s{len(self._epochs)}"
        own = [c for c in stream.columns if c.name != EPOCH]
        self._columns += [Column(f"{alias}__{c.name}", c.type) for c in own]
        self._epochs.append(f"{alias}__{EPOCH}")
        columns = (*(c.name for c in own), EPOCH)
        self._top = self.put(Scan(scan.stream, alias, columns, scan.subscribe), wanted)
        return {f"{scan.alias}__{name}": f"{alias}__{name}" for name in scan.columns if name != EPOCH}

    def _join(self, join: Join, inputs: tuple[int, ...], names: Mapping[str, str]) -> Join:
        return replace(
            join,
            inputs=inputs,
            keep_us=(
                0,
                0,
            ),  # what is shared keeps its order, so that a join of two streams is one of three streams' as well
            keys=tuple((self.text(a, names), self.text(b, names)) for a, b in join.keys),
            left_time=names[join.left_time],
            right_time=names[join.right_time],
            residual=None if join.residual is None else self.text(join.residual, names),
        )

    def finish(self, join: Join) -> tuple[tuple[Column, ...], Sink]:
        """Add what makes a stream of it; returns the stream's columns, and the sink."""
        top = self.operators[self._top]
        assert isinstance(top, Join)
        made = [Named(c.name, f"`{c.name}`") for c in self._columns]
        oldest = Named(EPOCH, f"least({', '.join(self._epochs)})")
        below = self.put(Project((self._top,), (*made, oldest)))
        # A pair appears when its later row does; so far may the time of its older row lie behind (see sql/joins.py).
        lags = {
            top.left_time: max(0, join.left_lag_us, join.right_lag_us + join.upper_us),
            top.right_time: max(0, join.right_lag_us, join.left_lag_us - join.lower_us),
        }
        time = min(lags, key=lambda name: (lags[name], name))
        columns = (*self._columns, Column(EPOCH, "bigint"))
        sink = Sink((below,), tuple(c.name for c in columns), time, lags[time])
        self.put(sink)
        return columns, sink


class _Flat(_Numbered):
    """The reader's tree as a plan. It keeps its literals' numbers, also of those that a part has now."""

    def __init__(self, query: Query, since: int) -> None:
        super().__init__(query)
        self.parameters, self.literals = list(query.shape.parameters), list(query.parameters)
        self._begins = self.literal("bigint", str(since))

    def add(self, tree: _Tree) -> int:
        inputs = tuple(self.add(child) for child in tree.children)
        index = self.put(tree.operator.reading(inputs), tree.wanted)
        if not isinstance(tree.operator, Scan) or EPOCH not in tree.operator.columns:
            return index
        return self.put(Filter((index,), f"{tree.operator.alias}__{EPOCH} >= {self._begins}"))


def _standing_on(parts: list[Query]) -> tuple[QueryId, ...]:
    return tuple(dict.fromkeys(name for part in parts for name in (*part.parts, part.id)))


def _earlier(operator: Operator, lag_us: int) -> Operator:
    match operator:
        case Aggregate() | Sink():
            return replace(operator, lag_us=max(0, operator.lag_us - lag_us))
        case Join():
            left, right = (max(0, lag - lag_us) for lag in (operator.left_lag_us, operator.right_lag_us))
            return replace(operator, left_lag_us=left, right_lag_us=right)
    return operator


def _tree(query: Query) -> _Tree:
    def build(index: int) -> _Tree:
        operator = query.shape.plan.operators[index]
        return _Tree(operator, tuple(build(i) for i in operator.inputs), query.subscriptions.get(index))

    return build(len(query.shape.plan.operators) - 1)
