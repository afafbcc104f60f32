"""Linear Road's position reports: cars on an expressway of 101 segments report every 30 seconds; a few break down.

All of a report follows from its number: the car, how often it has reported before, and so how far it has come. A car
that breaks down reports the same position while it stands.
"""

from __future__ import annotations

import numpy as np

from godwit.ids import StreamId
from godwit.model.plan import Column, Stream
from godwit.workloads.base import Made, Settings, below, of_events

SEGMENTS = 101
#: feet
SEGMENT = 5280
#: seconds between two reports of a car
REPORTS = 30
#: one car in this number breaks down, and stands for this number of reports
BREAKS, STANDS = 20, 15
#: a mile per hour in feet per second
FEET = 5280 / 3600

_COLUMNS = "source string, car bigint, speed int, lane int, seg int, pos bigint, ts timestamp"
POSITIONS = Stream(StreamId("positions"), tuple(Column(*part.split()) for part in _COLUMNS.split(", ")), "ts", "source")


def reports(numbers: np.ndarray, at: np.ndarray, settings: Settings) -> Made:
    cars = settings.keys or max(1, round(settings.rate * REPORTS))
    car, turn = numbers % cars, numbers // cars
    speed = 20 + below(settings, 1, car, 60)
    breaks = below(settings, 2, car, BREAKS) == 0
    begins = below(settings, 3, car, 5)
    stood = np.where(breaks, np.clip(turn - begins, 0, STANDS), 0)
    stands = breaks & (turn > begins) & (turn <= begins + STANDS)
    first = np.floor(of_events(settings, 4, car) * SEGMENTS * SEGMENT)
    pos = (first + np.floor((turn - stood) * speed * FEET * REPORTS)).astype(np.int64) % (SEGMENTS * SEGMENT)
    noise = below(settings, 5, numbers, 9) - 4
    return {
        "positions": {
            "car": car,
            "speed": np.where(stands, 0, speed + noise),
            "lane": below(settings, 6, numbers, 4),
            "seg": pos // SEGMENT,
            "pos": pos,
        }
    }
