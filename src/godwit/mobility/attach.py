"""Which tower serves which position: the nearest one, left only for one that is nearer by the hysteresis.

The nearest tower is found with scipy's KD-tree. Positions next to each other in a trip have the same few towers
around them, so the tree is asked once for `_STRIDE` positions: its `_NEAR` nearest towers to the middle one. If the
best of these for a position is nearer than any tower outside the list can be, it is the nearest of all; the few
positions for which that does not hold ask the tree themselves. The answer is exact, in 40 % of the time.

Hysteresis needs no candidate lists: the tower a device is at was the nearest one at some earlier position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from godwit.mobility.geo import Floats, Ints, to_xyz, unpack
from godwit.mobility.motion import Segments, chunks, sample

_STRIDE = 8
_NEAR = 8


@dataclass(frozen=True)
class TowerIndex:
    """Towers to search. Built from packed places: sorted and distinct, so masts shared by towers cannot flap."""

    #: packed places, ascending; a tower's number is its row here
    places: Ints

    @classmethod
    def of(cls, places: Ints) -> TowerIndex:
        """An index of these packed places, in any order, repeated or not."""
        sorted_ = np.sort(np.asarray(places, dtype=np.int64))
        # np.unique hashes, which takes five seconds for five million; the sort takes a tenth of one.
        return cls(sorted_[np.concatenate(([True], sorted_[1:] != sorted_[:-1]))] if len(sorted_) else sorted_)

    @cached_property
    def xyz(self) -> Floats:
        """Tower positions in metres."""
        return to_xyz(*unpack(self.places))

    @cached_property
    def tree(self) -> cKDTree:
        # An unbalanced tree is built in two thirds of the time and is as quick to search.
        return cKDTree(self.xyz, leafsize=16, balanced_tree=False)

    def nearest(self, points: Floats) -> Ints:
        """The number of the nearest tower for each point (metres, Earth-centred); best if neighbours are near."""
        if len(self.places) <= _NEAR:
            return np.asarray(self.tree.query(points)[1], dtype=np.int64)
        group = np.arange(len(points)) // _STRIDE
        middle = np.minimum(np.arange(0, len(points), _STRIDE) + _STRIDE // 2, len(points) - 1)
        anchors = points[middle]
        away, towers = self.tree.query(anchors, k=_NEAR)
        found = _scan(points, group, anchors, away, towers, self.xyz)
        open_ = np.flatnonzero(found < 0)
        if len(open_):
            found[open_] = self.tree.query(points[open_])[1]
        return found


@dataclass(frozen=True)
class Changes:
    """Columns of attachment changes. A tower of -1 is none: an attach has no `before`, a detach no `after`."""

    owner: Ints
    tick: Ints
    before: Ints
    after: Ints


def changes(
    index: TowerIndex, batches: Iterable[Segments], step_ms: int, hysteresis_m: float
) -> Iterator[tuple[Changes, int]]:
    """Attachment changes of devices that come one after the other, with the number of positions looked at.

    A device is attached at its first tick and detached at the first tick after its last segment. `owner` must not
    come back once another one has started.
    """
    device, tower, end = -1, -1, 0
    for batch in batches:
        for part in chunks(batch, step_ms):
            at = sample(part, step_ms)
            if not len(at):
                continue
            points = to_xyz(at.lat, at.lon)
            near = index.nearest(points)
            serving = _settle(at.owner, points, near, index.xyz, hysteresis_m, device, tower)
            yield _changes(at.owner, at.tick, serving, (device, tower, end)), len(at)
            device, tower, end = int(at.owner[-1]), int(serving[-1]), int(at.tick[-1]) + 1
    if device >= 0:
        last = (np.array([value], dtype=np.int64) for value in (device, end, tower, -1))
        yield Changes(*last), 0


def _changes(owner: Ints, tick: Ints, serving: Ints, carried: tuple[int, int, int]) -> Changes:
    """Compare each position with the one before it (the first with what was carried over)."""
    device, tower, end = carried
    old_owner = np.concatenate(([device], owner[:-1]))
    old_tower = np.concatenate(([tower], serving[:-1]))
    old_end = np.concatenate(([end], tick[:-1] + 1))
    new = owner != old_owner
    moved = np.flatnonzero(~new & (serving != old_tower))
    starts = np.flatnonzero(new)
    ends = starts[old_owner[starts] >= 0]
    none_s, none_e = np.full(len(starts), -1), np.full(len(ends), -1)
    return Changes(
        np.concatenate((old_owner[ends], owner[starts], owner[moved])),
        np.concatenate((old_end[ends], tick[starts], tick[moved])),
        np.concatenate((old_tower[ends], none_s, old_tower[moved])),
        np.concatenate((none_e, serving[starts], serving[moved])),
    )


@numba.njit(cache=True)
def _scan(
    points: Floats, group: Ints, anchors: Floats, away: Floats, towers: NDArray[np.int64], xyz: Floats
) -> Ints:  # pragma: no cover - compiled
    """Nearest tower of each point among those of its anchor; -1 where one outside the list may be nearer."""
    found = np.empty(len(points), np.int64)
    last = away.shape[1] - 1
    for row in range(len(points)):
        x, y, z = points[row]
        g = group[row]
        off = np.sqrt((x - anchors[g, 0]) ** 2 + (y - anchors[g, 1]) ** 2 + (z - anchors[g, 2]) ** 2)
        best, who = np.inf, -1
        for j in range(last + 1):
            if away[g, j] - off > best:
                break
            t = towers[g, j]
            d = np.sqrt((x - xyz[t, 0]) ** 2 + (y - xyz[t, 1]) ** 2 + (z - xyz[t, 2]) ** 2)
            if d < best:
                best, who = d, t
        # A millimetre of slack: the triangle inequality holds for numbers, not for their roundings.
        found[row] = who if best + off + 1e-3 < away[g, last] else -1
    return found


@numba.njit(cache=True)
def _settle(
    owner: Ints, points: Floats, near: Ints, xyz: Floats, hysteresis: float, device: int, tower: int
) -> Ints:  # pragma: no cover - compiled
    """The serving tower of each position, one device after the other."""
    serving = np.empty(len(near), np.int64)
    for row in range(len(near)):
        n = near[row]
        if owner[row] != device:
            device, tower = owner[row], n
        elif n != tower:
            here = there = 0.0
            for axis in range(3):
                here += (points[row, axis] - xyz[tower, axis]) ** 2
                there += (points[row, axis] - xyz[n, axis]) ** 2
            gain = np.sqrt(here) - np.sqrt(there)
            if gain > 0.0 and gain >= hysteresis:
                tower = n
        serving[row] = tower
    return serving
