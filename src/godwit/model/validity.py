"""The three conditions under which a set of sub-plans is valid (ISQD, Section 2), checked from scratch.

1. Placement: every sub-plan holds exactly the connected instances that are placed on its node.
2. Connectivity: there is a path between the nodes of every two instances that an edge connects. A device that is
   attached nowhere sends nothing, so its edges ask for no path.
3. State: the state of every stateful instance is where the instance is, or an announced hand-over or replay brings it.

Nothing here is incremental: this is what the incremental code is measured by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from godwit.ids import DeviceId, DqpId, NodeId, SiteId
from godwit.model.components import connected
from godwit.model.global_plan import GlobalPlan
from godwit.model.instances import InstanceId
from godwit.model.subplan import Dqp, Placement, connections, decompose
from godwit.model.topology import Topology


@dataclass(frozen=True)
class Violation:
    """One fault: which condition, what it is about, what is wrong."""

    condition: int
    about: str
    what: str

    def __str__(self) -> str:
        return f"condition {self.condition}: {self.about}: {self.what}"


@dataclass(frozen=True)
class OnTheWay:
    """State that was announced: from a node (None: made again from the sources) to another."""

    source: NodeId | None
    target: NodeId


def violations(
    plan: GlobalPlan,
    topology: Topology,
    placement: Placement,
    dqps: Mapping[DqpId, Dqp],
    state_at: Mapping[InstanceId, Iterable[NodeId]] | None = None,
    announced: Mapping[InstanceId, Iterable[OnTheWay]] | None = None,
) -> list[Violation]:
    """Every violation of the three conditions; none: the deployment is valid.

    `state_at` lists for each stateful instance the nodes that hold part of its state (without it, condition 3 is not
    checked), `announced` what is on its way.
    """
    found = [*_placements(plan, topology, placement, dqps), *_connectivity(plan, topology, placement)]
    if state_at is not None:
        found += _state(plan, placement, state_at, announced or {})
    return found


def _placements(
    plan: GlobalPlan, topology: Topology, placement: Placement, dqps: Mapping[DqpId, Dqp]
) -> Iterator[Violation]:
    for instance, node in placement.items():
        if not topology.has(node):
            yield Violation(1, str(instance), f"is placed on '{node}', which is not in the topology")
        pinned = plan.instances[instance].pinned if instance in plan.instances else None
        if pinned is not None and pinned != node:
            yield Violation(1, str(instance), f"belongs on '{pinned}' and is placed on '{node}'")
    wanted = decompose(plan, placement)
    for dqp in dqps.values():
        for operator in sorted(dqp.operators):
            if placement.get(operator) != dqp.node:
                where = f"is placed on '{placement[operator]}'" if operator in placement else "has no place"
                yield Violation(1, dqp.id, f"runs {operator} on '{dqp.node}', which {where}")
        if dqp.operators not in wanted:
            yield Violation(1, dqp.id, "is not a maximal connected set of instances on one node")
        for wire in sorted(dqp.connections ^ connections(plan, placement, dqp.operators & placement.keys())):
            had = "has a connection that is not in the plan" if wire in dqp.connections else "lacks a connection"
            yield Violation(1, dqp.id, f"{had}: {wire[0]} - {wire[1]} on '{wire[2]}'")
    held = [operator for dqp in dqps.values() for operator in dqp.operators]
    for operator in sorted(placement.keys() - set(held)):
        yield Violation(1, str(operator), f"is placed on '{placement[operator]}' and no sub-plan runs it")
    for operator in sorted({o for o in held if held.count(o) > 1} if len(held) != len(set(held)) else ()):
        yield Violation(1, str(operator), "is run by more than one sub-plan")


def _connectivity(plan: GlobalPlan, topology: Topology, placement: Placement) -> Iterator[Violation]:
    part = _parts(topology)
    for producer, start in placement.items():
        device = topology.devices.get(DeviceId(start))
        if device is not None and device.site is None:
            continue
        for consumer in plan.consumers.get(producer, ()):
            end = placement.get(consumer)
            if end is not None and start != end and (start not in part or part.get(end) != part[start]):
                yield Violation(2, f"{producer} -> {consumer}", f"no path from '{start}' to '{end}'")


def _parts(topology: Topology) -> dict[NodeId, int]:
    """Each node's connected part of the topology; traffic passes sites, devices only begin or end it."""
    links = ((NodeId(link.a), NodeId(link.b)) for link in topology.links.values())
    found = connected((NodeId(site) for site in topology.sites), links)
    parts = {node: k for k, nodes in enumerate(found) for node in nodes}
    for device in topology.devices.values():
        if device.site is not None:
            parts[NodeId(device.id)] = parts[NodeId(SiteId(device.site))]
    return parts


def _state(
    plan: GlobalPlan,
    placement: Placement,
    state_at: Mapping[InstanceId, Iterable[NodeId]],
    announced: Mapping[InstanceId, Iterable[OnTheWay]],
) -> Iterator[Violation]:
    for instance, home in placement.items():
        if instance not in plan.instances or not plan.instances[instance].stateful:
            continue
        moves = tuple(announced.get(instance, ()))
        if any(move.source is None and move.target == home for move in moves):
            continue  # made again as a whole
        for node in state_at.get(instance, ()):
            if not _leads(node, home, moves):
                yield Violation(
                    3, str(instance), f"runs on '{home}' and has state on '{node}' that nothing brings there"
                )


def _leads(start: NodeId, end: NodeId, moves: tuple[OnTheWay, ...]) -> bool:
    reached, todo = {start}, [start]
    while todo:
        node = todo.pop()
        for move in moves:
            if move.source == node and move.target not in reached:
                reached.add(move.target)
                todo.append(move.target)
    return end in reached
