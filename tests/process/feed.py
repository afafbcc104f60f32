"""Trains that send numbered batches, the same ones for the same seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from godwit.ingest.pipeline import Pipeline
from godwit.process.connect import ConnectedFleet
from godwit.testing import readings
from tests.region.world import DISORDER

COLUMNS = {
    "line": lambda rng: f"S4{rng.randrange(1, 3)}",
    "coach": lambda rng: rng.randrange(3),
    "boarded": lambda rng: rng.randrange(10),
    "alighted": lambda rng: rng.randrange(10),
    "load": lambda rng: rng.random() * 100,
}


class Feed:
    """Pushes under a sequence number per train, so that what is sent again is known."""

    def __init__(self, fleet: ConnectedFleet, trains: int = 3, seed: int = 0) -> None:
        self._fleet, self._trains, self._rng = fleet, trains, random.Random(seed)
        self._sequence: Counter[str] = Counter()
        self._second = 0.0
        self.rows = 0

    def send(self, batches: int, rows: int = 5, only: Sequence[str] = (), pipeline: Pipeline | None = None) -> None:
        """`pipeline`: pushed without waiting for it."""
        for _ in range(batches):
            self._second += 2.0
            for train in only or [f"t{number}" for number in range(self._trains)]:
                self._sequence[train] += 1
                made = readings(
                    train,
                    rows,
                    rng=self._rng,
                    since=self._second,
                    within=DISORDER,
                    device_column="train",
                    columns=COLUMNS,
                )
                if pipeline is None:
                    self._fleet.push("passengers", made, device=train, sequence=self._sequence[train], timeout=90.0)
                else:
                    pipeline.push("passengers", made, device=train, sequence=self._sequence[train])
                self.rows += len(made)
