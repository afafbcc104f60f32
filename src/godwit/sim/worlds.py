"""The small world that schedules play in: three regions, seven sites, three devices, queries of every stateful kind.

              c (cloud)
             /         \\
       ha (west)     hb (east)
       /    \\        /    \\
      a1    a2      b1    b2
"""

from __future__ import annotations

from dataclasses import replace

from godwit.ids import DeviceId, QueryId, RegionId, SiteId, StreamId
from godwit.model.joins import AsofJoin, How, OuterJoin
from godwit.model.plan import (
    WINDOW_END,
    Aggregate,
    AggregateCall,
    Column,
    Filter,
    Join,
    Named,
    Operator,
    Parameter,
    Partial,
    Plan,
    Query,
    Scan,
    Shape,
    Sink,
    Stream,
    Union,
    Window,
)
from godwit.model.taps import can_be_tapped, cut_at
from godwit.model.topology import Device, Link, Site, Topology
from godwit.sim.over import SimOver, SimRanked
from godwit.sim.running import SimRunning
from godwit.sim.top import SimTop

#: event time is in microseconds; the world's numbers are small so that schedules are readable
WINDOW, HOP, GAP, BAND, DISORDER = 10, 5, 4, 5, 3
REGIONS = {"cloud": ("c",), "west": ("ha", "a1", "a2"), "east": ("hb", "b1", "b2")}
PARENT = {"ha": "c", "hb": "c", "a1": "ha", "a2": "ha", "b1": "hb", "b2": "hb"}
LEAVES = ("a1", "a2", "b1", "b2")
DEVICES = ("d1", "d2", "d3")
LEFT, RIGHT = StreamId("left"), StreamId("right")
FEEDS = {LEFT: tuple(map(DeviceId, DEVICES[:2])), RIGHT: tuple(map(DeviceId, DEVICES[1:]))}
_COLUMNS = (Column("device", "string"), Column("ts", "timestamp"), Column("k", "int"), Column("v", "int"))
STREAMS = {name: Stream(name, _COLUMNS, "ts", "device", disorder_us=DISORDER) for name in (LEFT, RIGHT)}
CALLS = (AggregateCall("n", "count", None), AggregateCall("s", "sum", "v"))


def site(name: str) -> Site:
    region = next(region for region, sites in REGIONS.items() if name in sites)
    return Site(SiteId(name), RegionId(region))


def link(name: str) -> Link:
    return Link(SiteId(name), SiteId(PARENT[name]), ms=1.0)


def topology() -> Topology:
    sites = [site(name) for names in REGIONS.values() for name in names]
    devices = [Device(DeviceId(name), SiteId(LEAVES[k])) for k, name in enumerate(DEVICES)]
    return Topology.of(sites, [link(name) for name in PARENT], devices)


def windowed(name: str, over: int, window: Window) -> Query:
    """SELECT k, count(*), sum(v) FROM left WHERE v > :over GROUP BY k, window"""
    operators: list[Operator] = [
        Scan(LEFT, "a", ("ts", "k", "v")),
        Filter((0,), "a__v > __p0"),
        Partial((1,), window, (Named("k", "a__k"),), _calls("a__v")),
        Aggregate((2,), window, ("k",), _calls("a__v")),
        Sink((3,), ("k", "__window_end", "n", "s")),
    ]
    return _query(name, operators, over)


def tumbling(name: str, over: int) -> Query:
    return windowed(name, over, Window("a__ts", WINDOW, WINDOW))


def hopping(name: str, over: int) -> Query:
    return windowed(name, over, Window("a__ts", WINDOW, HOP))


def session(name: str, over: int) -> Query:
    return windowed(name, over, Window("a__ts", gap_us=GAP))


def joined(name: str, over: int) -> Query:
    """SELECT ... FROM left a JOIN right b ON a.k = b.k AND b.ts BETWEEN a.ts - BAND AND a.ts + BAND WHERE a.v > :p"""
    return _query(name, [*_join(), Sink((3,), ("a__ts", "a__v", "b__ts", "b__v"))], over)


