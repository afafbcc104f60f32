"""The next versions of queries that share operators: one line for all of them, and they go on sharing.

A query that is tapped, taps, or is cut does not change alone: with it, in one epoch, all go over with which it is
connected by taps. Those that are to change get the new plan, the others go on under the plan that they have. Then taps
are found again among the new versions. Whose plan has nothing in common with the others' any more executes it itself,
with the state that was shared: by reference, without the rows that were taken in before it began.

    before   q executes (a JOIN b) JOIN c, r taps it          all change   q~7 executes a JOIN (b JOIN c), r~7 taps it
                                                              q alone      q~7 executes a JOIN (b JOIN c),
                                                                           r~7 executes (a JOIN b) JOIN c

A reader may tap an operator only if rows in its state can be told apart by their class (`model/taps.py`): so the states
that it was made of must have been shared by the two before. A cut is placed at the operator with the same meaning; if
the new plan has none, it goes on under the old one, and executes that itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from godwit.ids import QueryId, RegionId
from godwit.model.plan import Query
from godwit.model.signature import StateKey
from godwit.model.taps import can_be_tapped, executor, find, time_of
from godwit.replan.fault import fault
from godwit.replan.matching import StateMatch
from godwit.replan.tracks import Streams, matching, placed

#: those by which queries that share can change: where plans side by side share the answers by age, the class of a row
#: says how old it is, and not for whom
SHARED_STRATEGIES = ("moving-state", "background")
#: the query under another plan; None: it goes on under the one that it has
Rewrite = Callable[[Query], Query | None]


def next_versions(
    members: Sequence[Query],
    rewrite: Rewrite,
    name: Callable[[Query], QueryId],
    queries: Mapping[QueryId, Query],
    streams: Streams,
) -> list[Query]:
    """Of all but those that are unseen, who is tapped first. `members`: connected by taps, who is tapped first;
    `queries`: all that run."""
    made: dict[QueryId, Query] = {}
    for old in members:
        if old.unseen:
            continue  # its readers execute what it executed for them
        new = _version(old, rewrite, name(old), streams)
        made[new.id] = replace(new, taps=find(new, made.values(), _ReadableStates(old, new, made, queries, streams)))
    return list(made.values())


def for_shared(strategy: str, chosen: bool, states: StateMatch) -> str:
    """The strategy, for queries that share operators; ConfigError: it is not possible. `chosen`: nobody insists."""
    if strategy in SHARED_STRATEGIES:
        return strategy
    if chosen and not states.short:
        return "background"
    problem = f"'{strategy}' tells old rows from new ones by what tells apart for whom rows of a shared operator are"
    if states.short:
        lacking = ", ".join(" ".join(one.covers) for one in states.short)
        problem = f"the state of {lacking} does not reach back far enough for this plan, and {problem}"
    others = " or ".join(f"'{name}'" for name in SHARED_STRATEGIES)
    if states.short:
        raise fault(problem, remedy="withdraw it and submit it with its streams in that order")
    parting = "with alone=True it parts from the others, and can use every strategy afterwards"
    raise fault(problem, remedy=f"use {others}; {parting}")


def planned(successors: Mapping[QueryId, Query]) -> Rewrite:
    """The plans of versions that were to come, though taps have to be found again: some may have left since."""

    def rewrite(query: Query) -> Query | None:
        new = successors.get(query.id)
        return None if new is None else replace(new, taps={}, cut=None)

    return rewrite


@dataclass(frozen=True)
class LeftState:
    """The state that an operator of a version leaves to the next one."""

    operator: int
    #: who has executed it, and leaves it
    executor: QueryId
    #: rows of earlier classes are not the version's; 0: all are
    since: int
    #: where keys were divided: the regions, each of which leaves a part
    regions: tuple[RegionId, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of its parts."""
        return tuple(left_name(self.operator, region) for region in self.regions) or (left_name(self.operator),)


def left_name(operator: int, region: RegionId | None = None) -> str:
    return str(operator) if region is None else f"{operator}-{region}"


def left_states(old: Query, queries: Mapping[QueryId, Query]) -> Iterator[LeftState]:
    """What a version leaves, also where another query has executed it for both."""
    for operator, node in enumerate(old.shape.plan.operators):
        if node.stateful and operator in old.executed:
            other = executor(old, operator, queries)
            since = 0 if other.id == old.id else old.reads_since
            yield LeftState(operator, other.id, since, other.left_in.get(operator, ()))


def _version(old: Query, rewrite: Rewrite, name: QueryId, streams: Streams) -> Query:
    whole = replace(old, taps={}, cut=None)
    new = rewrite(whole) or whole
    if old.cut is not None:
        new = _cut_again(old, new, streams) or replace(whole, cut=placed(old, whole, old.cut, streams))
    rest = {"until": 0, "successor": None, "ahead": False, "finishes": False, "internal": old.internal}
    return replace(new, id=name, inherits=old.id, since=old.reads_since, **rest)  # type: ignore[arg-type]


def _cut_again(old: Query, new: Query, streams: Streams) -> Query | None:
    """The cut under another plan; None: that has no such operator, or its rows would come in another order."""
    assert old.cut is not None
    there = placed(old, new, old.cut, streams)
    if there is None or not can_be_tapped(new.shape.plan, there):
        return None
    cut = replace(new, cut=there, output=old.output)
    return cut if time_of(cut) == time_of(old) else None


class _ReadableStates:
    """Whether a new version can tell rows apart in the states of an operator that another one executes."""

    def __init__(
        self, old: Query, new: Query, made: Mapping[QueryId, Query], queries: Mapping[QueryId, Query], streams: Streams
    ) -> None:
        self._old, self._new, self._made, self._queries, self._streams = old, new, made, queries, streams
        self._sources: dict[StateKey, frozenset[int]] | None = None

    def __call__(self, operator: int, leader: QueryId) -> bool:
        theirs = self._queries[self._made[leader].inherits or leader]
        if theirs.reads_since > self._old.reads_since:
            return False  # it began later: rows are missing there
        plan, signs = self._new.shape.plan, self._new.shape.signatures
        if self._sources is None:
            self._sources = sources(self._old, matching(self._old, replace(self._new, cut=None), self._streams))
        keys = [StateKey(signs[i], side) for i in plan.below(operator) for side in range(len(plan.operators[i].state))]
        made_of = [self._sources.get(key) for key in keys]
        return all(found is not None and all(self._shared(i, theirs) for i in found) for found in made_of)

    def _shared(self, operator: int, other: Query) -> bool:
        mine, theirs = (executor(query, operator, self._queries).id for query in (self._old, other))
        return mine == theirs


def sources(old: Query, found: StateMatch) -> dict[StateKey, frozenset[int]]:
    """State of the new plan -> the operators of the old one of whose states it is made; what begins empty has none."""
    places = {sign: index for index, sign in enumerate(old.shape.signatures)}
    made = {one.new: frozenset((places[one.old.signature],)) for one in found.matched}
    for step in found.recompute:  # (in the order in which they can be computed)
        made[step.new] = made[step.left] | made[step.right]
    return made
