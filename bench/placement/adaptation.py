"""Figures 4-7: plan cost improvement over chains of adaptation decisions, and time a decision.

Improvement after k decisions: the mean over these of (cost of never having adapted - cost of the deployed plan), both
under the conditions of that decision; 1 is the whole normalised range. ESQ and ESC get the average time of RSS,
HEURISTIC and GREEDY, as in the paper.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bench.placement.common import SEED, SIZES, THREADS, WORKFLOWS, picture, save, table
from godwit.placement.cost_models.cost import Objective
from godwit.placement.problem.problem import Problem
from godwit.placement.published.instances import riot_problem, yahoo_problem
from godwit.placement.search.base import Options, prepare
from godwit.placement.search.chain import decisions, drifted

MARKS = (1, 5, 10, 20)
FREE = ("greedy", "rss", "heuristic")
CAPPED = ("esq", "esc", "rand-esc", "greedy+rss", "evolutionary", "auto")
#: nobody gets more than this a decision
LIMIT = 1.5


def run_chain(problem: Problem, options: Options, length: int) -> tuple[list[float], float]:
    """Improvement over never adapting at each decision, and mean milliseconds a decision."""
    prepare(options.name)
    gains, spent = [], 0.0
    for step, decision in enumerate(decisions(problem, options, length, SEED)):
        kept = drifted(problem, step, SEED).evaluate(problem.root).cost
        gains.append(kept - decision.answer.cost)
        spent += decision.answer.seconds
    return gains, spent / length * 1000


def one_instance(label: str, size: int, problem: Problem, length: int) -> Iterator[dict[str, Any]]:
    """All algorithms on one instance."""
    total = 0.0
    for name in (*FREE, *CAPPED):
        options = Options(name, threads=THREADS, seed=SEED, seconds=LIMIT)
        if name in CAPPED:
            share = max(total / len(FREE) / 1000, 0.005)
            options = replace(options, seconds=min(LIMIT, share if name in ("esq", "esc", "rand-esc") else 3 * share))
        gains, each = run_chain(problem, options, length)
        if name in FREE:
            total += each
        marks = {f"improvement_{k}": sum(gains[:k]) / k for k in MARKS if k <= length}
        yield {"workflow": label, "sites": size, "algorithm": name, "ms_a_decision": each, **marks}


def heterogeneous(length: int = 20) -> list[dict[str, Any]]:
    """Figures 4 and 5, all five workflows."""
    rows = []
    for size in SIZES:
        for name in WORKFLOWS:
            rows += one_instance(name, size, riot_problem(name, size), length)
    for size in (7, 15, 31):
        rows += one_instance("yahoo", size, yahoo_problem(size, Objective.weighted()), length)
    return rows


def homogeneous(length: int = 20) -> list[dict[str, Any]]:
    """Figures 6 and 7: ETL and STATS on 127 equal sites."""
    rows: list[dict[str, Any]] = []
    for name in ("etl", "stats"):
        rows += one_instance(name, 127, riot_problem(name, 127, kind="homogeneous"), length)
    return rows


def draw(rows: list[dict[str, Any]], what: str, name: str) -> None:
    """One panel a workflow, one line an algorithm, sites along the axis."""
    flows = sorted({r["workflow"] for r in rows})

    def fill(axes: Any) -> None:
        for axis, flow in zip(axes[0], flows, strict=True):
            for algorithm in (*FREE, *CAPPED):
                mine = [r for r in rows if r["workflow"] == flow and r["algorithm"] == algorithm]
                axis.plot(
                    [r["sites"] for r in mine], [r[what] for r in mine], marker="o", markersize=3, label=algorithm
                )
            axis.set(xscale="log", title=flow, xlabel="sites", ylabel=what.replace("_", " "))
            if what.startswith("ms"):
                axis.set_yscale("log")
        axes[0][-1].legend(fontsize=6)

    picture(name, fill, columns=len(flows))


def report() -> str:
    """Run, save, draw; the section of docs/results/placement.md."""
    started = time.perf_counter()
    rows, same = heterogeneous(), homogeneous()
    save("adaptation", rows + [{**r, "setup": "homogeneous"} for r in same])
    draw(rows, "improvement_20", "fig4_improvement")
    draw(rows, "ms_a_decision", "fig5_time")
    draw(same, "improvement_20", "fig6_7_homogeneous")
    head = ("workflow", "sites", "algorithm", *(f"after {k}" for k in MARKS), "ms a decision")
    cells = [
        [r["workflow"], r["sites"], r["algorithm"], *(r.get(f"improvement_{k}") for k in MARKS), r["ms_a_decision"]]
        for r in rows
        if r["workflow"] in ("pred", "train", "yahoo")
    ]
    homo = [
        [r["workflow"], r["sites"], r["algorithm"], *(r.get(f"improvement_{k}") for k in MARKS), r["ms_a_decision"]]
        for r in same
    ]
    return (
        "## Figures 4 and 5: heterogeneous networks, chains of 1 to 20 decisions\n\n"
        "![improvement](placement/fig4_improvement.png)\n\n![time](placement/fig5_time.png)\n\n"
        "PRED, TRAIN and YAHOO here; STATS and ETL are in placement/adaptation.json.\n\n"
        + table(head, cells)
        + "\n## Figures 6 and 7: homogeneous network, 127 sites\n\n"
        + table(head, homo)
        + f"\n({time.perf_counter() - started:.0f} s)\n"
    )
