"""`godwit plan`: which queries of a workload fit, by which plans, and what they share."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from godwit.errors import ConfigError, GodwitError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree

    from godwit.admission.answers import Admitted, Refused
    from godwit.admission.explain import PlanNode
    from godwit.admission.workload import Workload


class Output(StrEnum):
    """How to print: `auto` is a table on a terminal and JSON in a pipe."""

    auto = "auto"
    json = "json"
    table = "table"


def plan(
    workload: Annotated[Path, typer.Argument(help="YAML file with hosts, links, streams and queries.")],
    what_if: Annotated[
        list[str] | None,
        typer.Option("--what-if", metavar="QUERY", help="Try this query beside all others, without admitting it."),
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="auto, json or table.")] = Output.auto,
) -> None:
    """Plan the queries of a workload and show each plan, with what it reuses, as a tree.

    Exit code 1: at least one query was refused. 2: the workload cannot be used.
    """
    from rich.console import Console

    from godwit.admission.answers import Refused
    from godwit.admission.workload import read

    try:
        answers, report = _answer(read(workload), what_if or [])
    except GodwitError as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        raise typer.Exit(2) from error
    if output is Output.json or (output is Output.auto and not sys.stdout.isatty()):
        typer.echo(json.dumps(report, indent=2))
    else:
        _show(Console(), report)
    if any(isinstance(answer, Refused) for answer in answers):
        raise typer.Exit(1)


def _answer(workload: Workload, tried: list[str]) -> tuple[list[Admitted | Refused], dict[str, Any]]:
    from godwit.admission.admission import Admission
    from godwit.admission.answers import Admitted

    unknown = [name for name in tried if name not in {query.id for query in workload.queries}]
    if unknown:
        known = ", ".join(query.id for query in workload.queries)
        msg = f"--what-if {unknown[0]}: the workload has no such query; it has {known}"
        raise ConfigError(msg)
    admission = Admission(workload.hosts, workload.links, streams=workload.streams, weights=workload.weights)
    answers = [admission.submit(query) for query in workload.queries if query.id not in tried]
    rows = [_row(answer, admission.tree(answer.query) if isinstance(answer, Admitted) else None) for answer in answers]
    for query in [q for q in workload.queries if q.id in tried]:
        answer, shown = admission.try_out(query)
        answers.append(answer)
        rows.append({**_row(answer, shown), "what_if": True})
    return answers, {"queries": rows, "hosts": admission.usage()}


def _row(answer: Admitted | Refused, shown: PlanNode | None) -> dict[str, Any]:
    from godwit.admission.answers import Admitted

    row = {"admitted": isinstance(answer, Admitted), **asdict(answer)}
    return {**row, "tree": None if shown is None else asdict(shown)} | {"lines": [] if shown is None else shown.lines()}


def _show(console: Console, report: dict[str, Any]) -> None:
    from rich.tree import Tree

    for row in report["queries"]:
        head = f"{row['query']}  " + ("admitted" if row["admitted"] else "refused")
        head += " (what if)" if row.get("what_if") else ""
        if not row["admitted"]:
            console.print(f"{head}: {row['reason']}", style="red", markup=False, highlight=False)
            continue
        reuse = f", reuses {', '.join(row['reused'])}" if row["reused"] else ""
        moves = f", moves {len(row['migrations'])} running operators" if row["migrations"] else ""
        console.print(_tree(row["tree"], Tree(f"{head}{reuse}{moves}".replace("[", "\\["))))
    _show_hosts(console, report["hosts"])


def _tree(node: dict[str, Any], above: Tree) -> Tree:
    from godwit.admission.explain import PlanNode

    fields = {**node, "inputs": (), "shared_with": tuple(node["shared_with"])}
    branch = above.add(PlanNode(**fields).text().replace("[", "\\["))
    for below in node["inputs"]:
        _tree(below, branch)
    return above


def _show_hosts(console: Console, hosts: dict[str, dict[str, tuple[float, float]]]) -> None:
    from rich.table import Table

    table = Table("host", "CPU", "NIC in", "NIC out", title="used / capacity")
    for name, resources in hosts.items():
        table.add_row(name, *(f"{used:.4g} / {capacity:.4g}" for used, capacity in resources.values()))
    console.print(table)
