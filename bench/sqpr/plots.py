"""The plots of the report: the paper's Figures 4 to 7 with our own planner in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from bench.sqpr import results

_NAMES = {
    "godwit": "godwit",
    "heuristic": "heuristic",
    "heuristic_without_relays": "heuristic without relays",
    "AggregateHost": "first-come aggregate host",
    "FirstComeOrders": "first-come, optimal join orders",
}


def draw() -> None:
    """Every plot whose experiment has been run."""
    for regime in ("cpu", "both"):
        if data := results.load(f"admissions_{regime}"):
            _curves(f"fig4a_{regime}", data)
    for name, key, title in (
        ("overlap", None, "Overlap (Figure 4c)"),
        ("hosts", "hosts", "Hosts (Figure 5a)"),
        ("arity", "arity", "Arity (Figure 5c)"),
    ):
        if data := results.load(name):
            _bars(f"fig_{name}", data["rows"], key, title)
    if data := results.load("batches"):
        _batches(data["rows"])
    if data := results.load("exact"):
        _exact(data["cases"])
    if data := results.load("cluster"):
        _cluster(data["rows"])


def _save(name: str) -> None:
    plt.tight_layout()
    plt.savefig(results.FOLDER / f"{name}.png", dpi=110)
    plt.close("all")


def _curves(name: str, data: dict[str, Any]) -> None:
    plt.figure(figsize=(6, 4))
    for planner, label in _NAMES.items():
        rows = [seed["runs"][planner]["curve"] for seed in data["seeds"] if planner in seed["runs"]]
        if rows:
            mean = np.mean(np.array(rows), axis=0)
            plt.plot(np.arange(len(mean)) * 10, mean, label=label)
    best = float(np.mean([seed["best_subset"] for seed in data["seeds"]]))
    plt.axhline(best, color="grey", linestyle=":", label="offline best subset, all queries known")
    plt.xlabel("queries submitted")
    plt.ylabel("queries admitted")
    plt.title(f"Figure 4(a), NIC {data['nic']:g} Mbit/s, mean of {len(data['seeds'])} seeds")
    plt.legend(fontsize=8)
    _save(name)


def _means(rows: Iterable[dict[str, Any]], label: str | None, field: str) -> dict[str, float]:
    groups: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.get(field) is not None:
            groups[str(row[label]) if label else f"zipf {row['zipf']:g}, {row['streams']} streams"].append(row[field])
    return {name: float(np.mean(values)) for name, values in groups.items()}


def _bars(name: str, rows: list[dict[str, Any]], key: str | None, title: str) -> None:
    fields = ("godwit", "heuristic", "aggregate_host", "first_come_orders")
    groups = list(_means(rows, key, "godwit"))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    figure.suptitle(title)
    for number, field in enumerate(fields):
        means = _means(rows, key, field)
        left.bar(np.arange(len(groups)) + 0.2 * number, [means.get(g, 0) for g in groups], 0.2, label=field)
    left.set_xticks(np.arange(len(groups)) + 0.3, groups, fontsize=7)
    left.set_ylabel("queries admitted")
    left.legend(fontsize=7)
    for field in ("ms_p50", "ms_p95", "ms_max"):
        right.plot(groups, list(_means(rows, key, field).values()), marker="o", label=field)
    right.set_yscale("log")
    right.set_ylabel("planning time, ms")
    right.tick_params(axis="x", labelsize=7)
    right.legend(fontsize=7)
    _save(name)


def _batches(rows: list[dict[str, Any]]) -> None:
    plt.figure(figsize=(5, 3.5))
    means = _means(rows, "batch", "admitted")
    plt.plot(list(means), list(means.values()), marker="o")
    plt.xlabel("queries a batch")
    plt.ylabel("queries admitted of 1,000")
    plt.title("Batches (Figure 4b)")
    _save("fig4b_batches")


def _exact(cases: list[dict[str, Any]]) -> None:
    plt.figure(figsize=(6, 4))
    for case in cases:
        plt.plot(
            [int(load) for load in case["by_load"]], list(case["by_load"].values()), marker="o", label=case["case"]
        )
    plt.yscale("log")
    plt.xlabel("queries submitted before (scaled to 50 hosts)")
    plt.ylabel("95th percentile, s")
    plt.title("Exact model to proved optimality (Figure 6)")
    plt.legend(fontsize=8)
    _save("fig6_exact")


def _cluster(rows: list[dict[str, Any]]) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(13, 4))
    figure.suptitle("Figure 7: 15 hosts, SODA and godwit")
    steps = [50 * (n + 1) for n in range(len(rows[0]["soda"]))]
    for name in ("soda", "godwit"):
        axes[0].plot(steps, np.mean([row[name] for row in rows], axis=0), marker="o", label=name)
        for submitted, style in (("50", ":"), ("150", "-")):
            for axis, what in ((axes[1], "cpu"), (axes[2], "traffic")):
                values = np.sort(np.concatenate([row[f"{name}_load"][submitted][what] for row in rows]))
                share = np.arange(1, len(values) + 1) / len(values)
                axis.plot(values, share, style, label=f"{name}-{submitted}")
    for axis, label in zip(axes, ("queries submitted", "CPU use of a host", "traffic of a host"), strict=True):
        axis.set_xlabel(label)
        axis.legend(fontsize=7)
    axes[0].set_ylabel("queries admitted")
    _save("fig7_cluster")
