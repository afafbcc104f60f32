"""Learned cost model: gradient-boosted trees, one a dimension (throughput, latency, traffic, migration).

As in APEROL's homogeneous setup. `train_dimension` fits one of them and measures its error on rows it has not seen;
the Spark pipeline in `engine/train_cost_models.py` runs the four side by side. Files: DIMENSION.skops and
model.json with versions and errors. The regressors are written by skops: a file that would run code is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
import skops.io
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_absolute_error, r2_score
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from godwit.errors import DataError
from godwit.placement.cost_models.cost import CostTables
from godwit.placement.cost_models.metrics_log import FEATURES, TARGETS, check_columns
from godwit.placement.problem.network import Floats, Network
from godwit.placement.problem.workflow import Workflow

VERSION = 2
#: what a regressor is made of besides the types that skops trusts by itself
TRUSTED = ["sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"]
HELD_OUT = 0.2
#: rates and neighbours an operator is expected to meet where the workflow does not say
EXPECTED_KTPS = 1.0
#: too few rows say nothing about held-out error
LEAST_ROWS = 20


@dataclass(frozen=True)
class HeldOutError:
    """How far off on rows kept back from training."""

    rows: int
    mean_absolute: float
    #: mean absolute error over the mean of the target
    relative: float
    r2: float


@dataclass(frozen=True)
class Dimension:
    """One trained regressor. It predicts log(1 + y): costs span orders of magnitude."""

    target: str
    regressor: Any
    error: HeldOutError

    def predict(self, features: Floats) -> Floats:
        """Estimates, never negative."""
        with threadpool_limits(limits=1):
            logs = self.regressor.predict(features)
        return np.asarray(np.maximum(np.expm1(logs), 0.0))


def to_bytes(regressor: HistGradientBoostingRegressor) -> bytes:
    return bytes(skops.io.dumps(regressor))


def from_bytes(body: bytes, place: str) -> HistGradientBoostingRegressor:
    """Makes no object of another type than a regressor needs: a file that was tampered with cannot run code."""
    try:
        unknown = sorted(set(skops.io.get_untrusted_types(data=body)) - set(TRUSTED))
        found = None if unknown else skops.io.loads(body, trusted=TRUSTED)
    except Exception as fault:  # (skops and zipfile raise many kinds)
        msg = f"{place} cannot be read as a model: {fault}; train the model again"
        raise DataError(msg) from fault
    if not isinstance(found, HistGradientBoostingRegressor):
        msg = f"{place} is no model: it holds {', '.join(unknown) or type(found).__name__}; train the model again"
        raise DataError(msg)
    return found


def _features(frame: pd.DataFrame, kinds: Mapping[str, int], platforms: Mapping[str, int]) -> Floats:
    codes = np.stack([frame["site_kind"].map(kinds).fillna(-1), frame["platform"].map(platforms).fillna(-1)], axis=1)
    return np.hstack([frame[list(FEATURES)].to_numpy(dtype=np.float64), codes.astype(np.float64)])


def codes_of(frame: pd.DataFrame) -> tuple[dict[str, int], dict[str, int]]:
    """Numbers for kinds of device and platforms, by name."""
    kinds, platforms = (sorted(frame[c].unique()) for c in ("site_kind", "platform"))
    return {k: i for i, k in enumerate(kinds)}, {p: i for i, p in enumerate(platforms)}


def train_dimension(
    target: str, frame: pd.DataFrame, kinds: Mapping[str, int], platforms: Mapping[str, int], seed: int = 0
) -> Dimension:
    """Fit on four fifths of the rows, measure on the rest. Migration learns from moves only."""
    rows = frame[frame["moved_ms"] > 0] if target == "migration_ms" else frame
    if len(rows) < LEAST_ROWS:
        msg = f"only {len(rows)} rows to learn {target} from; collect at least {LEAST_ROWS} or add simulated ones"
        raise DataError(msg)
    x, y = _features(rows, kinds, platforms), rows[target].to_numpy(dtype=np.float64)
    order = np.random.default_rng(seed).permutation(len(rows))
    test, train = np.split(order, [max(1, int(HELD_OUT * len(rows)))])
    regressor = HistGradientBoostingRegressor(max_iter=200, learning_rate=0.1, random_state=seed)
    # one thread each: the four dimensions already run side by side, and spinning threads slow each other down
    with threadpool_limits(limits=1):
        regressor.fit(x[train], np.log1p(y[train]))
        guess = np.maximum(np.expm1(regressor.predict(x[test])), 0.0)
    off = float(mean_absolute_error(y[test], guess))
    r2 = float(r2_score(y[test], guess)) if len(test) > 1 else 0.0
    error = HeldOutError(len(test), off, off / max(float(y[test].mean()), 1e-12), r2)
    return Dimension(target, regressor, error)


@dataclass(frozen=True)
class LearnedModel:
    """Four regressors and the codes they were trained with."""

    dimensions: Mapping[str, Dimension]
    kinds: Mapping[str, int]
    platforms: Mapping[str, int]

    @staticmethod
    def train(frame: pd.DataFrame, seed: int = 0) -> LearnedModel:
        """All four dimensions, one after the other, in this process."""
        check_columns(frame.columns, "in memory")
        kinds, platforms = codes_of(frame)
        trained = {t: train_dimension(t, frame, kinds, platforms, seed) for t in TARGETS}
        return LearnedModel(trained, kinds, platforms)

    def errors(self) -> dict[str, HeldOutError]:
        """Held-out error of each dimension."""
        return {name: d.error for name, d in self.dimensions.items()}

    def tables(self, workflow: Workflow, network: Network) -> CostTables:
        """See `CostModel`. An operator is asked about alone on each action, at the expected rate."""
        n, actions = len(workflow.operators), network.actions
        rows = [
            self._row(o.work, o.state_mb, network.sites[s].mips, network.sites[s].kind, p)
            for o in workflow.operators
            for s, p in actions
        ]
        x = _features(pd.DataFrame(rows), self.kinds, self.platforms)
        latency = self.dimensions["latency_ms"].predict(x).reshape(n, len(actions))
        throughput = self.dimensions["throughput_ktps"].predict(x).reshape(n, len(actions))
        restart, factor = self._migration(workflow, network)
        return CostTables(latency, throughput, self._traffic(workflow), restart, factor)

    def _row(self, work: float, state: float, mips: float, kind: str, platform: str, **more: float) -> dict[str, Any]:
        row: dict[str, Any] = dict.fromkeys(FEATURES, 0.0)
        row |= {"work": work, "state_mb": state, "mips": mips, "input_ktps": EXPECTED_KTPS}
        return row | {"site_kind": kind, "platform": platform} | more

    def _traffic(self, workflow: Workflow) -> Floats:
        """Mb/s of each edge over one hop."""
        rows = [self._row(1.0, 0.0, 1000.0, "", "", edge_mbps=e.mbps, edge_hops=1.0) for e in workflow.edges]
        if not rows:
            return np.zeros(0)
        return self.dimensions["traffic_mbps"].predict(_features(pd.DataFrame(rows), self.kinds, self.platforms))

    def _migration(self, workflow: Workflow, network: Network) -> tuple[Floats, Floats]:
        """Restart time and ms a ms of distance: a straight line through the predictions for a short and a long move."""
        far = max(float(network.paths.distance.max()), 1e-3)
        near = far / 20
        mips = float(np.median([s.mips for s in network.sites]))
        ends = []
        for moved in (near, far):
            rows = [self._row(o.work, o.state_mb, mips, "", "", moved_ms=moved) for o in workflow.operators]
            x = _features(pd.DataFrame(rows), self.kinds, self.platforms)
            ends.append(self.dimensions["migration_ms"].predict(x))
        slope = np.maximum((ends[1] - ends[0]) / (far - near), 0.0)
        return np.maximum(ends[0] - slope * near, 0.0), slope

    def save(self, folder: Path) -> None:
        """One file a dimension and model.json."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, dimension in self.dimensions.items():
            (folder / f"{name}.skops").write_bytes(to_bytes(dimension.regressor))
        body = {
            "model": "learned",
            "version": VERSION,
            "scikit-learn": sklearn.__version__,
            "kinds": dict(self.kinds),
            "platforms": dict(self.platforms),
            "errors": {k: asdict(e) for k, e in self.errors().items()},
        }
        (folder / "model.json").write_text(json.dumps(body, indent=1), encoding="utf-8")

    @staticmethod
    def load(folder: Path) -> LearnedModel:
        """Refuses another kind, version or scikit-learn."""
        path = folder / "model.json"
        if not path.is_file():
            msg = f"{folder} holds no model.json; train a model there first"
            raise DataError(msg)
        body = json.loads(path.read_text(encoding="utf-8"))
        mine = ("learned", VERSION, sklearn.__version__)
        theirs = (body.get("model"), body.get("version"), body.get("scikit-learn"))
        if theirs != mine:
            msg = f"{path} is {theirs}, this installation reads {mine}; train the model again"
            raise DataError(msg)
        dimensions = {}
        for name in TARGETS:
            file = folder / f"{name}.skops"
            if not file.is_file():
                msg = f"{folder} holds no {file.name}; train the model again"
                raise DataError(msg)
            regressor = from_bytes(file.read_bytes(), str(file))
            dimensions[name] = Dimension(name, regressor, HeldOutError(**body["errors"][name]))
        return LearnedModel(dimensions, body["kinds"], body["platforms"])
