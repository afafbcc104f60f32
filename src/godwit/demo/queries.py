"""What the demo asks: a dozen queries of four shapes. Each gives `at`, the time its latency is measured from.

Queries of one shape differ in literals alone and run in one Spark plan a region.
"""

from __future__ import annotations

from dataclasses import dataclass

from godwit.demo.world import TRANSFER

SCHEMA = (
    "train string, line string, coach int, boarded int, alighted int, bikes int, strollers int, "
    "station string, ts timestamp"
)
STREAM = "passengers"

_OCCUPANCY = """SELECT train, sum(boarded) - sum(alighted) AS delta, count(*) AS coaches, window.end AS at
FROM passengers WHERE line = '{line}' AND boarded + alighted > {least}
GROUP BY train, window(ts, '5 seconds')"""

_CROWDED = """SELECT a.station AS station, a.train AS one, b.train AS other, a.coach AS coach,
       a.boarded + b.boarded AS boarded, greatest(a.ts, b.ts) AS at
FROM passengers a JOIN passengers b ON a.station = b.station AND a.coach = b.coach
     AND a.ts BETWEEN b.ts - INTERVAL 8 SECONDS AND b.ts + INTERVAL 8 SECONDS
WHERE a.line = 'S41' AND b.line = 'S42' AND a.station = '{station}' AND a.boarded + b.boarded > {least}"""

_SPREAD = """SELECT line, median(boarded) AS typical, count(DISTINCT station) AS stations, max(boarded) AS most,
       window.end AS at
FROM passengers WHERE line = '{line}' AND coach <= {coaches}
GROUP BY line, window(ts, '5 seconds')"""

_BIKES = """SELECT train, station, coach, bikes + strollers AS wheels, ts AS at
FROM passengers WHERE bikes + strollers >= {least}"""


@dataclass(frozen=True)
class Asked:
    """One query of the demo."""

    name: str
    #: for people
    shape: str
    sql: str
    #: the lines whose trains it reads
    lines: tuple[str, ...]


def asked() -> list[Asked]:
    """Twelve queries of four shapes."""
    both = ("S41", "S42")
    found = [
        Asked(f"occupancy-{line.lower()}-{least}", "window sum", _OCCUPANCY.format(line=line, least=least), (line,))
        for line in both
        for least in (2, 9)
    ]
    found += [
        Asked(f"crowded-{_plain(station)}", "join", _CROWDED.format(station=station, least=8), both)
        for station in TRANSFER
    ]
    found += [Asked(f"spread-{line.lower()}", "median", _SPREAD.format(line=line, coaches=8), (line,)) for line in both]
    found += [Asked(f"wheels-{least}", "filter", _BIKES.format(least=least), both) for least in (2, 3)]
    return found


def _plain(station: str) -> str:
    return station.lower().replace("ü", "ue")
