"""`godwit place`: a placement problem in, a plan with its front, its proof and its reasons out."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from godwit.cli.output import Output, as_json
from godwit.cli.output import form as form_of
from godwit.errors import ConfigError
from godwit.placement.search.names import SEARCHES

if TYPE_CHECKING:
    from godwit.placement.cost_models.cost import CostModel, Objective
    from godwit.placement.explain import Explanation
    from godwit.placement.problem.problem import Evaluation, Problem
    from godwit.placement.search.base import FrontPlan, SearchResult


def place(
    problem: Annotated[
        str, typer.Argument(help="YAML or JSON file with workflow, network and deployed plan; - for stdin.")
    ],
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", help=f"How to search: {', '.join(sorted(SEARCHES))}.")
    ] = "auto",
    seconds: Annotated[float | None, typer.Option("--seconds", "-t", help="Time limit.")] = None,
    threads: Annotated[int, typer.Option(help="Threads to search with.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    samples: Annotated[int, typer.Option(help="Plans that RSS draws.")] = 3000,
    weights: Annotated[str, typer.Option(help="Throughput,latency,traffic,migration; overrides the file.")] = "",
    model: Annotated[Path | None, typer.Option(help="Cost model: a .json (parametric) or a folder (learned).")] = None,
    front: Annotated[int, typer.Option(min=0, help="Plans of the Pareto front to show.")] = 10,
    output: Output = "auto",
) -> None:
    """Find where the operators of a workflow should run, and say how good the answer is."""
    form = form_of(output)
    from godwit.placement.explain import explain
    from godwit.placement.search.base import Options, search

    found = _read(problem, model, weights)
    answer = search(found, Options(algorithm, seconds=seconds, threads=threads, seed=seed, samples=samples))
    reasons = explain(found, answer)
    if form == "json":
        as_json(_document(found, answer, reasons, front))
    else:
        _print(found, answer, reasons, front)


def _read(source: str, model: Path | None, weights: str) -> Problem:
    from godwit.placement.problem.files import read_problem

    text = sys.stdin.read() if source == "-" else None
    return read_problem(Path(source), model=_model(model), objective=_weights(weights), text=text)


def _model(path: Path | None) -> CostModel | None:
    if path is None:
        return None
    if not path.exists():
        msg = f"there is no cost model at {path}; train one with python -m godwit.engine.train_cost_models"
        raise ConfigError(msg)
    if path.is_dir():
        from godwit.placement.cost_models.learned import LearnedModel

        return LearnedModel.load(path)
    from godwit.placement.cost_models.parametric import ParametricModel

    return ParametricModel.load(path)


def _weights(text: str) -> Objective | None:
    if not text:
        return None
    try:
        values = [float(x) for x in text.split(",")]
    except ValueError:
        values = []
    if len(values) != 4:
        msg = f"weights {text!r} are not four numbers; write for example 0.25,0.25,0.25,0.25"
        raise ConfigError(msg)
    from godwit.placement.cost_models.cost import Objective

    return Objective.weighted(*values)


def _evaluation(e: Evaluation) -> dict[str, Any]:
    return {
        "cost": e.cost if math.isfinite(e.cost) else None,
        "throughput_ktps": e.throughput or 0.0,  # (not -0.0)
        "latency_ms": e.latency_ms if math.isfinite(e.latency_ms) else None,
        "traffic_mbps": e.traffic_mbps,
        "migration_ms": e.migration_ms,
        "feasible": e.feasible,
    }


def _plan(problem: Problem, member: FrontPlan) -> dict[str, Any]:
    places = {name: {"site": s, "platform": p} for name, (s, p) in problem.describe(member.plan).items()}
    return {"plan": places, **_evaluation(member.evaluation)}


def _document(problem: Problem, answer: SearchResult, reasons: Explanation, front: int) -> dict[str, Any]:
    from godwit.placement.search.base import FrontPlan

    best = _plan(problem, FrontPlan(answer.plan, reasons.after))
    return {
        "algorithm": answer.algorithm,
        **best,
        "root": _evaluation(reasons.before),
        "bound": None if answer.proof is None else answer.proof.bound,
        "gap": answer.gap,
        "examined": answer.examined,
        "seconds": round(answer.seconds, 6),
        "complete": answer.complete,
        "actions": [vars(a) for a in reasons.actions],
        "front": [_plan(problem, m) for m in answer.front[:front]],
        "front_size": len(answer.front),
        "explanation": list(reasons.reasons),
    }


def _print(problem: Problem, answer: SearchResult, reasons: Explanation, front: int) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    plan = Table(
        "operator", "site", "platform", "processing ms", "ready at ms", "", title=f"plan by {answer.algorithm}"
    )
    for line in reasons.operators:
        marks = " ".join(w for w, on in (("critical", line.critical), ("moves", line.moved)) if on)
        plan.add_row(
            line.operator, line.site, line.platform, f"{line.processing_ms:.3f}", f"{line.ready_ms:.3f}", marks
        )
    console.print(plan)
    costs = Table("", "cost", "latency ms", "throughput K/s", "traffic Mb/s", "migration ms", title="what it costs")
    members = [("deployed", reasons.before), ("proposed", reasons.after)]
    members += [(f"front {i}", m.evaluation) for i, m in enumerate(answer.front[:front], start=1)]
    for name, e in members:
        costs.add_row(
            name, *(f"{x + 0.0:.4g}" for x in (e.cost, e.latency_ms, e.throughput, e.traffic_mbps, e.migration_ms))
        )
    console.print(costs)
    for reason in reasons.reasons:
        console.print(f"- {reason}", highlight=False)
