"""The worlds that are measured: a tree of sites with a fan-out of about thirty, queries with four devices each.

Half the queries are window aggregates over four devices, half are joins of two devices with two others, as in the
paper's stateless and stateful experiments. Devices are attached to random edge sites; the seed is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from godwit.control.control_plane import ControlPlane
from godwit.control.events import Event, Instruction
from godwit.ids import DeviceId, QueryId, RegionId, SiteId, StreamId
from godwit.model.plan import (
    Aggregate,
    AggregateCall,
    Column,
    Filter,
    Join,
    Operator,
    Parameter,
    Partial,
    Plan,
    Query,
    Scan,
    Shape,
    Sink,
    Stream,
    Window,
)
from godwit.model.topology import Device, Link, Site, Topology

FAN_OUT, DEVICES_A_QUERY, SEED = 30, 4, 7
READINGS = StreamId("readings")
STREAM = Stream(
    READINGS, (Column("device", "string"), Column("ts", "timestamp"), Column("v", "int")), "ts", device="device"
)
MINUTE = Window("a__ts", 60_000_000, 60_000_000)
COUNT = (AggregateCall("n", "count", None),)


class Settled(ControlPlane):
    """All regions acknowledge every epoch at once: what is measured here is planning."""

    def handle(self, event: Event) -> list[Instruction]:
        return [*super().handle(event), *self.settle()]


@dataclass
class World:
    control: ControlPlane
    edges: list[SiteId]
    devices: list[DeviceId]
    rng: Random


def build(sites: int, queries: int, strategy: str = "incremental") -> World:
    """A control plane with that many sites and running queries."""
    rng = Random(SEED)
    ground, edges = tree(sites)
    devices = [DeviceId(f"d{k}") for k in range(queries * DEVICES_A_QUERY)]
    attached = [Device(device, rng.choice(edges)) for device in devices]
    topology = Topology.of(list(ground.sites.values()), list(ground.links.values()), attached)
    control = Settled(
        topology,
        redeployment_strategy=strategy,
        streams={READINGS: STREAM},
        feeds={READINGS: devices},
    )
    for k in range(queries):
        control.submit(query_of(k, devices))
    return World(control, edges, devices, rng)


def query_of(number: int, devices: list[DeviceId]) -> Query:
    """The query of that number, over four devices of its own."""
    mine = devices[number * DEVICES_A_QUERY : (number + 1) * DEVICES_A_QUERY]
    return _aggregate(f"q{number}", mine) if number % 2 else _join(f"q{number}", mine)


def tree(sites: int) -> tuple[Topology, list[SiteId]]:
    """cloud - hubs - base stations - edge sites, each level about thirty times the one above."""
    names, links = [Site(SiteId("cloud"), RegionId("cloud"), kind="cloud")], []
    level = [SiteId("cloud")]
    while True:
        below = []
        for k in range(min(len(level) * FAN_OUT, sites - len(names))):
            name = SiteId(f"s{len(names)}")
            parent = level[k % len(level)]
            names.append(Site(name, RegionId(f"region-{len(names) % 3}")))
            links.append(Link(parent, name, ms=1.0))
            below.append(name)
        if len(names) >= sites:
            return Topology.of(names, links), below or level
        level = below


def _aggregate(name: str, devices: list[DeviceId]) -> Query:
    operators: list[Operator] = [
        Scan(READINGS, "a", ("ts", "v"), "device"),
        Filter((0,), "a__v > __p0"),
        Partial((1,), MINUTE, (), COUNT),
        Aggregate((2,), MINUTE, (), COUNT),
        Sink((3,), ("n",)),
    ]
    return _query(name, operators, {0: devices})


def _join(name: str, devices: list[DeviceId]) -> Query:
    operators: list[Operator] = [
        Scan(READINGS, "a", ("ts", "v"), "device"),
        Filter((0,), "a__v > __p0"),
        Scan(READINGS, "b", ("ts", "v"), "device"),
        Join((1, 2), (("a__v", "b__v"),), "a__ts", "b__ts", 0, 60_000_000),
        Sink((3,), ("a__v",)),
    ]
    return _query(name, operators, {0: devices[:2], 2: devices[2:]})


def _query(name: str, operators: list[Operator], wanted: dict[int, list[DeviceId]]) -> Query:
    subscriptions = {i: tuple(f"'{d}'" for d in devices) for i, devices in wanted.items()}
    return Query(QueryId(name), "", Shape(Plan(tuple(operators)), (Parameter("__p0", "int"),)), ("3",), subscriptions)
