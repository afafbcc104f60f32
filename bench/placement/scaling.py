"""Figure 11 (ESC: threads and batches) and figure 12 (hybrids and Rand-ESC on 7 sites)."""

from __future__ import annotations

import itertools
import os
from typing import Any

from bench.placement.common import SEED, THREADS, WORKFLOWS, picture, save, table, timed
from godwit.placement.published.instances import riot_latency_problem, riot_problem
from godwit.placement.search.base import Options

BATCHES: tuple[int | None, ...] = (1, 10, 1_000, 10_000, None)
HYBRIDS = ("greedy", "rss", "greedy+rss", "heuristic", "heuristic+rss", "esc", "rand-esc", "evolutionary", "auto")
#: as long as RSS-3 takes, about: what a time-capped ESC gets
CAP = 0.02


def figure_11() -> list[dict[str, Any]]:
    """Plans a second of ESC on PRED-7 for half a second each."""
    problem, rows = riot_latency_problem("pred", 7), []
    for threads, batch in itertools.product(sorted({1, 2, os.cpu_count() or 2}), BATCHES):
        run = timed(problem, Options("esc", threads=threads, batch=batch, seconds=0.5), 3)
        rate = run.answer.examined / run.answer.seconds
        rows.append({"threads": threads, "batch": batch or "whole cubes", "plans_per_s": rate})
    return rows


def figure_12() -> list[dict[str, Any]]:
    """Improvement over the root in the four-dimensional mode, 7 sites."""
    rows = []
    for name in WORKFLOWS:
        problem = riot_problem(name, 7)
        root = problem.evaluate(problem.root).cost
        for algorithm in HYBRIDS:
            cap = CAP if algorithm in ("esc", "rand-esc") else 1.0
            run = timed(problem, Options(algorithm, threads=THREADS, seed=SEED, seconds=cap), 1)
            rows.append(
                {"workflow": name, "algorithm": algorithm, "improvement": root - run.answer.cost, "ms": run.best_ms}
            )
    return rows


def report() -> str:
    """Run, save, draw; the section of docs/results/placement.md."""
    scaling, hybrids = figure_11(), figure_12()
    save("scaling", scaling)
    save("hybrids", hybrids)

    def fill(axes: Any) -> None:
        for batch in dict.fromkeys(r["batch"] for r in scaling):
            mine = [r for r in scaling if r["batch"] == batch]
            axes[0][0].plot(
                [r["threads"] for r in mine], [r["plans_per_s"] / 1e6 for r in mine], marker="o", label=str(batch)
            )
        axes[0][0].set(xlabel="threads", ylabel="million plans a second", title="ESC by batch", yscale="log")
        axes[0][0].legend(fontsize=6)
        width = 0.8 / len(HYBRIDS)
        for i, algorithm in enumerate(HYBRIDS):
            mine = [r for r in hybrids if r["algorithm"] == algorithm]
            axes[0][1].bar(
                [k + i * width for k in range(len(mine))], [r["improvement"] for r in mine], width, label=algorithm
            )
        axes[0][1].set(
            title="hybrids, 7 sites", ylabel="improvement", xticks=range(len(WORKFLOWS)), xticklabels=WORKFLOWS
        )
        axes[0][1].legend(fontsize=6)

    picture("fig11_12", fill, columns=2)
    return (
        "## Figure 11: ESC by threads and batch\n\n![scaling](placement/fig11_12.png)\n\n"
        "The paper's best: 1.2 million plans/s (MacBook Air M2, 8 threads), 2.1 million (Xeon 4310, 40 threads).\n\n"
        + table(("threads", "batch", "plans/s"), [[r["threads"], r["batch"], r["plans_per_s"]] for r in scaling])
        + f"\n## Figure 12: hybrids on 7 sites\n\nESC and Rand-ESC are capped at {CAP * 1000:.0f} ms.\n\n"
        + table(
            ("workflow", "algorithm", "improvement", "ms"),
            [[r["workflow"], r["algorithm"], r["improvement"], r["ms"]] for r in hybrids],
        )
    )