def both(name: str, over: int) -> Query:
    """count over left UNION ALL right"""
    window = Window("a__ts", WINDOW, WINDOW)
    operators: list[Operator] = [
        Scan(LEFT, "a", ("ts", "k", "v")),
        Scan(RIGHT, "a", ("ts", "k", "v")),
        Union((0, 1)),
        Filter((2,), "a__v > __p0"),
        Partial((3,), window, (Named("k", "a__k"),), _calls("a__v")),
        Aggregate((4,), window, ("k",), _calls("a__v")),
        Sink((5,), ("k", "__window_end", "n", "s")),
    ]
    return _query(name, operators, over)


def counted_join(name: str, over: int) -> Query:
    """Two stateful operators in a row: windows over the pairs of the join."""
    window = Window("a__ts", WINDOW, WINDOW)
    operators: list[Operator] = [
        *_join(),
        Partial((3,), window, (Named("k", "a__k"),), _calls("b__v")),
        # A pair may be as late as its older row: a band behind the clock.
        Aggregate((4,), window, ("k",), _calls("b__v"), lag_us=BAND),
        Sink((5,), ("k", "__window_end", "n", "s")),
    ]
    return _query(name, operators, over)


def nested(name: str, over: int) -> Query:
    """Windows over the results of windows: what the lower ones say of their watermark, the upper ones believe."""
    lower, upper = Window("a__ts", WINDOW, WINDOW), Window(WINDOW_END, 2 * WINDOW, 2 * WINDOW)
    operators: list[Operator] = [
        Scan(LEFT, "a", ("ts", "k", "v")),
        Filter((0,), "a__v > __p0"),
        Partial((1,), lower, (Named("k", "a__k"),), _calls("a__v")),
        Aggregate((2,), lower, ("k",), _calls("a__v")),
        Partial((3,), upper, (Named("k", "k"),), _calls("s")),
        Aggregate((4,), upper, ("k",), _calls("s")),
        Sink((5,), ("k", "__window_end", "n", "s")),
    ]
    return _query(name, operators, over)


def running(name: str, over: int) -> Query:
    """SELECT k, count(*), sum(v) FROM left WHERE v > :over GROUP BY k, a result for each row"""
    return _alone(name, SimRunning((1,), "a__k", "a__v"), ("k", "n", "s"), over)


def over(name: str, over: int) -> Query:
    """SELECT k, row_number(), sum(v), lag(v) OVER (PARTITION BY k ORDER BY ts, v) FROM left WHERE v > :over"""
    return _alone(name, SimOver((1,), "a__k", "a__ts", "a__v"), ("k", "n", "s", "before", "after"), over)


def ahead(name: str, over: int) -> Query:
    """The same, with lead(v, 2): two rows of each key wait for those after them"""
    return _alone(name, SimOver((1,), "a__k", "a__ts", "a__v", 2), ("k", "n", "s", "before", "after"), over)


def ranked(name: str, over: int) -> Query:
    """SELECT k, ts, v, row_number() OVER (PARTITION BY k, ts ORDER BY v) FROM left WHERE v > :over"""
    return _alone(name, SimRanked((1,), "a__k", "a__ts", "a__v"), ("k", "ts", "v", "n"), over)


def top(name: str, over: int) -> Query:
    """SELECT k, v FROM left WHERE v > :over QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC) <= 2"""
    return _alone(name, SimTop((1,), "a__k", "a__v", 2), ("k", "place", "v", "n"), over)


def passing(name: str, over: int) -> Query:
    """SELECT device, ts, k, v FROM left WHERE v > :over, a result for each row"""
    operators: list[Operator] = [
        Scan(LEFT, "a", ("device", "ts", "k", "v")),
        Filter((0,), "a__v > __p0"),
        Sink((1,), ("a__device", "a__ts", "a__k", "a__v")),
    ]
    return _query(name, operators, over)


def scattered(name: str, over: int) -> Query:
    """The same, and its results leave in whichever region its rows are"""
    return replace(passing(name, over), scattered=True)


def full_join(name: str, over: int) -> Query:
    """SELECT a.ts, a.v, b.ts, b.v FROM left a FULL JOIN right b ON a.k = b.k AND band, of left rows WHERE v > :over"""
    return _outer(name, over, "full")


