"""Properties of planning under random changes, for every rule and every redeployment strategy."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from godwit.control.contexts import carry_out
from godwit.control.control_plane import ControlPlane
from godwit.control.diff import backwards, diff, patch
from godwit.control.events import Publish
from godwit.ids import QueryId
from godwit.model.instances import InstanceId
from godwit.placement.rules import search
from godwit.placement.rules.base import RULES
from tests.control.worlds import Recorded, change_of, control, query_of, tree

SMALL = st.integers(0, 15)
#: (what, how, a, b): below 10 a change, 10 and 11 a submission, 12 a withdrawal
STEPS = st.lists(st.tuples(st.integers(0, 12), SMALL, SMALL, SMALL), min_size=1, max_size=14)
EXAMPLES = int(os.environ.get("GODWIT_EXAMPLES", "60"))
PROPERTY = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],  # explaining takes minutes
)
CPU = st.sampled_from([3.0, 8.0, 100.0])


def step(plane: Recorded, number: int, drawn: tuple[int, int, int, int]) -> list[Any]:
    """Do what was drawn; returns the instructions."""
    what, how, a, b = drawn
    if what >= 12:
        running = plane.running()
        return plane.withdraw(running[a % len(running)]) if running else []
    if what >= 10:
        return plane.submit(query_of(how, f"q{number}", a, b))
    change = change_of(plane.topology, what, a, b)
    return plane.change([change]) if change is not None else []


STRATEGIES = ("incremental", "holistic-serial", "holistic-concurrent")
#: (a search takes its time: under one strategy, and a few steps, is enough)
COMBINED = [(r, s) for r in sorted(RULES) for s in STRATEGIES if r != "search" or s == "incremental"]


@pytest.mark.parametrize(("rule", "strategy"), COMBINED)
@PROPERTY
@given(STEPS, CPU)
def test_every_placement_is_valid(rule: str, strategy: str, steps: list[Any], cpu: float) -> None:
    """All three conditions, capacities, and the incremental tables against what they must be."""
    search.BUDGET = 0.005
    plane = control(tree(cpu), rule=rule, redeployment_strategy=strategy, automatic=True)
    for k in range(4):
        plane.submit(query_of(k, f"base{k}", k, k))
    for number, drawn in enumerate(steps[:3] if rule == "search" else steps):
        step(plane, number, drawn)
        assert plane.planner.violations() == []
        check_tables(plane)


def check_tables(plane: Recorded) -> None:
    planner = plane.planner
    ground, rows = planner.ground, planner.rows
    load: dict[Any, float] = {}
    for instance, node in ground.placement.items():
        load[node] = load.get(node, 0.0) + planner.plan.instances[instance].cost
        assert instance in ground.hosted[node]
    for node, used in load.items():
        assert ground.load.get(node, 0.0) == used
        if node in planner.topology.sites:
            assert used <= planner.topology.sites[node].cpu
    assert {n: i for n, i in ground.load.items() if i} == {n: i for n, i in load.items() if i}
    for query in planner.plan.queries:
        placed = [i in ground.placement for i in planner.plan.uses(query).values()]
        assert query in rows.parked or all(placed)
        for name, shared in planner.plan.uses(query).items():
            assert rows.placement.get(name) == ground.placement.get(shared, planner.left.get(shared))
    assert plane.published == plane.deployment
    assert set(planner.regions) == {site.region for site in planner.topology.sites.values()}


@PROPERTY
@given(STEPS, CPU)
def test_contexts_lead_from_the_old_sub_plans_to_the_new_and_touch_nothing_else(steps: list[Any], cpu: float) -> None:
    plane = control(tree(cpu), automatic=True)
    dqps = plane.planner.subplans.all()
    placement: dict[Any, Any] = {}
    for number, drawn in enumerate([(10, k, k, k) for k in range(4)] + steps):
        published = [one for one in step(plane, number, drawn) if isinstance(one, Publish)]
        after = plane.planner.subplans.all()
        for publish in published:
            touched = {context.dqp for context in publish.contexts}
            carried = carry_out(dqps, publish.contexts)
            changed = {d for d in {*dqps, *carried} if dqps.get(d) != carried.get(d)}
            assert touched == changed
            assert len(touched) == len(publish.contexts)
            dqps = carried
        assert dqps == after
        now = dict(plane.planner.ground.placement)
        assert patch(placement, diff(placement, now)) == now
        assert patch(now, tuple(backwards(e) for e in diff(placement, now))) == placement
        placement = now


def snapshot(plane: ControlPlane) -> dict[str, Any]:
    """Everything the planner decides by."""
    planner = plane.planner
    trees = {
        root: {node: planner.ground.routes.way(node, root) for node in planner.topology.adjacency}
        for root in sorted(set(planner.ground.root.values()))
    }
    return {
        "topology": planner.topology,
        "placement": dict(planner.ground.placement),
        "load": {n: x for n, x in planner.ground.load.items() if x},
        "hosted": {n: dict(i) for n, i in planner.ground.hosted.items()},
        "root": dict(planner.ground.root),
        "route": dict(planner.route),
        "over": {n: dict(i) for n, i in planner.over.items()},
        "left": dict(planner.left),
        "dqps": planner.subplans.all(),
        "of": dict(planner.subplans.of),
        "names": {n: dict(i) for n, i in planner.plan.names.items()},
        "uses": {q: dict(planner.plan.uses(q)) for q in planner.plan.queries},
        "producers": {n: dict(i) for n, i in planner.plan.producers.items()},
        "parked": dict(planner.rows.parked),
        "regions": planner.regions,
        "ways": trees,
    }


@pytest.mark.parametrize("strategy", ["incremental", "holistic-serial", "holistic-concurrent"])
@PROPERTY
@given(STEPS, CPU, st.integers(0, 3))
def test_revert_is_an_exact_inverse(strategy: str, steps: list[Any], cpu: float, acked: int) -> None:
    """A region that is lost in the middle: planner and rows are as they were before, whatever was planned."""
    plane = control(tree(cpu), redeployment_strategy=strategy)
    settle(plane, [plane.submit(query_of(k, f"q{k}", k, k)) for k in range(4)])
    for what, _, a, b in steps:
        change = change_of(plane.topology, what, a, b)
        if change is None:
            continue
        before, rows = snapshot(plane), plane.published
        told = plane.change([change])
        for _ in range(acked):
            if plane.coordinator.phase == "publishing" and plane.coordinator._todo:
                told += ack_all(plane)
        if not any(isinstance(one, Publish) for one in told):
            continue
        reverted = plane.coordinator._revert("the test says so")
        plane.carry_out(reverted)
        assert snapshot(plane) == before
        after = plane.published
        for table in ("queries", "placement", "devices", "sites", "feeds", "parked"):
            assert getattr(after, table) == getattr(rows, table), table
        settle(plane, [])
        assert plane.planner.violations() == []
        check_tables(plane)
        assert plane.planner.topology == plane.topology


def ack_all(plane: ControlPlane) -> list[Any]:
    epoch, told = plane.epoch, []
    for region in sorted(plane.planner.regions):
        told += plane.acknowledge(region, epoch)
    return told


def settle(plane: ControlPlane, _: list[Any]) -> None:
    """Acknowledge until nothing is going on."""
    for _ in range(200):
        if plane.coordinator.phase == "idle":
            return
        ack_all(plane)
    pytest.fail("the coordinator never comes to rest")


@PROPERTY
@given(STEPS, CPU)
def test_explaining_a_change_changes_nothing_and_says_what_then_happens(steps: list[Any], cpu: float) -> None:
    plane = control(tree(cpu), automatic=True)
    for k in range(4):
        plane.submit(query_of(k, f"q{k}", k, k))
    for what, _, a, b in steps:
        change = change_of(plane.topology, what, a, b)
        if change is None:
            continue
        before, numbers = snapshot(plane), plane.planner.subplans.numbers()
        text = plane.explain_change([change])
        assert snapshot(plane) == before
        assert plane.planner.subplans.numbers() == numbers
        for publish in plane.change([change]):
            if isinstance(publish, Publish):
                for context in publish.contexts:
                    assert context.dqp in text
                for step_ in publish.steps:
                    assert str(step_.instance) in text


@PROPERTY
@given(STEPS)
def test_queries_with_equal_beginnings_share_instances_and_removing_one_leaves_the_others(steps: list[Any]) -> None:
    plane = control(automatic=True)
    wanted: dict[QueryId, tuple[int, int, int]] = {}
    for number, (_, how, a, b) in enumerate(steps):
        query = query_of(how, f"q{number}", a, b)
        plane.submit(query)
        wanted[query.id] = (how % 4, a, b % 2)
    for query in sorted(wanted)[::2]:
        plane.withdraw(query)
        del wanted[query]
    alone: dict[InstanceId, int] = {}
    for query in plane.planner.plan.queries:  # those that others tap among them
        assert query in wanted or plane.planner.plan.readers_of(query)
        for shared in plane.planner.plan.uses(query).values():
            alone[shared] = alone.get(shared, 0) + 1
    assert set(alone) == set(plane.planner.plan.instances)
    assert plane.planner.violations() == []
    check_tables(plane)
