"""The workloads there are, by name, each with its query from `queries/`."""

from __future__ import annotations

from importlib import resources

from godwit.errors import ConfigError
from godwit.workloads import linear_road, nexmark, riot, traffic, ysb
from godwit.workloads.base import StreamWorkload


def _sql(name: str) -> str:
    return (resources.files("godwit.workloads") / "queries" / f"{name}.sql").read_text(encoding="utf-8")


def _riot(shape: str) -> dict[str, StreamWorkload]:
    """The four applications over one data set; TRAIN is two queries (`riot_train.py`)."""
    suffix, made = "" if shape == "sys" else f"-{shape}", {}
    for name in ("riot-etl", "riot-stats", "riot-pred", "riot-features", "riot-train"):
        functions = (riot.grade(shape),) if name == "riot-pred" else ()
        tables = riot.references(shape) if name in ("riot-etl", "riot-pred") else ()
        parts = (riot.text(_sql(name), shape), riot.observations(shape), tables, functions)
        made[f"{name}{suffix}"] = StreamWorkload(f"{name}{suffix}", (riot.OBSERVATIONS,), *parts)
    return made


WORKLOADS: dict[str, StreamWorkload] = {
    "tm": StreamWorkload("tm", (traffic.SPEEDS,), _sql("tm"), traffic.speeds),
    "nq5": StreamWorkload("nq5", (nexmark.BID,), _sql("nq5"), nexmark.events),
    "nq6": StreamWorkload("nq6", (nexmark.AUCTION,), _sql("nq6"), nexmark.events),
    "nq7": StreamWorkload("nq7", (nexmark.BID,), _sql("nq7"), nexmark.events),
    "nq8": StreamWorkload("nq8", (nexmark.PERSON, nexmark.AUCTION), _sql("nq8"), nexmark.events),
    "lr-tn": StreamWorkload("lr-tn", (linear_road.POSITIONS,), _sql("lr-tn"), linear_road.reports),
    "lr-an": StreamWorkload("lr-an", (linear_road.POSITIONS,), _sql("lr-an"), linear_road.reports),
    "ysb": StreamWorkload("ysb", (ysb.AD_EVENTS,), _sql("ysb"), ysb.ad_events, (ysb.TABLE,)),
    **{name: made for shape in riot.SHAPES for name, made in _riot(shape).items()},
}


def named(name: str) -> StreamWorkload:
    """A workload; ConfigError lists those there are."""
    if name not in WORKLOADS:
        msg = f"there is no workload '{name}'; there are {', '.join(sorted(WORKLOADS))}"
        raise ConfigError(msg)
    return WORKLOADS[name]
