"""Routes: for every key set of an operator, who processes its rows, who gets a copy, and whose output counts.

A route table always ends with `rest`, which takes every key that no other route names: a new key has an owner at once.
An operator that is not divided has `rest` alone. To migrate keys is to change rows of this table.

Keys are divided by listing them or by hash buckets. Listed keys win over ranges, and ranges over `rest`, so that one
hot key can leave the range that it falls into. Two routes never claim the same key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from godwit.errors import DeploymentError
from godwit.ids import RegionId

#: keys fall into so many hash buckets; state is kept by bucket, so that moving one key reads one bucket
BUCKETS = 64


@dataclass(frozen=True, order=True)
class Listed:
    """Keys one by one, each as the tuple of its columns' values in text form."""

    keys: frozenset[tuple[str, ...]]


@dataclass(frozen=True, order=True)
class HashRange:
    """All keys whose bucket is in [low, high)."""

    low: int
    high: int


@dataclass(frozen=True)
class Rest:
    """Every key that no other route names."""


REST = Rest()
KeySet = Listed | HashRange | Rest


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

    @property
    def receivers(self) -> tuple[RegionId, ...]:
        return (self.process, *self.copies)


@dataclass(frozen=True)
class RouteTable:
    """The routes of one operator of one query; `rest` is the last one."""

    routes: tuple[Route, ...]

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
    def whole(self) -> RegionId:
        """The one region that all rows go to, where rows are not told apart by key."""
        if self.only is None:
            divided = ", ".join(sorted(self.receivers()))
            msg = (
                f"rows of one operator would go to {divided} by key, and regions route by query and device only; "
                "take its key routes back, or run a version that migrates keys"
            )
            raise DeploymentError(msg)
        return self.only

    def receivers(self) -> frozenset[RegionId]:
        """The regions that rows of the operator go to, copies among them."""
        return frozenset(region for route in self.routes for region in route.receivers)

    def owners(self) -> frozenset[RegionId]:
        """The regions that process rows of the operator."""
        return frozenset(route.process for route in self.routes)

    def route_of(self, key: tuple[str, ...], bucket: int) -> Route:
        """The route of a key: the one that lists it, else the range of its bucket, else `rest`."""
        for route in self.routes:
            if isinstance(route.keys, Listed) and key in route.keys.keys:
                return route
        for route in self.routes:
            if isinstance(route.keys, HashRange) and route.keys.low <= bucket < route.keys.high:
                return route
        return self.rest


def _faults(routes: tuple[Route, ...]) -> Iterable[str]:
    if [isinstance(route.keys, Rest) for route in routes] != [False] * (len(routes) - 1) + [True]:
        yield "exactly one route must be for `rest`, and it must be the last"
    listed: set[tuple[str, ...]] = set()
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
