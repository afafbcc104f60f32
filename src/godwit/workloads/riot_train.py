"""RIoTBench's TRAIN: a Spark ML job that a window query triggers, whose model PRED finds in a reference table.

`riot-train` says that ten seconds are complete; the rows to train with are results of `riot-features`. The two run in
shapes of their own, so the rows of a window may be committed a moment later: training waits until all are there.
"""

from __future__ import annotations

from typing import Any

from godwit.engine.linear_model import fitted
from godwit.workloads.catalogue import named


class Trainer:
    """Submits both queries and trains the model of each window."""

    def __init__(self, fleet: Any, models: Any, shape: str = "sys") -> None:
        """`models`: the reference table that is to hold the newest model."""
        self._models, suffix = models, "" if shape == "sys" else f"-{shape}"
        self._features = fleet.submit(named(f"riot-features{suffix}").sql, "riot-features")
        self._ticks = fleet.submit(named(f"riot-train{suffix}").sql, "riot-train")
        self._waiting: list[dict[str, Any]] = []
        #: the end of each window that a model was trained for, and the model
        self.trained: dict[Any, dict[str, Any]] = {}

    def follow(self, callback: Any) -> None:
        """Train whenever a window closes. `callback`: makes a sink of a function (`CallbackSink`)."""
        self._ticks.write_to(callback(self.tick))

    def tick(self, windows: list[dict[str, Any]]) -> None:
        """Windows are complete; train for those whose rows are there."""
        self._waiting += [window for window in windows if window["until"] not in self.trained]
        later = [window for window in self._waiting if not self._train(window)]
        self._waiting = later

    def _train(self, window: dict[str, Any]) -> bool:
        results = self._features.results()
        rows = results.where((results["ts"] >= window["since"]) & (results["ts"] < window["until"]))
        if rows.count() < window["n"]:
            return False
        intercept, (a, b) = fitted(rows, ["v0", "v1"], "v4")
        model = {"name": "linear", "intercept": intercept, "a": a, "b": b}
        self._models.upsert([model])
        self.trained[window["until"]] = model
        return True
