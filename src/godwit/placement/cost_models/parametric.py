"""Parametric cost model: one distribution an (operator, kind of device, platform), best of four by maximum likelihood.

Normal, Rayleigh, gamma and lognormal, as in APEROL's heterogeneous setup. Estimates are the fitted means, or a
quantile for the careful. A group that was never measured falls back to the operator on that platform, then to the
operator.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from godwit.errors import DataError
from godwit.placement.cost_models.cost import CostTables
from godwit.placement.problem.network import Network
from godwit.placement.problem.workflow import Workflow

VERSION = 1


#: a sample with less spread than this has no likelihood worth comparing
_FLAT = 1e-9


@dataclass(frozen=True)
class Fit:
    """A fitted distribution."""

    family: str
    #: (mean, deviation), (scale,), (shape, scale) or (mean of log, deviation of log)
    parameters: tuple[float, ...]
    log_likelihood: float
    count: int

    def frozen(self) -> Any:
        """The scipy distribution."""
        p = self.parameters
        if self.family == "normal":
            return stats.norm(p[0], p[1])
        if self.family == "rayleigh":
            return stats.rayleigh(scale=p[0])
        if self.family == "gamma":
            return stats.gamma(p[0], scale=p[1])
        return stats.lognorm(p[1], scale=math.exp(p[0]))

    def estimate(self, quantile: float | None = None) -> float:
        """The mean, or a quantile; never negative."""
        value = self.frozen().mean() if quantile is None else self.frozen().ppf(quantile)
        return max(0.0, float(value))


def fit(values: Iterable[float]) -> Fit:
    """The best of the four families by maximum likelihood."""
    x = np.asarray(list(values), dtype=np.float64)
    if not len(x) or not np.isfinite(x).all():
        msg = f"cannot fit a distribution to {len(x)} values of which {int((~np.isfinite(x)).sum())} are undefined"
        raise DataError(msg)
    if x.std() <= _FLAT * max(1.0, abs(float(x.mean()))):
        return Fit("normal", (float(x.mean()), max(float(x.std()), _FLAT)), math.inf, len(x))
    candidates = [_normal(x)] + ([_rayleigh(x), _gamma(x), _lognormal(x)] if (x > 0).all() else [])
    return max(candidates, key=lambda f: f.log_likelihood)


def _scored(family: str, parameters: tuple[float, ...], x: NDArray[np.float64]) -> Fit:
    bare = Fit(family, parameters, 0.0, len(x))
    return Fit(family, parameters, float(bare.frozen().logpdf(x).sum()), len(x))


def _normal(x: NDArray[np.float64]) -> Fit:
    return _scored("normal", (float(x.mean()), float(x.std())), x)


def _rayleigh(x: NDArray[np.float64]) -> Fit:
    return _scored("rayleigh", (math.sqrt(float((x**2).mean()) / 2),), x)


def _gamma(x: NDArray[np.float64]) -> Fit:
    shape, _, scale = stats.gamma.fit(x, floc=0)
    return _scored("gamma", (float(shape), float(scale)), x)


def _lognormal(x: NDArray[np.float64]) -> Fit:
    logs = np.log(x)
    return _scored("lognormal", (float(logs.mean()), float(logs.std())), x)


#: operator, kind of device ("" = any), platform ("" = any)
Group = tuple[str, str, str]


@dataclass(frozen=True)
class ParametricModel:
    """Fits of latency and throughput by group, and of the time to restart an operator elsewhere."""

    latency: Mapping[Group, Fit]
    throughput: Mapping[Group, Fit]
    restart: Mapping[str, Fit]
    quantile: float | None = None

    @staticmethod
    def train(rows: Iterable[Mapping[str, Any]], quantile: float | None = None) -> ParametricModel:
        """Fit every group of a metrics log."""
        latency: dict[Group, list[float]] = {}
        throughput: dict[Group, list[float]] = {}
        restart: dict[str, list[float]] = {}
        for row in rows:
            for group in _groups(row["operator"], row["site_kind"], row["platform"]):
                latency.setdefault(group, []).append(float(row["latency_ms"]))
                throughput.setdefault(group, []).append(float(row["throughput_ktps"]))
            if row["moved_ms"] > 0:
                restart.setdefault(row["operator"], []).append(
                    max(0.0, float(row["migration_ms"]) - float(row["moved_ms"]))
                )
        return ParametricModel(
            _fit_all(latency), _fit_all(throughput), {k: fit(v) for k, v in restart.items()}, quantile
        )

    def tables(self, workflow: Workflow, network: Network) -> CostTables:
        """See `CostModel`."""
        shape = (len(workflow.operators), len(network.actions))
        latency, throughput = np.empty(shape), np.empty(shape)
        known: dict[tuple[str, str, str], tuple[float, float]] = {}
        for o, operator in enumerate(workflow.operators):
            for a, (s, platform) in enumerate(network.actions):
                key = (operator.name, network.sites[s].kind, platform)
                if key not in known:
                    lat, thr = self._find(self.latency, *key), self._find(self.throughput, *key)
                    low = None if self.quantile is None else 1 - self.quantile
                    known[key] = (lat.estimate(self.quantile), thr.estimate(low))
                latency[o, a], throughput[o, a] = known[key]
        restart = [self.restart[o.name].estimate() if o.name in self.restart else 0.0 for o in workflow.operators]
        mbps = np.array([e.mbps for e in workflow.edges])
        return CostTables(latency, throughput, mbps, np.array(restart), np.ones(shape[0]))

    def _find(self, fits: Mapping[Group, Fit], operator: str, kind: str, platform: str) -> Fit:
        for group in _groups(operator, kind, platform):
            if group in fits:
                return fits[group]
        msg = f"operator {operator!r} was never measured; run it once, or train with the simulator's rows"
        raise DataError(msg)

    def save(self, path: Path) -> None:
        """JSON with a version."""
        groups = {
            name: [[list(g), asdict(f)] for g, f in fits.items()]
            for name, fits in (("latency", self.latency), ("throughput", self.throughput))
        }
        restart = [[k, asdict(f)] for k, f in self.restart.items()]
        body = {"model": "parametric", "version": VERSION, "quantile": self.quantile, **groups, "restart": restart}
        path.write_text(json.dumps(body, indent=1), encoding="utf-8")

    @staticmethod
    def load(path: Path) -> ParametricModel:
        """Refuses a file of another kind or version."""
        body = json.loads(path.read_text(encoding="utf-8"))
        if body.get("model") != "parametric" or body.get("version") != VERSION:
            msg = f"{path} is not a parametric cost model of version {VERSION}; train it again with this version"
            raise DataError(msg)
        read = {name: {tuple(g): _fit_of(f) for g, f in body[name]} for name in ("latency", "throughput")}
        restart = {k: _fit_of(f) for k, f in body["restart"]}
        return ParametricModel(read["latency"], read["throughput"], restart, body["quantile"])


def _groups(operator: str, kind: str, platform: str) -> list[Group]:
    """From the exact group to the widest."""
    return [(operator, kind, platform), (operator, "", platform), (operator, "", "")]


def _fit_all(samples: dict[Group, list[float]]) -> dict[Group, Fit]:
    return {group: fit(values) for group, values in samples.items()}


def _fit_of(raw: dict[str, Any]) -> Fit:
    return Fit(raw["family"], tuple(raw["parameters"]), raw["log_likelihood"], raw["count"])
