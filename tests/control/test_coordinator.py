"""The coordinator, event by event: whole lists of instructions, and every reason to go back."""

from __future__ import annotations

from typing import Any

import pytest

from godwit.control.control_plane import ControlPlane
from godwit.control.events import (
    EpochCommitted,
    HandoverDone,
    Park,
    Publish,
    Record,
    RegionAcked,
    RegionBack,
    RegionLost,
    Resume,
    Revert,
    TimedOut,
)
from godwit.control.monitor import fold
from godwit.control.reconfigurations import ReconfigurationRecord
from godwit.control.redeploy.strategy import redeployment
from godwit.errors import ConfigError, DeploymentError, TopologyError
from godwit.ids import DeviceId, Epoch, QueryId, RegionId, SiteId
from godwit.migration.base import STRATEGIES, HandOver, Moved, ReplayState, describe, known, steps
from godwit.model.changes import (
    CapacityChanged,
    DeviceMoved,
    LinkAdded,
    LinkRemoved,
    SiteAdded,
    SiteFailed,
    SiteRemoved,
    apply,
)
from godwit.model.instances import InstanceId
from godwit.model.topology import Link, Site
from godwit.placement.rules.base import rule
from tests.control.worlds import aggregate, change_of, control, join, tree

REGIONS = ("cloud", "r1", "r2")


def acked(plane: ControlPlane) -> list[Any]:
    epoch, told = plane.epoch, []
    for region in REGIONS:
        told += plane.acknowledge(RegionId(region), epoch)
    return told


def kinds(told: list[Any]) -> list[str]:
    return [type(one).__name__ for one in told]


def running(query: Any = None, **options: Any) -> ControlPlane:
    """A plane with one running query, at rest."""
    plane = control(**options)
    plane.submit(query or aggregate("q", ["d1", "d2"]))
    acked(plane)
    return plane


def moved(device: str, site: str | None) -> DeviceMoved:
    return DeviceMoved(DeviceId(device), None if site is None else SiteId(site))


def test_a_change_is_published_and_committed_when_all_regions_have_acknowledged() -> None:
    plane = running()
    told = plane.change([moved("d1", "e3")])
    assert kinds(told) == ["Publish"]
    assert plane.acknowledge(RegionId("cloud"), Epoch(2)) == []
    assert plane.acknowledge(RegionId("r1"), Epoch(1)) == []  # of an older epoch
    assert plane.acknowledge(RegionId("r1"), Epoch(2)) == []
    told = plane.acknowledge(RegionId("r2"), Epoch(2))
    assert told[0] == EpochCommitted(Epoch(2))
    assert told[1].record.outcome == "committed"
    assert plane.coordinator.stable == 2


def test_changes_that_arrive_in_the_middle_wait_for_the_next_batch() -> None:
    plane = running()
    plane.change([moved("d1", "e3")])
    assert plane.change([moved("d2", "e4")]) == []
    assert kinds(acked(plane)) == ["EpochCommitted", "Record", "Publish"]


def test_a_site_that_dies_in_the_middle_takes_the_reconfiguration_back_and_all_changes_are_taken_along() -> None:
    plane = running()
    before = plane.deployment
    plane.change([moved("d1", "e3")])
    told = plane.change([SiteFailed(SiteId("e3"))])
    assert kinds(told) == ["Revert"]
    revert = told[0]
    assert revert.stable == 1
    assert "'e3' went" in revert.reason
    assert plane.deployment.placement == before.placement
    told = acked(plane)
    assert kinds(told) == ["Record", "Publish"]
    assert told[0].record.outcome == "reverted"
    assert "device d1 -> e3" in told[1].delta.cause
    assert kinds(acked(plane)) == ["EpochCommitted", "Record"]
    assert plane.deployment.devices[DeviceId("d1")] is None


def test_a_link_that_carries_state_and_goes_takes_the_reconfiguration_back() -> None:
    plane = running()
    plane.change([moved("d1", "e3")])  # the aggregate moves from f1 to the cloud
    told = plane.change([LinkRemoved(SiteId("f1"), SiteId("cloud"))])
    assert kinds(told) == ["Revert"]
    back = told[0].steps[0]
    assert (back.source, back.target, back.path) == ("cloud", "f1", ("cloud", "f1"))


