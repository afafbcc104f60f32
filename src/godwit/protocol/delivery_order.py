"""Whoever reads the commits of several regions by himself gets the results of a device in the order of its rows. Pure;
sinks, live pages and the simulator run it.

`session_order.py` sees to it that commits come in the right order, whichever regions make them: a region lets rows out
only after it has heard of the commit that they must come behind. So each commit says which commits of others had been
heard of since the one before (`after`), and a reader who delivers those first delivers causes before what they caused.
Causes have no cycles, so somebody can always go on; if a log does not reach far enough yet, as seen from here, what
comes behind waits. Commits that were merged into an archive say nothing of others: their sinks had them before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeVar

from godwit.ids import RegionId


class ReadCommit(Protocol):
    """A commit, or several that were merged, as readers of results see it."""

    @property
    def number(self) -> int: ...

    @property
    def after(self) -> Mapping[RegionId, int]: ...


C = TypeVar("C", bound=ReadCommit)


def first_of_all(after: Mapping[RegionId, int], positions: Mapping[RegionId, float]) -> RegionId | None:
    """A region whose commits must be delivered before one that comes after these; None: it may go."""
    return next((peer for peer, number in sorted(after.items()) if positions.get(peer, 0) < number), None)


def read_in_order(
    region: RegionId,
    positions: Mapping[RegionId, int],
    log: Callable[[RegionId, int], Iterator[C]],
    gone: Callable[[RegionId], bool] = lambda region: False,
) -> Iterator[tuple[RegionId, C]]:
    """The commits of a region past a position, to the end of its log or as far as they may go, and before each those of
    others that it comes after. `log`: of a region, past a number; `gone`: it was forgotten, with its log."""
    at: dict[RegionId, float] = dict(positions)
    logs: dict[RegionId, Iterator[C]] = {}
    heads: dict[RegionId, C] = {}
    wanted: list[tuple[RegionId, float]] = [(region, math.inf)]
    while wanted:
        one, goal = wanted[-1]
        if at.get(one, 0) >= goal:
            wanted.pop()
            continue
        if one not in heads:
            if one not in logs:
                logs[one] = log(one, int(at.get(one, 0)))
            found = next(logs[one], None)
            if found is None:
                if goal == math.inf or not gone(one):
                    return
                at[one] = math.inf
                continue
            heads[one] = found
        head = heads[one]
        first = first_of_all(head.after, at)
        if first is not None:
            wanted.append((first, head.after[first]))
            continue
        yield one, heads.pop(one)
        at[one] = head.number
