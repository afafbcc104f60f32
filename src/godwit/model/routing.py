"""Routes: for every key set of an operator, who processes its rows, who gets a copy, and whose output counts.

A route table always ends with `rest`, which takes every key that no other route names: a new key has an owner at once.
An operator that is not divided has `rest` alone. To migrate keys is to change rows of this table.

Keys are divided by listing them or by hash buckets. Listed keys win over ranges, and ranges over `rest`, so that one
hot key can leave the range that it falls into. A key that is listed is a row of a layered table (`layered.py`): a
change costs what it changes, also where a million keys are placed one by one, and an epoch brings only the
difference (`RouteEdit`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, TypeVar

from godwit.errors import DeploymentError
from godwit.ids import RegionId
from godwit.model.keys import BUCKETS, REST, HashRange, Key, KeySet, Listed, Rest, bucket_of, covers, ranges
from godwit.model.layered import TableBuilder, differing

W = TypeVar("W")
#: in place of the keys of a route that many listed keys share
EACH = Listed(frozenset())


@dataclass(frozen=True)
class Route:
    """The rows of one key set."""

    keys: KeySet
    #: who processes them
    process: RegionId
    #: who gets a copy of them (dual routing)
    copies: tuple[RegionId, ...] = ()
    #: False: what comes of them is dropped for now (emission filter)
    emits: bool = True
    #: who keeps a copy of their state, but gets no rows
    backups: tuple[RegionId, ...] = ()
    #: the migration that copies are made for
    number: int = 0
    #: the site that was asked for; empty: wherever the region runs
    site: str = ""

    @property
    def receivers(self) -> tuple[RegionId, ...]:
        return (self.process, *self.copies)

    @property
    def copied(self) -> bool:
        """Whether a region gets a copy of the rows, or of their state. A key must not fall to such a route: of its
        state the copy would have a part or nothing, and go on to take it along."""
        return bool(self.copies or self.backups)

    @property
    def way(self) -> Route:
        """The same, whatever the keys."""
        return replace(self, keys=EACH)


@dataclass(frozen=True)
class RouteTable:
    """The routes of one operator of one query."""

    #: every key that nothing else names
    rest: Route
    #: how often keys have changed their region; counts on when the operator is no longer divided
    turn: int = 0
    ranged: tuple[Route, ...] = ()
    #: the ways that listed keys go, and how many go each
    ways: Mapping[Route, int] = field(default_factory=dict)
    #: region -> the last change by which it was given keys
    turns: Mapping[RegionId, int] = field(default_factory=dict)
    listed: Mapping[Key, Route] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.rest, self.turn, self.ranged))

    @staticmethod
    def of(routes: Iterable[Route], turn: int = 0, turns: Mapping[RegionId, int] | None = None) -> RouteTable:
        """The table that has these routes, `rest` last; DeploymentError if they do not divide the keys."""
        routes = tuple(routes)
        faults = list(_faults(routes))
        if faults:
            msg = f"these routes do not divide the keys: {'; '.join(faults)}"
            raise DeploymentError(msg)
        rows: dict[Key, Route] = {}
        ways: dict[Route, int] = {}
        for route in routes:
            if isinstance(route.keys, Listed):
                way = route.way
                rows |= dict.fromkeys(route.keys.keys, way)
                ways[way] = ways.get(way, 0) + len(route.keys.keys)
        ranged = tuple(route for route in routes if isinstance(route.keys, HashRange))
        return RouteTable(routes[-1], turn, ranged, ways, turns or {}, rows)

    @staticmethod
    @cache
    def undivided(region: RegionId) -> RouteTable:
        """All keys are processed in one region."""
        return RouteTable(Route(REST, region))

    @property
    def coarse(self) -> tuple[Route, ...]:
        """Every route once, without saying which keys are listed: as many as there are ways, however many keys."""
        return (*self.ways, *self.ranged, self.rest)

    @cached_property
    def routes(self) -> tuple[Route, ...]:
        """All routes with all their keys, `rest` last; costs as much as there are keys."""
        by: dict[Route, list[Key]] = {way: [] for way in self.ways}
        for key, way in self.listed.items():
            by[way].append(key)
        return (*(replace(way, keys=Listed(frozenset(keys))) for way, keys in by.items()), *self.ranged, self.rest)

    @property
    def only(self) -> RegionId | None:
        """The one region that all rows go to and nowhere else, if there is one."""
        return self.rest.process if len(self.receivers()) == 1 else None

    @property
    def divided(self) -> bool:
        """Whether the way of a row depends on its key."""
        return bool(self.ways or self.ranged or self.rest.copies)

    def receivers(self) -> frozenset[RegionId]:
        """The regions that rows of the operator go to, copies among them."""
        return frozenset(region for route in self.coarse for region in route.receivers)

    def regions(self) -> frozenset[RegionId]:
        """The regions that have to do with the operator: rows or state of it go there."""
        return self.receivers() | {region for route in self.coarse for region in route.backups}

    def owners(self) -> frozenset[RegionId]:
        """The regions that process rows of the operator."""
        return frozenset(route.process for route in self.coarse)

    def turn_of(self, region: RegionId) -> int:
        """The last change of the table by which the region was given keys."""
        return self.turns.get(region, 0)

    def route_of(self, key: Key, bucket: int | None = None) -> Route:
        """The route of a key: the way of one that is listed, else the range of its bucket, else `rest`."""
        found = self.listed.get(key)
        if found is not None or not self.ranged:
            return found or self.rest
        return self._buckets.get(bucket_of(key) if bucket is None else bucket, self.rest)

    @cached_property
    def _buckets(self) -> dict[int, Route]:
        ranged = [(r, r.keys) for r in self.ranged if isinstance(r.keys, HashRange)]
        return {bucket: route for route, keys in ranged for bucket in range(keys.low, keys.high)}

    @cached_property
    def _rests(self) -> dict[RegionId, RouteTable]:
        return {self.rest.process: self}

    def effective(self, keys: KeySet) -> KeySet:
        """The keys that a set of the table really stands for: without those that a finer route names."""
        match keys:
            case HashRange(low, high):
                fine = (key for key in self.listed if low <= bucket_of(key) < high)
                return HashRange(low, high, frozenset(fine))
            case Rest():
                return Rest(tuple(r.keys for r in self.routes[:-1] if not isinstance(r.keys, Rest)))
        return keys

    def portions(self, keys: KeySet) -> list[tuple[Route, KeySet]]:
        """Who processes which part of a key set now. Of a range, keys that are listed are no part."""
        match keys:
            case Listed(some):
                by = _grouped(zip(some, map(self.route_of, some), strict=True))
                if len(by) == 1:
                    return [(route, keys) for route in by]
                return [(route, Listed(frozenset(part))) for route, part in by.items()]
            case HashRange(low, high):
                places: dict[Route, list[int]] = {}
                for bucket in range(low, high):
                    places.setdefault(self._buckets.get(bucket, self.rest), []).append(bucket)
                but = frozenset(self.listed)
                return [(route, part) for route, those in places.items() for part in ranges(those, but)]
        return [(self.rest, self.effective(REST))]

    def following(self, region: RegionId) -> RouteTable:
        """The same with `rest` in another region, as the placement says; its state follows."""
        if region not in self._rests:
            self._rests[region] = self.moved(REST, region)
        return self._rests[region]

    def moved(self, keys: KeySet, to: RegionId, site: str = "") -> RouteTable:
        """The table by which a region processes these keys from now on."""
        turn = self.turn + 1
        turns = {**self.turns, to: turn}
        if isinstance(keys, Rest):
            return replace(self, rest=Route(REST, to), turn=turn, turns=turns)
        table = replace(self, turn=turn, turns=turns)
        if any(route.process == to and not route.copied for route in (*self.ranged, self.rest)):
            below = replace(table, **self._without(keys))
            if all(route.process == to and not route.copied for route, _ in below.portions(keys)):
                return below  # they fall to the route below theirs, which is there as well: rows less in the table
        return table._with(Route(_plain(keys), to, site=site))

    def copied(self, keys: KeySet, to: RegionId, rows: bool = True, number: int = 0) -> RouteTable:
        """The table by which a region gets a copy of the rows of these keys (or of their state alone); who processes
        them does not change, also if the rest moves."""
        ((now, _), *others) = self.portions(keys)
        assert not others, f"{keys} is processed in more than one region"
        now = replace(now, number=number, copies=(to,)) if rows else replace(now, number=number, backups=(to,))
        if isinstance(keys, Rest):
            return replace(self, rest=now)
        return self._with(replace(now, keys=_plain(keys)))

    def uncopied(self, keys: KeySet) -> RouteTable:
        """The table without copies of these keys."""
        if isinstance(keys, Listed):
            table = self
            for route, part in self.portions(keys):
                plain = replace(route, keys=part, copies=(), backups=(), number=0)
                table = table._with(plain) if route in self.ways else table
            return table
        return replace(
            self,
            ranged=tuple(_uncopied(r) if covers(_plain(keys), r.keys) else r for r in self.ranged),
            rest=_uncopied(self.rest) if isinstance(keys, Rest) else self.rest,
        )

    def edited(self, edit: RouteEdit) -> RouteTable:
        """The table that a difference leads to."""
        table = replace(self, **self._without(edit.unlisted))
        for route in edit.listed:
            table = table._with(route)
        return replace(table, rest=edit.rest, ranged=edit.ranged, turn=edit.turn, turns=edit.turns)

    def since(self, before: RouteTable) -> RouteEdit:
        """The difference from an earlier table."""
        by = _grouped(differing(before.listed, self.listed).items())
        gone = Listed(frozenset(by.pop(None, ())))
        now = (replace(way, keys=Listed(frozenset(keys))) for way, keys in by.items() if way is not None)
        return RouteEdit(self.rest, self.ranged, tuple(now), gone, self.turn, self.turns)

    def _with(self, route: Route) -> RouteTable:
        """With a route of some keys, or of some buckets, which have no other of their kind then."""
        if route.process in route.copies:
            msg = f"region '{route.process}' would process the same rows twice"
            raise DeploymentError(msg)
        if not isinstance(route.keys, Listed):
            others = replace(self, **self._without(route.keys)).ranged
            return replace(self, ranged=(route, *others))
        way, rows, keys = route.way, TableBuilder(self.listed), route.keys.keys
        ways = self._counted(keys)
        ways[way] = ways.get(way, 0) + len(keys)
        rows.fill(keys, way)
        return replace(self, listed=rows.frozen(), ways=ways)

    def _counted(self, less: Iterable[Key]) -> dict[Route, int]:
        """The ways of listed keys without some of these."""
        ways = dict(self.ways)
        there = ((key, way) for key in less if (way := self.listed.get(key)) is not None) if self.listed else ()
        for way, keys in _grouped(there).items():
            ways[way] -= len(keys)
        return {way: count for way, count in ways.items() if count}

    def _without(self, keys: KeySet) -> dict[str, Any]:
        """The fields in which none of these keys is listed, or none of these buckets is in a range."""
        match keys:
            case Listed(gone):
                there = [key for key in gone if key in self.listed] if self.listed else []
                if not there:
                    return {}
                rows = TableBuilder(self.listed)
                for key in there:
                    del rows[key]
                return {"listed": rows.frozen(), "ways": self._counted(there)}
            case HashRange(first, last):
                return {"ranged": tuple(part for route in self.ranged for part in _outside(route, first, last))}
        return {}


@dataclass(frozen=True)
class RouteEdit:
    """What an epoch changes in a route table: the keys that are listed otherwise, or no more; all that is coarser."""

    rest: Route
    ranged: tuple[Route, ...] = ()
    listed: tuple[Route, ...] = ()
    unlisted: Listed = EACH
    turn: int = 0
    turns: Mapping[RegionId, int] = field(default_factory=dict)


def _grouped(rows: Iterable[tuple[Key, W]]) -> dict[W, list[Key]]:
    """The keys of each way. Keys share the very same value: it is compared once, not for each of a million keys."""
    by: dict[int, tuple[W, list[Key]]] = {}
    for key, way in rows:
        found = by.get(id(way))
        if found is None:
            found = by[id(way)] = (way, [])
        found[1].append(key)
    ways: dict[W, list[Key]] = {}
    for way, keys in by.values():
        ways.setdefault(way, []).extend(keys)
    return ways


def _uncopied(route: Route) -> Route:
    return replace(route, copies=(), backups=(), number=0)


def _outside(route: Route, first: int, last: int) -> list[Route]:
    assert isinstance(route.keys, HashRange)
    left = set(range(route.keys.low, route.keys.high)) - set(range(first, last))
    return [replace(route, keys=part) for part in ranges(left)]


def _plain(keys: KeySet) -> KeySet:
    return HashRange(keys.low, keys.high) if isinstance(keys, HashRange) else REST if isinstance(keys, Rest) else keys


def _faults(routes: tuple[Route, ...]) -> Iterable[str]:
    if [isinstance(route.keys, Rest) for route in routes] != [False] * (len(routes) - 1) + [True]:
        yield "exactly one route must be for `rest`, and it must be the last"
    listed: set[Key] = set()
    buckets: set[int] = set()
    for route in routes:
        if isinstance(route.keys, Listed):
            if twice := sorted(listed & route.keys.keys):
                yield f"key {'/'.join(twice[0])} is listed twice"
            listed |= route.keys.keys
        if isinstance(route.keys, HashRange):
            low, high = route.keys.low, route.keys.high
            if not 0 <= low < high <= BUCKETS:
                yield f"buckets {low} to {high} are not within 0 to {BUCKETS}"
            elif twice_ := sorted(buckets & set(range(low, high))):
                yield f"bucket {twice_[0]} is in two ranges"
            buckets |= set(range(low, high)) if high - low <= BUCKETS else set()
        if route.process in route.copies:
            yield f"region '{route.process}' would process the same rows twice"
