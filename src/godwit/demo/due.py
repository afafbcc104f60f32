"""When an answer can be known at the earliest: when the last input that it needs has been handed to the contender.

    a row that passes a filter   when the row was sent
    a pair of a join             when the later of its two rows was sent
    a window                     when the clocks of all its trains had passed its end

A train's clock lies behind its rows by the disorder bound, is told every tick, and stands still while the train is
between two towers: a query that counts every row cannot answer earlier. What is later is the contender's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from godwit.demo.queries import Asked
from godwit.mobility.driver import Cue, TraceTarget

#: a row by what both it and the results about it have: train, station, coach
RowKey = tuple[str, str, int]
FOREVER = float("inf")


@dataclass
class Handed:
    """What was handed over and when, in wall seconds; ascending, as time is."""

    #: (event time, sent) of the rows of one coach at one station
    rows: dict[RowKey, list[tuple[float, float]]] = field(default_factory=dict)
    #: (clock, told) of each train
    clocks: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def sent(self, rows: pa.Table, wall: float) -> None:
        names = ("train", "station", "coach", "ts")
        for train, station, coach, ts in zip(*(rows.column(name).to_pylist() for name in names), strict=True):
            self.rows.setdefault((train, station, coach), []).append((ts.timestamp(), wall))

    def told(self, clocks: Mapping[str, float], wall: float) -> None:
        for train, clock in clocks.items():
            self.clocks.setdefault(train, []).append((clock, wall))

    def due(self, query: Asked, row: Mapping[str, Any], at: float) -> float | None:
        """None: what it needs was not handed over while the trace was played."""
        if query.windowed:
            return self._passed(query.trains, at)
        trains = [row["one"], row["other"]] if query.shape == "join" else [row["train"]]
        sent = [self._sent((train, row["station"], row["coach"]), at) for train in trains]
        return max((wall for wall in sent if wall is not None), default=None)

    def _sent(self, key: RowKey, at: float) -> float | None:
        """The newest row of that time or before (a train comes by once per lap); None: it is the warm-up's."""
        known = sorted(self.rows.get(key, ()))
        number = bisect_right(known, (at + 1e-6, FOREVER))
        return known[number - 1][1] if number else None

    def _passed(self, trains: Sequence[str], at: float) -> float | None:
        """When the last of the trains had told a clock of that time or later."""
        passed = []
        for train in trains:
            known = self.clocks.get(train, ())
            number = bisect_left(known, (at - 1e-6, 0.0))
            if number == len(known):
                return None
            passed.append(known[number][1])
        return max(passed, default=None)


class Noting:
    """Passes everything on to a target, and notes it the moment before: what handing over costs is the target's."""

    def __init__(self, target: TraceTarget, handed: Handed, wall: Callable[[], float], known: Iterable[str]) -> None:
        self._target, self._handed, self._wall, self._known = target, handed, wall, set(known)
        #: when a device that had been attached elsewhere arrived at a site
        self.handovers: list[float] = []

    def move(self, moves: Sequence[Cue]) -> None:
        arrived = {cue.device for cue in moves if cue.site is not None}
        self.handovers += [self._wall()] * len(arrived & self._known)
        self._known |= arrived
        self._target.move(moves)

    def push(self, stream: str, rows: pa.Table, where: Mapping[str, str]) -> None:
        self._handed.sent(rows, self._wall())
        self._target.push(stream, rows, where)

    def tell(self, stream: str, clocks: Mapping[str, int]) -> None:
        self._handed.told({device: clock / 1e6 for device, clock in clocks.items()}, self._wall())
        self._target.tell(stream, clocks)

    def leave(self, device: str) -> None:
        self._handed.told({device: FOREVER}, self._wall())
        self._target.leave(device)
