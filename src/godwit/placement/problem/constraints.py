"""Hard constraints: what a plan must not do, whatever it costs.

Pins and 'data must not leave this region' become forbidden actions before any search; the others are checked on
whole plans. `clash.py` says which ones contradict each other when nothing is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from godwit.errors import PlacementError
from godwit.placement.problem.network import Network
from godwit.placement.problem.workflow import Workflow


@dataclass(frozen=True)
class Constraints:
    """Empty by default: then every action that can run is allowed."""

    #: operator -> the sites it may be on
    pinned: tuple[tuple[str, tuple[str, ...]], ...] = ()
    #: operators that may not share a site
    apart: tuple[tuple[str, str], ...] = ()
    #: (operator, region): it, the readers of its output, and the way between them stay inside the region
    stay_in: tuple[tuple[str, str], ...] = ()
    #: respect NetworkSite.cpu
    cpu: bool = False
    #: respect NetworkLink.mbps
    links: bool = False
    #: upper bound on the plan's latency
    latency_limit_ms: float | None = None
    #: CPU of a site that others have taken
    cpu_taken: tuple[tuple[str, float], ...] = field(default=())

    @property
    def any_joint(self) -> bool:
        """True where allowed actions alone do not decide: whole plans must be checked."""
        return bool(self.apart or self.stay_in or self.cpu or self.links or self.latency_limit_ms is not None)

    def parts(self) -> list[tuple[str, Constraints]]:
        """Each single demand with words for it; `combine` puts chosen ones together again."""
        single: list[tuple[str, Constraints]] = []
        for name, sites in self.pinned:
            single.append((f"{name} pinned to {' or '.join(sites)}", Constraints(pinned=((name, sites),))))
        for a, b in self.apart:
            single.append((f"{a} apart from {b}", Constraints(apart=((a, b),))))
        for name, region in self.stay_in:
            single.append((f"data of {name} stays in region {region}", Constraints(stay_in=((name, region),))))
        if self.cpu:
            single.append(("CPU of the sites", Constraints(cpu=True, cpu_taken=self.cpu_taken)))
        if self.links:
            single.append(("capacity of the links", Constraints(links=True)))
        if self.latency_limit_ms is not None:
            words = f"latency at most {self.latency_limit_ms:g} ms"
            single.append((words, Constraints(latency_limit_ms=self.latency_limit_ms)))
        return single

    @staticmethod
    def combine(parts: list[Constraints]) -> Constraints:
        """The union of single demands."""
        merged = Constraints()
        for part in parts:
            for f in fields(Constraints):
                value = getattr(part, f.name)
                if value == f.default or value == ():
                    continue
                old = getattr(merged, f.name)
                merged = replace(merged, **{f.name: old + value if isinstance(value, tuple) else value})
        return merged

    def check(self, workflow: Workflow, network: Network) -> None:
        """Refuse names that were not declared."""
        operators = (
            [n for n, _ in self.pinned] + [n for pair in self.apart for n in pair] + [n for n, _ in self.stay_in]
        )
        for name in operators:
            if name not in workflow.index:
                msg = f"a constraint names the unknown operator {name!r}; the workflow has {', '.join(workflow.index)}"
                raise PlacementError(msg)
        for site in [s for _, sites in self.pinned for s in sites] + [s for s, _ in self.cpu_taken]:
            if site not in network.index:
                msg = f"a constraint names the unknown site {site!r}; check its spelling against the network"
                raise PlacementError(msg)
        regions = {s.region for s in network.sites}
        for name, region in self.stay_in:
            if region not in regions:
                known = ", ".join(sorted(regions))
                msg = f"{name} must stay in region {region!r}, but no site is in it; regions: {known}"
                raise PlacementError(msg)
        for a, b in self.apart:
            if a == b:
                msg = f"{a} cannot be apart from itself; name two operators"
                raise PlacementError(msg)

    def allowed(self, workflow: Workflow, network: Network) -> NDArray[np.bool_]:
        """Operators x actions: False where pins, regions or capability tags forbid it."""
        site = np.array([s for s, _ in network.actions])
        platform = np.array([p for _, p in network.actions])
        mask = np.ones((len(workflow.operators), len(site)), dtype=np.bool_)
        kinds = np.array([network.sites[s].kind.upper() for s in site])
        for o, operator in enumerate(workflow.operators):
            if operator.platforms is not None:
                mask[o] &= np.isin(platform, sorted(operator.platforms))
            if operator.cloud_only:
                mask[o] &= kinds == "CLOUD"
        for name, sites in self.pinned:
            mask[workflow.index[name]] &= np.isin(site, [network.index[s] for s in sites])
        regions = np.array([network.sites[s].region for s in site])
        for name, region in self.stay_in:
            o = workflow.index[name]
            for bound in [o, *workflow.graph.successors(o)]:
                mask[bound] &= regions == region
        return mask
