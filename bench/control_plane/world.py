"""The worlds that are measured: a tree of sites with a fan-out of about thirty, queries with four devices each.

Half the queries are window aggregates over four devices, half are joins of two devices with two others, as in the
paper's stateless and stateful experiments. Devices are attached to random edge sites; the seed is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from godwit.control.control_plane import ControlPlane
from godwit.control.events import Event, Instruction
from godwit.ids import DeviceId, SiteId, StreamId
from godwit.model.plan import Query, Window
from godwit.model.topology import Device, Topology
from godwit.testing import queries
from godwit.testing.topologies import levels

FAN_OUT, DEVICES_A_QUERY, SEED = 30, 4, 7
READINGS = StreamId("readings")
STREAM = queries.stream(READINGS)
MINUTE = Window("a__ts", 60_000_000, 60_000_000)


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


def build(sites: int, count: int, strategy: str = "incremental") -> World:
    """A control plane with that many sites and running queries."""
    rng = Random(SEED)
    ground, edges = levels(sites, FAN_OUT)
    devices = [DeviceId(f"d{k}") for k in range(count * DEVICES_A_QUERY)]
    attached = [Device(device, rng.choice(edges)) for device in devices]
    topology = Topology.of(list(ground.sites.values()), list(ground.links.values()), attached)
    control = Settled(
        topology,
        redeployment_strategy=strategy,
        streams={READINGS: STREAM},
        feeds={READINGS: devices},
    )
    for k in range(count):
        control.submit(query_of(k, devices))
    return World(control, edges, devices, rng)


def query_of(number: int, devices: list[DeviceId]) -> Query:
    """The query of that number, over four devices of its own."""
    mine = devices[number * DEVICES_A_QUERY : (number + 1) * DEVICES_A_QUERY]
    return _aggregate(f"q{number}", mine) if number % 2 else _join(f"q{number}", mine)


def _aggregate(name: str, devices: list[DeviceId]) -> Query:
    return queries.aggregate(name, STREAM, devices, "3", MINUTE)


def _join(name: str, devices: list[DeviceId]) -> Query:
    return queries.join(name, (STREAM, STREAM), devices[:2], devices[2:], "3", (0, 60_000_000))
