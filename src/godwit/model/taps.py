"""Taps: a query that has a sub-plan in common with a running one is answered by that one's execution of it.

Two queries of one shape have a sub-plan in common where their literals in it, and the values they subscribe to, are the
same. The later one, the *reader*, does not execute it: it *taps* the operator on top of it, whose rows also become
rows of the reader. Nothing changes for a query that nobody taps.

A reader must not see rows from before it. So while a query is tapped, its rows carry a *class*: the newest beginning
among all who read it when the row is taken in. A reader's are the rows whose class is not older than its beginning.
Pairs of a join have the older class of the two rows. Partial aggregates of a window are kept by class, and merged for
each reader when the window closes; an outer join looks for partners among each reader's rows. What such an operator has
put out cannot be told apart again, so the tap is at the lowest window or outer join. Once all rows are of the newest
class, there is one of everything again.

For a query of another shape, a query may tap another only to have the rows of one operator: it is *cut* there
(`sql/sharing.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from godwit.ids import DeviceId, QueryId
from godwit.model.joins import OuterJoin
from godwit.model.plan import WINDOW_END, Aggregate, Join, Plan, Query, Scan, Sink


def find(
    query: Query, running: Iterable[Query], can_read: Callable[[int, QueryId], bool] = lambda operator, leader: True
) -> dict[int, QueryId]:
    """Operator -> the running query that executes it already, for all that the query need not execute itself.

    `can_read`: whether rows in the state of an operator, and of all below it, can be told apart for the query. Nobody
    begins to read a query that is about to go over to another plan."""
    executed: dict[tuple[int, str], QueryId] = {}
    for other in running:
        if other.shape.key == query.shape.key and not other.until and other.successor is None:
            for index, text in enumerate(other.signatures):
                if other.cut is None and index not in other.taps:
                    executed.setdefault((index, text), other.id)
    plan, mine, found = query.shape.plan, query.signatures, dict[int, QueryId]()
    for index in sorted(query.executed - {len(plan.operators) - 1}, reverse=True):
        leader = executed.get((index, mine[index]))
        if index not in found and leader is not None and can_be_tapped(plan, index) and can_read(index, leader):
            found |= dict.fromkeys(plan.below(index), leader)
    return found


def can_be_tapped(plan: Plan, index: int) -> bool:
    """Whether an operator's rows can be told apart by class, and it is worth it: it joins or aggregates, or is all that
    the query does."""
    operator = plan.operators[index]
    if any(plan.operators[i].told_apart != "rows" for i in plan.below(index) if i != index):
        return False
    worth_it = operator.stateful or (index == plan.sink.inputs[0] and not isinstance(operator, Scan))
    return worth_it and operator.told_apart is not None


def cut_at(query: Query, index: int, columns: tuple[str, ...]) -> Query:
    """The query as far as one of its operators, whose rows (these columns of them) are its results."""
    return replace(query, cut=index, output=columns)


def time_of(query: Query) -> tuple[str | None, int]:
    """(the column by which a query's results are ordered, how far it lags behind the query's watermark)"""
    plan = query.shape.plan
    operator = plan.operators[query.cut if query.cut is not None else len(plan.operators) - 1]
    match operator:
        case Sink():
            return operator.time, operator.lag_us
        case Aggregate():
            return WINDOW_END, operator.lag_us
        case Join():
            # A pair appears when its later row does; so far may the time of its older row lie behind (sql/joins.py).
            left = max(0, operator.left_lag_us, operator.right_lag_us + operator.upper_us)
            right = max(0, operator.right_lag_us, operator.left_lag_us - operator.lower_us)
            return min((left, operator.left_time), (right, operator.right_time))[::-1]
        case OuterJoin() if operator.how != "full":  # where both sides may be missing, there is no time
            side = int(operator.how == "right")
            return operator.state[side].time, max(0, operator.waits_us[side])
    msg = f"nothing is cut at {operator.describe()}"
    raise AssertionError(msg)


def ends(query: Query) -> Iterator[tuple[int, QueryId]]:
    """(the tapped operators whose rows the query goes on with, who executes each)"""
    for index, leader in query.taps.items():
        if index == query.cut or query.shape.plan.consumer(index)[0] not in query.taps:
            yield index, leader


def executor(query: Query, operator: int, queries: Mapping[QueryId, Query]) -> Query:
    """The query that executes an operator of another: itself, or whom it taps, directly or through others."""
    while (leader := query.taps.get(operator)) in queries:
        query = queries[leader]  # type: ignore[index]
    return query


def family(query: Query, queries: Mapping[QueryId, Query]) -> list[Query]:
    """The query and all with which it is connected by taps, directly or through others: who is tapped comes first."""
    alike = [other for other in queries.values() if other.shape.key == query.shape.key]
    found, todo = {query.id: query}, [query]
    while todo:
        one = todo.pop()
        near = [other for other in alike if other.id in one.taps.values() or one.id in other.taps.values()]
        todo += [other for other in near if other.id not in found]
        found |= {other.id: other for other in near}
    return leaders_first(found.values())


def leaders_first(queries: Iterable[Query]) -> list[Query]:
    """Queries by their beginning, each after those that it taps."""
    known = {query.id: query for query in queries}

    def depth(query: Query) -> int:
        return max((1 + depth(known[leader]) for leader in {*query.taps.values()} if leader in known), default=0)

    return sorted(known.values(), key=lambda query: (query.begins, depth(query), query.reads_since, query.id))


def readers(query: QueryId, queries: Iterable[Query]) -> list[QueryId]:
    """Those who tap a query."""
    return sorted(other.id for other in queries if query in other.taps.values())


#: a derived stream's rows come from this pseudo-device
PRODUCER = "query:"


def producer(query: QueryId) -> DeviceId:
    """One for all versions of a query."""
    return DeviceId(f"{PRODUCER}{query.partition('~')[0]}")


#: the input of an operator to which the rows of queries that are cut there are sent, where they leave elsewhere
LEAVING = -1


class TapTable:
    """Who reads what of whom among the queries of one shape, under one deployment."""

    def __init__(self, plan: Plan, queries: Mapping[QueryId, Query]) -> None:
        scans = [index for index, _ in plan.scans]
        #: scan -> the queries that it takes rows in for; the others tap one of them
        self.scanning = {
            i: {q.id: q for q in queries.values() if i in q.executed and i not in q.taps and not q.until} for i in scans
        }
        #: operator -> the queries that are cut there: its rows are their results
        self.cuts: dict[int, list[QueryId]] = {}
        for query in queries.values():
            if query.cut is not None:
                self.cuts.setdefault(query.cut, []).append(query.id)
        #: query -> the class of the rows that it takes in now
        self.classes: dict[QueryId, int] = {}
        #: operator -> who executes it -> those who go on with its rows, and since which class
        self.at: dict[int, dict[QueryId, dict[QueryId, int]]] = {}
        tops: dict[QueryId, set[int]] = {}
        for query in queries.values():
            for operator, leader in ends(query):
                tops.setdefault(leader, set()).add(operator)
        for query in queries.values():
            for leader in {executor(query, i, queries).id for i in scans if i in query.taps}:
                self.classes[leader] = max(self.classes.get(leader, 0), query.reads_since)
            for operator, leader in ends(query):
                # (one that was withdrawn goes on as far as it is tapped)
                ends_here = not any(operator in plan.below(top) for top in tops[leader] - {operator})
                itself = {} if queries[leader].unseen and ends_here else {leader: 0}
                self.at.setdefault(operator, {}).setdefault(leader, itself)[query.id] = query.reads_since
        #: operators above which nobody taps anything: from there on rows need no class
        self.last = {i for i in self.at if not any(i in plan.below(j) for j in self.at if j != i)}
        tapped = {leader for query in queries.values() for leader in query.taps.values()}
        #: those who tap or are tapped
        self.involved = tapped | {query.id for query in queries.values() if query.taps}
        #: withdrawn while others tap them: they have no results any more
        self.unseen = sorted(leader for leader in tapped if queries[leader].unseen)


def together(query: Query, queries: Mapping[QueryId, Query]) -> Iterator[tuple[list[int], list[QueryId]]]:
    """(operators, the queries for which they are executed once), where they are several."""
    found: dict[tuple[QueryId, ...], list[int]] = {}
    for index in range(len(query.shape.plan.operators)):
        mine = executor(query, index, queries).id
        alike = [q for q in queries.values() if q.shape.key == query.shape.key and not q.internal]
        users = sorted(other.id for other in alike if executor(other, index, queries).id == mine)
        found.setdefault(tuple(users), []).append(index)
    yield from ((operators, list(users)) for users, operators in found.items() if len(users) > 1)


def apart(query: Query, queries: Mapping[QueryId, Query]) -> Iterator[tuple[int, list[QueryId], str]]:
    """(operator, queries that execute the same on their own, why)"""
    for index, operator in enumerate(query.shape.plan.operators):
        alike = [q for q in queries.values() if q.shape.key == query.shape.key and q.id != query.id]
        same = sorted(q.id for q in alike if q.signatures[index] == query.signatures[index])
        if operator.stateful and same and not can_be_tapped(query.shape.plan, index):
            can = operator.told_apart is not None
            yield index, same, "it is above a window or an outer join" if can else "its state is not kept by beginning"
