"""What a change of plan really did, as a value: each phase with its time, rows and bytes, the longest silence, and the
forecast that it is to be compared with. Kept in the fleet's folder; `godwit history N` shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

#: the document, and how many of the newest changes it has
PLAN_CHANGES, KEPT = "plan_changes", 100


@dataclass(frozen=True)
class PlanPhase:
    """`switch`: another version takes over; `left`: an old one's state is there for it; `release`, `retire`."""

    phase: str
    #: wall clock, seconds
    at: float
    version: str
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class PlanChangeRecord:
    query: str
    order: str
    strategy: str
    began: float
    versions: tuple[str, ...] = ()
    phases: tuple[PlanPhase, ...] = ()
    #: the longest time without a result, in the change and (`calm_s`) the longest between the last results before it
    silence_s: float = 0.0
    calm_s: float = 0.0
    #: rows that were taken in meanwhile
    rows: int = 0
    ended: float | None = None
    #: why it went back to the old plan; empty: it did not
    reverted: str = ""
    #: name of a quantity -> what was expected of it
    forecast: Mapping[str, float] | None = None

    def with_phase(self, phase: PlanPhase) -> PlanChangeRecord:
        versions = self.versions if phase.version in self.versions else (*self.versions, phase.version)
        return replace(self, versions=versions, phases=(*self.phases, phase))

    @property
    def length_s(self) -> float | None:
        return None if self.ended is None else self.ended - self.began

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> PlanChangeRecord:
        phases = tuple(PlanPhase(**phase) for phase in record["phases"])
        return PlanChangeRecord(**{**record, "versions": tuple(record["versions"]), "phases": phases})

    def text(self) -> str:
        """For people."""
        length = "under way" if self.length_s is None else f"{self.length_s * 1000:.0f} ms"
        silence = f"longest silence {self.silence_s * 1000:.0f} ms (before it {self.calm_s * 1000:.0f} ms)"
        lines = [
            f"plan of {self.query} to {self.order} by {self.strategy}: {length}, {silence}, {self.rows:,} rows came"
        ]
        for phase in self.phases:
            state = f", {phase.rows:,} rows, {phase.bytes:,} bytes" if phase.rows or phase.bytes else ""
            lines.append(f"  +{(phase.at - self.began) * 1000:.0f} ms: {phase.phase} {phase.version}{state}")
        lines += [f"  went back to the old plan: {self.reverted}"] if self.reverted else []
        told = {"length_s": self.length_s, "silence_s": self.silence_s}
        for name, expected in (self.forecast or {}).items():
            was = told.get(name)
            lines.append(f"  {name}: forecast {expected:.3g}" + ("" if was is None else f", was {was:.3g}"))
        return "\n".join(lines)
