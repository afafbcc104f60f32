"""The plan node of a join that keeps no intermediate rows: a new row probes the other streams in turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from godwit.model.plan import Join, Operator, StateSpec, pretty, seconds


@dataclass(frozen=True)
class ProbedStream:
    """One input."""

    alias: str
    columns: tuple[str, ...]
    #: the column by which its rows are paired, and how far that lags behind the query's watermark
    time: str
    lag_us: int
    #: for how long after its time a row can be part of new results
    stays_us: int


@dataclass(frozen=True)
class ProbeJoin(Operator):
    """All combinations of a row of each input for which the conditions hold, as a tree of `joins` would make them.

    In which order a row probes the other inputs is no part of the node but of the query (`Query.probes`): the order is
    changed by changing that row of the deployment. Output: all columns of all inputs.
    """

    inputs: tuple[int, ...]
    streams: tuple[ProbedStream, ...]
    #: what is demanded, as joins of two; their inputs say nothing
    joins: tuple[Join, ...]
    #: (column, its type), where it is known
    types: tuple[tuple[str, str], ...] = ()
    per_device: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    selectivity: ClassVar[float] = 0.5
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "merge"

    @property
    def state(self) -> tuple[StateSpec, ...]:
        # (streams may be joined by different keys, so that no key divides all of them)
        return tuple(StateSpec((), stream.time, stream.lag_us) for stream in self.streams)

    @property
    def reach_us(self) -> int | None:
        return max(stream.stays_us for stream in self.streams) + 1

    @property
    def told_apart(self) -> None:
        """Its rows have no class."""
        return None

    @property
    def keeps(self) -> str:
        kept = ", ".join(f"{stream.alias} {seconds(stream.stays_us)}" for stream in self.streams)
        return f"rows of each stream until the watermark is past them by: {kept}; nothing that is made of them"

    def describe(self) -> str:
        said = [join.describe().removeprefix("Join ") for join in self.joins]
        return pretty(f"Probe {', '.join(s.alias for s in self.streams)} ON {' AND '.join(said)}")
