"""What the demo asks: a dozen queries of four shapes. Each gives `at`, the event time of its results.

Queries of one shape differ in literals alone and run in one Spark plan per region.
"""

from __future__ import annotations

from dataclasses import dataclass

from godwit.demo.world import TRANSFER, DemoStage

SCHEMA = (
    "train string, line string, coach int, boarded int, alighted int, bikes int, strollers int, "
    "station string, ts timestamp"
)
STREAM = "passengers"

#: of one train: its state lives at the tower the train is attached to, and follows it. The window is longer than the
#: time between two stops, so there is state to take along at every hand-over.
_OCCUPANCY = """SELECT train, sum(boarded) - sum(alighted) AS delta, count(*) AS coaches, window.end AS at
FROM passengers WHERE train = '{train}' AND boarded + alighted > {least}
GROUP BY train, window(ts, '10 seconds', '2 seconds')"""

_CROWDED = """SELECT a.station AS station, a.train AS one, b.train AS other, a.coach AS coach,
       a.boarded + b.boarded AS boarded, greatest(a.ts, b.ts) AS at
FROM passengers a JOIN passengers b ON a.station = b.station AND a.coach = b.coach
     AND a.ts BETWEEN b.ts - INTERVAL 20 SECONDS AND b.ts + INTERVAL 20 SECONDS
WHERE a.line = 'S41' AND b.line = 'S42' AND a.station = '{station}' AND a.boarded + b.boarded > {least}"""

_SPREAD = """SELECT line, median(boarded) AS typical, count(DISTINCT station) AS stations, max(boarded) AS most,
       window.end AS at
FROM passengers WHERE line = '{line}' AND coach <= {coaches}
GROUP BY line, window(ts, '5 seconds')"""

_BIKES = """SELECT train, station, coach, bikes + strollers AS wheels, ts AS at
FROM passengers WHERE bikes + strollers >= {least}"""

#: number of trains that are followed by a query of their own
FOLLOWED = 8


@dataclass(frozen=True)
class Asked:
    """One query of the demo."""

    name: str
    #: for people
    shape: str
    sql: str
    #: the trains whose rows it reads
    trains: tuple[str, ...]

    @property
    def windowed(self) -> bool:
        """Whether it must wait for clocks."""
        return self.shape in ("window sum", "median")


def asked(stage: DemoStage) -> list[Asked]:
    """Twelve queries of four shapes (fewer where there are fewer trains to follow)."""
    line = stage.lines()
    everyone = tuple(sorted(line))
    found = [
        Asked(f"occupancy-{train.lower()}", "window sum", _OCCUPANCY.format(train=train, least=2), (train,))
        for train in stage.travellers(FOLLOWED)
    ]
    found += [
        Asked(f"crowded-{_plain(station)}", "join", _CROWDED.format(station=station, least=8), everyone)
        for station in TRANSFER[:2]
    ]
    members = tuple(train for train in everyone if line[train] == "S41")
    found.append(Asked("spread-s41", "median", _SPREAD.format(line="S41", coaches=8), members))
    found.append(Asked("wheels-2", "filter", _BIKES.format(least=2), everyone))
    return found


def _plain(station: str) -> str:
    return station.lower().replace("ü", "ue")
