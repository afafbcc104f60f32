"""Every message that a wrong workflow, network or table can bring up."""

import math

import numpy as np
import pytest

from godwit.errors import PlacementError
from godwit.placement.cost_models.cost import CostTables, Objective
from godwit.placement.problem.build import build_problem
from godwit.placement.problem.network import Network, NetworkLink, NetworkSite
from godwit.placement.problem.workflow import DataEdge, Workflow, WorkflowOperator
from tests.placement.helpers import random_problem


def workflow(*edges, names="abc"):
    return Workflow("w", tuple(WorkflowOperator(n) for n in names), tuple(DataEdge(*e) for e in edges))


@pytest.mark.parametrize(
    ("edges", "names", "words"),
    [
        (["ab", "bc", "ca"], "abc", "is cyclic: a -> b -> c -> a"),
        (["aa"], "a", "is cyclic: a -> a"),
        (["ax"], "a", "unknown operators x"),
        ([], "aab", "names a more than once"),
        (["ab", "ab"], "ab", "a -> b twice"),
        ([], "", "has no operators"),
    ],
)
def test_bad_workflows(edges, names, words):
    with pytest.raises(PlacementError, match=words):
        workflow(*edges, names=names)


@pytest.mark.parametrize("mbps", [math.nan, -1.0, math.inf])
def test_bad_edge_weight(mbps):
    with pytest.raises(PlacementError, match="edge a -> b: mbps"):
        workflow(("a", "b", mbps))


def test_bad_operator_number():
    with pytest.raises(PlacementError, match="operator 'a': cpu is -1"):
        Workflow("w", (WorkflowOperator("a", cpu=-1),), ())


def sites(*names):
    return tuple(NetworkSite(n) for n in names)


@pytest.mark.parametrize(
    ("nodes", "links", "words"),
    [
        ((), (), "network is empty"),
        (sites("x", "x"), (), "'x' appears more than once"),
        (sites("x", "y", "z"), (NetworkLink("x", "y", 1.0),), "falls into 2 parts: z cannot be reached from x"),
        (sites("x"), (NetworkLink("x", "q", 1.0),), "unknown site 'q'"),
        (sites("x", "y"), (NetworkLink("x", "y", math.nan),), "latency is nan"),
        (sites("x", "y"), (NetworkLink("x", "y", -1.0),), "latency is -1"),
        (sites("x", "y"), (NetworkLink("x", "y", 1.0, -5.0),), "bandwidth is -5"),
        ((NetworkSite("x", mips=0.0),), (), "must be positive"),
    ],
)
def test_bad_networks(nodes, links, words):
    with pytest.raises(PlacementError, match=words):
        Network(nodes, links)


def build(latency=None, throughput=None, root=(0, 0), mbps=(1.0,), platforms=None):
    flow = Workflow("w", (WorkflowOperator("a", platforms), WorkflowOperator("b")), (DataEdge("a", "b"),))
    network = Network(sites("x", "y"), (NetworkLink("x", "y", 1.0),))
    good = np.ones((2, 2))
    tables = CostTables(
        good if latency is None else np.array(latency),
        good if throughput is None else np.array(throughput),
        np.array(mbps),
        np.zeros(2),
        np.ones(2),
    )
    return build_problem(flow, network, tables, root)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"latency": [[1, math.nan], [1, 1]]}, r"latency of a on y \(any\) is nan"),
        ({"latency": [[1, 1], [-2, 1]]}, r"latency of b on x \(any\) is -2"),
        ({"throughput": [[1, 1], [1, -1]]}, "throughput of b on y"),
        ({"latency": [[math.inf, math.inf], [1, 1]]}, "a can run nowhere"),
        ({"latency": [[1.0, 1.0]]}, "there are 2 operators and 2 actions"),
        ({"mbps": [-1.0]}, "mbps has a negative"),
        ({"root": (0,)}, "places 1 operators"),
        ({"root": (0, 7)}, "uses action 7"),
        ({"platforms": frozenset({"gpu"})}, "a can run nowhere"),
    ],
)
def test_bad_tables(wrong, words):
    with pytest.raises(PlacementError, match=words):
        build(**wrong)


@pytest.mark.parametrize("weights", [(0, 0, 0, 0), (-1, 1, 1, 1), (math.nan, 1, 1, 1)])
def test_bad_weights(weights):
    with pytest.raises(PlacementError, match="must be at least 0 and not all 0"):
        Objective.weighted(*weights)


def test_plans_by_name_both_ways():
    problem = random_problem(2, platforms=2)
    assert problem.plan_of(problem.describe(problem.root)) == problem.root
    with pytest.raises(PlacementError, match="does not place"):
        problem.plan_of({})
    where = problem.describe(problem.root) | {"op0": ("nowhere", "p0")}
    with pytest.raises(PlacementError, match="the network does not offer"):
        problem.plan_of(where)


def test_distances_of_a_graph_are_symmetric_and_take_the_short_way():
    links = (
        NetworkLink("a", "b", 1.0),
        NetworkLink("b", "c", 1.0),
        NetworkLink("a", "c", 5.0),
        NetworkLink("c", "d", 0.0),
    )
    paths = Network(sites("a", "b", "c", "d"), links).paths
    assert (paths.distance == paths.distance.T).all()
    assert paths.distance[0].tolist() == [0.0, 1.0, 2.0, 2.0]
    assert paths.hops[0].tolist() == [0, 1, 2, 3]
    assert paths.before[0, 3] == 2
