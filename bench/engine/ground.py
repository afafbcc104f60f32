"""The fleets that are measured: edge sites around a cloud, devices spread over the edge, streams with clocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from bench.engine.data import DISORDER, SCHEMA
from godwit.api.fleet import Fleet
from godwit.control.events import DeviceFeeds, QuerySubmitted
from godwit.engine.session import spark_session
from godwit.ids import DeviceId, QueryId, RegionId, SiteId, StreamId
from godwit.maintenance.housekeeping import Retention
from godwit.model.topology import Device, Link, Site, Topology
from godwit.region.runner import Limits, Runner
from godwit.sql import compile_query

REGION = RegionId("here")


def session() -> SparkSession:
    """Compiled plans, as in the field; one session for our runs and the native ones."""
    return spark_session(app="godwit bench", memory="4g")


def topology(sites: int, devices: int) -> Topology:
    """Edge sites in a star around the cloud, devices attached round robin."""
    edges = [Site(SiteId(f"s{k}"), REGION) for k in range(sites)]
    cloud = Site(SiteId("cloud"), REGION, kind="cloud")
    attached = [Device(DeviceId(f"d{k}"), edges[k % sites].id) for k in range(devices)]
    return Topology.of([*edges, cloud], [Link(e.id, cloud.id, ms=5.0) for e in edges], attached)


def fleet(
    spark: SparkSession, root: Path, streams: Iterable[str], *, max_rows: int, sites: int = 16, devices: int = 64
) -> Fleet:
    """A fleet whose devices all feed all the streams."""
    made = Fleet(root, spark, limits=Limits(max_rows=max_rows), retention=Retention(keep=True))
    made.topology.add(topology(sites, devices))
    names = list(streams)
    for name in names:
        made.stream(name, SCHEMA, device="device", disorder=DISORDER)
    # One epoch for all of them: `fleet.device` makes one each, and thousands of them are not what is measured here.
    made.control.ask(*(DeviceFeeds(DeviceId(f"d{k}"), tuple(map(StreamId, names))) for k in range(devices)))
    return made


def submit_all(made: Fleet, queries: Mapping[str, str]) -> None:
    """Many queries in one epoch. What a submission costs is measured on its own, in start_latency.py."""
    compiled = (compile_query(sql, made.deployment.streams, QueryId(name)) for name, sql in queries.items())
    made.control.ask(*map(QuerySubmitted, compiled))


def runner_of(made: Fleet, query: str) -> Runner:
    """The one runner of a query's shape (all sites are in one region)."""
    (runner,) = made.runners_of(made.deployment.queries[query].shape.key)  # type: ignore[index]
    return runner


def times(runner: Runner, after: int = 0) -> list[float]:
    """Milliseconds of each micro-batch past a commit."""
    return [record["metrics"]["took_ms"] for _, record in runner.commits.after(after)]
