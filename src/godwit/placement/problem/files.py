"""Placement problems as files: YAML or JSON, unknown keys refused. The how-to on algorithms has an example."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from godwit.errors import DataError, PlacementError
from godwit.placement.cost_models.cost import CostModel, CostTables, Objective
from godwit.placement.problem.build import build_problem
from godwit.placement.problem.constraints import Constraints
from godwit.placement.problem.network import Network, NetworkLink, NetworkSite
from godwit.placement.problem.problem import PlanVector, Problem
from godwit.placement.problem.workflow import DataEdge, Workflow, WorkflowOperator
from godwit.placement.published.instances import SpeedModel
from godwit.validation import worded
from godwit.yaml_files import parse_yaml, read_yaml


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=True)


class OperatorSpec(_Strict):
    """See `WorkflowOperator`."""

    name: str
    platforms: list[str] | None = None
    cpu: float = 0.0
    work: float = 1.0
    state_mb: float = 0.0
    cloud_only: bool = False


class EdgeSpec(_Strict):
    """See `DataEdge`."""

    source: str
    target: str
    mbps: float = 1.0


class WorkflowSpec(_Strict):
    """Operators and edges."""

    name: str = "workflow"
    operators: list[OperatorSpec]
    edges: list[EdgeSpec] = []


class SiteSpec(_Strict):
    """See `NetworkSite`."""

    name: str
    platforms: list[str] = ["any"]
    cpu: float = math.inf
    mips: float = 1000.0
    kind: str = "site"
    region: str = ""


class LinkSpec(_Strict):
    """See `NetworkLink`."""

    a: str
    b: str
    latency_ms: float
    mbps: float = math.inf


class NetworkSpec(_Strict):
    """Sites and links."""

    sites: list[SiteSpec]
    links: list[LinkSpec] = []


class ProblemPlace(_Strict):
    """Where an operator is; the platform may be left out where the site has one only."""

    site: str
    platform: str | None = None


class ConstraintSpec(_Strict):
    """See `Constraints`."""

    pinned: dict[str, list[str]] = {}
    apart: list[tuple[str, str]] = []
    stay_in: dict[str, str] = {}
    cpu: bool = False
    links: bool = False
    latency_limit_ms: float | None = None


class Weights(_Strict):
    """See `Objective.weighted`."""

    throughput: float = 0.25
    latency: float = 0.25
    traffic: float = 0.25
    migration: float = 0.25


class ProblemSpec(_Strict):
    """The whole file."""

    workflow: WorkflowSpec
    network: NetworkSpec
    #: the deployed plan; left out: every operator on its quickest action
    root: dict[str, ProblemPlace] | None = None
    #: "latency", or weights
    objective: str | Weights = "latency"
    constraints: ConstraintSpec = Field(default_factory=ConstraintSpec)
    #: measured latencies, operator -> site -> ms; the others are work / mips
    latency_ms: dict[str, dict[str, float]] = {}


def read_problem(
    path: Path, *, model: CostModel | None = None, objective: Objective | None = None, text: str | None = None
) -> Problem:
    """A problem from a file (or from its text, where given); every fault names its place."""
    content = read_yaml(path, DataError) if text is None else parse_yaml(text, str(path), DataError)
    try:
        spec = ProblemSpec.model_validate(content)
    except ValidationError as fault:
        msg = f"{path} does not describe a placement problem: {'; '.join(worded(fault.errors(), ProblemSpec)[:5])}"
        raise DataError(msg) from None
    return build(spec, model, objective)


def build(spec: ProblemSpec, model: CostModel | None = None, objective: Objective | None = None) -> Problem:
    """The problem a file describes."""
    workflow = Workflow(
        spec.workflow.name,
        tuple(_operator(o) for o in spec.workflow.operators),
        tuple(DataEdge(e.source, e.target, e.mbps) for e in spec.workflow.edges),
    )
    network = Network(
        tuple(_site(s) for s in spec.network.sites),
        tuple(NetworkLink(k.a, k.b, k.latency_ms, k.mbps) for k in spec.network.links),
    )
    tables = _measured((model or SpeedModel()).tables(workflow, network), spec, workflow, network)
    constraints = _constraints(spec.constraints)
    constraints.check(workflow, network)
    root = _root(spec, workflow, network, np.where(constraints.allowed(workflow, network), tables.latency, math.inf))
    return build_problem(workflow, network, tables, root, objective or _objective(spec), constraints)


def _operator(o: OperatorSpec) -> WorkflowOperator:
    platforms = None if o.platforms is None else frozenset(o.platforms)
    return WorkflowOperator(o.name, platforms, o.cpu, o.work, o.state_mb, o.cloud_only)


def _site(s: SiteSpec) -> NetworkSite:
    return NetworkSite(s.name, tuple(s.platforms), s.cpu, s.mips, s.kind, s.region)


def _constraints(c: ConstraintSpec) -> Constraints:
    pinned = tuple((name, tuple(sites)) for name, sites in c.pinned.items())
    return Constraints(pinned, tuple(c.apart), tuple(c.stay_in.items()), c.cpu, c.links, c.latency_limit_ms)


def _objective(spec: ProblemSpec) -> Objective:
    if isinstance(spec.objective, Weights):
        return Objective.weighted(**spec.objective.model_dump())
    if spec.objective != "latency":
        msg = (
            f"objective {spec.objective!r} is unknown; write latency, or weights for {', '.join(Weights.model_fields)}"
        )
        raise DataError(msg)
    return Objective.latency_only()


def _measured(tables: CostTables, spec: ProblemSpec, workflow: Workflow, network: Network) -> CostTables:
    latency = tables.latency.copy()
    for name, by_site in spec.latency_ms.items():
        for site, value in by_site.items():
            if name not in workflow.index or site not in network.index:
                lacking = "site" if name in workflow.index else "operator"
                msg = f"latency_ms names {name} on {site}, but there is no such {lacking}"
                raise DataError(msg)
            here = [a for a, (s, _) in enumerate(network.actions) if s == network.index[site]]
            latency[workflow.index[name], here] = value
    return CostTables(latency, tables.throughput, tables.mbps, tables.restart_ms, tables.distance_factor)


def _root(spec: ProblemSpec, workflow: Workflow, network: Network, latency: np.ndarray) -> PlanVector:
    if spec.root is None:
        return tuple(int(a) for a in np.argmin(latency, axis=1))
    unknown = sorted(set(spec.root) - set(workflow.index))
    if unknown:
        msg = f"root places the unknown operators {', '.join(unknown)}; the workflow has {', '.join(workflow.index)}"
        raise DataError(msg)
    plan = []
    for operator in workflow.operators:
        if operator.name not in spec.root:
            msg = f"root does not place {operator.name!r}; give every operator a site"
            raise DataError(msg)
        plan.append(_action(network, operator.name, spec.root[operator.name]))
    return tuple(plan)


def _action(network: Network, operator: str, place: ProblemPlace) -> int:
    fits: list[Any] = [
        a
        for a, (s, p) in enumerate(network.actions)
        if network.sites[s].name == place.site and place.platform in (None, p)
    ]
    if len(fits) == 1:
        return int(fits[0])
    problem = "the network does not offer that" if not fits else "that site has several platforms: name one"
    msg = f"root places {operator} on {place.site} ({place.platform or 'any platform'}): {problem}"
    raise PlacementError(msg)
