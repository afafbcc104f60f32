"""Traffic monitoring (Falcon's TM): vehicles report their speed; one key in ten is hot."""

from __future__ import annotations

import numpy as np

from godwit.ids import StreamId
from godwit.model.plan import Column, Stream
from godwit.workloads.base import Made, Settings, below, of_events

SPEEDS = Stream(
    StreamId("speeds"),
    (Column("source", "string"), Column("vehicle", "string"), Column("speed", "double"), Column("ts", "timestamp")),
    "ts",
    "source",
)
#: rate of a hot vehicle relative to a cold one
HOT = 100


def speeds(numbers: np.ndarray, at: np.ndarray, settings: Settings) -> Made:
    vehicles = settings.keys or 10
    hot = max(1, vehicles // 10)
    is_hot = of_events(settings, 1, numbers) < hot * HOT / (hot * HOT + (vehicles - hot))
    cold = hot + below(settings, 3, numbers, max(vehicles - hot, 1))
    vehicle = np.where(is_hot | (vehicles == hot), below(settings, 2, numbers, hot), cold)
    usual = 35 + 30 * of_events(settings, 4, vehicle)  # each vehicle has its own
    speed = np.round(usual + of_events(settings, 5, numbers, -15, 15), 1)
    return {"speeds": {"vehicle": [f"v{n}" for n in vehicle], "speed": speed}}
