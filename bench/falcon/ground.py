"""A cloud and some edges around it, a region each, and a fleet on it whose links have a latency."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.engine.session import QUICK, spark_session
from godwit.maintenance.housekeeping import Retention
from godwit.model.topology import Link, Site, Topology
from godwit.region.link_emulator import Links

CLOUD = "cloud"


def session() -> SparkSession:
    return spark_session("godwit-falcon", cores=2, settings=QUICK)


def edge(number: int) -> str:
    return f"edge{number}"


def topology(edges: int, round_trip_ms: float) -> Topology:
    sites = [Site(CLOUD, CLOUD, cpu=1e9, kind="cloud"), *(Site(edge(k), edge(k), cpu=1e9) for k in range(edges))]
    return Topology.of(sites, [Link(edge(k), CLOUD, ms=round_trip_ms / 2) for k in range(edges)])  # type: ignore[arg-type]


@contextmanager
def fleet_on(edges: int, round_trip_ms: float, mbit: float | None = None, **options: object) -> Iterator[Fleet]:
    """`mbit`: state goes over links of this bandwidth; None: with the message that announces it."""
    links = Links(mbit, round_trip_ms) if round_trip_ms or mbit else None
    with TemporaryDirectory(prefix="godwit-falcon-") as folder:
        fleet = Fleet(Path(folder) / "fleet", session(), links=links, retention=Retention(keep=True), **options)  # type: ignore[arg-type]
        try:
            fleet.topology.add(topology(edges, round_trip_ms))
            yield fleet
        finally:
            fleet.stop()