def test_a_lost_region_that_must_act_takes_the_reconfiguration_back_and_one_that_need_not_does_not() -> None:
    plane = running(aggregate("q", ["d1"]))
    plane.change([moved("d1", "e2")])
    assert plane.handle(RegionLost(RegionId("r2"))) == []
    plane.acknowledge(RegionId("cloud"), plane.epoch)
    assert kinds(plane.acknowledge(RegionId("r1"), plane.epoch)) == ["EpochCommitted", "Record"]
    plane.handle(RegionBack(RegionId("r2")))
    plane.change([moved("d1", "e3")])
    told = plane.handle(RegionLost(RegionId("r2")))
    assert kinds(told) == ["Revert"]


def test_without_its_region_a_query_is_parked_and_it_resumes_by_itself() -> None:
    plane = running(aggregate("q", ["d1"]))
    plane.handle(RegionLost(RegionId("r2")))
    told = plane.change([moved("d1", "e3")])
    assert kinds(told) == ["Publish"]  # rather than on a region that does not answer, on the cloud
    assert plane.deployment.placement[InstanceId.parse("q/1@d1")] == "cloud"
    plane = running(aggregate("q", ["d1"]))
    told = plane.change([LinkRemoved(SiteId("f1"), SiteId("cloud"))])
    assert kinds(told) == ["Park", "Publish"]
    assert "no path from 'd1'" in told[0].reason
    acked(plane)
    told = plane.change([LinkAdded(Link(SiteId("e1"), SiteId("cloud")))])
    assert kinds(told) == ["Resume", "Publish"]
    assert told[0] == Resume(QueryId("q"))


def test_who_does_not_acknowledge_in_time_counts_as_lost_until_it_answers() -> None:
    plane = running()
    plane.change([moved("d1", "e3")])
    for region in ("cloud", "r1"):
        plane.acknowledge(RegionId(region), plane.epoch)
    assert kinds(plane.handle(TimedOut(Epoch(1)))) == []  # long over
    told = plane.handle(TimedOut(plane.epoch))
    assert kinds(told)[0] == "Revert"
    assert plane.coordinator.lost == {"r2"}
    plane.handle(RegionAcked(RegionId("r2"), plane.epoch))
    assert plane.coordinator.lost == set()


def test_queries_that_come_and_go_are_never_taken_back() -> None:
    plane = running()
    plane.submit(join("j"))
    assert plane.handle(RegionLost(RegionId("r1"))) == []
    assert plane.coordinator.phase == "publishing"


def test_holistic_strategies_stop_and_deploy_in_stages() -> None:
    plane = running(redeployment_strategy="holistic-serial")
    plane.submit(aggregate("p", ["d1", "d3"], over="9"))
    acked(plane)
    told = plane.change([moved("d1", "e3")])
    stages = []
    while plane.coordinator.phase != "idle":
        stages += [one for one in told if isinstance(one, Publish)]
        told = acked(plane)
    causes = [one.delta.cause.split(":")[0] for one in stages]
    assert causes == ["stop p", "deploy p", "stop q", "deploy q"] or causes == ["stop p, q", "deploy p, q"]
    plane = running(redeployment_strategy="holistic-concurrent")
    told = plane.change([moved("d1", "e3")])
    assert told[-1].stage == (1, 2)
    assert dict(told[-1].delta.parked) == {"q": "it is being redeployed"}


def test_a_query_is_refused_at_once_if_its_name_is_taken_and_withdrawn_only_if_it_is_there() -> None:
    plane = running()
    with pytest.raises(DeploymentError, match="there is a query 'q' already"):
        plane.submit(aggregate("q"))
    with pytest.raises(DeploymentError, match="no query 'nobody'"):
        plane.withdraw(QueryId("nobody"))
    with pytest.raises(DeploymentError, match="that stream was not declared"):
        plane.feed(DeviceId("d1"), ["nothing"])  # type: ignore[list-item]
    with pytest.raises(TopologyError, match="no such device"):
        plane.change([moved("nobody", "e1")])
    assert plane.coordinator.phase == "idle"


def test_unknown_strategies_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="bottom-up, top-down"):
        rule("sideways")
    with pytest.raises(ConfigError, match="incremental, holistic-serial"):
        redeployment("sometimes")
    with pytest.raises(ConfigError, match="delta, adhoc-query"):
        known("telepathy")


