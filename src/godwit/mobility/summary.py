"""What a trace amounts to: trips, hand-overs, serving towers, dwell times, changes per second, rows left out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import numpy as np

from godwit.mobility.trace import Trace

PERCENTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Summary:
    """The figures of one trace."""

    devices: int
    duration_s: float
    attaches: int
    handovers: int
    detaches: int
    serving_sites: int
    #: 10th, 50th and 90th percentile of completed stays at a site, seconds of the trace
    dwell_s: tuple[float, float, float]
    #: attachment changes in the busiest second
    busiest_second: int
    #: positions looked at; 0 where they were not counted
    positions: int = 0
    #: table -> reason -> rows
    rejected: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def changes_per_s(self) -> float:
        """All attachment changes over the length of the trace."""
        return (self.attaches + self.handovers + self.detaches) / self.duration_s if self.duration_s else 0.0

    @property
    def handovers_per_s(self) -> float:
        """Hand-overs over the length of the trace."""
        return self.handovers / self.duration_s if self.duration_s else 0.0

    def to_json(self) -> str:
        """All figures, also the derived ones."""
        rates = {"changes_per_s": round(self.changes_per_s, 4), "handovers_per_s": round(self.handovers_per_s, 4)}
        return json.dumps(asdict(self) | rates, indent=2)

    def rows(self) -> list[tuple[str, str]]:
        """Name and value of each figure, for a table."""
        low, middle, high = self.dwell_s
        found = [
            ("trips (devices)", f"{self.devices:,}"),
            ("length", f"{self.duration_s:,.0f} s"),
            *([("positions", f"{self.positions:,}")] if self.positions else []),
            ("hand-overs", f"{self.handovers:,} ({self.handovers_per_s:.2f} per second)"),
            ("attaches / detaches", f"{self.attaches:,} / {self.detaches:,}"),
            ("changes", f"{self.changes_per_s:.2f} per second, {self.busiest_second} in the busiest"),
            ("serving towers", f"{self.serving_sites:,}"),
            ("dwell p10 / median / p90", f"{low:.1f} / {middle:.1f} / {high:.1f} s"),
        ]
        return found + [
            (f"left out of {table}", f"{count:,} x {reason}")
            for table, reasons in self.rejected.items()
            for reason, count in sorted(reasons.items(), key=lambda item: -item[1])
        ]


def summarise(trace: Trace) -> Summary:
    """The figures of a trace in memory. pipeline.py computes the same ones on Spark; a test compares the two."""
    kinds = Counter(event.kind for event in trace.events)
    seconds = Counter(event.t // 1000 for event in trace.events)
    since: dict[str, int] = {}
    stays = []
    for event in trace.events:
        if event.previous is not None:
            stays.append(event.t - since[event.device])
        since[event.device] = event.t
    dwell = np.quantile(stays, PERCENTILES) / 1000 if stays else np.zeros(3)
    return Summary(
        devices=len(trace.devices),
        duration_s=trace.duration_ms / 1000,
        attaches=kinds["attach"],
        handovers=kinds["handover"],
        detaches=kinds["detach"],
        serving_sites=len(trace.sites),
        dwell_s=(float(dwell[0]), float(dwell[1]), float(dwell[2])),
        busiest_second=max(seconds.values(), default=0),
    )
