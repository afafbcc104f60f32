"""The workloads there are, by name, each with its query from `queries/`."""

from __future__ import annotations

from importlib import resources

from godwit.errors import ConfigError
from godwit.workloads import linear_road, nexmark, traffic
from godwit.workloads.base import StreamWorkload


def _sql(name: str) -> str:
    return (resources.files("godwit.workloads") / "queries" / f"{name}.sql").read_text(encoding="utf-8")


WORKLOADS: dict[str, StreamWorkload] = {
    "tm": StreamWorkload("tm", (traffic.SPEEDS,), _sql("tm"), traffic.speeds),
    "nq5": StreamWorkload("nq5", (nexmark.BID,), _sql("nq5"), nexmark.events),
    "nq6": StreamWorkload("nq6", (nexmark.AUCTION,), _sql("nq6"), nexmark.events),
    "nq7": StreamWorkload("nq7", (nexmark.BID,), _sql("nq7"), nexmark.events),
    "nq8": StreamWorkload("nq8", (nexmark.PERSON, nexmark.AUCTION), _sql("nq8"), nexmark.events),
    "lr-tn": StreamWorkload("lr-tn", (linear_road.POSITIONS,), _sql("lr-tn"), linear_road.reports),
    "lr-an": StreamWorkload("lr-an", (linear_road.POSITIONS,), _sql("lr-an"), linear_road.reports),
}


def named(name: str) -> StreamWorkload:
    """A workload; ConfigError lists those there are."""
    if name not in WORKLOADS:
        msg = f"there is no workload '{name}'; there are {', '.join(sorted(WORKLOADS))}"
        raise ConfigError(msg)
    return WORKLOADS[name]
