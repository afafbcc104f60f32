"""The variables of the reduced model (`reduced.py`), by what they decide."""

from __future__ import annotations

from dataclasses import dataclass, field

from godwit.admission.highs import Programme
from godwit.admission.model import Floats
from godwit.admission.scope import PlanningScope

Pair = tuple[int, int]
Terms = list[tuple[int, float]]


@dataclass
class Reduced:
    """Variables by (host, stream) or (host, operator); `scale` turns objective units into solver units."""

    scope: PlanningScope
    hosts: list[int]
    #: CPU an operator may still use at a host without making the plan worse than the incumbent
    cap: Floats
    scale: float
    programme: Programme = field(default_factory=Programme)
    runs: dict[Pair, int] = field(default_factory=dict)
    gets: dict[Pair, int] = field(default_factory=dict)
    copies: dict[Pair, int] = field(default_factory=dict)
    serves: dict[Pair, int] = field(default_factory=dict)

    def rate(self, stream: int) -> float:
        """rho_s."""
        return self.scope.catalog.streams[stream].rate

    def made(self, host: int, stream: int) -> list[int]:
        """Variables of the operators that make the stream at the host."""
        return [self.runs[host, o] for o in self.scope.catalog.makers[stream] if (host, o) in self.runs]

    def available(self, host: int, stream: int) -> Terms | None:
        """The terms that sum to 1 where the stream is available; None where it starts for good."""
        if stream in self.scope.origins[host]:
            return None
        terms = [(column, 1.0) for column in self.made(host, stream)]
        return terms + ([(self.gets[host, stream], 1.0)] if (host, stream) in self.gets else [])
