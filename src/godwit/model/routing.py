"""Routes: for every key set of an operator, who processes its rows, who gets a copy, and whose output counts.

A route table always ends with `rest`, which takes every key that no other route names: a new key has an owner at once.
An operator that is not divided has `rest` alone. To migrate keys is to change rows of this table.

Keys are divided by listing them or by hash buckets. Listed keys win over ranges, and ranges over `rest`, so that one
hot key can leave the range that it falls into. Two routes never claim the same key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property

from godwit.errors import DeploymentError
from godwit.ids import RegionId
from godwit.model.keys import BUCKETS, REST, HashRange, Key, KeySet, Listed, Rest, bucket_of, covers, ranges


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
    #: of the changes of the table, the one by which its region began to process these keys
    turn: int = 0

    @property
    def receivers(self) -> tuple[RegionId, ...]:
        return (self.process, *self.copies)


@dataclass(frozen=True)
class RouteTable:
    """The routes of one operator of one query; `rest` is the last one."""

    routes: tuple[Route, ...]
    #: how often keys have changed their region; counts on when the operator is no longer divided
    turn: int = 0

    def __post_init__(self) -> None:
        faults = list(_faults(self.routes))
        if faults:
            msg = f"these routes do not divide the keys: {'; '.join(faults)}"
            raise DeploymentError(msg)

    @staticmethod
    @cache
    def undivided(region: RegionId) -> RouteTable:
        """All keys are processed in one region."""
        return RouteTable((Route(REST, region),))

    @property
    def rest(self) -> Route:
        return self.routes[-1]

    @property
    def only(self) -> RegionId | None:
        """The one region that all rows go to and nowhere else, if there is one."""
        return self.rest.process if len(self.receivers()) == 1 else None

    @property
    def divided(self) -> bool:
        """Whether the way of a row depends on its key."""
        return len(self.routes) > 1 or bool(self.rest.copies)

    def receivers(self) -> frozenset[RegionId]:
        """The regions that rows of the operator go to, copies among them."""
        return frozenset(region for route in self.routes for region in route.receivers)

    def regions(self) -> frozenset[RegionId]:
        """The regions that have to do with the operator: rows or state of it go there."""
        return self.receivers() | {region for route in self.routes for region in route.backups}

    def owners(self) -> frozenset[RegionId]:
        """The regions that process rows of the operator."""
        return frozenset(route.process for route in self.routes)

    def turn_of(self, region: RegionId) -> int:
        """The last change of the table by which the region was given keys."""
        return max((route.turn for route in self.routes if route.process == region), default=0)

    def route_of(self, key: Key, bucket: int | None = None) -> Route:
        """The route of a key: the one that lists it, else the range of its bucket, else `rest`."""
        found = self._listed.get(key)
        if found is not None or not self._buckets:
            return found or self.rest
        return self._buckets.get(bucket_of(key) if bucket is None else bucket, self.rest)

    @cached_property
    def _listed(self) -> dict[Key, Route]:
        return {key: route for route in self.routes if isinstance(route.keys, Listed) for key in route.keys.keys}

    @cached_property
    def _buckets(self) -> dict[int, Route]:
        ranged = [(r, r.keys) for r in self.routes if isinstance(r.keys, HashRange)]
        return {bucket: route for route, keys in ranged for bucket in range(keys.low, keys.high)}

    @cached_property
    def _rests(self) -> dict[RegionId, RouteTable]:
        return {self.rest.process: self}

    def effective(self, keys: KeySet) -> KeySet:
        """The keys that a set of the table really stands for: without those that a finer route names."""
        match keys:
            case HashRange(low, high):
                fine = (key for key in self._listed if low <= bucket_of(key) < high)
                return HashRange(low, high, frozenset(fine))
            case Rest():
                return Rest(tuple(r.keys for r in self.routes[:-1] if not isinstance(r.keys, Rest)))
        return keys

    def portions(self, keys: KeySet) -> list[tuple[Route, KeySet]]:
        """Who processes which part of a key set now. Of a range, keys that are listed are no part."""
        match keys:
            case Listed(some):
                by: dict[Route, set[Key]] = {}
                for key in some:
                    by.setdefault(self.route_of(key), set()).add(key)
                return [(route, Listed(frozenset(part))) for route, part in by.items()]
            case HashRange(low, high):
                places: dict[Route, list[int]] = {}
                for bucket in range(low, high):
                    places.setdefault(self._buckets.get(bucket, self.rest), []).append(bucket)
                but = frozenset(self._listed)
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
        if isinstance(keys, Rest):
            return RouteTable((*self.routes[:-1], Route(REST, to, turn=turn)), turn)
        kept = self._without(keys)
        below = RouteTable(kept).portions(keys)
        if all(route.process == to and not route.copies for route, _ in below):
            # They fall to the route below theirs, which is there as well: a row less in the table.
            gaining = {route for route, _ in below}
            return RouteTable(tuple(replace(r, turn=turn) if r in gaining else r for r in kept), turn)
        return RouteTable((Route(_plain(keys), to, site=site, turn=turn), *kept), turn)

    def copied(self, keys: KeySet, to: RegionId, rows: bool = True, number: int = 0) -> RouteTable:
        """The table by which a region gets a copy of the rows of these keys (or of their state alone); who processes
        them does not change, also if the rest moves."""
        ((now, _), *others) = self.portions(keys)
        assert not others, f"{keys} is processed in more than one region"
        now = replace(now, number=number, copies=(to,)) if rows else replace(now, number=number, backups=(to,))
        if isinstance(keys, Rest):
            return replace(self, routes=(*self.routes[:-1], now))
        return replace(self, routes=(replace(now, keys=_plain(keys)), *self._without(keys)))

    def uncopied(self, keys: KeySet) -> RouteTable:
        """The table without copies of these keys."""
        routes = tuple(
            replace(r, copies=(), backups=(), number=0) if covers(_plain(keys), r.keys) else r for r in self.routes
        )
        return replace(self, routes=routes)

    def _without(self, keys: KeySet) -> tuple[Route, ...]:
        """The routes, none of which names these keys one by one or by these buckets."""
        found: list[Route] = []
        for route in self.routes:
            match route.keys, keys:
                case Listed(some), Listed(gone) if some & gone:
                    found += [replace(route, keys=Listed(some - gone))] if some - gone else []
                case HashRange(low, high), HashRange(first, last):
                    left = set(range(low, high)) - set(range(first, last))
                    found += [replace(route, keys=part) for part in ranges(left)]
                case _:
                    found.append(route)
        return tuple(found)


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
