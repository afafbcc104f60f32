"""Two regions that run one query's kernel and read each other's commits: no engine, no files, no control plane."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from godwit.ids import DeviceId, NodeId, RegionId, SiteId
from godwit.model.deployment import Delta, Deployment
from godwit.model.instances import instance_id
from godwit.model.plan import Query
from godwit.protocol.commit import ProtocolCommit
from godwit.protocol.handover import EpochChange, Migration, moves_between
from godwit.protocol.inputs import Arrived, Inputs
from godwit.protocol.kernel import Decision, RegionKernel
from godwit.protocol.watermarks import Mark, source_id
from godwit.sim.worlds import LEFT, STREAMS, tumbling

WEST, EAST, NORTH = RegionId("west"), RegionId("east"), RegionId("north")
#: the query's window, the only operator with state
WINDOW = 3
QUERY = tumbling("q0", 0)


def deployment(devices: Iterable[str], query: Query = QUERY, idle_seconds: float | None = None) -> Deployment:
    """All devices in the west, the window too."""
    named = tuple(map(DeviceId, devices))
    return Deployment().apply(
        Delta(
            {query.id: query},
            {instance_id(query.id, k): NodeId("w") for k in (WINDOW, WINDOW + 1)},
            dict.fromkeys(named, SiteId("w")),
            {SiteId("w"): WEST, SiteId("e"): EAST},
            dict.fromkeys(named, 1),
            {LEFT: replace(STREAMS[LEFT], idle_seconds=idle_seconds)},
            {LEFT: named},
        )
    )


def window_at(site: str) -> Delta:
    return Delta(placement={instance_id(QUERY.id, WINDOW): NodeId(site)})


@dataclass
class Region:
    """A kernel, its commits, and how far its peer has read them."""

    kernel: RegionKernel
    commits: list[ProtocolCommit] = field(default_factory=list)
    read: int = 0
    sent: list[tuple[Migration, int]] = field(default_factory=list)

    def size(self) -> int:
        """Bytes of the newest commit's protocol part."""
        return len(json.dumps(self.commits[-1].to_json()))


class Pair:
    """Kernels in west and east."""

    def __init__(self, first: Deployment) -> None:
        empty = Deployment()
        self.deployment = empty
        self.regions: dict[RegionId, Region] = {}
        for name in (WEST, EAST):
            kernel = RegionKernel(name, QUERY.shape, empty)
            kernel.positions = {"control": 0}
            self.regions[name] = Region(kernel)
        self._changes: list[EpochChange] = []
        self.publish(first)

    def publish(self, after: Deployment, fenced: frozenset[RegionId] = frozenset()) -> None:
        moves = tuple(moves_between(self.deployment, after, QUERY.shape.key))
        self.deployment = after
        self._changes.append(EpochChange(after, moves, fenced=fenced))

    def apply(self, delta: Delta) -> None:
        self.publish(self.deployment.apply(delta))

    def step(self, name: RegionId, marks: Mapping[str, Mark] | None = None, **more: Any) -> Decision:
        """One micro-batch: the peer's new commits, new epochs, and marks of devices that are attached here."""
        region, other = self.regions[name], self.regions[EAST if name == WEST else WEST]
        inputs: Inputs[Any] = Inputs(peers=more.pop("peers", (EAST if name == WEST else WEST,)))
        arrived = self._read(name, region, other, inputs)
        number = int(region.kernel.deployment.epoch)
        inputs.changes = [c for c in self._changes if c.deployment.epoch > number]
        inputs.positions = {**region.kernel.positions, "control": int(self.deployment.epoch)}
        inputs.own_marks = [(0, source_id(LEFT, device), mark) for device, mark in (marks or {}).items()]
        inputs.marks += inputs.own_marks
        decision = region.kernel.take_in(inputs, more.pop("now", 0.0), **more)
        if decision.commit or arrived:
            for move, clock in arrived:
                region.kernel.receive(Arrived(move, {}, clock))
            for move in region.kernel.moves.ready(decision.markers):
                region.sent.append((move, region.kernel.released.get(WINDOW, {}).get(move.query, 0)))
                region.kernel.moves.sent(move)
            region.kernel.release(WINDOW, decision.markers)
            region.commits.append(region.kernel.commit(inputs, decision, len(region.commits) + 1))
        return decision

    @staticmethod
    def _read(name: RegionId, region: Region, other: Region, inputs: Inputs[Any]) -> list[tuple[Migration, int]]:
        for commit in (commit for commit in other.commits[region.read :] if name in commit.messages):
            inputs.markers.append((other.kernel.region, commit.markers))
            inputs.marks += commit.marks
        region.read = len(other.commits)
        arrived = [(move, clock) for move, clock in other.sent if move.target == name]
        other.sent = [one for one in other.sent if one[0].target != name]
        return arrived

    def rest(self) -> None:
        """Until nobody has anything to say."""
        for _ in range(20):
            busy = [self.step(name).commit for name in (WEST, EAST)]
            if not any(busy):
                return
        msg = "the pair does not come to rest"
        raise AssertionError(msg)

    def all(self) -> Iterator[Region]:
        return iter(self.regions.values())


def hops(pair: Pair, count: int) -> None:
    """The window changes region once a second, and everybody keeps up."""
    for k in range(count):
        pair.apply(window_at("e" if k % 2 == 0 else "w"))
        pair.rest()
