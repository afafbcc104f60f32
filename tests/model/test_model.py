"""Paths, layered tables, sub-plans and validity against plain ways to say the same."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.control.events import Publish
from godwit.errors import TopologyError
from godwit.ids import NodeId, SiteId
from godwit.model.changes import DeviceMoved, LinkAdded, LinkRemoved, SiteFailed, SiteRemoved, apply
from godwit.model.instances import InstanceId
from godwit.model.journal import Journal
from godwit.model.layered import SMALL, Layered, TableBuilder
from godwit.model.routes import HOP_MS, SitePaths
from godwit.model.subplan import decompose
from godwit.model.topology import Device, Link, Site, Topology
from godwit.model.validity import OnTheWay, Violation, violations
from tests.control.worlds import aggregate, change_of, control, join, select, tree

SMALL_INT = st.integers(0, 15)
STEPS = st.lists(st.tuples(st.integers(0, 9), SMALL_INT, SMALL_INT), min_size=1, max_size=15)


named = InstanceId.parse


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_repaired_routes_are_as_short_as_new_ones(steps: list[Any]) -> None:
    topology = tree()
    journal = Journal()
    routes = SitePaths(topology, journal)
    root = NodeId("cloud")
    routes.way(NodeId("e1"), root)
    for kind, a, b in steps:
        change = change_of(topology, kind, a, b)
        if change is None:
            continue
        after = apply(topology, [change])
        links = topology.links.keys() ^ after.links.keys()
        links |= {k for k in topology.links.keys() & after.links.keys() if topology.links[k] != after.links[k]}
        routes.move_to(after, links)
        topology = after
        graph = nx.Graph()
        graph.add_nodes_from(topology.sites)
        graph.add_edges_from((link.a, link.b, {"w": link.ms + HOP_MS}) for link in topology.links.values())
        distance = nx.single_source_dijkstra_path_length(graph, root, weight="w") if root in graph else {}
        for site in topology.sites:
            way = routes.way(NodeId(site), root)
            assert (way is None) == (site not in distance)
            if way is not None:
                assert way[0] == site
                assert way[-1] == root
                length = sum(graph[x][y]["w"] for x, y in pairwise(way))
                assert length == pytest.approx(distance[site])


def test_undo_gives_routes_back() -> None:
    journal = Journal()
    routes = SitePaths(tree(), journal)
    before = routes.way(NodeId("e1"), NodeId("cloud"))
    mark = journal.mark()
    after = apply(tree(), [SiteRemoved(SiteId("f1"))])
    routes.move_to(after, [frozenset((SiteId("f1"), SiteId(x))) for x in ("cloud", "e1", "e2")])
    assert routes.way(NodeId("e1"), NodeId("cloud")) is None
    journal.undo(mark)
    assert routes.way(NodeId("e1"), NodeId("cloud")) == before


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, SMALL + 40), st.booleans()), max_size=60))
def test_a_layered_table_is_a_table(edits: list[tuple[int, bool]]) -> None:
    plain: dict[int, str] = {k: f"v{k}" for k in range(SMALL + 20)}
    table: Any = dict(plain)
    for key, put in edits:
        draft: TableBuilder[int, str] = TableBuilder(table)
        if put:
            plain[key] = draft[key] = f"w{key}"
        elif key in plain:
            del plain[key]
            del draft[key]
        else:
            with pytest.raises(KeyError):
                del draft[key]
        table = draft.frozen()
        assert len(table) == len(plain)
        assert (key in table) == (key in plain)
        assert table.get(key) == plain.get(key)
    assert dict(table) == plain
    assert table == plain


def test_a_large_topology_shares_its_tables() -> None:
    sites = [Site(SiteId(f"s{k}")) for k in range(2000)]
    topology = Topology.of(sites, [], [Device(f"d{k}", SiteId("s0")) for k in range(1000)])  # type: ignore[arg-type]
    after = apply(topology, [DeviceMoved("d1", SiteId("s1"))])  # type: ignore[arg-type]
    assert isinstance(after.devices, Layered)
    assert after.sites is not topology.sites or after.sites == topology.sites
    assert after.devices["d1"].site == "s1"  # type: ignore[index]
    assert topology.devices["d1"].site == "s0"  # type: ignore[index]
    with pytest.raises(TopologyError, match="no such device"):
        apply(after, [DeviceMoved("nobody", None)])  # type: ignore[arg-type]


def test_sub_plans_are_what_decompose_says() -> None:
    plane = control(automatic=True)
    for query in (aggregate("a"), join("j"), select("s", ["d1"])):
        plane.submit(query)
    plane.change([DeviceMoved("d1", SiteId("e3"))])  # type: ignore[arg-type]
    planner = plane.planner
    kept = {frozenset(ops) for ops in planner.subplans.operators.values()}
    assert kept == decompose(planner.plan, planner.ground.placement)


def test_what_is_tapped_is_one_set_of_instances() -> None:
    plane = control(automatic=True)
    plan = plane.planner.plan
    plane.submit(aggregate("one", ["d1", "d2"]))
    size = len(plan.instances)
    plane.submit(aggregate("two", ["d1", "d2"]))
    own = [instance for instance in plan.instances if instance.query == "two"]
    assert plan.uses("two")[named("two/0@d1")] == named("one/0@d1")  # type: ignore[arg-type]
    assert len(plan.instances) == size + len(own)
    assert not any(plan.instances[i].stateful or i.operator == 0 for i in own)
    plane.submit(aggregate("three", ["d1", "d2"], over="7"))  # (what it executes is its own)
    assert set(plan.uses("three").values()) == set(plan.uses("three"))  # type: ignore[arg-type]
    plane.withdraw("one")  # type: ignore[arg-type]
    assert named("one/0@d1") in plan.instances  # two still taps it
    assert plane.published.queries["one"].internal  # type: ignore[index]
    assert plane.planner.violations() == []
    plane.withdraw("two")  # type: ignore[arg-type]
    assert set(plan.queries) == set(plane.published.queries) == {"three"}


def valid() -> Any:
    plane = control(automatic=True)
    plane.submit(aggregate("q", ["d1", "d2"]))
    return plane.planner


def broken(planner: Any, **changed: Any) -> list[Violation]:
    parts = {
        "topology": planner.topology,
        "placement": dict(planner.ground.placement),
        "dqps": planner.subplans.all(),
        "state_at": {named("q/3"): ["f1"]},
        "announced": {},
    }
    return violations(planner.plan, **{**parts, **changed})


def test_the_running_example_is_valid() -> None:
    assert broken(valid()) == []


def test_condition_1_names_the_sub_plan_and_the_operator() -> None:
    planner = valid()
    found = broken(planner, placement={**planner.ground.placement, named("q/3"): "cloud"})
    assert Violation(1, "f1#1", "runs q/3 on 'f1', which is placed on 'cloud'") in found
    missing = {d: v for d, v in planner.subplans.all().items() if d != "f1#1"}
    assert Violation(1, "q/3", "is placed on 'f1' and no sub-plan runs it") in broken(planner, dqps=missing)
    elsewhere = broken(planner, placement={**planner.ground.placement, named("q/0@d1"): "d2"})
    assert Violation(1, "q/0@d1", "belongs on 'd1' and is placed on 'd2'") in elsewhere
    gone = broken(planner, topology=apply(planner.topology, [SiteFailed(SiteId("f1"))]))
    assert Violation(1, "q/3", "is placed on 'f1', which is not in the topology") in gone


def test_condition_2_names_both_ends_and_forgives_a_device_that_is_away() -> None:
    planner = valid()
    cut = apply(planner.topology, [LinkRemoved(SiteId("e1"), SiteId("f1"))])
    assert Violation(2, "q/2@d1 -> q/3", "no path from 'e1' to 'f1'") in broken(planner, topology=cut)
    away = apply(planner.topology, [DeviceMoved("d1", None)])  # type: ignore[arg-type]
    assert broken(planner, topology=away) == []


def test_condition_3_follows_announced_state() -> None:
    planner = valid()
    found = broken(planner, state_at={named("q/3"): ["e4"]})
    assert found == [Violation(3, "q/3", "runs on 'f1' and has state on 'e4' that nothing brings there")]
    chain = {named("q/3"): [OnTheWay(NodeId("e4"), NodeId("e3")), OnTheWay(NodeId("e3"), NodeId("f1"))]}
    assert broken(planner, state_at={named("q/3"): ["e4"]}, announced=chain) == []
    replay = {named("q/3"): [OnTheWay(None, NodeId("f1"))]}
    assert broken(planner, state_at={named("q/3"): ["e4"]}, announced=replay) == []


def test_a_shortcut_moves_nothing_that_need_not_move() -> None:
    plane = control(automatic=True)
    plane.submit(aggregate("q"))
    before = dict(plane.planner.ground.placement)
    told = plane.change([LinkAdded(Link(SiteId("e1"), SiteId("cloud"), ms=0.1))])
    assert plane.planner.ground.placement == before
    assert [one.delta.placement for one in told if isinstance(one, Publish)] == [{}]
