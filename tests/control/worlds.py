"""Small worlds for the tests of the control plane: topologies, queries of every kind, and changes drawn by hypothesis.

A change is drawn as three small numbers and read against the topology as it is then, so that every drawn list is legal
and shrinks to something readable.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from godwit.control.control_plane import ControlPlane
from godwit.control.events import Event, Instruction, Publish, Revert
from godwit.ids import DeviceId, QueryId, RegionId, SiteId, StreamId
from godwit.model.changes import (
    CapacityChanged,
    Change,
    DeviceAdded,
    DeviceMoved,
    DeviceRemoved,
    LinkAdded,
    LinkRemoved,
    SiteAdded,
    SiteFailed,
    SiteRemoved,
)
from godwit.model.plan import Query
from godwit.model.taps import find
from godwit.model.topology import Device, Link, Site, Topology
from godwit.protocol.handover import moves_between
from godwit.testing import queries
from godwit.testing.topologies import build

LEFT, RIGHT = (queries.stream(name, device="train") for name in ("left", "right"))
STREAMS = {one.id: one for one in (LEFT, RIGHT)}
DEVICES = tuple(DeviceId(f"d{k}") for k in range(1, 6))
FEEDS = {StreamId("left"): DEVICES[:4], StreamId("right"): DEVICES[2:]}


def tree(cpu: float = 100.0) -> Topology:
    """cloud - (f1 - (e1, e2), f2 - (e3, e4)), five devices; the cloud and each f with its e's is a region."""
    capacity = {
        "cloud": 10 * cpu,
        **dict.fromkeys(("f1", "f2"), cpu),
        **dict.fromkeys(("e1", "e2", "e3", "e4"), cpu / 2),
    }
    pairs = ("f1 cloud", "f2 cloud", "e1 f1", "e2 f1", "e3 f2", "e4 f2")
    return build(
        ["cloud", "f1", "e1", "e2", "f2", "e3", "e4"],
        [(pair.split()[0], pair.split()[1]) for pair in pairs],
        region_of=lambda name: "cloud" if name == "cloud" else "r1" if name in ("f1", "e1", "e2") else "r2",
        cpu=capacity,
        devices={str(d): f"e{1 + k % 4}" for k, d in enumerate(DEVICES)},
    )


def select(name: str, devices: list[str] | None = None, stream: str = "left", over: str = "2") -> Query:
    return queries.select(name, STREAMS[StreamId(stream)], devices, over)


def aggregate(name: str, devices: list[str] | None = None, stream: str = "left", over: str = "2") -> Query:
    return queries.aggregate(name, STREAMS[StreamId(stream)], devices, over)


def join(name: str, left: list[str] | None = None, right: list[str] | None = None, over: str = "2") -> Query:
    return queries.join(name, (LEFT, RIGHT), left, right, over)


def both(name: str, over: str = "2") -> Query:
    return queries.union(name, (LEFT, RIGHT), over)


KINDS = (select, aggregate, join, both)


def query_of(kind: int, name: str, a: int, b: int) -> Query:
    """A query from three numbers; equal numbers give plans with equal beginnings."""
    devices = None if a % 3 == 0 else [str(d) for k, d in enumerate(DEVICES) if (a >> (k % 3)) & 1 or k == b % 5]
    match KINDS[kind % 4].__name__:
        case "select":
            return select(name, devices, over=str(b % 2))
        case "aggregate":
            return aggregate(name, devices, over=str(b % 2))
        case "join":
            return join(name, devices, None, over=str(b % 2))
        case _:
            return both(name)


def change_of(topology: Topology, kind: int, a: int, b: int) -> Change | None:
    """A change that fits the topology, from three numbers; None if there is none of that kind."""
    sites, devices = sorted(topology.sites), sorted(topology.devices)
    edges = [s for s in sites if s != "cloud"]
    match kind % 10:
        case 0 | 1 | 2 if devices and sites:
            return DeviceMoved(devices[a % len(devices)], sites[b % len(sites)])
        case 3 if devices:
            return DeviceMoved(devices[a % len(devices)], None)
        case 4 if len(sites) > 1 and sites[a % len(sites)] != sites[b % len(sites)]:
            return LinkAdded(Link(sites[a % len(sites)], sites[b % len(sites)], ms=1.0 + b % 3))
        case 5 if topology.links:
            link = sorted(topology.links.values(), key=lambda one: (one.a, one.b))[a % len(topology.links)]
            return LinkRemoved(link.a, link.b)
        case 6 if edges:
            gone = edges[a % len(edges)]
            return SiteRemoved(gone) if b % 2 else SiteFailed(gone)
        case 7 if f"e{a % 6 + 1}" not in topology.sites:
            return SiteAdded(Site(SiteId(f"e{a % 6 + 1}"), RegionId(f"r{1 + a % 2}"), cpu=float(b % 5)))
        case 8 if devices:
            absent = [d for d in DEVICES if d not in topology.devices]
            if absent and b % 2:
                return DeviceAdded(Device(absent[0], sites[a % len(sites)] if sites else None))
            return DeviceRemoved(devices[a % len(devices)]) if b % 4 == 0 else None
        case 9 if edges:
            return CapacityChanged(edges[a % len(edges)], float(b % 6))
    return None


class Recorded(ControlPlane):
    """Keeps what its instructions publish, as an executor does, and checks what they say about moves.

    Its queries tap what they have in common with those that run.
    """

    def __init__(self, topology: Topology, **options: Any) -> None:
        super().__init__(topology, **options)
        self.published = self.deployment

    def handle(self, event: Event) -> list[Instruction]:
        return self.carry_out(super().handle(event))

    def submit(self, query: Query, *more: Any) -> list[Instruction]:
        taps = find(query, self.planner.rows.queries.values())
        return super().submit(replace(query, taps=taps, begins=int(self.published.epoch) + 1), *more)

    def running(self) -> list[QueryId]:
        """Those that have not been withdrawn."""
        return sorted(q.id for q in self.planner.rows.queries.values() if not q.internal)

    def carry_out(self, told: list[Instruction]) -> list[Instruction]:
        for one in told:
            if isinstance(one, Publish | Revert):
                after = self.published.apply(one.delta)
                shapes = {**self.published.shapes(), **after.shapes()}
                assert after.epoch == one.epoch
                assert sorted(one.moves) == sorted(m for s in shapes for m in moves_between(self.published, after, s))
                self.published = after
        return told


class Settled(Recorded):
    """All regions acknowledge every epoch at once."""

    def handle(self, event: Event) -> list[Instruction]:
        return [*super().handle(event), *self.carry_out(self.settle())]


def control(topology: Topology | None = None, automatic: bool = False, **options: object) -> Recorded:
    """`automatic`: all regions acknowledge at once."""
    plane = Settled if automatic else Recorded
    return plane(topology or tree(), streams=STREAMS, feeds=FEEDS, **options)  # type: ignore[arg-type]