def test_state_that_failed_with_its_site_is_replayed_until_somebody_says_it_is_done() -> None:
    plane = running()
    told = plane.change([SiteFailed(SiteId("f1")), LinkAdded(Link(SiteId("e1"), SiteId("cloud")))])
    told += plane.change([LinkAdded(Link(SiteId("e2"), SiteId("cloud")))])
    while plane.coordinator.phase != "idle":
        told += acked(plane)
    replays = [s for one in told if isinstance(one, Publish) for s in one.steps if isinstance(s, ReplayState)]
    assert [(r.instance, r.scans) for r in replays] == [(InstanceId.parse("q/3"), (InstanceId.parse("q/0"),))]
    assert plane.planner.custody.lost == {InstanceId.parse("q/3")}
    plane.handle(HandoverDone(InstanceId.parse("q/3"), plane.coordinator.stable))
    assert plane.planner.custody.lost == set()
    assert plane.planner.violations() == []


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_state_strategies_yield_their_steps(name: str) -> None:
    (step,) = steps(name, Moved(InstanceId.parse("q/3"), "a", "c", ("a", "b", "c"), ("q/0",)))  # type: ignore[arg-type]
    if name.startswith("recreate"):
        assert step == ReplayState(InstanceId.parse("q/3"), "c", ("q/0",), name.split("-")[1])  # type: ignore[arg-type]
    else:
        assert isinstance(step, HandOver)
        assert (step.wait, step.chunked) == {"delta": (False, True), "transfer": (True, False)}.get(name, (True, True))
    assert "q/3" in describe(step)
    (lost,) = steps(name, Moved(InstanceId.parse("q/3"), None, "c", (), ("q/0",)))  # type: ignore[arg-type]
    assert isinstance(lost, ReplayState)


def test_folding_leaves_out_what_cancels_and_never_a_failure() -> None:
    ground = tree()
    link = Link(SiteId("e1"), SiteId("e2"))
    assert fold(ground, [LinkAdded(link), LinkRemoved(SiteId("e1"), SiteId("e2"))]) == ()
    assert fold(ground, [moved("d1", "e3"), moved("d1", "e1")]) == ()
    assert fold(ground, [moved("d1", "e3"), moved("d2", "e4"), moved("d1", "e2")]) == (
        moved("d1", "e2"),
        moved("d2", "e4"),
    )
    assert fold(ground, [CapacityChanged(SiteId("e1"), 3.0), CapacityChanged(SiteId("e1"), 50.0)]) == ()
    back = [SiteFailed(SiteId("e1")), SiteAdded(Site(SiteId("e1"), RegionId("r1"), 50.0))]
    assert fold(ground, back) == tuple(back)


def test_folding_keeps_the_final_topology() -> None:
    for seed in range(400):
        ground, changes = tree(), []
        for k in range(12):
            change = change_of(ground, (seed * 7 + k * k) % 10, (seed * 31 + k * 5) % 16, (seed + k * 11) % 16)
            if change is not None:
                changes.append(change)
                ground = apply(ground, [change])
        folded = fold(tree(), changes)
        after = apply(tree(), folded)
        assert (after.sites, after.devices, after.links) == (ground.sites, ground.devices, ground.links), changes
        assert len(folded) <= len(changes)
        failures = [c for c in changes if isinstance(c, SiteFailed | SiteRemoved)]
        assert [c for c in folded if isinstance(c, SiteFailed | SiteRemoved)] == failures


def test_stories_can_be_kept_and_read() -> None:
    plane = running()
    plane.change([moved("d1", "e3")])
    record = next(one.record for one in acked(plane) if isinstance(one, Record))
    record = record.timed("plan", 0.002).timed("publish", 0.001).with_state(InstanceId.parse("q/3"), 4096, 0.05)
    assert ReconfigurationRecord.from_json(record.to_json()) == record
    assert "hand-over f1 -> cloud, 1 hops, 4,096 bytes in 50.0 ms" in record.text()
    assert "plan       2.0 ms" in record.text()
    assert "device d1 -> e3" in record.line()
    with pytest.raises(AssertionError, match="not a phase"):
        record.timed("lunch", 1.0)


def test_capacity_that_shrinks_pushes_out_as_much_as_is_too_much_and_parks_with_the_reason() -> None:
    plane = running(aggregate("q", ["d1"]))
    plane.change([CapacityChanged(SiteId("e1"), 1.0)])
    acked(plane)
    load = [i for i, site in plane.planner.ground.placement.items() if site == "e1"]
    assert len(load) == 1
    told = plane.change([CapacityChanged(SiteId(s), 0.0) for s in ("e1", "f1", "cloud")])
    parked = [one for one in told if isinstance(one, Park)]
    assert "needs 1 cpu" in parked[0].reason
    assert "'e1' has" in parked[0].reason
    assert not any(isinstance(one, Revert) for one in told)
