"""Taps: a query that has a sub-plan in common with a running one is answered by that one's execution of it.

Two queries of one shape have a sub-plan in common where their literals in it, and the values they subscribe to, are the
same. The later one, the *reader*, does not execute it: it *taps* the operator on top of it, whose rows also become
rows of the reader. Nothing changes for a query that nobody taps.

A reader must not see rows from before it. So while a query is tapped, its rows carry a *class*: the newest beginning
among all who read it when the row is taken in. A reader's are the rows whose class is not older than its beginning.
Pairs of a join have the older class of the two rows, what a shared part has made that of its oldest row. Partial
aggregates of a window are kept by class, and merged for each reader when the window closes; an aggregate over what a
window has put out cannot be told apart like that, so the tap is at the lowest window. Once all rows are of the newest
class, there is one of everything again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from godwit.ids import QueryId
from godwit.model.plan import Plan, Query, Scan


def find(query: Query, running: Iterable[Query]) -> dict[int, QueryId]:
    """Operator -> the running query that executes it already, for all that the query need not execute itself."""
    executed: dict[tuple[int, str], QueryId] = {}
    for other in running:
        if other.shape.key == query.shape.key:
            for index, text in enumerate(other.signatures):
                if index not in other.taps:
                    executed.setdefault((index, text), other.id)
    plan, mine, found = query.shape.plan, query.signatures, dict[int, QueryId]()
    for index in reversed(range(len(plan.operators) - 1)):
        leader = executed.get((index, mine[index]))
        if index not in found and leader is not None and can_be_tapped(plan, index):
            found |= dict.fromkeys(below(plan, index), leader)
    return found


def can_be_tapped(plan: Plan, index: int) -> bool:
    """Whether an operator's rows can be told apart by class, and it is worth it: it joins or aggregates, or is all that
    the query does."""
    operator = plan.operators[index]
    if any(plan.operators[i].told_apart != "rows" for i in below(plan, index) if i != index):
        return False
    worth_it = operator.stateful or (index == plan.sink.inputs[0] and not isinstance(operator, Scan))
    return worth_it and operator.told_apart is not None


def ends(query: Query) -> Iterator[tuple[int, QueryId]]:
    """(the tapped operators whose rows the query goes on with, who executes each)"""
    for index, leader in query.taps.items():
        if query.shape.plan.consumer(index)[0] not in query.taps:
            yield index, leader


def executor(query: Query, operator: int, queries: Mapping[QueryId, Query]) -> Query:
    """The query that executes an operator of another: itself, or whom it taps, directly or through others."""
    while (leader := query.taps.get(operator)) in queries:
        query = queries[leader]  # type: ignore[index]
    return query


def readers(query: QueryId, queries: Iterable[Query]) -> list[QueryId]:
    """Those who tap a query."""
    return sorted(other.id for other in queries if query in other.taps.values())


class TapTable:
    """Who reads what of whom among the queries of one shape, under one deployment."""

    def __init__(self, plan: Plan, queries: Mapping[QueryId, Query]) -> None:
        scans = [index for index, _ in plan.scans]
        #: scan -> the queries that it takes rows in for; the others tap one of them
        self.scanning = {i: {q.id: q for q in queries.values() if i not in q.taps and not q.until} for i in scans}
        #: the beginnings of those who tap
        self.begins = sorted({q.begins for q in queries.values() if q.taps})
        #: query -> the class of the rows that it takes in now
        self.classes: dict[QueryId, int] = {}
        #: operator -> who executes it -> those who go on with its rows, and since which class
        self.at: dict[int, dict[QueryId, dict[QueryId, int]]] = {}
        for query in queries.values():
            for leader in {executor(query, i, queries).id for i in scans if i in query.taps}:
                self.classes[leader] = max(self.classes.get(leader, 0), query.begins)
            for operator, leader in ends(query):
                itself = {} if queries[leader].internal else {leader: 0}
                self.at.setdefault(operator, {}).setdefault(leader, itself)[query.id] = query.begins
        #: operators above which nobody taps anything: from there on rows need no class
        self.last = {i for i in self.at if not any(i in below(plan, j) for j in self.at if j != i)}
        tapped = {leader for query in queries.values() for leader in query.taps.values()}
        #: those who tap or are tapped
        self.involved = tapped | {query.id for query in queries.values() if query.taps}
        #: withdrawn while others tap them: they have no results any more
        self.unseen = sorted(leader for leader in tapped if queries[leader].internal)


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
            yield index, same, "it is above a window" if can else "its state is not kept by beginning"


def below(plan: Plan, index: int) -> Iterator[int]:
    """An operator and all that its rows are made by."""
    yield index
    for child in plan.operators[index].inputs:
        yield from below(plan, child)
