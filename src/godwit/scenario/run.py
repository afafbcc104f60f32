"""Runs a scenario: the fleet, its sources and its trace, from the first row to the last answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.api.handles import QueryHandle
from godwit.api.oracle import Verdict
from godwit.errors import ConfigError
from godwit.ids import QueryId
from godwit.maintenance.housekeeping import Retention
from godwit.mobility.city import City, make_city
from godwit.mobility.driver import Driver, Feed, FleetTarget, Sends, TickingClock, WallClock
from godwit.mobility.field import Field, make_field
from godwit.mobility.hierarchy import Hierarchy
from godwit.mobility.nebula import read_nebula
from godwit.mobility.payloads import Passengers, PositionReports, SensorReadings
from godwit.mobility.ring import Ring, make_ring
from godwit.mobility.trace import Trace, TraceEvent, read_trace
from godwit.mobility.twin import MovingWorld, Played, read_calls
from godwit.mobility.twin import play as play_world
from godwit.model.topology import Topology
from godwit.observe.status import Status
from godwit.scenario.connect import follow_brokers
from godwit.scenario.spec import QuerySpec, Scenario, SourceSpec, WorldSpec
from godwit.sql.duration import microseconds

Latency = tuple[float | None, float | None, float | None]


@dataclass(frozen=True)
class Ran:
    """What came of it."""

    queries: tuple[QueryId, ...]
    results: Mapping[QueryId, int]
    verdicts: tuple[Verdict, ...]
    rows: int
    dead: int
    late: int
    handovers: int
    reconfigurations: int
    parked: Mapping[QueryId, str] = field(default_factory=dict)
    #: query -> p50, p95, p99 in ms, from a row's entry to the commit of the results it led to
    latency: Mapping[QueryId, Latency] = field(default_factory=dict)


@dataclass(frozen=True)
class ScenarioStage:
    """The ground and what moves on it."""

    topology: Topology
    trace: Trace
    gap_ms: int
    speed: float
    played: Played | None = None


def play(
    scenario: Scenario,
    spark: SparkSession,
    root: Path,
    *,
    speed: float | None = None,
    as_fast: bool = False,
    judge: bool = True,
) -> Ran:
    """From an empty (or an earlier) folder to the last answer."""
    stage = staged(scenario)
    options: dict[str, Any] = {
        name: getattr(scenario, name) for name in ("rule", "redeployment", "state", "reoptimise", "admission")
    }
    # The oracle needs everything that was ever sent.
    with Fleet(root, spark, retention=Retention(keep=judge), **options) as fleet:
        handles = set_up(fleet, scenario, stage.topology)
        fleet.start()
        brokers = follow_brokers(fleet, scenario.sources)
        driver, replayed = _feed(fleet, scenario, stage, speed or stage.speed, as_fast)
        for source in brokers:
            source.stop()
        fleet.close_sources()
        fleet.process_available()
        fleet.stop()
        return _sum_up(fleet, handles, driver, replayed, judge)


def staged(scenario: Scenario) -> ScenarioStage:
    """Topology and trace, from files or made up, cut to the scenario's duration."""
    if scenario.world is not None:
        stage = _made_up(scenario.world)
    else:
        topology = scenario.ground()
        assert topology is not None
        stage = ScenarioStage(topology, _resting(topology), 0, 1.0)
        if scenario.trace is not None:
            spec, path = scenario.trace, scenario.at(scenario.trace.file)
            trace = read_nebula(path).trace if path.is_dir() else read_trace(path, topology.sites)
            stage = replace(stage, trace=trace, gap_ms=spec.gap_ms, speed=spec.speed)
    if scenario.duration is not None:
        stage = replace(stage, trace=_cut(stage.trace, microseconds(scenario.duration) // 1000))
    return stage


def _made_up(spec: WorldSpec) -> ScenarioStage:
    seconds = max(int(spec.seconds * spec.speedup), 1)
    world: MovingWorld
    if spec.kind == "ring":
        world = make_ring(Ring(spec.devices, duration_s=seconds, seed=spec.seed))
    elif spec.kind == "city":
        world = make_city(City(cars=spec.devices, duration_s=seconds, seed=spec.seed))
    else:
        world = make_field(Field(sensors=spec.devices, duration_s=seconds, seed=spec.seed))
    shape = Hierarchy(regions=spec.regions, edge_cpu=1e6, fog_cpu=1e6, cloud_cpu=1e6)
    played = play_world(world, speedup=spec.speedup, shape=shape)
    return ScenarioStage(played.topology, played.trace, spec.gap_ms, 1.0, played)


def _resting(topology: Topology) -> Trace:
    """No device moves."""
    events = [TraceEvent(0, d.id, "attach", d.site, None) for d in topology.devices.values() if d.site is not None]
    return Trace(0, tuple(sorted(events, key=lambda event: event.device)), source="no device moves")


def _cut(trace: Trace, duration_ms: int) -> Trace:
    """The trace up to a moment; longer than it is, it continues without moves."""
    return replace(trace, duration_ms=duration_ms, events=tuple(e for e in trace.events if e.t <= duration_ms))


def set_up(fleet: Fleet, scenario: Scenario, topology: Topology | None) -> list[QueryHandle]:
    """Declare and submit everything that a file names and the fleet does not have yet."""
    if topology is not None:
        fleet.topology.add(topology)
    with_device = []
    for table in scenario.tables:
        made = fleet.table(table.name, table.schema_, key=table.key, disorder=table.disorder, site=table.site)
        if table.file is not None:
            made.follow_file(scenario.at(table.file))
    for spec in scenario.streams:
        fleet.stream(
            spec.name,
            spec.schema_,
            time=spec.time,
            device=spec.device,
            disorder=spec.disorder,
            idle=spec.idle,
            ahead=spec.ahead,
            site=spec.site,
            mbps=spec.mbps,
        )
        with_device += [spec.name] if spec.device else []
    for device in scenario.devices:
        fleet.device(device.id, site=device.site, streams=device.streams or with_device)
    if not scenario.devices:
        for name in topology.devices if topology is not None else ():
            fleet.device(name, streams=with_device)
    return [_submit(fleet, scenario, spec) for spec in scenario.queries]


def _submit(fleet: Fleet, scenario: Scenario, spec: QuerySpec) -> QueryHandle:
    known = QueryId(spec.name) in fleet.deployment.queries  # the folder's fleet has it from an earlier run
    handle = fleet.query(spec.name) if known else fleet.submit(scenario.text_of(spec), spec.name, sink=spec.sink)
    for sink in spec.write_to.sinks(scenario.home):
        handle.write_to(sink)
    return handle


def _feed(fleet: Fleet, scenario: Scenario, stage: ScenarioStage, speed: float, as_fast: bool) -> tuple[Driver, int]:
    """Replays begin, the trace is played, replays end; the driver and how many rows were replayed."""
    # Played as fast as it goes, event time would run ahead of the wall clock: so it ends now.
    start_ms = int(time.time() * 1000) - (stage.trace.duration_ms if as_fast else 0)
    replays = [
        fleet.replay(source.stream, _paths(scenario, source.replay), speed=source.speed, name=f"replay {i}").start()
        for i, source in enumerate(scenario.sources)
        if source.replay is not None
    ]
    feeds = [
        Feed(source.stream, _payload(scenario, source, stage, start_ms), source.disorder_ms)
        for source in scenario.sources
        if source.generator is not None
    ]
    driver = Driver(
        stage.trace,
        feeds,
        FleetTarget(fleet),
        start_ms=start_ms,
        speed=speed,
        gap_ms=stage.gap_ms,
        clock=TickingClock() if as_fast else WallClock(),
        watch=lambda _: fleet.check(),
        attached={str(d): str(site) for d, site in fleet.deployment.devices.items() if site is not None},
    )
    driver.play()
    return driver, sum(replay.wait() for replay in replays)


def _paths(scenario: Scenario, files: str | list[str]) -> list[str]:
    return [str(scenario.at(file)) for file in ([files] if isinstance(files, str) else files)]


def _payload(scenario: Scenario, source: SourceSpec, stage: ScenarioStage, start_ms: int) -> Sends:
    if source.generator == "readings":
        return SensorReadings(source.period_ms, source.seed, source.disorder_ms, start_ms)
    if source.generator == "positions":
        assert stage.played is not None
        return PositionReports(
            stage.played.world,
            source.period_ms,
            seed=source.seed,
            disorder_ms=source.disorder_ms,
            speedup=stage.trace.speedup,
            start_ms=start_ms,
        )
    calls = read_calls(scenario.at(source.calls)) if source.calls else stage.played.calls if stage.played else ()
    if not calls:
        msg = f"no stop is known for the passengers of stream '{source.stream}'; give the calls.jsonl of the trace"
        raise ConfigError(msg)
    return Passengers(calls, seed=source.seed, disorder_ms=source.disorder_ms, start_ms=start_ms)


def _sum_up(fleet: Fleet, handles: list[QueryHandle], driver: Driver, replayed: int, judge: bool) -> Ran:
    status = fleet.status()
    queries = tuple(handle.id for handle in handles)
    return Ran(
        queries=queries,
        results={handle.id: handle.results().count() for handle in handles},
        verdicts=tuple(handle.verdict() for handle in handles) if judge else (),
        rows=driver.rows + replayed,
        dead=len(fleet.dead_letters()),
        late=sum(runner.rows_late for runner in status.runners),
        handovers=driver.handovers,
        reconfigurations=len(fleet.history.read()),
        parked=dict(fleet.parked),
        latency=_latencies(status),
    )


def _latencies(status: Status) -> dict[QueryId, Latency]:
    """Of each query that has answered: p50, p95, p99 of its shape where most of its results leave."""
    found: dict[QueryId, Latency] = {}
    for query in status.queries:
        emitting = [r for r in status.runners if r.shape == query.shape and r.rows_out]
        if emitting:
            times = max(emitting, key=lambda runner: runner.rows_out).latency_ms
            found[QueryId(query.name)] = (times.p50, times.p95, times.p99)
    return found
