"""Beyond the paper: proven gaps in the four-dimensional mode, learned cost models, many workflows at once."""

from __future__ import annotations

import time
from typing import Any

import pandas as pd

from bench.placement.common import SEED, THREADS, WORKFLOWS, save, table, timed
from godwit.placement.cost_models.learned import LearnedModel
from godwit.placement.cost_models.parametric import ParametricModel
from godwit.placement.cost_models.simulate import simulate
from godwit.placement.problem.build import build_problem
from godwit.placement.published.instances import riot_problem, riot_workflow, tree_network
from godwit.placement.search.base import Options
from godwit.placement.search.joint import place_all


def proven_gaps() -> list[dict[str, Any]]:
    """auto in the weighted mode: how far its answers can be from the optimum at most."""
    rows = []
    for name in WORKFLOWS:
        for size in (31, 127, 1023, 2047):
            run = timed(riot_problem(name, size), Options("auto", threads=THREADS, seed=SEED, seconds=1.0), 1)
            rows.append(
                {"workflow": name, "sites": size, "cost": run.answer.cost, "gap": run.answer.gap, "ms": run.best_ms}
            )
    return rows


def cost_models(plans: int = 2000) -> list[dict[str, Any]]:
    """Held-out error of the learned model, from the simulator's rows; families chosen by the parametric one."""
    workflow, network = riot_workflow("pred"), tree_network(31)
    frame = pd.DataFrame(simulate(workflow, network, plans, SEED))
    started = time.perf_counter()
    learned = LearnedModel.train(frame, SEED)
    spent = time.perf_counter() - started
    rows: list[dict[str, Any]] = [
        {"model": "learned", "what": k, "rows": e.rows, "relative_error": e.relative, "r2": e.r2, "train_s": spent}
        for k, e in learned.errors().items()
    ]
    fits = ParametricModel.train(frame.head(6000).to_dict("records")).latency
    families = pd.Series([f.family for f in fits.values()]).value_counts().to_dict()
    return [*rows, {"model": "parametric", "what": f"latency families {families}", "rows": len(fits)}]


def together() -> list[dict[str, Any]]:
    """Four workflows on one network whose sites can host three operators each."""
    rows = []
    for size in (31, 127):
        problems = []
        for name in WORKFLOWS:
            one = riot_problem(name, size)
            sites = tuple(type(s)(s.name, s.platforms, 3.0, s.mips, s.kind, s.region) for s in one.network.sites)
            network = type(one.network)(sites, one.network.links)
            problems.append(build_problem(one.workflow, network, one.tables, one.root, one.objective, one.constraints))
        answer = place_all(tuple(problems), Options("heuristic", threads=THREADS, seed=SEED))
        alone = sum(timed(p, Options("heuristic"), 1).answer.cost for p in problems)
        rows.append(
            {
                "sites": size,
                "joint_cost": answer.cost,
                "sum_alone_without_sharing": alone,
                "rounds": answer.rounds,
                "seconds": answer.seconds,
            }
        )
    return rows


def report() -> str:
    """Run and save; the section of docs/results/placement.md."""
    gaps, models, joint = proven_gaps(), cost_models(), together()
    save("proven_gaps", gaps)
    save("cost_models", models)
    save("joint", joint)
    return (
        "## Beyond the paper\n\n### Proven gaps of auto in the four-dimensional mode (1 s)\n\n"
        + table(("workflow", "sites", "cost", "proven gap at most", "ms"), [list(r.values()) for r in gaps])
        + "\n### Cost models trained on simulated rows (PRED, 31 sites)\n\n"
        + table(
            ("model", "what", "rows", "relative error", "R2", "s to train"),
            [
                [r["model"], r["what"], r["rows"], r.get("relative_error"), r.get("r2"), r.get("train_s")]
                for r in models
            ],
        )
        + "\n### Four workflows sharing sites with room for three operators each\n\n"
        + table(
            ("sites", "cost together", "sum if each had the network alone", "rounds", "s"),
            [list(r.values()) for r in joint],
        )
    )
