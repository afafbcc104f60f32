"""Top-down: every operator as near to the sink as capacities allow.

From the sink towards the sources. An operator goes where its consumer is, or to the first site with room from there
down, but not below the site where all the rows it needs first meet.
"""

from __future__ import annotations

from collections.abc import Sequence

from godwit.ids import NodeId
from godwit.model.instances import InstanceId
from godwit.model.routes import Way
from godwit.placement.rules.base import Infeasible, PlacementContext, each, is_pinned, meet


def place(ground: PlacementContext, todo: Sequence[InstanceId]) -> Infeasible | None:
    spans = source_ways(ground, todo)
    if isinstance(spans, Infeasible):
        return spans

    def one(instance: InstanceId) -> Infeasible | None:
        return ground.put_first(instance, _downwards(ground, instance, spans[instance]))

    scans_and_sinks = [i for i in todo if is_pinned(ground.plan.instances[i])]
    others = [i for i in reversed(todo) if not is_pinned(ground.plan.instances[i])]
    return each(ground, [*scans_and_sinks, *others], one)


def source_ways(ground: PlacementContext, todo: Sequence[InstanceId]) -> dict[InstanceId, Way] | Infeasible:
    """For each instance: the nodes that all its rows pass, wherever the operators below it end up."""
    spans: dict[InstanceId, Way] = {}
    for instance in todo:
        own = ground.plan.instances[instance]
        fixed = [ground.placement.get(p) for p in ground.plan.producers.get(instance, ()) if p not in spans]
        nodes = [own.pinned] if own.kind == "Scan" else fixed
        ways = [spans[p] for p in ground.plan.producers.get(instance, ()) if spans.get(p)]
        for node in nodes:
            if node is not None and not ground.away(node):
                way = ground.way(instance, node)
                if way is None:
                    return ground.no_path(instance, node)
                ways.append(way)
        # Ways to different roots (a producer shared with another query) do not meet; the instance's own root does.
        ways = [way for way in ways if way[-1] == ground.root[instance]]
        spans[instance] = meet(ways) if ways else ()
    return {i: span or (ground.root[i],) for i, span in spans.items()}


def _downwards(ground: PlacementContext, instance: InstanceId, span: Way) -> list[NodeId]:
    """The span from its consumer's node down; the rest of it, beyond the consumer, only after that."""
    consumers = [ground.placement.get(c) for c in sorted(ground.plan.consumers.get(instance, ()))]
    ends = [span.index(node) for node in consumers if node is not None and node in span]
    top = min(ends) if ends else len(span) - 1
    return [*reversed(span[: top + 1]), *span[top + 1 :]]
