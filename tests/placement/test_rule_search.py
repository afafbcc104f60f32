"""The rule that searches: capacities hold, pinned ends stay, and it finds what rules along the way cannot."""

from __future__ import annotations

import pytest

from godwit.ids import DeviceId, RegionId, SiteId
from godwit.model.changes import DeviceMoved
from godwit.model.instances import InstanceId
from godwit.model.topology import Device, Link, Site, Topology
from tests.control.worlds import aggregate, control, tree


def test_an_operator_finds_room_beside_the_way():
    """edge - cloud, and a box beside the edge: neither end has room, so only the box can take the operators."""
    sites = [Site(SiteId(name), RegionId("r"), cpu=cpu) for name, cpu in (("edge", 0.0), ("box", 9.0), ("cloud", 0.0))]
    links = [Link(SiteId("edge"), SiteId("box"), ms=1.0), Link(SiteId("edge"), SiteId("cloud"), ms=5.0)]
    ground = Topology.of(sites, links, [Device(DeviceId("d1"), SiteId("edge"))])
    for rule, parked in (("bottom-up", True), ("search", False)):
        plane = control(ground, rule=rule, automatic=True)
        plane.submit(aggregate("q"), SiteId("cloud"))
        assert bool(plane.planner.parked()) == parked
    where = {name: node for name, node in plane.deployment.placement.items() if name.operator}
    assert set(where.values()) == {"box", "cloud"}
    assert where[InstanceId.parse("q/4")] == "cloud"
    assert plane.planner.violations() == []


@pytest.mark.parametrize("cpu", [8.0, 100.0])
def test_after_a_hop_only_what_must_move_moves(cpu):
    plane = control(tree(cpu), rule="search", automatic=True)
    plane.submit(aggregate("q"))
    before = dict(plane.deployment.placement)
    plane.change([DeviceMoved(DeviceId("d1"), SiteId("e2"))])
    after = plane.deployment.placement
    moved = {name for name in after if after[name] != before[name]}
    assert all(name.device == "d1" for name in moved)
    assert plane.planner.violations() == []
