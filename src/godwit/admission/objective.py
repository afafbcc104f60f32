"""O1 to O4 and their weighted sum, for any state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from godwit.admission.model import Catalog, HostNetwork, ObjectiveWeights
from godwit.admission.state import LedgerSnapshot


@dataclass(frozen=True)
class Objectives:
    """III.2: admitted queries, network use, CPU use, CPU of the busiest host."""

    admitted: int
    network: float
    cpu: float
    busiest: float

    def score(self, weights: ObjectiveWeights) -> float:
        """III.3, to be maximised."""
        spent = weights.network * self.network + weights.cpu * self.cpu + weights.balance * self.busiest
        return weights.admit * self.admitted - spent


def objectives(network: HostNetwork, catalog: Catalog, state: LedgerSnapshot) -> Objectives:
    """Measure a state."""
    load = np.zeros(max(len(network), 1))
    for host, operator in state.placed:
        load[host] += catalog.operators[operator].cpu
    sent = sum(catalog.streams[stream].rate for _, _, stream in state.flows)
    return Objectives(len(state.served), float(sent), float(load.sum()), float(load.max()))
