"""Figures 8-10: plan latency and time in the latency mode, APEROL's searches, the competitors and ours."""

from __future__ import annotations

from statistics import mean
from typing import Any

from bench.placement.common import SEED, SIZES, THREADS, picture, save, table, timed
from godwit.placement.published.instances import riot_latency_problem, yahoo_problem
from godwit.placement.search.base import Options

ALGORITHMS = ("heuristic", "greedy", "rss", "dag-star", "spring-relax", "governor", "auto")
#: the paper's averages over its instances: plan latency ms, execution ms (MacBook Air M2, 4 threads)
PAPER = {
    "heuristic": (4.42, 2640.24),
    "dag-star": (4.76, 146379.81),
    "greedy": (8.46, 73.47),
    "rss": (18.22, 93.16),
    "spring-relax": (20.47, 2195.24),
    "governor": (21.29, 29.35),
}
LIMIT = 5.0


def rows() -> list[dict[str, Any]]:
    """Every algorithm on every instance; the proven optimum beside it."""
    out = []
    instances = [(n, s, riot_latency_problem(n, s)) for n in ("pred", "train", "stats", "etl") for s in SIZES]
    instances += [("yahoo", s, yahoo_problem(s)) for s in (7, 15, 31)]
    for name, size, problem in instances:
        proof = timed(problem, Options("optimum", threads=THREADS), 3)
        for algorithm in ALGORITHMS:
            repeats = 1 if algorithm == "dag-star" and size > 127 else 3
            run = timed(problem, Options(algorithm, threads=THREADS, seed=SEED, seconds=LIMIT), repeats)
            out.append(
                {
                    "workflow": name,
                    "sites": size,
                    "algorithm": algorithm,
                    "plan_ms": run.answer.cost / 1000,
                    "optimum_ms": proof.answer.cost / 1000,
                    "gap": run.answer.cost / proof.answer.cost - 1,
                    "time_ms": run.best_ms,
                    "finished": run.answer.complete,
                }
            )
    return out


def ranking(found: list[dict[str, Any]]) -> list[list[Any]]:
    """Averages and their harmonic mean, as the paper ranks."""
    lines = []
    for algorithm in ALGORITHMS:
        mine = [r for r in found if r["algorithm"] == algorithm]
        plan, time = mean(r["plan_ms"] for r in mine), mean(r["time_ms"] for r in mine)
        paper = PAPER.get(algorithm, (None, None))
        done = sum(r["finished"] for r in mine)
        harmonic = 2 * plan * time / (plan + time)
        lines.append(
            [algorithm, plan, paper[0], time, paper[1], harmonic, mean(r["gap"] for r in mine), f"{done}/{len(mine)}"]
        )
    return sorted(lines, key=lambda x: x[5])


def draw(found: list[dict[str, Any]]) -> None:
    """Plan latency above, time below; one column a workflow."""
    flows = ("pred", "train", "stats", "etl", "yahoo")

    def fill(axes: Any) -> None:
        for column, flow in enumerate(flows):
            for row, what in enumerate(("plan_ms", "time_ms")):
                axis = axes[row][column]
                for algorithm in ALGORITHMS:
                    mine = [r for r in found if r["workflow"] == flow and r["algorithm"] == algorithm]
                    axis.plot(
                        [r["sites"] for r in mine], [r[what] for r in mine], marker="o", markersize=3, label=algorithm
                    )
                axis.set(xscale="log", yscale="log", title=flow, xlabel="sites", ylabel=what.replace("_", " "))
        axes[0][-1].legend(fontsize=6)

    picture("fig8_10_competitors", fill, columns=len(flows), rows=2)


def report() -> str:
    """Run, save, draw; the section of docs/results/placement.md."""
    found = rows()
    save("competitors", found)
    draw(found)
    head = ("algorithm", "plan ms", "paper", "time ms", "paper", "harmonic mean", "mean gap", "finished")
    detail = [
        [
            r["workflow"],
            r["sites"],
            r["algorithm"],
            r["plan_ms"],
            r["optimum_ms"],
            r["gap"],
            r["time_ms"],
            r["finished"],
        ]
        for r in found
        if r["workflow"] in ("pred", "train", "yahoo")
    ]
    return (
        "## Figures 8-10: latency mode against DAG*, SPRING-RELAX and GOVERNOR\n\n"
        "![competitors](placement/fig8_10_competitors.png)\n\n"
        "Averages over all instances, sorted as the paper sorts (harmonic mean of plan latency and time). The paper's "
        f"columns are its own averages, on its machine and instances. Time limit {LIMIT:g} s; DAG* optimises latency "
        "alone, its migration is added afterwards.\n\n"
        + table(head, ranking(found))
        + "\n"
        + table(("workflow", "sites", "algorithm", "plan ms", "optimum ms", "gap", "time ms", "finished"), detail)
    )
