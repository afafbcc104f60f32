"""What a redeployment strategy is given and must produce, and the table of strategies by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from godwit.control.evacuation import leaving
from godwit.control.events import (
    DeviceFeeds,
    DevicesForgotten,
    PlacedByHand,
    PlacesHinted,
    PlanChanged,
    QueryAdjusted,
    QuerySubmitted,
    QueryWithdrawn,
    RegionEvacuated,
    Request,
    StreamDeclared,
)
from godwit.control.key_routes import route_keys
from godwit.control.plan_state import Planner
from godwit.control.plan_versions import adjust_query, change_plan
from godwit.control.stage import Stage
from godwit.errors import ConfigError
from godwit.migration.key_migrations import RouteKeys
from godwit.model.change_text import summary
from godwit.model.changes import Change
from godwit.model.global_plan import Edge
from godwit.model.instances import InstanceId
from godwit.model.topology import Topology

#: name -> (module beside this one, function)
STRATEGIES: dict[str, tuple[str, str]] = {
    "incremental": ("incremental", "stages"),
    "holistic-serial": ("holistic", "serial"),
    "holistic-concurrent": ("holistic", "concurrent"),
}


@dataclass(frozen=True)
class ChangeBatch:
    """Everything that waited: changes of the topology (and what it is after them), queries that come and go."""

    topology: Topology
    changes: tuple[Change, ...] = ()
    requests: tuple[Request, ...] = ()

    @property
    def cause(self) -> str:
        said = [summary(change) for change in self.changes] + [_asked(request) for request in self.requests]
        return "; ".join(said[:5]) + (f" and {len(said) - 5} more" if len(said) > 5 else "") or "parked queries"


class Redeployment(Protocol):
    """Plan the batch and return the stages to publish one after the other, each when the one before is in force."""

    def __call__(self, planner: Planner, batch: ChangeBatch) -> list[Stage]: ...


def redeployment(name: str) -> Redeployment:
    if name not in STRATEGIES:
        msg = f"there is no redeployment strategy '{name}'; choose one of {', '.join(STRATEGIES)}"
        raise ConfigError(msg)
    module, function = STRATEGIES[name]
    return cast(Redeployment, getattr(import_module(f"godwit.control.redeploy.{module}"), function))


def ground_first(planner: Planner, batch: ChangeBatch) -> tuple[list[InstanceId], set[Edge]]:
    """The part that every strategy begins with: queries that left make room, then the ground changes."""
    for request in batch.requests:
        if isinstance(request, QueryWithdrawn):
            planner.remove_query(request.query)
        elif isinstance(request, DeviceFeeds):
            planner.feed(request.device, request.streams)
        elif isinstance(request, DevicesForgotten):
            planner.forget(request.devices)
        elif isinstance(request, PlacesHinted):
            planner.hint(request.hints)
        elif isinstance(request, PlacedByHand):
            planner.pin(request.placement)
        elif isinstance(request, RegionEvacuated):
            planner.ask_again(leaving(planner, request.region))
        elif isinstance(request, StreamDeclared):
            planner.declare(request.stream)
    return planner.take_changes(batch.topology, batch.changes)


def newcomers_last(planner: Planner, requests: Iterable[Request]) -> None:
    """The part that every strategy ends with: who waits longest is served first."""
    planner.resume_parked()
    for request in requests:
        if isinstance(request, QuerySubmitted):
            planner.add_query(request.query, request.sink, request.hints, request.ways)
        elif isinstance(request, PlanChanged):
            change_plan(planner, request)
        elif isinstance(request, QueryAdjusted):
            adjust_query(planner, request)
        elif isinstance(request, RouteKeys):
            route_keys(planner, request)


def _asked(request: Request) -> str:
    match request:
        case QuerySubmitted(query):
            return f"query '{query.id}' submitted"
        case PlanChanged(old, query, others=others):
            more = f", and {len(others)} that share operators with it" if others else ""
            return f"query '{old}' goes on as '{query.id}', with another plan{more}"
        case QueryAdjusted(query_id, probes, successor):
            if successor:
                return f"query '{query_id}' keeps all rows for another plan"
            if probes:
                return f"query '{query_id}' probes in the order {', '.join(probes)}"
            return f"query '{query_id}' stays"
        case QueryWithdrawn(query_id):
            return f"query '{query_id}' withdrawn"
        case DeviceFeeds(device, streams):
            return f"device '{device}' feeds {', '.join(streams)}"
        case DevicesForgotten(devices):
            return f"{len(devices)} devices that left are forgotten"
        case PlacesHinted(_, cause) | PlacedByHand(_, cause):
            return cause
        case RegionEvacuated(region):
            return f"region '{region}' is silent"
        case StreamDeclared(stream):
            added = f", with {', '.join(stream.added)} added" if stream.added else ""
            return f"stream '{stream.id}' declared{added}"
        case RouteKeys():
            return request.cause