def semi_join(name: str, over: int) -> Query:
    """SELECT a.ts, a.v FROM left a LEFT SEMI JOIN right b .."""
    return _outer(name, over, "semi")


def anti_join(name: str, over: int) -> Query:
    """SELECT a.ts, a.v FROM left a LEFT ANTI JOIN right b .."""
    return _outer(name, over, "anti")


def counted_outer(name: str, over: int) -> Query:
    """Windows over the rows of the left, each with or without its partners."""
    *operators, _ = _outer(name, over, "left").shape.plan.operators
    window = Window("a__ts", WINDOW, WINDOW)
    operators += [
        Partial((3,), window, (Named("k", "a__k"),), _calls("a__v")),
        Aggregate((4,), window, ("k",), _calls("a__v"), lag_us=BAND),
        Sink((5,), ("k", "__window_end", "n", "s")),
    ]
    return _query(name, operators, over)


def asof(name: str, over: int) -> Query:
    """SELECT a.ts, a.v, b.ts, b.v FROM left a LEFT ASOF JOIN right b ON a.k = b.k, the newest b that is not newer"""
    left, right = (tuple(Column(f"{side}__{c}", "int") for c in ("ts", "k", "v")) for side in "ab")
    join = AsofJoin((1, 2), (("a__k", "b__k"),), "a__ts", "b__ts", ("b__v",), left, right, outer=True)
    return _query(name, [*_join()[:3], join, Sink((3,), ("a__ts", "a__v", "b__ts", "b__v"))], over)


def chain(name: str, over: int) -> Query:
    """SELECT ... FROM left a JOIN right b ON .. JOIN left c ON .., each pair of neighbours within BAND"""
    return _query(name, [*_chain(), _triples(5)], over)


def counted_chain(name: str, over: int) -> Query:
    """SELECT a.k, count(*), sum(c.v) of the same GROUP BY a.k, window(b.ts)"""
    window = Window("b__ts", WINDOW, WINDOW)
    operators: list[Operator] = [
        *_chain(),
        Partial((5,), window, (Named("k", "a__k"),), _calls("c__v")),
        Aggregate((6,), window, ("k",), _calls("c__v"), BAND),
        Sink((7,), ("k", "__window_end", "n", "s")),
    ]
    return _query(name, operators, over)


def late_chain(name: str, over: int) -> Query:
    """The same, but what differs between queries is wanted of c: the first join is the same for all"""
    a, _, b, first, c, second = _chain()
    joins = [a, b, first.reading((0, 1)), c, Filter((3,), "c__v > __p0"), second.reading((2, 4))]
    return _query(name, [*joins, _triples(5)], over)


def sifted_chain(name: str, over: int) -> Query:
    """The same, but what differs between queries is looked at above the joins, which are the same for all"""
    a, _, b, first, c, second = _chain()
    joins = [a, b, first.reading((0, 1)), c, second.reading((2, 3))]
    return _query(name, [*joins, Filter((4,), "a__v > __p0"), _triples(5)], over)


def _triples(below: int) -> Sink:
    return Sink((below,), ("a__ts", "a__v", "b__ts", "b__v", "c__ts", "c__v"))


KINDS = {f.__name__: f for f in (tumbling, hopping, session, joined, both, counted_join)}
#: whose first stateful operator has keys that may migrate
KEYED = {**KINDS, "running": running, "over": over}
#: the same, of rows that are ranked, and of window functions that look ahead
RANKED = {f.__name__: f for f in (ranked, ahead, top)}
#: what may stand for another kind: it has the same keys, and one operator more
LONGER = {"tumbling": nested}
#: in which rows without a partner count
OUTER = {f.__name__: f for f in (full_join, semi_join, anti_join)}
#: the same, and what is made of them, where keys migrate
OUTER_KEYED = {**OUTER, "counted_outer": counted_outer, "asof": asof}
#: of three streams, whose joins have several orders
CHAINS = {f.__name__: f for f in (chain, counted_chain)}
#: the same, of which several queries may have joins in common
SHARED_CHAINS = {**CHAINS, **{f.__name__: f for f in (late_chain, sifted_chain)}}
_OTHERS = {f.__name__: f for f in (nested, passing, scattered)}
ALL_KINDS = {**KEYED, **RANKED, **OUTER_KEYED, **SHARED_CHAINS, **_OTHERS}


def lowest(query: Query) -> Query:
    """A query cut at its lowest join or window, as it is for one of another shape that has that in common with it."""
    plan = query.shape.plan
    index = next((i for i in range(len(plan.operators)) if plan.operators[i].stateful and can_be_tapped(plan, i)), None)
    if index is None:
        return query
    match plan.operators[index]:
        case Join():
            return cut_at(query, index, ("a__ts", "a__v", "b__ts", "b__v"))
        case OuterJoin():
            return cut_at(query, index, plan.sink.columns)
    return cut_at(query, index, ("k", "__window_end", "n", "s"))


def whole(query: Query) -> Query:
    """A query that is cut as one that ends there."""
    if query.cut is None:
        return query
    operators = (*query.shape.plan.operators[: query.cut + 1], Sink((query.cut,), query.output))
    return replace(query, shape=replace(query.shape, plan=Plan(operators)), cut=None)


def promise(query: Query) -> tuple[int | None, int]:
    """(which column of its results is their time, how far that may lie behind the query's watermark)"""
    columns = query.output or query.shape.plan.sink.columns
    made = [operator for i, operator in enumerate(query.shape.plan.operators) if i in query.executed]
    top = [operator for operator in made if isinstance(operator, Aggregate | Join | OuterJoin | AsofJoin)][-1:]
    match top:
        case [OuterJoin(how="semi" | "anti")]:
            return columns.index("a__ts"), BAND
        case [Aggregate(lag_us=lag)]:
            return columns.index(WINDOW_END), lag - 1  # (a window that ends with the watermark is closed by it)
        case [Join()]:  # (a is as many bands away from the row that completes a result as there are joins between)
            return columns.index("a__ts"), BAND * (len({op.alias for op in made if isinstance(op, Scan)}) - 1)
        case [AsofJoin()]:
            return columns.index("a__ts"), 0
    return None, 0


def _outer(name: str, over: int, how: How) -> Query:
    left, right = (tuple(Column(f"{side}__{c}", "int") for c in ("ts", "k", "v")) for side in "ab")
    columns = ("a__ts", "a__v") if how in ("semi", "anti") else ("a__ts", "a__v", "b__ts", "b__v")
    band = (("a__k", "b__k"),), "a__ts", "b__ts", -BAND, BAND
    operators: list[Operator] = [*_join()[:3], OuterJoin((1, 2), how, *band, left, right), Sink((3,), columns)]
    return _query(name, operators, over)


def _alone(name: str, operator: Operator, columns: tuple[str, ...], over: int) -> Query:
    """One stateful operator over the rows of the left."""
    scan, wanted = Scan(LEFT, "a", ("ts", "k", "v")), Filter((0,), "a__v > __p0")
    return _query(name, [scan, wanted, operator, Sink((2,), columns)], over)


def _chain() -> list[Operator]:
    keeps = 2 * BAND
    return [
        Scan(LEFT, "a", ("ts", "k", "v")),
        Filter((0,), "a__v > __p0"),
        Scan(RIGHT, "b", ("ts", "k", "v")),
        Join((1, 2), (("a__k", "b__k"),), "a__ts", "b__ts", -BAND, BAND, keep_us=(keeps, BAND)),
        Scan(LEFT, "c", ("ts", "k", "v")),
        Join((3, 4), (("b__k", "c__k"),), "b__ts", "c__ts", -BAND, BAND, None, BAND, 0, (0, keeps)),
    ]


def _join() -> list[Operator]:
    return [
        Scan(LEFT, "a", ("ts", "k", "v")),
        Filter((0,), "a__v > __p0"),
        Scan(RIGHT, "b", ("ts", "k", "v")),
        Join((1, 2), (("a__k", "b__k"),), "a__ts", "b__ts", -BAND, BAND),
    ]


def _calls(value: str) -> tuple[AggregateCall, ...]:
    return (AggregateCall("n", "count", None), AggregateCall("s", "sum", value))


def _query(name: str, operators: list[Operator], over: int) -> Query:
    return Query(QueryId(name), "", Shape(Plan(tuple(operators)), (Parameter("__p0", "int"),)), (str(over),))
